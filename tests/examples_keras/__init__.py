"""The example of a Keras model: ``make test-extras``."""
