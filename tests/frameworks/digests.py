"""Print the SHA-256 of every model of the matrix: ``python -m tests.frameworks.digests``."""

from __future__ import annotations

import hashlib

import onnx

from tests.frameworks import matrix


def digest(proto: onnx.ModelProto) -> str:
    return hashlib.sha256(proto.SerializeToString(deterministic=True)).hexdigest()


def main() -> None:
    for framework in matrix.FRAMEWORKS:
        for architecture in matrix.ARCHITECTURES:
            print(f"{framework}-{architecture}", digest(matrix.exported(framework, architecture)))


if __name__ == "__main__":
    main()
