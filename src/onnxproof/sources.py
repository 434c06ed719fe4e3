"""Models from where people have them, as callables that export with names to recognize.

What needs no help has none here: a Flax, Equinox or Haiku model goes to :func:`onnxproof.to_onnx` as it is, and
checkpoints come into their framework's model by the framework's own means.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from onnxproof.errors import InputSpecError


@dataclass(frozen=True)
class Source:
    """A callable and how to export it: ``to_onnx(s.fn, s.inputs, **s.names)``.

    Attributes:
        fn: takes what the model takes, in inference mode.
        inputs: a spec for each argument; dimensions that the model leaves open are names.
        names: ``input_names`` and ``output_names``, where the model has some.
    """

    fn: Callable[..., Any]
    inputs: Sequence[Any]
    names: dict[str, list[str]]


def from_keras(model: Any) -> Source:
    """A Keras 3 model on the JAX backend, functional or sequential.

    Weights are named by their paths (``hidden.kernel``), inputs and a single output as in Keras. Dropout and
    normalization are in inference mode.

    Raises:
        InputSpecError: the model does not say what it takes.
    """
    import jax

    weights: dict[str, Any] = {}
    for variable in model.variables:
        *parents, leaf = variable.path.split("/")
        place = weights
        for name in parents:
            place = place.setdefault(name, {})
        place[leaf] = variable.value
    trainable, fixed = (
        [v.path for v in vs] for vs in (model.trainable_variables, model.non_trainable_variables)
    )

    def call(weights: dict[str, Any], inputs: Any) -> Any:
        values = ([_at(weights, path) for path in paths] for paths in (trainable, fixed))
        return model.stateless_call(*values, inputs, training=False)[0]

    tensors, tree = jax.tree.flatten(_inputs(model))
    specs = [jax.ShapeDtypeStruct(_shape(t), t.dtype) for t in tensors]
    names = {"input_names": [t.name for t in tensors]}
    if isinstance(model.outputs, Sequence) and len(model.outputs) == 1:
        last = model.layers[-1].name  # a Sequential names no outputs
        names["output_names"] = list(getattr(model, "output_names", [last]))
    return Source(functools.partial(call, weights), [jax.tree.unflatten(tree, specs)], names)


def _inputs(model: Any) -> Any:
    """The symbolic inputs, in the structure that the model is called with."""
    listed = getattr(model, "inputs", None)
    if not listed:
        raise InputSpecError(
            f"the model {getattr(model, 'name', '?')!r} does not say what it takes",
            way_out="Give to_onnx a function that calls it: lambda x: model(x, training=False), with specs of yours.",
        )
    structure = getattr(model, "input", None)  # a Sequential has none before it was called
    return structure if structure is not None else listed[0] if len(listed) == 1 else listed


def _at(tree: dict[str, Any], path: str) -> Any:
    for name in path.split("/"):
        tree = tree[name]
    return tree


def _shape(tensor: Any) -> tuple[int | str, ...]:
    """Dimensions that are open: ``B`` in front, and names of their own elsewhere."""
    return tuple(
        d if d is not None else "B" if axis == 0 else f"{tensor.name}_{axis}"
        for axis, d in enumerate(tensor.shape)
    )
