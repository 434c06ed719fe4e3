"""PyTorch layers that hold the weights of a JAX model, found by name."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional

Arrays = Sequence[np.ndarray[Any, Any]]


def unchanged(arrays: Arrays) -> Arrays:
    return arrays


def channels_first(arrays: Arrays) -> Arrays:
    """The images among ``arrays`` as PyTorch has them."""
    return [np.ascontiguousarray(np.moveaxis(x, -1, 1)) if x.ndim == 4 else x for x in arrays]


@dataclass(frozen=True)
class Twin:
    """A network in PyTorch; ``inputs`` and ``outputs`` rearrange JAX's arrays into its layout."""

    module: nn.Module
    inputs: Callable[[Arrays], Arrays] = unchanged
    outputs: Callable[[Arrays], Arrays] = unchanged


class Weights:
    """Builds layers from arrays named as Flax, Haiku or Equinox name them."""

    def __init__(self, arrays: Mapping[str, Any]) -> None:
        self.arrays = arrays

    def tensor(self, *names: str) -> Tensor:
        """The first of the names that exists."""
        for name in names:
            if name in self.arrays:
                return torch.from_numpy(np.array(self.arrays[name]))
        raise KeyError(names)

    def bias(self, name: str) -> Tensor | None:
        for key in (f"{name}.bias", f"{name}.b", f"{name}.offset"):
            if key in self.arrays:
                return self.tensor(key).reshape(-1)
        return None

    def dense(self, name: str, inputs: int = 0) -> nn.Linear:
        """A linear layer; ``inputs`` where the kernel has more than two axes."""
        if f"{name}.weight" in self.arrays:
            return linear(self.tensor(f"{name}.weight"), self.bias(name))
        kernel = self.tensor(f"{name}.kernel", f"{name}.w", name)
        return linear(kernel.reshape(inputs or kernel.shape[0], -1).T, self.bias(name))

    def conv(self, name: str, **options: Any) -> nn.Module:
        if f"{name}.weight" in self.arrays:
            weight = self.tensor(f"{name}.weight")
        else:
            kernel = self.tensor(f"{name}.kernel", f"{name}.w")
            weight = kernel.movedim((-1, -2), (0, 1))
        cls = {3: nn.Conv1d, 4: nn.Conv2d}[weight.ndim]
        bias, groups = self.bias(name), options.get("groups", 1)
        layer = cls(
            weight.shape[1] * groups,
            weight.shape[0],
            tuple(weight.shape[2:]),
            bias=bias is not None,
            **options,
        )
        return _filled(layer, weight, bias)

    def conv_transpose(self, name: str, stride: int) -> nn.Module:
        """Equinox's weight is that of the convolution over the dilated input: mirrored, axes exchanged."""
        weight = self.tensor(f"{name}.weight").flip(2, 3).transpose(0, 1)
        layer = nn.ConvTranspose2d(weight.shape[0], weight.shape[1], tuple(weight.shape[2:]), stride=stride)
        return _filled(layer, weight, self.bias(name))

    def norm(self, name: str, eps: float) -> nn.Module:
        scale = self.tensor(f"{name}.scale", f"{name}.weight")
        return _filled(nn.LayerNorm(scale.numel(), eps=eps), scale, self.bias(name))

    def rms(self, name: str, eps: float) -> nn.Module:
        scale = self.tensor(f"{name}.scale")
        return _filled(nn.RMSNorm(scale.numel(), eps=eps), scale)

    def group(self, name: str, groups: int, eps: float) -> nn.Module:
        scale = self.tensor(f"{name}.scale", f"{name}.weight")
        return _filled(nn.GroupNorm(groups, scale.numel(), eps=eps), scale, self.bias(name))

    def batch(self, name: str, eps: float) -> nn.Module:
        scale = self.tensor(f"{name}.scale").reshape(-1)
        layer = nn.BatchNorm2d(scale.numel(), eps=eps)
        mean = self.tensor(f"{name}.mean", f"{name}/~/mean_ema.average").reshape(-1)
        var = self.tensor(f"{name}.var", f"{name}/~/var_ema.average").reshape(-1)
        layer.load_state_dict({"running_mean": mean, "running_var": var}, strict=False)
        return _filled(layer, scale, self.bias(name))

    def embed(self, name: str) -> nn.Embedding:
        return nn.Embedding.from_pretrained(self.tensor(name))

    def parameter(self, name: str) -> nn.Parameter:
        return nn.Parameter(self.tensor(name), requires_grad=False)


def linear(weight: Tensor, bias: Tensor | None) -> nn.Linear:
    layer = nn.Linear(weight.shape[1], weight.shape[0], bias=bias is not None)
    filled: nn.Linear = _filled(layer, weight, bias)
    return filled


def _filled(layer: Any, weight: Tensor, bias: Tensor | None = None) -> Any:
    with torch.no_grad():
        layer.weight.copy_(weight)
        if bias is not None:
            layer.bias.copy_(bias)
    return layer


class Same(nn.Module):
    """Padding as JAX's SAME has it where the stride is two: the odd one goes last."""

    def __init__(self, before: int, after: int, value: float = 0.0) -> None:
        super().__init__()
        self.pad, self.value = (before, after, before, after), value

    def forward(self, x: Tensor) -> Tensor:
        return functional.pad(x, self.pad, value=self.value)


class SelfAttention(nn.Module):
    """Projections, attention over heads, projection."""

    def __init__(
        self, query: nn.Linear, key: nn.Linear, value: nn.Linear, out: nn.Linear, heads: int
    ) -> None:
        super().__init__()
        self.query, self.key, self.value, self.out, self.heads = query, key, value, out, heads

    def forward(self, x: Tensor, mask: Tensor | None = None, causal: bool = False) -> Tensor:
        q, k, v = (
            layer(x).unflatten(-1, (self.heads, -1)).transpose(1, 2)
            for layer in (self.query, self.key, self.value)
        )
        y = functional.scaled_dot_product_attention(q, k, v, attn_mask=mask, is_causal=causal)
        return self.out(y.transpose(1, 2).flatten(2))


def attention(w: Weights, names: Sequence[str], heads: int) -> SelfAttention:
    """``names`` of the four projections; the last one's kernel may have heads as its own axis."""
    query, key, value = (w.dense(name) for name in names[:3])
    return SelfAttention(query, key, value, w.dense(names[3], inputs=query.out_features), heads)
