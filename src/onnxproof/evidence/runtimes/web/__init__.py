"""ONNX Runtime Web, driven from Python: in Node over pipes, in a browser over the loopback."""
