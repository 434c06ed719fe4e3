"""Passes over the ONNX graph, from the core dialect to what a target runs."""
