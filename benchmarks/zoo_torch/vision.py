"""The twins of ``zoo_models.vision``."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional

from benchmarks.zoo_torch.parts import Same, Twin, Weights, attention, channels_first


class Residual(nn.Module):
    def __init__(self, w: Weights, name: str) -> None:
        super().__init__()
        shrinks = f"{name}.project.kernel" in w.arrays
        first = w.conv(f"{name}.conv1", **({"stride": 2} if shrinks else {"padding": 1}))
        self.conv1 = nn.Sequential(Same(0, 1), first) if shrinks else first
        self.bn1 = w.batch(f"{name}.bn1", 1e-5)
        self.conv2, self.bn2 = w.conv(f"{name}.conv2", padding=1), w.batch(f"{name}.bn2", 1e-5)
        self.project = (
            nn.Sequential(w.conv(f"{name}.project", stride=2), w.batch(f"{name}.bn3", 1e-5))
            if shrinks
            else nn.Identity()
        )

    def forward(self, x: Tensor) -> Tensor:
        y = functional.relu(self.bn1(self.conv1(x)))
        return functional.relu(self.bn2(self.conv2(y)) + self.project(x))


class ResNet(nn.Module):
    def __init__(self, w: Weights) -> None:
        super().__init__()
        self.stem = nn.Sequential(Same(2, 3), w.conv("stem", stride=2), w.batch("bn", 1e-5))
        self.pool = nn.Sequential(Same(0, 1, float("-inf")), nn.MaxPool2d(3, 2))
        self.blocks = nn.Sequential(*(Residual(w, f"blocks.{i}") for i in range(6)))
        self.head = w.dense("head")

    def forward(self, x: Tensor) -> Tensor:
        x = self.blocks(self.pool(functional.relu(self.stem(x))))
        return self.head(x.mean((2, 3)))


def resnet(w: Weights) -> Twin:
    return Twin(ResNet(w), channels_first)


class ConvNeXtBlock(nn.Module):
    def __init__(self, w: Weights, name: str) -> None:
        super().__init__()
        self.gamma = w.parameter(f"{name}.gamma")
        self.depthwise = w.conv(f"{name}.depthwise", padding=3, groups=self.gamma.numel())
        self.norm = w.norm(f"{name}.norm", 1e-6)
        self.up, self.down = w.dense(f"{name}.up"), w.dense(f"{name}.down")

    def forward(self, x: Tensor) -> Tensor:
        h = self.norm(self.depthwise(x).permute(0, 2, 3, 1))
        h = self.gamma * self.down(functional.gelu(self.up(h)))
        return x + h.permute(0, 3, 1, 2)


class ChannelNorm(nn.Module):
    """Layer normalization over the channels of [B, C, H, W]."""

    def __init__(self, norm: nn.Module) -> None:
        super().__init__()
        self.norm = norm

    def forward(self, x: Tensor) -> Tensor:
        y: Tensor = self.norm(x.permute(0, 2, 3, 1)).permute(0, 3, 1, 2)
        return y


class ConvNeXt(nn.Module):
    def __init__(self, w: Weights) -> None:
        super().__init__()
        self.stem = nn.Sequential(
            w.conv("params.stem", stride=4), ChannelNorm(w.norm("params.stem_norm", 1e-6))
        )
        self.first = nn.Sequential(*(ConvNeXtBlock(w, f"params.block{i}") for i in range(3)))
        self.down = nn.Sequential(
            ChannelNorm(w.norm("params.down_norm", 1e-6)), w.conv("params.down", stride=2)
        )
        self.second = nn.Sequential(*(ConvNeXtBlock(w, f"params.block{i}") for i in range(3, 6)))
        self.norm, self.head = w.norm("params.norm", 1e-6), w.dense("params.head")

    def forward(self, x: Tensor) -> Tensor:
        x = self.second(self.down(self.first(self.stem(x))))
        return self.head(self.norm(x.mean((2, 3))))


def convnext(w: Weights) -> Twin:
    return Twin(ConvNeXt(w), channels_first)


def double(w: Weights, name: str) -> nn.Module:
    layers: list[nn.Module] = []
    for i in (1, 2):
        conv = w.conv(f"{name}.conv{i}", padding=1)
        layers += [conv, w.group(f"{name}.norm{i}", 8, 1e-5), nn.ReLU()]
    return nn.Sequential(*layers)


class UNet(nn.Module):
    def __init__(self, w: Weights) -> None:
        super().__init__()
        self.enter, self.down1, self.down2 = double(w, "enter"), double(w, "down1"), double(w, "down2")
        self.up1, self.up2 = w.conv_transpose("up1", 2), w.conv_transpose("up2", 2)
        self.merge1, self.merge2 = double(w, "merge1"), double(w, "merge2")
        self.leave, self.pool = w.conv("leave"), nn.MaxPool2d(2)

    def forward(self, x: Tensor) -> Tensor:
        top = self.enter(x)
        middle = self.down1(self.pool(top))
        y = self.up1(self.down2(self.pool(middle)))
        y = self.up2(self.merge1(torch.cat([middle, y], 1)))
        return self.leave(self.merge2(torch.cat([top, y], 1)))


def unet(w: Weights) -> Twin:
    return Twin(UNet(w))


class ViTBlock(nn.Module):
    def __init__(self, w: Weights, name: str) -> None:
        super().__init__()
        self.norm1, self.norm2 = w.norm(f"{name}.norm1", 1e-5), w.norm(f"{name}.norm2", 1e-5)
        names = [f"{name}.attention.{part}_proj" for part in ("query", "key", "value", "output")]
        self.attention = attention(w, names, 4)
        self.up, self.down = w.dense(f"{name}.up"), w.dense(f"{name}.down")

    def forward(self, x: Tensor) -> Tensor:
        x = x + self.attention(self.norm1(x))
        return x + self.down(functional.gelu(self.up(self.norm2(x)), approximate="tanh"))


class ViT(nn.Module):
    def __init__(self, w: Weights) -> None:
        super().__init__()
        self.patch = w.conv("patch", stride=4)
        self.token, self.position = w.parameter("token"), w.parameter("position")
        self.blocks = nn.Sequential(*(ViTBlock(w, f"blocks.{i}") for i in range(4)))
        self.norm, self.head = w.norm("norm", 1e-5), w.dense("head")

    def forward(self, x: Tensor) -> Tensor:
        x = self.patch(x).flatten(2).transpose(1, 2)
        x = torch.cat([self.token.expand(x.shape[0], -1, -1), x], 1) + self.position
        return self.head(self.norm(self.blocks(x)[:, 0]))


def vit(w: Weights) -> Twin:
    return Twin(ViT(w))


class Inverted(nn.Module):
    def __init__(self, w: Weights, name: str, stride: int) -> None:
        super().__init__()
        width = w.arrays[f"{name}/bn1.scale"].shape[-1]
        self.expand, self.bn1 = w.conv(f"{name}/expand"), w.batch(f"{name}/bn1", 1e-5)
        deep = w.conv(f"{name}/depthwise", stride=stride, groups=width, padding=1 if stride == 1 else 0)
        self.depthwise = nn.Sequential(Same(0, 1), deep) if stride == 2 else deep
        self.bn2 = w.batch(f"{name}/bn2", 1e-5)
        self.squeeze, self.excite = w.dense(f"{name}/squeeze"), w.dense(f"{name}/excite")
        self.project, self.bn3 = w.conv(f"{name}/project"), w.batch(f"{name}/bn3", 1e-5)

    def forward(self, x: Tensor) -> Tensor:
        h = functional.hardswish(self.bn1(self.expand(x)))
        h = functional.hardswish(self.bn2(self.depthwise(h)))
        s = functional.relu(self.squeeze(h.mean((2, 3))))
        h = h * functional.hardsigmoid(self.excite(s))[:, :, None, None]
        h = self.bn3(self.project(h))
        return x + h if h.shape == x.shape else h


class MobileNet(nn.Module):
    def __init__(self, w: Weights) -> None:
        super().__init__()
        self.stem = nn.Sequential(Same(0, 1), w.conv("stem", stride=2), w.batch("bn", 1e-5))
        strides = enumerate((2, 1, 2, 1))
        self.blocks = nn.Sequential(*(Inverted(w, f"block{i}", stride) for i, stride in strides))
        self.head = w.dense("head")

    def forward(self, x: Tensor) -> Tensor:
        return self.head(self.blocks(functional.hardswish(self.stem(x))).mean((2, 3)))


def mobilenet(w: Weights) -> Twin:
    return Twin(MobileNet(w), channels_first)
