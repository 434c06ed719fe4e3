"""A feed-forward network of PyTorch, written by either of its exporters, and any ``torch.nn.Module`` as a reference."""

from __future__ import annotations

import copy
import hashlib
import itertools
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch

from onnxproof.errors import ConformanceError
from onnxproof.evidence.profile import Profile, ProfileCase
from onnxproof.evidence.record import FeedForwardConfig
from onnxproof.evidence.references.subject import Array, Oracle, State, digest

_ACTIVATIONS: dict[str, Callable[[], torch.nn.Module]] = {
    "relu": torch.nn.ReLU,
    "tanh": torch.nn.Tanh,
    "sigmoid": torch.nn.Sigmoid,
    "gelu": torch.nn.GELU,
}


class FeedForward(torch.nn.Module):  # type: ignore[misc]  # torch has no types where it is not installed
    """Linear layers with an activation and dropout after each but the last: ``[batch, input_dim]`` to
    ``[batch, output_dim]``."""

    def __init__(self, config: FeedForwardConfig) -> None:
        super().__init__()
        widths = [config.input_dim, *config.hidden_dims]
        layers: list[torch.nn.Module] = []
        for before, after in itertools.pairwise(widths):
            layers += [torch.nn.Linear(before, after), _ACTIVATIONS[config.activation]()]
            layers.append(torch.nn.Dropout(config.dropout))
        self.layers = torch.nn.Sequential(*layers, torch.nn.Linear(widths[-1], config.output_dim))
        generator = torch.Generator().manual_seed(config.weights.seed)
        with torch.no_grad():
            for parameter in self.parameters():
                parameter.normal_(0.0, config.weights.std, generator=generator)

    def forward(self, features: torch.Tensor) -> torch.Tensor:
        """Raw logits of a batch of rows."""
        logits: torch.Tensor = self.layers(features)
        return logits


class TorchReference:
    """A module in evaluation mode; the module that is given is left as it is."""

    def __init__(self, module: torch.nn.Module) -> None:
        self._module = copy.deepcopy(module).eval()

    def run(self, inputs: Sequence[Array]) -> list[Array]:
        """The flat outputs."""
        return _run(self._module, inputs)

    def oracle(self, inputs: Sequence[Array]) -> Oracle:
        """The flat outputs computed in float64."""
        wide = [a.astype(np.float64) if a.dtype.kind == "f" else a for a in inputs]
        return Oracle("module", _run(copy.deepcopy(self._module).double(), wide))


class FeedForwardSubject:
    """The network of a profile, exported by ``torch.onnx``.

    Gradients are filled and modes mixed before the export, so that losing either would be seen.
    """

    def __init__(self, profile: Profile) -> None:
        assert isinstance(profile.config, FeedForwardConfig)
        self._profile = profile
        self._config = profile.config
        self._module = FeedForward(profile.config)
        self._module.train()
        self._module.layers[0].eval()
        for i, parameter in enumerate(self._module.parameters()):
            parameter.grad = torch.full_like(parameter, 0.25 * (i + 1))
        self._reference = TorchReference(self._module)

    def weights_sha256(self) -> str:
        return parameter_digest(self._module)

    def state(self) -> State:
        return module_state(self._module)

    def export(self, path: Path) -> None:
        """Export in evaluation mode with the options of the profile, then bring every module's mode back."""
        options = self._profile.exporter.options
        modes = {name: m.training for name, m in self._module.named_modules()}
        batch = int(str(options["export_batch"]))
        example = torch.zeros(batch, self._config.input_dim)
        self._module.eval()
        try:
            torch.onnx.export(self._module, (example,), str(path), **_arguments(options))
        finally:
            for name, module in self._module.named_modules():
                module.training = modes[name]

    def inputs(self, case: ProfileCase) -> list[Array]:
        generator = torch.Generator().manual_seed(case.seed or 0)
        return [torch.randn(shape, generator=generator).numpy() for shape in case.shapes]

    def native(self, case: ProfileCase) -> list[Array]:
        return self._reference.run(self.inputs(case))

    def oracle(self, case: ProfileCase) -> Oracle:
        return self._reference.oracle(self.inputs(case))


def parameter_digest(module: torch.nn.Module) -> str:
    """SHA-256 over the names, dtypes, shapes and values of all parameters and buffers."""
    tensors = [*module.named_parameters(), *module.named_buffers()]
    return digest((name, _numpy(t)) for name, t in tensors)


def module_state(module: torch.nn.Module) -> State:
    """Digests of parameters, gradients, and of every submodule's mode."""
    gradients = digest((n, None if p.grad is None else _numpy(p.grad)) for n, p in module.named_parameters())
    modes = "\n".join(f"{name} {m.training}" for name, m in module.named_modules())
    return State(parameter_digest(module), gradients, hashlib.sha256(modes.encode()).hexdigest())


def _arguments(options: Any) -> dict[str, Any]:
    """Keyword arguments of ``torch.onnx.export`` for the options that a profile states."""
    inputs, outputs = list(options["input_names"]), list(options["output_names"])
    arguments: dict[str, Any] = {
        "dynamo": options["dynamo"],
        "opset_version": options["opset_version"],
        "input_names": inputs,
        "output_names": outputs,
    }
    if options["dynamo"]:
        arguments["verbose"] = False
        if options["dynamic_batch"]:
            arguments["dynamic_shapes"] = ({0: torch.export.Dim("batch")},)
    elif options["dynamic_batch"]:
        arguments["dynamic_axes"] = {name: {0: "batch"} for name in (*inputs, *outputs)}
    return arguments


def _run(module: torch.nn.Module, inputs: Sequence[Array]) -> list[Array]:
    with torch.no_grad():
        result = module(*(torch.from_numpy(np.array(a)) for a in inputs))
    flat, _ = torch.utils._pytree.tree_flatten(result)
    if not all(isinstance(t, torch.Tensor) for t in flat):
        raise ConformanceError("the module returns something other than tensors")
    return [_numpy(t) for t in flat]


def _numpy(tensor: torch.Tensor) -> Array:
    """A copy: what is compared or digested must not change with the module."""
    array: Array = tensor.detach().cpu().numpy().copy()
    return array
