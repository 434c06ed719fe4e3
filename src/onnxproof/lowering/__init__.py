"""Lower a Program to ONNX: one rule per JAX primitive."""
