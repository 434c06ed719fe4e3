"""Write a model, whole or not at all."""

from __future__ import annotations

import os
import secrets
import tempfile
from pathlib import Path
from typing import Literal

import onnx_ir as ir

from onnxproof.errors import ArtifactError

EXTERNAL_DATA_BYTES = 3 * 2**29  # 1.5 GiB, where weights move to a side file unless told otherwise
ONE_FILE_BYTES = 2**31 - 2**24  # a protobuf message ends at 2 GiB; 16 MiB are left to the graph
ExportMode = Literal["standard", "web"]


def weight_bytes(model: ir.Model) -> int:
    """Bytes of all initializers of the main graph."""
    return sum(v.const_value.nbytes for v in model.graph.initializers.values() if v.const_value)


def save(
    model: ir.Model,
    path: str | os.PathLike[str],
    *,
    mode: ExportMode = "standard",
    external_data: bool | None = None,
) -> list[Path]:
    """Write ``model`` to ``path`` and return the files written, the model first.

    Weights go to ``<name>.data`` beside the model when ``external_data`` is true, or by default when they pass
    1.5 GiB. ``mode="web"`` writes one self-contained file and removes a side file of an earlier export.

    Raises:
        ArtifactError: a file can't be written; what stood there before is untouched.
    """
    target = Path(path)
    external = weight_bytes(model) > EXTERNAL_DATA_BYTES if external_data is None else external_data
    external = external and mode != "web"
    if not external and weight_bytes(model) > ONE_FILE_BYTES:
        raise ArtifactError(
            f"{weight_bytes(model) / 2**30:.1f} GiB of weights don't fit in one file",
            way_out='Let them go to a side file (export_mode="standard"), or use a smaller weight dtype.',
        )
    side = target.with_name(target.name + ".data")
    try:
        if not target.parent.is_dir():
            raise ArtifactError(
                f"{str(target)!r} can't be written: its folder does not exist", way_out="Create it first."
            )
        if target.is_dir():
            raise ArtifactError(f"{str(target)!r} is a folder", way_out="Give a file name.")
        for place in (target, side) if external else (target,):
            if place.exists() and not place.is_file():  # a device or a pipe would be replaced by a file
                raise ArtifactError(f"{str(place)!r} is no regular file", way_out="Give another file name.")
        if external:
            _write_two(model, target, side)
        else:
            _write_one(model, target)
        if mode == "web" and side.is_file():
            side.unlink()
    except ArtifactError:
        raise
    except OSError as err:
        raise ArtifactError(
            f"{str(target)!r} can't be written: {err.strerror or err}",
            way_out="Check the folder's permissions and free space, or give another output_path.",
        ) from err
    return [target, side] if external else [target]


def _write_one(model: ir.Model, target: Path) -> None:
    new = target.with_name(f".{target.name}.{secrets.token_hex(8)}")
    data = ir.to_proto(model).SerializeToString()
    try:
        with new.open("xb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        new.replace(target)
    finally:
        new.unlink(missing_ok=True)


def _write_two(model: ir.Model, target: Path, side: Path) -> None:
    with tempfile.TemporaryDirectory(dir=target.parent, prefix=f".{target.name}.") as folder:
        new = Path(folder) / target.name
        ir.save(model, new, external_data=side.name)
        for file in Path(folder).iterdir():
            with file.open("rb") as written:
                os.fsync(written.fileno())
        os.replace(Path(folder) / side.name, side)
        os.replace(new, target)
