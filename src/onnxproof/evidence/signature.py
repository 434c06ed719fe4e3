"""What a graph says of its inputs, and the inputs that it forbids."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from onnxproof.evidence.record import CaseKind, Port, Tensor

if TYPE_CHECKING:
    import numpy as np

    Array = np.ndarray[Any, Any]

MAX_WRONG_INPUTS = 8  # inputs of a graph that get wrong cases of their own, in order


@dataclass(frozen=True, slots=True)
class WrongInput:
    """One input changed so that the signature forbids it: its position, and its new dtype and shape."""

    name: str
    kind: CaseKind
    position: int
    tensor: Tensor


def wrong_inputs(ports: Sequence[Port], good: Sequence[Tensor]) -> list[WrongInput]:
    """For each input of the graph: a wrong width, a wrong rank, a wrong element type; and, for each name of a
    dimension that two places share, sizes that disagree.

    Args:
        ports: the graph's inputs.
        good: a set of inputs that fits.
    """
    found: list[WrongInput] = []
    for i, (port, tensor) in enumerate(zip(ports, good, strict=True)):
        if i < MAX_WRONG_INPUTS:
            found += _wrong(i, port, tensor)
    return _named_once([*found, *_disagreeing(ports, good)])


def reshaped(array: Array, tensor: Tensor) -> Array:
    """``array`` cut or repeated to the dtype and shape of ``tensor``."""
    import numpy as np

    from onnxproof.evidence.tensors import dtype_of

    flat = array.reshape(-1) if array.size else np.zeros(1, array.dtype)
    count = int(np.prod(tensor.shape, dtype=np.int64))
    with np.errstate(invalid="ignore"):  # NaN as an integer: any will do
        result: Array = np.resize(flat, count).astype(dtype_of(tensor.dtype)).reshape(tensor.shape)
    return result


def _wrong(position: int, port: Port, tensor: Tensor) -> Iterator[WrongInput]:
    shape = list(tensor.shape)
    if port.shape is not None:
        fixed = [axis for axis, d in enumerate(port.shape) if isinstance(d, int)]
        if fixed:
            wide = [d + (axis == fixed[-1]) for axis, d in enumerate(shape)]
            yield WrongInput(f"width-{_slug(port.name)}", "width", position, _as(tensor, shape=wide))
        rank: CaseKind = "rank" if shape else "scalar"
        yield WrongInput(f"{rank}-{_slug(port.name)}", rank, position, _as(tensor, shape=[*shape, 1]))
    other = "int32" if tensor.dtype != "int32" else "float32"
    yield WrongInput(f"dtype-{_slug(port.name)}", "dtype", position, _as(tensor, dtype=other))


def _disagreeing(ports: Sequence[Port], good: Sequence[Tensor]) -> Iterator[WrongInput]:
    """Sizes of a shared dimension that disagree: the later place is one more, and neither of them is 1."""
    first: dict[str, int] = {}
    for i, port in enumerate(ports):
        for axis, dim in enumerate(port.shape or ()):
            if not isinstance(dim, str) or not dim:
                continue
            if dim not in first:
                first[dim] = i
            elif first[dim] >= 0 and good[i].shape[axis] > 0:
                shape = [d + (a == axis) * (1 + (d == 1)) for a, d in enumerate(good[i].shape)]
                yield WrongInput(f"constraint-{_slug(dim)}", "constraint", i, _as(good[i], shape=shape))
                first[dim] = -1


def _named_once(found: Sequence[WrongInput]) -> list[WrongInput]:
    """The same, a number after each name that was there before."""
    taken: set[str] = set()
    result = []
    for wrong in found:
        name, n = wrong.name, 1
        while name in taken:
            n += 1
            name = f"{wrong.name}.{n}"
        taken.add(name)
        result.append(replace(wrong, name=name))
    return result


def _slug(name: str) -> str:
    return re.sub(r"[^A-Za-z0-9_.\-]", "_", name)[:80]


def _as(tensor: Tensor, dtype: str | None = None, shape: list[int] | None = None) -> Tensor:
    return Tensor(
        name=tensor.name,
        dtype=dtype or tensor.dtype,
        shape=list(tensor.shape) if shape is None else shape,
    )
