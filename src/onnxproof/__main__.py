"""``python -m onnxproof`` is the ``onnxproof`` command."""

from onnxproof.cli import main

main()
