"""The twins of ``zoo_models.science``."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional

from benchmarks.zoo_torch.parts import Twin, Weights, channels_first, linear


class Policy(nn.Module):
    def __init__(self, w: Weights) -> None:
        super().__init__()
        self.conv1 = w.conv("params.conv1", stride=4)
        self.conv2, self.conv3 = w.conv("params.conv2", stride=2), w.conv("params.conv3")
        kernel = w.tensor("params.dense.kernel")
        rows = kernel.reshape(7, 7, 64, -1).permute(2, 0, 1, 3).reshape(kernel.shape)
        self.dense = linear(rows.T, w.bias("params.dense"))
        self.actor, self.critic = w.dense("params.actor"), w.dense("params.critic")

    def forward(self, screens: Tensor) -> tuple[Tensor, Tensor]:
        x = screens.float() / 255.0
        for conv in (self.conv1, self.conv2, self.conv3):
            x = functional.relu(conv(x))
        x = functional.relu(self.dense(x.flatten(1)))
        return self.actor(x).softmax(-1), self.critic(x)[:, 0]


def policy(w: Weights) -> Twin:
    return Twin(Policy(w), channels_first)


class Update(nn.Module):
    def __init__(self, w: Weights, name: str) -> None:
        super().__init__()
        self.first, self.second = w.dense(f"{name}_mlp/~/linear_0"), w.dense(f"{name}_mlp/~/linear_1")
        self.norm = w.norm(f"{name}_norm", 1e-5)

    def forward(self, x: Tensor) -> Tensor:
        y: Tensor = self.norm(self.second(functional.silu(self.first(x))))
        return y


class GraphNetwork(nn.Module):
    def __init__(self, w: Weights) -> None:
        super().__init__()
        self.edge, self.node = Update(w, "edge"), Update(w, "node")

    def forward(
        self, nodes: Tensor, edges: Tensor, senders: Tensor, receivers: Tensor
    ) -> tuple[Tensor, Tensor]:
        message = self.edge(torch.cat([edges, nodes[senders], nodes[receivers]], -1))
        received = torch.zeros_like(nodes).index_add(0, receivers, message)
        return nodes + self.node(torch.cat([nodes, received], -1)), edges + message


def gnn(w: Weights) -> Twin:
    return Twin(GraphNetwork(w))


class Ode(nn.Module):
    def __init__(self, w: Weights) -> None:
        super().__init__()
        self.layers = nn.ModuleList(w.dense(f"mlp.layers.{i}") for i in range(3))

    def field(self, time: float, y: Tensor) -> Tensor:
        x = torch.cat([y, torch.full((y.shape[0], 1), time).sin()], -1)
        return self.layers[2](torch.tanh(self.layers[1](torch.tanh(self.layers[0](x)))))

    def forward(self, y: Tensor) -> Tensor:
        dt, path = 0.02, []
        for i in range(50):
            time = i * dt
            k1 = self.field(time, y)
            k2 = self.field(time + dt / 2, y + dt / 2 * k1)
            k3 = self.field(time + dt / 2, y + dt / 2 * k2)
            k4 = self.field(time + dt, y + dt * k3)
            y = y + dt / 6 * (k1 + 2 * k2 + 2 * k3 + k4)
            path.append(y)
        return torch.stack(path, 1)


def ode(w: Weights) -> Twin:
    return Twin(Ode(w))


class Heat(nn.Module):
    def forward(self, u: Tensor) -> Tensor:
        for _ in range(20):
            neighbours = u.roll(1, 0) + u.roll(-1, 0) + u.roll(1, 1) + u.roll(-1, 1)
            u = u + 0.2 * (neighbours - 4 * u)
        return u


def heat(w: Weights) -> Twin:
    return Twin(Heat())
