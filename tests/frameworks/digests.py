"""Print the SHA-256 of every model of the matrix: ``python -m tests.frameworks.digests``."""

from __future__ import annotations

import hashlib
import importlib.util

import onnx

from onnxproof.errors import OnnxProofError
from tests.frameworks import matrix


def digest(proto: onnx.ModelProto) -> str:
    return hashlib.sha256(proto.SerializeToString(deterministic=True)).hexdigest()


def main() -> None:
    for framework, package in matrix.FRAMEWORKS.items():
        if importlib.util.find_spec(package) is None:
            continue
        for architecture in matrix.ARCHITECTURES:
            try:
                print(f"{framework}-{architecture}", digest(matrix.exported(framework, architecture)))
            except OnnxProofError as err:
                print(f"{framework}-{architecture}", type(err).__name__)


if __name__ == "__main__":
    main()
