"""Arrays as the files of ONNX's backend tests hold them, read and written without the onnx package.

A file is one ``TensorProto`` message. Written are the fields dims, data_type, name and raw_data, in that order;
read are files of those fields only, so that one array has one text.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from onnxproof.errors import ConformanceError

Array = np.ndarray[Any, Any]

MAX_RANK = 64
MAX_NAME_BYTES = 2048

# TensorProto.DataType in onnx.proto → name of the NumPy or ml_dtypes type
DTYPES: dict[int, str] = {
    1: "float32",
    2: "uint8",
    3: "int8",
    4: "uint16",
    5: "int16",
    6: "int32",
    7: "int64",
    9: "bool",
    10: "float16",
    11: "float64",
    12: "uint32",
    13: "uint64",
    14: "complex64",
    15: "complex128",
    16: "bfloat16",
    17: "float8_e4m3fn",
    18: "float8_e4m3fnuz",
    19: "float8_e5m2",
    20: "float8_e5m2fnuz",
}
_CODES = {name: code for code, name in DTYPES.items()}
_DIMS, _TYPE, _NAME, _RAW = 1, 2, 8, 9  # field numbers of TensorProto
_VARINT, _BYTES = 0, 2  # protobuf wire types


class TensorFileError(ConformanceError, ValueError):
    """A file is not a tensor in the form that bundles hold."""


def dtype_of(name: str) -> np.dtype[Any]:
    """The type of that name, from ml_dtypes where NumPy has none."""
    if name.startswith(("bfloat", "float8")):
        import ml_dtypes

        extended: np.dtype[Any] = np.dtype(getattr(ml_dtypes, name))
        return extended
    return np.dtype(name)


def encode(name: str, array: Array) -> bytes:
    """The bytes of a tensor file.

    Raises:
        TensorFileError: the dtype has no form in these files.
    """
    code = _CODES.get(array.dtype.name)
    if code is None:
        raise TensorFileError(f"{name!r}: arrays of {array.dtype.name} have no form in a tensor file")
    raw = np.ascontiguousarray(array).astype(array.dtype.newbyteorder("<"), copy=False).tobytes()
    text = name.encode()
    parts = [_field(_DIMS, _VARINT, _varint(d)) for d in array.shape]
    parts.append(_field(_TYPE, _VARINT, _varint(code)))
    parts.append(_field(_NAME, _BYTES, _varint(len(text)) + text))
    parts.append(_field(_RAW, _BYTES, _varint(len(raw)) + raw))
    return b"".join(parts)


def decode(data: bytes) -> tuple[str, Array]:
    """Name and array of a tensor file.

    Raises:
        TensorFileError: the bytes are not what :func:`encode` writes.
    """
    dims: list[int] = []
    code, name, raw, at, last = 0, "", b"", 0, 0
    while at < len(data):
        key, at = _read_varint(data, at)
        number, wire = key >> 3, key & 7
        if number < last or number == last != _DIMS or len(dims) > MAX_RANK:
            raise TensorFileError("the fields of a tensor file are out of order or too many")
        last = number
        value, at = _read_varint(data, at)
        if wire == _VARINT and number in (_TYPE, _DIMS):
            code = value if number == _TYPE else code
            dims += [value] if number == _DIMS else []
            continue
        if wire != _BYTES or number not in (_DIMS, _NAME, _RAW) or at + value > len(data):
            raise TensorFileError(f"field {number} of a tensor file is unknown or cut short")
        chunk, at = data[at : at + value], at + value
        if number == _DIMS:
            dims += _unpack(chunk)
        elif number == _NAME:
            name = _text(chunk)
        else:
            raw = chunk
    return name, _array(code, dims, raw)


def _array(code: int, dims: list[int], raw: bytes) -> Array:
    if code not in DTYPES or len(dims) > MAX_RANK:
        raise TensorFileError(f"a tensor file has type {code} and rank {len(dims)}")
    dtype = dtype_of(DTYPES[code])
    count = 1
    for d in dims:
        count *= d
    if count * dtype.itemsize != len(raw):
        raise TensorFileError(f"a tensor file holds {len(raw)} bytes for {count} elements of {dtype.name}")
    if dtype == np.bool_ and raw.strip(b"\x00\x01"):
        raise TensorFileError("a tensor file holds booleans that are neither 0 nor 1")
    array: Array = np.frombuffer(raw, dtype).reshape(dims)
    return array


def _text(chunk: bytes) -> str:
    try:
        return chunk[: MAX_NAME_BYTES + 1].decode()
    except UnicodeDecodeError as err:
        raise TensorFileError("the name in a tensor file is not UTF-8") from err


def _field(number: int, wire: int, rest: bytes) -> bytes:
    return _varint(number << 3 | wire) + rest


def _varint(value: int) -> bytes:
    out = bytearray()
    while value >= 128:
        out.append(value & 127 | 128)
        value >>= 7
    out.append(value)
    return bytes(out)


def _read_varint(data: bytes, at: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        if at >= len(data) or shift > 56:
            raise TensorFileError("a number in a tensor file is cut short or too long")
        byte = data[at]
        value |= (byte & 127) << shift
        at, shift = at + 1, shift + 7
        if byte < 128:
            return value, at


def _unpack(chunk: bytes) -> list[int]:
    values, at = [], 0
    while at < len(chunk):
        value, at = _read_varint(chunk, at)
        values.append(value)
        if len(values) > MAX_RANK:
            raise TensorFileError("a tensor file has too many dimensions")
    return values
