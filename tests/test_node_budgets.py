"""Every model of the benchmark's zoo against a graph of the same network written by hand.

A hand-written graph is what one would build from ONNX's own operators for ONNX Runtime: a MatMul and an Add for a
linear layer on more than two axes, Gemm on two, native normalization, Gelu and Attention, transposes around
convolutions of a channels-last program only at the ends. Ours may have a tenth more nodes.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from functools import cache
from typing import Any

import pytest

from benchmarks.zoo_models import ZOO, network
from onnxproof import to_onnx

SLACK = 1.1


@dataclass(frozen=True)
class Budget:
    """Nodes of the hand-written graph, bodies included.

    Attributes:
        derivation: how they add up.
        more: nodes that we have beyond it, and ``why``.
    """

    nodes: int
    derivation: str
    more: int = 0
    why: str = ""


MASKED = "attention with a mask is MatMul, Softmax, MatMul"
IDS = "JAX gives NaN, or leaves out, what an index out of range would read or write"
BUDGETS = {
    "mlp": Budget(8, "4 Gemm, 3 Relu, LogSoftmax"),
    "mixer": Budget(71, "stem 4, 4 blocks of 9 (tokens) + 7 (channels), LN, mean, Gemm"),
    "resnet": Budget(38, "Transpose, Conv, Relu, MaxPool, 6 blocks of 5, 2 projections, mean, Gemm"),
    "convnext": Budget(
        71, "Transpose, Conv, Transpose, LN, 6 blocks of 10, LN and Conv between 2 Transposes, 3"
    ),
    "mobilenet": Budget(51, "Transpose, Conv, HardSwish, 4 blocks of 11, 2 Add, mean, Gemm"),
    "unet": Budget(
        77,
        "10 of Conv, group norm 5, Relu; 2 pools, 2 ConvTranspose, 2 Concat, Conv",
        9,
        "three operators more for each pool, so that NaN and -inf are JAX's; weights of ones",
    ),
    "vit": Budget(80, "Conv, Reshape, Transpose, Concat, Add, 4 blocks of 18, Slice, LN, Gemm"),
    "diffusion": Budget(
        125,
        "time 8, entry 2, 4 blocks of 20, 2 skips, silu 2, down 1, attention 18, up 2, Concat 1, exit 9",
        16,
        "resize by Gather; weights of ones",
    ),
    "bert": Budget(62, "Gather, Add, LN, mask 2, 3 blocks of 18, pooler 3", 42, f"{MASKED}; {IDS}"),
    "gpt_prefill": Budget(58, "Gather, Add, 3 blocks of 18, LN, MatMul", 64, f"{MASKED}; {IDS}"),
    "gpt_decode": Budget(
        84, "embedding 4, places 3, mask 2, 3 blocks of 24, LN, MatMul, Squeeze", 45, f"{MASKED}; {IDS}"
    ),
    "llama_prefill": Budget(
        37, "Gather, 2 layers of 9 (attention) + 8 (SwiGLU), RMS norm, MatMul", 49, f"{MASKED}; {IDS}"
    ),
    "llama_decode": Budget(
        60, "embedding 2, angles 5, mask 2, places 2, 2 layers of 15 + 8, 3", 37, f"{MASKED}; {IDS}"
    ),
    "moe": Budget(
        32,
        "attention block 11, router 8, experts 7, their sum 3, Add, head 2",
        5,
        "each contraction keeps its batch axes apart",
    ),
    "lstm": Budget(
        9,
        "Gather, Transpose, LSTM, Squeeze, LSTM, Squeeze, Transpose, MatMul, Add",
        6,
        f"{IDS}; biases as a column of ones",
    ),
    "gru": Budget(4, "Transpose, GRU, Squeeze, Gemm", 2, "biases as a column of ones"),
    "mamba": Budget(
        34,
        "RMS norm, in 2, Conv 5, parameters 5, discretization 7, Scan of 3, 3 after it, out 7",
        5,
        "transposes where the Scan's own axes would do; a first state that is not stored",
    ),
    "policy": Budget(
        16, "Cast, Div, Transpose, 3 of Conv, Relu; Reshape, Gemm, Relu, Gemm, Softmax, Gemm, Reshape"
    ),
    "gnn": Budget(18, "2 Gather, 2 Concat, 2 MLPs of 5, Unsqueeze, ScatterND, 2 Add", 7, IDS),
    "ode": Budget(40, "Scan, Transpose; in the body 4 stages of 6, 6 to step, 7 to combine, Identity"),
    "heat": Budget(21, "Loop; in the body 4 rolls of 3, 7 of arithmetic, Identity"),
}


@cache
def operators(name: str) -> Counter[str]:
    """Operator types of our export, bodies included."""
    net = network(name)
    found: Counter[str] = Counter()

    def count(nodes: Any) -> None:
        for node in nodes:
            found[node.op_type] += 1
            for a in node.attribute:
                count(a.g.node)

    count(to_onnx(net.fn, net.specs, model_name=name).graph.node)
    return found


def test_every_model_has_a_budget() -> None:
    assert list(BUDGETS) == list(ZOO)


@pytest.mark.parametrize("name", ZOO)
def test_nodes(name: str) -> None:
    budget, found = BUDGETS[name], operators(name)
    total = found.total()
    assert bool(budget.more) == bool(budget.why)
    assert total <= max(budget.nodes * SLACK, budget.nodes + budget.more), (total, dict(found))


def test_transposes_of_a_channels_last_network() -> None:
    assert operators("resnet")["Transpose"] <= 2
    assert operators("mobilenet")["Transpose"] <= 2


@pytest.mark.parametrize(
    ("name", "operator", "uses"),
    [
        ("vit", "LayerNormalization", 9),
        ("vit", "Gelu", 4),
        ("vit", "Attention", 4),
        ("bert", "LayerNormalization", 7),
        ("bert", "Gelu", 3),
        ("gpt_prefill", "LayerNormalization", 7),
        ("gpt_prefill", "Gelu", 3),
        ("llama_prefill", "RMSNormalization", 5),
        ("llama_prefill", "RotaryEmbedding", 4),
        ("moe", "RMSNormalization", 2),
        ("lstm", "LSTM", 2),
        ("gru", "GRU", 1),
        ("mobilenet", "HardSwish", 9),
    ],
)
def test_native_operators(name: str, operator: str, uses: int) -> None:
    found = operators(name)
    assert found[operator] == uses
    if operator.endswith("Normalization"):
        assert found["Sqrt"] + found["Reciprocal"] == 0, "a part of a normalization is left"
