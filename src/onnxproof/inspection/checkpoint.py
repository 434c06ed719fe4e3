"""Checkpoints as arrays by path: safetensors, NumPy archives, Flax's msgpack, and Orbax's folders."""

from __future__ import annotations

import importlib
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from onnxproof.errors import ArtifactError, ConformanceError, OnnxProofError

if TYPE_CHECKING:
    import numpy as np

    Array = np.ndarray[Any, Any]

_NDARRAY, _COMPLEX, _SCALAR = 1, 2, 3  # extension types in Flax's msgpack
_CHUNKED = "__msgpack_chunked_array__"
_HOLDERS = ("value", "raw_value", "_value")  # at the end of a path, of a variable around an array


def read_checkpoint(place: Path) -> dict[str, Array]:
    """The arrays of a checkpoint, by path with ``.`` between its parts.

    Raises:
        ArtifactError: there is nothing.
        ConformanceError: it has another form, or is cut short.
        OnnxProofError: the package that reads it is not installed.
    """
    if not place.exists():
        raise ArtifactError(f"there is no checkpoint {str(place)!r}", way_out="Mend the path.")
    readers = {".safetensors": _safetensors, ".npz": _npz, ".msgpack": _msgpack}
    reader = _orbax if place.is_dir() else readers.get(place.suffix)
    if reader is None:
        raise ConformanceError(
            f"{str(place)!r} is no checkpoint of a known form",
            way_out=f"It is a folder of Orbax's, or a file that ends with {', '.join(readers)}.",
        )
    found = dict(_flat(reader(place)))
    if not found:
        raise ConformanceError(f"the checkpoint {str(place)!r} holds no arrays")
    return found


def _needed(module: str, package: str, install: str) -> Any:
    try:
        return importlib.import_module(module)
    except ImportError as err:
        raise OnnxProofError(
            f"{package} is not installed, which reads such checkpoints",
            way_out=f"Install it with: pip install {install}",
        ) from err


def _broken(place: Path, err: BaseException) -> ConformanceError:
    return ConformanceError(
        f"the checkpoint {str(place)!r} can't be read: {type(err).__name__}: {str(err)[:500]}",
        way_out="It may be cut short: copy it again.",
    )


def _safetensors(place: Path) -> dict[str, Array]:
    package = _needed("safetensors", "safetensors", "'onnxproof[safetensors]'")
    from onnxproof.evidence.tensors import dtype_of

    try:
        listed = package.deserialize(place.read_bytes())
    except package.SafetensorError as err:
        raise _broken(place, err) from err
    import numpy as np

    return {
        name: np.frombuffer(said["data"], dtype_of(_SAFETENSORS[said["dtype"]])).reshape(said["shape"])
        for name, said in listed
    }


_SAFETENSORS = {
    "BOOL": "bool", "U8": "uint8", "I8": "int8", "U16": "uint16", "I16": "int16", "U32": "uint32", "I32": "int32",
    "U64": "uint64", "I64": "int64", "F16": "float16", "BF16": "bfloat16", "F32": "float32", "F64": "float64",
    "F8_E4M3": "float8_e4m3fn", "F8_E5M2": "float8_e5m2",
}  # fmt: skip


def _npz(place: Path) -> dict[str, Array]:
    import zipfile

    import numpy as np

    try:
        with np.load(place, allow_pickle=False) as file:
            return dict(file.items())
    except (OSError, ValueError, zipfile.BadZipFile) as err:
        raise _broken(place, err) from err


def _msgpack(place: Path) -> Any:
    package = _needed("msgpack", "msgpack", "msgpack")

    def extension(code: int, data: bytes) -> Any:
        if code == _COMPLEX:
            return complex(*package.unpackb(data))
        if code not in (_NDARRAY, _SCALAR):
            raise ValueError(f"an extension of type {code}")
        return _packed(*package.unpackb(data, raw=True))

    try:
        return package.unpackb(place.read_bytes(), ext_hook=extension, raw=False, strict_map_key=False)
    except (ValueError, KeyError, TypeError, package.exceptions.UnpackException) as err:
        raise _broken(place, err) from err


def _packed(shape: Sequence[int], dtype: bytes, data: bytes) -> Array:
    import ml_dtypes
    import numpy as np

    name = dtype.decode()
    return np.frombuffer(data, np.dtype(getattr(ml_dtypes, name, name))).reshape(tuple(shape))


def _orbax(place: Path) -> Any:
    checkpoint = _needed("orbax.checkpoint", "orbax-checkpoint", "orbax-checkpoint")
    try:
        return checkpoint.PyTreeCheckpointer().restore(place.resolve())
    except (OSError, ValueError, KeyError, TypeError) as err:
        raise _broken(place, err) from err


def _flat(tree: Any, path: tuple[str, ...] = ()) -> Iterator[tuple[str, Array]]:
    """Leaves by path; what is no array, such as a step or a name, is left out."""
    import numpy as np

    if isinstance(tree, Mapping):
        if _CHUNKED in tree:
            chunks = [np.ravel(c) for _, c in sorted(tree["chunks"].items(), key=lambda item: int(item[0]))]
            yield _joined(path), np.concatenate(chunks).reshape([n for _, n in sorted(tree["shape"].items())])
            return
        for key, value in tree.items():
            yield from _flat(value, (*path, str(key)))
    elif isinstance(tree, (list, tuple)):
        for i, value in enumerate(tree):
            yield from _flat(value, (*path, str(i)))
    elif hasattr(tree, "dtype") and hasattr(tree, "shape"):
        yield _joined(path), np.asarray(tree)


def _joined(path: Sequence[str]) -> str:
    parts = list(path)
    while len(parts) > 1 and parts[-1] in _HOLDERS:
        parts.pop()
    return ".".join(parts)
