"""The models that ``benchmarks.zoo`` measures: by field, in the five frameworks, as their users write them."""

from __future__ import annotations

import importlib

from benchmarks.zoo_models.entry import Network as Network

# name: (the file that has it, the framework it is written in)
ZOO = {
    "mlp": ("dense", "Haiku"),
    "mixer": ("dense", "Linen"),
    "resnet": ("vision", "NNX"),
    "convnext": ("vision", "Linen"),
    "mobilenet": ("vision", "Haiku"),
    "unet": ("vision", "Equinox"),
    "vit": ("vision", "Equinox"),
    "diffusion": ("diffusion", "NNX"),
    "bert": ("language", "Linen"),
    "gpt_prefill": ("language", "NNX"),
    "gpt_decode": ("language", "NNX"),
    "llama_prefill": ("language", "JAX"),
    "llama_decode": ("language", "JAX"),
    "moe": ("language", "Haiku"),
    "lstm": ("recurrent", "Linen"),
    "gru": ("recurrent", "Equinox"),
    "mamba": ("recurrent", "JAX"),
    "policy": ("science", "Linen"),
    "gnn": ("science", "Haiku"),
    "ode": ("science", "Equinox"),
    "heat": ("science", "JAX"),
}


def network(name: str) -> Network:
    """Build a model; its weights are drawn from a fixed seed."""
    module = importlib.import_module(f"benchmarks.zoo_models.{ZOO[name][0]}")
    built: Network = getattr(module, name)()
    return built
