"""Messages to JavaScript and back: a header's length (uint32), the header as JSON, the bytes of its blobs."""

from __future__ import annotations

import json
import struct
from collections.abc import Mapping, Sequence
from typing import Any

from onnxproof.evidence.tensors import Array, dtype_of

# The types of tensors that ONNX Runtime Web gives JavaScript, by the names that both NumPy and it call them.
TYPES = frozenset("float32 float64 float16 int8 uint8 int16 uint16 int32 uint32 int64 uint64 bool".split())
_LENGTH = struct.Struct("<I")


def pack(header: Mapping[str, Any], blobs: Sequence[bytes] = ()) -> bytes:
    """The bytes of a message."""
    text = json.dumps({**header, "blobs": [len(b) for b in blobs]}).encode()
    return b"".join([_LENGTH.pack(len(text)), text, *blobs])


def unpack(message: bytes) -> tuple[dict[str, Any], list[bytes]]:
    """Header and blobs of a message.

    Raises:
        ValueError: the bytes are no message.
    """
    if len(message) < _LENGTH.size:
        raise ValueError("a message without a header")
    at = _LENGTH.size + _LENGTH.unpack_from(message)[0]
    header = json.loads(message[_LENGTH.size : at])
    blobs = []
    for size in header["blobs"]:
        blobs.append(message[at : at + size])
        at += size
    if at != len(message):
        raise ValueError(f"a message of {len(message)} bytes says that it has {at}")
    return header, blobs


def tensors(header: Mapping[str, Any], blobs: Sequence[bytes]) -> list[tuple[str, Array]]:
    """Names and arrays of the tensors that a message brings."""
    import numpy as np

    return [
        (t["name"], np.frombuffer(blob, dtype_of(t["type"]).newbyteorder("<")).reshape(t["dims"]))
        for t, blob in zip(header["tensors"], blobs, strict=True)
    ]
