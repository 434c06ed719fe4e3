"""What a finished file promises to those who run it: names, shapes, bounds, rows that don't mix, state in and out.

A :class:`Contract` is a value: clauses that can be added, compared and written down. :func:`check` runs a file in a
runtime and says of each clause whether it holds. Neither JAX nor what exported the file is needed.
"""

from __future__ import annotations

from onnxproof.contracts.batch import Batch, IndependentRows, Repeatable
from onnxproof.contracts.check import Report, check
from onnxproof.contracts.clause import Clause, Finding, Limits
from onnxproof.contracts.contract import Contract
from onnxproof.contracts.errors import ContractError
from onnxproof.contracts.interface import Input, NoForbiddenInputs, NoRandomness, OnlyPorts, Output
from onnxproof.contracts.own import Own
from onnxproof.contracts.policy import Continuous, Discrete, policy
from onnxproof.contracts.state import State
from onnxproof.contracts.subject import Subject
from onnxproof.contracts.values import Bounds, Finite, Headroom, IndexRange, Monotone, SumsToOne
from onnxproof.contracts.written import find, read_toml

__all__ = [
    "Batch",
    "Bounds",
    "Clause",
    "Continuous",
    "Contract",
    "ContractError",
    "Discrete",
    "Finding",
    "Finite",
    "Headroom",
    "IndependentRows",
    "IndexRange",
    "Input",
    "Limits",
    "Monotone",
    "NoForbiddenInputs",
    "NoRandomness",
    "OnlyPorts",
    "Output",
    "Own",
    "Repeatable",
    "Report",
    "State",
    "Subject",
    "SumsToOne",
    "check",
    "find",
    "policy",
    "read_toml",
]
