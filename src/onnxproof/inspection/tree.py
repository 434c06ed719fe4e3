"""Weights by path: each prefix with the count, elements and bytes of what lies below it."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from onnxproof.inspection.reading import TensorFacts

_SEPARATOR = re.compile(r"[./]")


@dataclass(slots=True)
class Branch:
    """A part of a path; ``tensor`` is set where a weight has exactly this path."""

    name: str
    count: int = 0
    elements: int = 0
    bytes: int = 0
    tensor: TensorFacts | None = None
    children: dict[str, Branch] = field(default_factory=dict)

    def _add(self, tensor: TensorFacts) -> None:
        self.count += 1
        self.elements += math.prod(tensor.shape)
        self.bytes += tensor.bytes


def tree(tensors: Iterable[TensorFacts]) -> Branch:
    """The tree of ``tensors``; chains of prefixes with one child each are one branch."""
    root = Branch("")
    for tensor in tensors:
        node = root
        node._add(tensor)
        for part in _SEPARATOR.split(tensor.name):
            node = node.children.setdefault(part, Branch(part))
            node._add(tensor)
        node.tensor = tensor
    root.children = {branch.name: branch for branch in map(_joined, root.children.values())}
    return root


def _joined(branch: Branch) -> Branch:
    while len(branch.children) == 1 and branch.tensor is None:
        (child,) = branch.children.values()
        child.name = f"{branch.name}.{child.name}"
        branch = child
    branch.children = {b.name: b for b in map(_joined, branch.children.values())}
    return branch


def rows(root: Branch, depth: int) -> Iterator[tuple[int, Branch]]:
    """Branches from the root's children on with their level, down to ``depth`` levels."""
    pending = [(0, b) for b in reversed(root.children.values())]
    while pending:
        level, branch = pending.pop()
        yield level, branch
        if level + 1 < depth:
            pending.extend((level + 1, b) for b in reversed(branch.children.values()))
