"""The twins of ``zoo_models.dense``."""

from __future__ import annotations

from torch import Tensor, nn
from torch.nn import functional

from benchmarks.zoo_torch.parts import Twin, Weights, channels_first


def mlp(w: Weights) -> Twin:
    layers: list[nn.Module] = []
    for i in range(3):
        layers += [w.dense(f"trunk/~/linear_{i}"), nn.ReLU()]
    return Twin(nn.Sequential(*layers, w.dense("head"), nn.LogSoftmax(-1)))


class MixerBlock(nn.Module):
    def __init__(self, w: Weights, name: str) -> None:
        super().__init__()
        self.norm1, self.norm2 = w.norm(f"{name}.norm_tokens", 1e-6), w.norm(f"{name}.norm_channels", 1e-6)
        self.up1, self.down1 = w.dense(f"{name}.tokens_up"), w.dense(f"{name}.tokens_down")
        self.up2, self.down2 = w.dense(f"{name}.channels_up"), w.dense(f"{name}.channels_down")

    def forward(self, x: Tensor) -> Tensor:
        h = self.up1(self.norm1(x).transpose(1, 2))
        x = x + self.down1(functional.gelu(h, approximate="tanh")).transpose(1, 2)
        return x + self.down2(functional.gelu(self.up2(self.norm2(x)), approximate="tanh"))


class Mixer(nn.Module):
    def __init__(self, w: Weights) -> None:
        super().__init__()
        self.stem = w.conv("params.stem", stride=4)
        self.blocks = nn.ModuleList(MixerBlock(w, f"params.block{i}") for i in range(4))
        self.norm, self.head = w.norm("params.norm", 1e-6), w.dense("params.head")

    def forward(self, x: Tensor) -> Tensor:
        x = self.stem(x).flatten(2).transpose(1, 2)
        for block in self.blocks:
            x = block(x)
        return self.head(self.norm(x).mean(1))


def mixer(w: Weights) -> Twin:
    return Twin(Mixer(w), channels_first)
