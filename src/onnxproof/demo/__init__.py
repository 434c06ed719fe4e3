"""The demonstration behind ``onnxproof demo`` and ``make demo``: from training to a checked ONNX file.

It is a program that uses the package, not a part of it: only here may Flax be imported.
"""
