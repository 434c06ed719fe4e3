"""The twins of ``zoo_models.recurrent``."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional

from benchmarks.zoo_torch.parts import Twin, Weights

GATES = "ifgo"


def lstm_layer(w: Weights, name: str) -> nn.LSTM:
    inner = torch.cat([w.tensor(f"{name}.h{gate}.kernel").T for gate in GATES])
    outer = torch.cat([w.tensor(f"{name}.i{gate}.kernel").T for gate in GATES])
    bias = torch.cat([w.tensor(f"{name}.h{gate}.bias") for gate in GATES])
    layer = nn.LSTM(outer.shape[1], inner.shape[1], batch_first=True)
    layer.load_state_dict(
        {"weight_ih_l0": outer, "weight_hh_l0": inner, "bias_ih_l0": 0 * bias, "bias_hh_l0": bias}
    )
    return layer


class Tagger(nn.Module):
    def __init__(self, w: Weights) -> None:
        super().__init__()
        self.embed, self.head = w.embed("params.embed.embedding"), w.dense("params.head")
        self.lstm1, self.lstm2 = (lstm_layer(w, f"params.OptimizedLSTMCell_{i}") for i in range(2))

    def forward(self, tokens: Tensor) -> Tensor:
        x = self.lstm1(self.embed(tokens))[0]
        return self.head(self.lstm2(x)[0])


def lstm(w: Weights) -> Twin:
    return Twin(Tagger(w))


class Keyword(nn.Module):
    def __init__(self, w: Weights) -> None:
        super().__init__()
        outer, inner = w.tensor("cell.weight_ih"), w.tensor("cell.weight_hh")
        new = torch.cat([torch.zeros(2 * inner.shape[1]), w.tensor("cell.bias_n")])
        self.gru = nn.GRU(outer.shape[1], inner.shape[1], batch_first=True)
        self.gru.load_state_dict(
            {
                "weight_ih_l0": outer,
                "weight_hh_l0": inner,
                "bias_ih_l0": w.tensor("cell.bias"),
                "bias_hh_l0": new,
            }
        )
        self.head = w.dense("head")

    def forward(self, frames: Tensor) -> Tensor:
        return self.head(self.gru(frames)[1][0])


def gru(w: Weights) -> Twin:
    return Twin(Keyword(w))


class Mamba(nn.Module):
    """Its scan is the loop over time of the reference implementation."""

    def __init__(self, w: Weights) -> None:
        super().__init__()
        self.norm, self.in_proj, self.out_proj = w.rms("norm", 1e-5), w.dense("in_proj"), w.dense("out_proj")
        self.x_proj, self.dt_proj = w.dense("x_proj"), w.dense("dt_proj")
        self.a_log, self.d = w.parameter("a_log"), w.parameter("d")
        self.conv = w.conv("conv", groups=self.d.numel())

    def forward(self, x: Tensor) -> Tensor:
        u, gate = self.in_proj(self.norm(x)).chunk(2, -1)
        u = functional.silu(self.conv(functional.pad(u.transpose(1, 2), (3, 0)))).transpose(1, 2)
        dt, b, c = self.x_proj(u).split([4, 16, 16], -1)
        dt = functional.softplus(self.dt_proj(dt))
        decay = torch.exp(dt[..., None] * -torch.exp(self.a_log))
        drive = dt[..., None] * b[:, :, None, :] * u[..., None]
        state = torch.zeros(x.shape[0], u.shape[-1], b.shape[-1])
        ys = []
        for t in range(x.shape[1]):
            state = decay[:, t] * state + drive[:, t]
            ys.append(torch.einsum("bdn,bn->bd", state, c[:, t]))
        y = torch.stack(ys, 1) + self.d * u
        return x + self.out_proj(y * functional.silu(gate))


def mamba(w: Weights) -> Twin:
    return Twin(Mamba(w))
