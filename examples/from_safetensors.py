"""An NNX model whose weights are a safetensors file with dotted names.

Run it with ``python -m examples.from_safetensors``; it needs ``pip install 'onnxproof[safetensors]'``.
"""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

import jax
import numpy as np
from flax import nnx
from safetensors.flax import load_file, save_file

from examples.from_msgpack import names
from onnxproof import to_onnx, verify


class Block(nnx.Module):
    """Rows (B, width) to rows (B, width), with a residual connection."""

    def __init__(self, width: int, rngs: nnx.Rngs) -> None:
        self.norm = nnx.LayerNorm(width, rngs=rngs)
        self.up = nnx.Linear(width, 2 * width, rngs=rngs)
        self.down = nnx.Linear(2 * width, width, rngs=rngs)

    def __call__(self, x: jax.Array) -> jax.Array:
        return x + self.down(nnx.gelu(self.up(self.norm(x))))


class Classifier(nnx.Module):
    """Rows (B, 8) to logits (B, 3)."""

    def __init__(self, rngs: nnx.Rngs) -> None:
        self.blocks = nnx.List([Block(8, rngs) for _ in range(2)])
        self.scores = nnx.Linear(8, 3, rngs=rngs)

    def __call__(self, x: jax.Array) -> jax.Array:
        for block in self.blocks:
            x = block(x)
        return self.scores(x)


def dotted(path: tuple[Any, ...]) -> str:
    return ".".join(map(str, path))


def save(folder: Path) -> Path:
    """What people have: a file of weights, named ``blocks.0.up.kernel`` and so on."""
    model = Classifier(nnx.Rngs(2))
    place = folder / "model.safetensors"
    save_file(
        {dotted(path): leaf[...] for path, leaf in nnx.to_flat_state(nnx.state(model, nnx.Param))}, place
    )
    return place


def load(place: Path) -> Classifier:
    """The model with the weights of the file: each has to be there, and nothing else."""
    arrays = load_file(place)
    model = nnx.eval_shape(lambda: Classifier(nnx.Rngs(0)))  # no weights are drawn only to be replaced
    graph, state = nnx.split(model)
    flat = {path: leaf.replace(arrays.pop(dotted(path))) for path, leaf in nnx.to_flat_state(state)}
    if arrays:
        raise ValueError(f"the file has weights that the model has not: {', '.join(arrays)}")
    return nnx.merge(graph, nnx.from_flat_state(flat))


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        model = load(save(Path(folder)))
    proto = to_onnx(model, [("B", 8)])
    record = verify(model, proto, [np.ones((3, 8), np.float32)])
    print(record.status, names(proto))


if __name__ == "__main__":
    main()
