"""What finished files hold, how two of them differ, and what they cost to run: reads ONNX, knows nothing of JAX.

Modules: :mod:`~onnxproof.inspection.reading` (a file and its tensors), :mod:`~onnxproof.inspection.facts` (what a file
says), :mod:`~onnxproof.inspection.provenance` (where a node or value comes from),
:mod:`~onnxproof.inspection.tree` (weights by path), :mod:`~onnxproof.inspection.environment` (what is installed).
"""
