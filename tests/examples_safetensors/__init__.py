"""The example of a safetensors file: ``make test-extras``."""
