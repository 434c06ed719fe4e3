"""The twin of ``zoo_models.diffusion``."""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn
from torch.nn import functional

from benchmarks.zoo_torch.parts import Same, Twin, Weights, attention, channels_first

PARTS = ("query", "key", "value", "out")


class Resnet(nn.Module):
    def __init__(self, w: Weights, name: str) -> None:
        super().__init__()
        self.norm1, self.norm2 = w.group(f"{name}.norm1", 8, 1e-6), w.group(f"{name}.norm2", 8, 1e-6)
        self.conv1, self.conv2 = w.conv(f"{name}.conv1", padding=1), w.conv(f"{name}.conv2", padding=1)
        self.time = w.dense(f"{name}.time")
        changes = f"{name}.skip.kernel" in w.arrays
        self.skip = w.conv(f"{name}.skip") if changes else nn.Identity()

    def forward(self, x: Tensor, t: Tensor) -> Tensor:
        h = self.conv1(functional.silu(self.norm1(x)))
        h = h + self.time(functional.silu(t))[:, :, None, None]
        h = self.conv2(functional.silu(self.norm2(h)))
        return h + self.skip(x)


class Denoiser(nn.Module):
    def __init__(self, w: Weights) -> None:
        super().__init__()
        self.time1, self.time2, self.enter = w.dense("time1"), w.dense("time2"), w.conv("enter", padding=1)
        self.level1, self.level2 = Resnet(w, "level1"), Resnet(w, "level2")
        self.down = nn.Sequential(Same(0, 1), w.conv("down", stride=2))
        self.attention_norm = w.group("attention.norm", 8, 1e-6)
        self.attention = attention(w, [f"attention.attend.{part}" for part in PARTS], 4)
        self.middle, self.up, self.merge = Resnet(w, "middle"), w.conv("up", padding=1), Resnet(w, "merge")
        self.norm, self.leave = w.group("norm", 8, 1e-6), w.conv("leave", padding=1)

    def forward(self, x: Tensor, time: Tensor) -> Tensor:
        frequencies = torch.exp(-math.log(10000.0) * torch.arange(16) / 16)
        angles = time[:, None] * frequencies[None]
        t = torch.cat([torch.cos(angles), torch.sin(angles)], -1)
        t = self.time2(functional.silu(self.time1(t)))
        skip = self.level1(self.enter(x), t)
        h = self.level2(self.down(skip), t)
        flat = self.attention_norm(h).flatten(2).transpose(1, 2)
        h = h + self.attention(flat).transpose(1, 2).reshape(h.shape)
        h = self.middle(h, t)
        h = self.up(functional.interpolate(h, scale_factor=2.0, mode="nearest"))
        h = self.merge(torch.cat([skip, h], 1), t)
        return self.leave(functional.silu(self.norm(h)))


def diffusion(w: Weights) -> Twin:
    return Twin(Denoiser(w), channels_first, channels_first)
