"""The example that trains an actor: ``make test-extras``."""
