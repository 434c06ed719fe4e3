"""Write a model, whole or not at all."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path
from typing import Literal

import onnx_ir as ir

from onnxproof.errors import ArtifactError

EXTERNAL_DATA_BYTES = 3 * 2**29  # 1.5 GiB: a protobuf message ends at 2 GiB
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
    if mode == "web":
        if external and weight_bytes(model) > EXTERNAL_DATA_BYTES:
            raise ArtifactError(
                f"{weight_bytes(model) / 2**30:.1f} GiB of weights don't fit in the one file of a web export",
                way_out='Use export_mode="standard", or a smaller weight dtype.',
            )
        external = False
    side = target.with_name(target.name + ".data")
    try:
        if not target.parent.is_dir():
            raise ArtifactError(
                f"{str(target)!r} can't be written: its folder does not exist", way_out="Create it first."
            )
        if target.is_dir():
            raise ArtifactError(f"{str(target)!r} is a folder", way_out="Give a file name.")
        with tempfile.TemporaryDirectory(dir=target.parent, prefix=f".{target.name}.") as folder:
            new = Path(folder) / target.name
            ir.save(model, new, external_data=side.name if external else None)
            for file in Path(folder).iterdir():
                _sync(file)
            if external:
                os.replace(Path(folder) / side.name, side)
            os.replace(new, target)
        if mode == "web" and side.is_file():
            side.unlink()
        _sync(target.parent)
    except ArtifactError:
        raise
    except OSError as err:
        raise ArtifactError(
            f"{str(target)!r} can't be written: {err.strerror or err}",
            way_out="Check the folder's permissions and free space, or give another output_path.",
        ) from err
    return [target, side] if external else [target]


def _sync(path: Path) -> None:
    fd = os.open(path, os.O_RDONLY)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)
