"""Turn a JAX callable into a flat :class:`~onnxproof.capture.program.Program`."""
