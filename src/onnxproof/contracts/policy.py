"""The contract of a policy that acts: ``obs`` in, ``action`` out, and nothing of its training."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from onnxproof.contracts.batch import Batch, IndependentRows, Repeatable
from onnxproof.contracts.clause import Clause
from onnxproof.contracts.contract import Contract
from onnxproof.contracts.interface import Input, NoForbiddenInputs, NoRandomness, OnlyPorts, Output
from onnxproof.contracts.state import State
from onnxproof.contracts.values import Bounds, Finite, IndexRange


@dataclass(frozen=True)
class Continuous:
    """Actions that are numbers: each component in ``[low, high]``.

    Attributes:
        low, high: of all components, or one for each.
        size: how many components there are; None is any number.
        slack: how far outside an action may be: ONNX Runtime's Tanh passes 1 by two roundings.
    """

    low: float | tuple[float, ...] = -1.0
    high: float | tuple[float, ...] = 1.0
    size: int | None = None
    slack: float = 1e-6


@dataclass(frozen=True)
class Discrete:
    """Actions that are indices from 0 to ``n - 1``; None is no upper bound."""

    n: int | None = None


def policy(
    actions: Continuous | Discrete | None = None,
    *,
    obs_shape: Sequence[int | str | None] | None = None,
    obs_dtype: str | None = None,
    obs_low: float | None = None,
    obs_high: float | None = None,
    state: Mapping[str, str] | None = None,
    obs: str = "obs",
    action: str = "action",
    batches: Sequence[int] = (1, 2, 7),
    name: str | None = None,
) -> Contract:
    """The contract of a policy.

    Args:
        actions: :class:`Continuous` in [-1, 1] by default.
        obs_shape: of one observation, without the batch; None is any.
        obs_low, obs_high: what observations hold where the policy is deployed.
        state: of a recurrent policy: names of outputs by the inputs that they are the next value of.
        obs, action: names of the input and the output.
        batches: sizes that are run.
    """
    kind = Continuous() if actions is None else actions
    pairs = dict(state or {})
    shape = None if obs_shape is None else ("B", *obs_shape)
    clauses: list[Clause] = [
        Input(obs, dtype=obs_dtype, shape=shape, low=obs_low, high=obs_high),
        *_action(kind, action),
        OnlyPorts(inputs=(obs, *pairs), outputs=(action, *pairs.values())),
        NoForbiddenInputs(),
        NoRandomness(),
        Batch(tuple(batches)),
        IndependentRows(),
        Repeatable(),
        Finite(),
        *(State(into, out) for into, out in pairs.items()),
    ]
    return Contract(
        name or f"policy-{'discrete' if isinstance(kind, Discrete) else 'continuous'}", tuple(clauses)
    )


def _action(kind: Continuous | Discrete, action: str) -> list[Clause]:
    if isinstance(kind, Discrete):
        return [Output(action, dtype=("int32", "int64"), shape=("B",)), IndexRange(action, kind.n)]
    sizes = [len(b) for b in (kind.low, kind.high) if isinstance(b, tuple)]
    size = kind.size if kind.size is not None or not sizes else sizes[0]
    return [Output(action, shape=("B", size)), Bounds(action, kind.low, kind.high, kind.slack)]
