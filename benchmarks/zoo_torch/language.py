"""The twins of ``zoo_models.language``."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional

from benchmarks.zoo_torch.parts import Arrays, SelfAttention, Twin, Weights, attention

PARTS = ("query", "key", "value", "out")


def heads_first(arrays: Arrays) -> Arrays:
    """Caches [B, S, heads, D] as PyTorch has them, [B, heads, S, D]."""
    return [np.ascontiguousarray(x.swapaxes(1, 2)) if x.ndim == 4 else x for x in arrays]


class BertBlock(nn.Module):
    def __init__(self, w: Weights, name: str) -> None:
        super().__init__()
        self.attention = attention(w, [f"{name}.attention.{part}" for part in PARTS], 4)
        self.norm1, self.norm2 = w.norm(f"{name}.norm1", 1e-12), w.norm(f"{name}.norm2", 1e-12)
        self.up, self.down = w.dense(f"{name}.up"), w.dense(f"{name}.down")

    def forward(self, x: Tensor, mask: Tensor) -> Tensor:
        x = self.norm1(x + self.attention(x, mask))
        y: Tensor = self.norm2(x + self.down(functional.gelu(self.up(x))))
        return y


class Bert(nn.Module):
    def __init__(self, w: Weights) -> None:
        super().__init__()
        self.embed, self.position = w.embed("params.embed.embedding"), w.parameter("params.position")
        self.norm, self.pooler = w.norm("params.norm", 1e-12), w.dense("params.pooler")
        self.blocks = nn.ModuleList(BertBlock(w, f"params.block{i}") for i in range(3))

    def forward(self, tokens: Tensor, mask: Tensor) -> tuple[Tensor, Tensor]:
        x = self.norm(self.embed(tokens) + self.position)
        attended = (mask != 0)[:, None, None, :]
        for block in self.blocks:
            x = block(x, attended)
        return x, torch.tanh(self.pooler(x[:, 0]))


def bert(w: Weights) -> Twin:
    return Twin(Bert(w))


class GptBlock(nn.Module):
    def __init__(self, w: Weights, name: str) -> None:
        super().__init__()
        self.norm1, self.norm2 = w.norm(f"{name}.norm1", 1e-6), w.norm(f"{name}.norm2", 1e-6)
        self.attention = attention(w, [f"{name}.attention.{part}" for part in PARTS], 6)
        self.up, self.down = w.dense(f"{name}.up"), w.dense(f"{name}.down")

    def forward(self, x: Tensor) -> Tensor:
        return self.feed_forward(x + self.attention(self.norm1(x), causal=True))

    def feed_forward(self, x: Tensor) -> Tensor:
        return x + self.down(functional.gelu(self.up(self.norm2(x)), approximate="tanh"))


class Gpt(nn.Module):
    def __init__(self, w: Weights) -> None:
        super().__init__()
        self.embed, self.position = w.embed("embed.embedding"), w.embed("position.embedding")
        self.blocks = nn.ModuleList(GptBlock(w, f"blocks.{i}") for i in range(3))
        self.norm = w.norm("norm", 1e-6)

    def forward(self, tokens: Tensor) -> Tensor:
        x = self.embed(tokens) + self.position(torch.arange(tokens.shape[1]))
        for block in self.blocks:
            x = block(x)
        return functional.linear(self.norm(x), self.embed.weight)


class GptStep(Gpt):
    def forward(self, token: Tensor, place: Tensor, *cache: Tensor) -> tuple[Tensor, ...]:  # type: ignore[override]
        x = self.embed(token)[:, None] + self.position(place)
        written: list[Tensor] = []
        for i, block in enumerate(self.blocks):
            y, kept = step(block.attention, block.norm1(x), place, cache[2 * i : 2 * i + 2])
            x = block.feed_forward(x + y)
            written += kept
        return functional.linear(self.norm(x), self.embed.weight)[:, 0], *written


def step(
    layer: SelfAttention, x: Tensor, place: Tensor, cache: tuple[Tensor, ...]
) -> tuple[Tensor, list[Tensor]]:
    """Attention of one new position, which is written into the cache."""
    q, k, v = (
        part(x).unflatten(-1, (layer.heads, -1)).transpose(1, 2)
        for part in (layer.query, layer.key, layer.value)
    )
    kept = [old.index_copy(2, place.reshape(1).long(), new) for old, new in zip(cache, (k, v), strict=True)]
    visible = (torch.arange(kept[0].shape[2]) <= place)[None, None, None]
    y = functional.scaled_dot_product_attention(q, *kept, attn_mask=visible)
    return layer.out(y.transpose(1, 2).flatten(2)), kept


def gpt_prefill(w: Weights) -> Twin:
    return Twin(Gpt(w))


def gpt_decode(w: Weights) -> Twin:
    return Twin(GptStep(w), heads_first, heads_first)


HEADS, GROUPS, HEAD, DEPTH = 8, 2, 32, 2


def rotate(x: Tensor, places: Tensor) -> Tensor:
    """Rotary embedding of [B, heads, T, HEAD]."""
    frequencies = 10000.0 ** (-torch.arange(HEAD // 2, dtype=torch.float32) / (HEAD // 2))
    angles = places[:, None].float() * frequencies
    cos, sin = torch.cat([angles.cos()] * 2, -1), torch.cat([angles.sin()] * 2, -1)
    a, b = x.chunk(2, -1)
    return x * cos + torch.cat([-b, a], -1) * sin


class LlamaLayer(nn.Module):
    def __init__(self, w: Weights, name: str) -> None:
        super().__init__()
        self.norm1, self.norm2 = w.rms(f"{name}.attention_norm", 1e-5), w.rms(f"{name}.mlp_norm", 1e-5)
        self.wq, self.wk, self.wv, self.wo = (w.dense(f"{name}.{part}") for part in ("wq", "wk", "wv", "wo"))
        self.gate, self.up, self.down = (w.dense(f"{name}.{part}") for part in ("gate", "up", "down"))

    def project(self, x: Tensor, places: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        h = self.norm1(x)
        q, k, v = (part(h).unflatten(-1, (-1, HEAD)).transpose(1, 2) for part in (self.wq, self.wk, self.wv))
        return rotate(q, places), rotate(k, places), v

    def finish(self, x: Tensor, y: Tensor) -> Tensor:
        x = x + self.wo(y.transpose(1, 2).flatten(2))
        h = self.norm2(x)
        return x + self.down(functional.silu(self.gate(h)) * self.up(h))


class Llama(nn.Module):
    def __init__(self, w: Weights) -> None:
        super().__init__()
        self.embed, self.norm, self.head = w.embed("embed"), w.rms("norm", 1e-5), w.dense("head")
        self.layers = nn.ModuleList(LlamaLayer(w, f"layers.{i}") for i in range(DEPTH))

    def forward(self, tokens: Tensor) -> Tensor:
        x, places = self.embed(tokens), torch.arange(tokens.shape[1])
        for layer in self.layers:
            q, k, v = layer.project(x, places)
            y = functional.scaled_dot_product_attention(q, k, v, is_causal=True, enable_gqa=True)
            x = layer.finish(x, y)
        return self.head(self.norm(x))


class LlamaStep(Llama):
    def forward(self, token: Tensor, place: Tensor, *cache: Tensor) -> tuple[Tensor, ...]:  # type: ignore[override]
        x, places = self.embed(token)[:, None], place.reshape(1)
        written: list[Tensor] = []
        for i, layer in enumerate(self.layers):
            q, k, v = layer.project(x, places)
            keys = cache[2 * i].index_copy(2, places.long(), k)
            values = cache[2 * i + 1].index_copy(2, places.long(), v)
            visible = (torch.arange(keys.shape[2]) <= place)[None, None, None]
            y = functional.scaled_dot_product_attention(q, keys, values, attn_mask=visible, enable_gqa=True)
            x = layer.finish(x, y)
            written += [keys, values]
        return self.head(self.norm(x))[:, 0], *written


def llama_prefill(w: Weights) -> Twin:
    return Twin(Llama(w))


def llama_decode(w: Weights) -> Twin:
    return Twin(LlamaStep(w), heads_first, heads_first)


class Mixture(nn.Module):
    def __init__(self, w: Weights) -> None:
        super().__init__()
        self.norm1, self.norm2 = w.rms("norm1", 1e-5), w.rms("norm2", 1e-5)
        self.attention = attention(
            w, [f"attention/{part}" for part in ("query", "key", "value", "linear")], 4
        )
        self.router, self.head = w.dense("router"), w.dense("head")
        self.up, self.down = w.parameter("~.up"), w.parameter("~.down")

    def forward(self, x: Tensor) -> Tensor:
        x = x + self.attention(self.norm1(x))
        h = self.norm2(x)
        chosen, index = self.router(h).topk(2, -1)
        hot = functional.one_hot(index, self.up.shape[0]).to(h.dtype)
        gates = torch.einsum("btk,btke->bte", chosen.softmax(-1), hot)
        y = functional.silu(torch.einsum("btd,edh->ebth", h, self.up))
        y = torch.einsum("ebth,ehd->ebtd", y, self.down)
        return self.head(x + torch.einsum("ebtd,bte->btd", y, gates))


def moe(w: Weights) -> Twin:
    return Twin(Mixture(w))
