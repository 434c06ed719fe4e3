"""Ten models in five frameworks, each exported and proven, with its record."""
