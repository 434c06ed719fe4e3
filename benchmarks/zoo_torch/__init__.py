"""The networks of ``benchmarks.zoo_models`` again, as PyTorch's users write them, with the same weights."""

from __future__ import annotations

import importlib

from benchmarks.zoo_models import ZOO, Network
from benchmarks.zoo_torch.parts import Twin, Weights


def twin(name: str, network: Network) -> Twin:
    """The same network in PyTorch, in evaluation mode, with the weights of ``network``."""
    module = importlib.import_module(f"benchmarks.zoo_torch.{ZOO[name][0]}")
    built: Twin = getattr(module, name)(Weights(network.weights))
    built.module.eval()
    return built
