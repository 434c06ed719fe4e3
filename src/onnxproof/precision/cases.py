"""Cases: the arrays that a file is run on, read from a bundle, an ``.npz`` file, or a folder of either."""

from __future__ import annotations

import re
import zipfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from onnxproof.errors import ConformanceError, InputSpecError
from onnxproof.evidence import bundle
from onnxproof.evidence.conform import read_bundle, verify_folder
from onnxproof.evidence.record import Port
from onnxproof.evidence.references.subject import Oracle
from onnxproof.evidence.tensors import decode

Array = np.ndarray[Any, Any]
Inputs = dict[str, list[Array]]
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.\-]{0,99}")
_NUMPY_NAMES = {"float": "float32", "double": "float64"}


@dataclass(frozen=True, slots=True)
class Recording:
    """A bundle whose own proof passed: its model, its cases, and what the original computed for them."""

    model: Path
    inputs: Inputs
    outputs: dict[str, list[Array]]
    oracles: dict[str, Oracle] = field(default_factory=dict)


def recording(folder: Path) -> Recording:
    """What a bundle holds.

    Raises:
        InvalidRecord, ConformanceError: it is none, its files are not those of its record, or its proof failed.
    """
    record = read_bundle(folder)
    verify_folder(record, folder)
    if record.failure is not None:
        raise ConformanceError(
            f"{str(folder)!r} holds a proof that failed with {record.failure}",
            way_out="Export the model anew: an error that is there already can't be told from what is lost here.",
        )
    cases = [case for case in record.input_cases if case.expect == "match"]
    if not cases:
        raise ConformanceError(f"{str(folder)!r} holds no case that compares values")

    def arrays(case: str, part: str) -> list[Array]:
        return [array for _, array in bundle.read_tensors(folder, record.artifacts, case, part)]

    return Recording(
        folder / record.artifacts.model,
        {case.name: arrays(case.name, "input") for case in cases},
        {case.name: arrays(case.name, "output") for case in cases},
        {case.name: Oracle(case.oracle, arrays(case.name, "oracle")) for case in cases if case.oracle},
    )


def read_cases(place: Path, ports: Sequence[Port]) -> Inputs:
    """The cases of a bundle, of an ``.npz`` file (one case), or of a folder of ``.npz`` files or of folders that
    hold ``input_0.pb`` and so on, as ONNX's own tests do.

    Args:
        ports: the inputs of the graph. Arrays are found by name, or by position where they have none.

    Raises:
        InputSpecError: there are none, or they don't fit.
        InvalidRecord, ConformanceError: a bundle is not sound, a tensor can't be read.
    """
    if (place / bundle.RECORD).is_file():
        found = recording(place).inputs
    elif place.is_dir():
        found = {}
        for i, entry in enumerate(sorted(place.iterdir())):
            name = entry.stem if _NAME.fullmatch(entry.stem) else f"case-{i}"
            if entry.suffix == ".npz":
                found[name] = _of_npz(entry, ports)
            elif (entry / "input_0.pb").is_file():
                found[entry.name if _NAME.fullmatch(entry.name) else name] = _of_folder(entry)
    elif place.suffix == ".npz" and place.is_file():
        found = {"case-0": _of_npz(place, ports)}
    else:
        raise InputSpecError(f"there are no cases at {str(place)!r}: it is no .npz file, folder or bundle")
    if not found:
        raise InputSpecError(
            f"the folder {str(place)!r} holds no cases",
            way_out="A case is an .npz file with an array for each input, or a folder with input_0.pb and so on.",
        )
    check(found, ports)
    return found


def check(cases: Mapping[str, Sequence[Array]], ports: Sequence[Port]) -> None:
    """Refuse cases that the graph doesn't take.

    Raises:
        InputSpecError: number, dtype or shape of the arrays is wrong; the case and the input are named.
    """
    for name, arrays in cases.items():
        if len(arrays) != len(ports):
            raise InputSpecError(
                f"case {name!r} has {len(arrays)} arrays; the file takes {len(ports)}:"
                f" {', '.join(p.name for p in ports)}"
            )
        for array, port in zip(arrays, ports, strict=True):
            dtype = _NUMPY_NAMES.get(port.dtype, port.dtype)
            if array.dtype.name != dtype:
                raise InputSpecError(f"case {name!r}: {port.name!r} is {array.dtype.name}, not {dtype}")
            shape = port.shape
            fits = shape is None or (
                len(shape) == array.ndim
                and all(isinstance(d, str) or d == n for d, n in zip(shape, array.shape, strict=True))
            )
            if not fits:
                raise InputSpecError(
                    f"case {name!r}: {port.name!r} has shape {list(array.shape)}, the file takes {shape}"
                )


def _of_npz(path: Path, ports: Sequence[Port]) -> list[Array]:
    try:
        with np.load(path, allow_pickle=False) as file:
            arrays = dict(file.items())
    except (OSError, ValueError, zipfile.BadZipFile) as err:
        raise InputSpecError(f"{str(path)!r} can't be read: {err}") from err
    if set(arrays) == {f"arr_{i}" for i in range(len(ports))}:
        return [arrays[f"arr_{i}"] for i in range(len(ports))]
    missing = [p.name for p in ports if p.name not in arrays]
    unknown = sorted(set(arrays) - {p.name for p in ports})
    if missing or unknown:
        raise InputSpecError(
            f"{str(path)!r} lacks {', '.join(missing) or 'nothing'} and has {', '.join(unknown) or 'nothing'}"
            " beside the file's inputs"
        )
    return [arrays[p.name] for p in ports]


def _of_folder(folder: Path) -> list[Array]:
    arrays: list[Array] = []
    while (path := folder / f"input_{len(arrays)}.pb").is_file():
        arrays.append(decode(path.read_bytes())[1])
    return arrays
