"""Blocks of pixels moved to channels and back, channels first: two to ten times faster by the operators for it.

Channels last, the transpose moves whole rows of channels, which is as fast as it can be.
"""

from __future__ import annotations

from collections.abc import Iterable

import jax
import onnx_ir as ir

from onnxproof.capture.program import Aval
from onnxproof.lowering.emit import Ctx
from onnxproof.raising.composite import Candidate, Variant, composite


def _columns_last(x: jax.Array, *, block: int) -> jax.Array:
    """Channels that number blocks first, as TensorFlow has it."""
    b, c, h, w = x.shape
    y = x.reshape(b, block, block, c // block**2, h, w).transpose(0, 3, 4, 1, 5, 2)
    return y.reshape(b, c // block**2, h * block, w * block)


def _columns_first(x: jax.Array, *, block: int) -> jax.Array:
    """Channels that number blocks last, as PyTorch's pixel shuffle has it."""
    b, c, h, w = x.shape
    y = x.reshape(b, c // block**2, block, block, h, w).transpose(0, 1, 4, 2, 5, 3)
    return y.reshape(b, c // block**2, h * block, w * block)


def _to_depth(x: jax.Array, *, block: int) -> jax.Array:
    b, c, h, w = x.shape
    y = x.reshape(b, c, h // block, block, w // block, block).transpose(0, 3, 5, 1, 2, 4)
    return y.reshape(b, c * block**2, h // block, w // block)


def _image(candidate: Candidate) -> tuple[Aval, tuple[int, ...], tuple[int, ...]] | None:
    """(an operand of four axes, its sizes and those of the result without the batch); float32, static."""
    moved = candidate.maker(candidate.root.inputs[0], "transpose")
    parted = candidate.maker(moved.inputs[0], "reshape") if moved is not None else None
    out = candidate.out
    if parted is None or out.ndim != 4 or out.dtype.name != "float32":
        return None
    x = parted.inputs[0].aval
    sizes, result = ([d for d in a.shape[1:] if isinstance(d, int) and d] for a in (x, out))
    return (x, tuple(sizes), tuple(result)) if x.ndim == 4 and len(sizes) == len(result) == 3 else None


def _block(deep: tuple[int, ...], flat: tuple[int, ...]) -> int:
    """The edge of the blocks that join channels, height and width ``deep`` to ``flat``, 1 where none does."""
    block = max(flat[1] // deep[1], 1)
    return block if deep[0] == flat[0] * block**2 and flat[1:] == (deep[1] * block, deep[2] * block) else 1


def _from_channels(candidate: Candidate) -> Iterable[Variant]:
    image = _image(candidate)
    if image is not None and (block := _block(image[1], image[2])) > 1:
        yield Variant((image[0],), (("block", block),))


def _to_channels(candidate: Candidate) -> Iterable[Variant]:
    image = _image(candidate)
    if image is not None and (block := _block(image[2], image[1])) > 1:
        yield Variant((image[0],), (("block", block),))


@composite(
    "depth_to_space", references=[_columns_last], root="reshape", anchor="transpose", specs=_from_channels
)
def depth_to_space(ctx: Ctx, x: ir.Value, *, block: int) -> ir.Value:
    return ctx.op("DepthToSpace", x, blocksize=block, mode="DCR", shape=ctx.out.shape)


@composite(
    "pixel_shuffle", references=[_columns_first], root="reshape", anchor="transpose", specs=_from_channels
)
def pixel_shuffle(ctx: Ctx, x: ir.Value, *, block: int) -> ir.Value:
    return ctx.op("DepthToSpace", x, blocksize=block, mode="CRD", shape=ctx.out.shape)


@composite("space_to_depth", references=[_to_depth], root="reshape", anchor="transpose", specs=_to_channels)
def space_to_depth(ctx: Ctx, x: ir.Value, *, block: int) -> ir.Value:
    return ctx.op("SpaceToDepth", x, blocksize=block, shape=ctx.out.shape)
