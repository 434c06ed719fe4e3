"""Narrower numbers for a finished file: half precision, 8 and 4 bits, each proven by running what came of it.

The work on the graph is that of ONNX Runtime's own tools, in a process of its own; nothing here knows how a file
came about.
"""
