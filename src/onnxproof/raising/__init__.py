"""Raise patterns of primitives to native ONNX operators by unification with reference programs."""
