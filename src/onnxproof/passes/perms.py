"""Permutations of axes."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import onnx_ir as ir

from onnxproof.passes.evaluate import attr

Perm = tuple[int, ...]


def perm_of(node: ir.Node) -> Perm:
    """The permutation of a Transpose."""
    return tuple(int(p) for p in attr(node, "perm"))


def inverse(perm: Perm) -> Perm:
    return tuple(int(i) for i in np.argsort(perm))


def without(perm: Perm, axes: Sequence[int]) -> Perm:
    """``perm`` on what is left when the axes (of the operand) are gone."""
    left = [p for p in range(len(perm)) if p not in axes]
    return tuple(left.index(p) for p in perm if p not in axes)


def keeps_order(perm: Perm, shape: Sequence[object]) -> bool:
    """Whether a transpose of something of this shape moves axes of size 1 alone, so that a reshape does it."""
    kept = [p for p in perm if shape[p] != 1]
    return kept == sorted(kept)
