"""Values that stand for arrays of more than they are: with trailing axes that their own primitives don't see.

The words of a PRNG key and the two parts of a complex number are such axes. What moves values about, or combines
them linearly, does the same to each position of them, given parameters that leave them alone.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

_UNCHANGED = frozenset(
    """add add_any concatenate copy cumsum expand_dims neg reduce_precision reduce_sum rev split squeeze stack
    sub unstack dynamic_update_slice""".split()
)
_WINDOWS = frozenset({"reduce_window", "reduce_window_sum"})


def with_trailing(
    name: str, params: Mapping[str, Any], words: tuple[int, ...], ranks: Sequence[int], out: int
) -> dict[str, Any] | None:
    """The parameters with which a primitive does to every position of trailing axes what it did to one value.

    Args:
        words: sizes of the trailing axes.
        ranks: of the operands, without those axes.
        out: rank of the result, without those axes.

    Returns:
        None where the primitive needs more than other parameters. Dynamic slices also need an index, 0, for each
        trailing axis, ``select_n`` a ``which`` that broadcasts over them.
    """
    new, extra, n = dict(params), tuple(range(out, out + len(words))), len(words)
    if name in _UNCHANGED:
        return new
    if name.startswith("scatter"):
        numbers, rank = new["dimension_numbers"], ranks[2]
        window = (*numbers.update_window_dims, *range(rank, rank + n))
        new["dimension_numbers"] = numbers._replace(update_window_dims=window)
        return new
    if name in _WINDOWS:
        for key in ("window_dimensions", "window_strides", "base_dilation", "window_dilation"):
            new[key] = (*new[key], *(1,) * n)
        new["padding"] = (*new["padding"], *((0, 0),) * n)
        return new
    match name:
        case "select_n" if ranks[0] == 0:
            pass
        case "slice":
            new["start_indices"] = (*new["start_indices"], *(0,) * n)
            new["limit_indices"] = (*new["limit_indices"], *words)
            if new["strides"] is not None:
                new["strides"] = (*new["strides"], *(1,) * n)
        case "dynamic_slice":
            new["slice_sizes"] = (*new["slice_sizes"], *words)
        case "reshape":
            new["new_sizes"] = (*new["new_sizes"], *words)
            if new["dimensions"] is not None:
                new["dimensions"] = (*new["dimensions"], *range(ranks[0], ranks[0] + n))
        case "transpose":
            new["permutation"] = (*new["permutation"], *extra)
        case "broadcast_in_dim":
            new["shape"] = (*new["shape"], *words)
            new["broadcast_dimensions"] = (*new["broadcast_dimensions"], *extra)
        case "gather":
            numbers = new["dimension_numbers"]
            new["dimension_numbers"] = numbers._replace(offset_dims=(*numbers.offset_dims, *extra))
            new["slice_sizes"] = (*new["slice_sizes"], *words)
        case "pad":
            new["padding_config"] = (*new["padding_config"], *((0, 0, 0),) * n)
        case "tile":
            new["reps"] = (*new["reps"], *(1,) * n)
        case _:
            return None
    return new
