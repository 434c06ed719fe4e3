"""``check``: run a file in a runtime and say of each clause whether it holds."""

from __future__ import annotations

import math
import os
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from onnxproof.contracts.clause import Clause, Finding, Unmet, holds
from onnxproof.contracts.contract import Contract
from onnxproof.contracts.errors import ContractError
from onnxproof.contracts.interface import Input
from onnxproof.contracts.subject import Domain, Subject
from onnxproof.evidence.profile import RuntimeSpec
from onnxproof.evidence.runtimes.process import RuntimeProcess
from onnxproof.evidence.tensors import Array

if TYPE_CHECKING:
    import onnx

SECONDS = 600.0
DEFAULT_RUNTIME = RuntimeSpec(
    name="onnxruntime",
    provider="CPUExecutionProvider",
    session={
        "intra_op_num_threads": 1,
        "inter_op_num_threads": 1,
        "graph_optimization_level": "ORT_ENABLE_ALL",
    },
)


@dataclass(frozen=True)
class Report:
    """What was found of each clause of a contract, in order."""

    contract: Contract
    findings: tuple[Finding, ...]

    @property
    def passed(self) -> bool:
        """Whether every clause holds."""
        return all(holds(c, f) for c, f in self)

    @property
    def broken(self) -> list[tuple[Clause, Finding]]:
        """The clauses that don't hold."""
        return [(c, f) for c, f in self if not holds(c, f)]

    def __iter__(self) -> Any:
        return zip(self.contract.clauses, self.findings, strict=True)

    def __str__(self) -> str:
        verdict = "kept" if self.passed else f"{len(self.broken)} of {len(self.findings)} clauses broken"
        head = f"{self.contract.name}: {verdict}"
        return "\n".join([head, *(line for c, f in self for line in _lines(c, f))])

    def require(self) -> Report:
        """This report, when the contract is kept.

        Raises:
            ContractError: it is not; every broken clause is named.
        """
        if not self.passed:
            lines = [line.strip() for c, f in self.broken for line in _lines(c, f)]
            raise ContractError(
                f"the contract {self.contract.name!r} is broken:\n  " + "\n  ".join(lines),
                way_out="Change what the model computes before it is exported, or the clause that asks too much.",
            )
        return self


def check(
    model: str | os.PathLike[str] | bytes | onnx.ModelProto,
    contract: Contract,
    *,
    inputs: Mapping[str, Sequence[Array]] | None = None,
    runtime: RuntimeSpec = DEFAULT_RUNTIME,
    seed: int = 0,
) -> Report:
    """Try every clause of a contract on a finished file.

    Args:
        model: path, bytes or ``ModelProto``.
        inputs: cases by name that values are looked at on, beside those that are drawn.
        runtime: where it runs; ONNX Runtime on the CPU with all optimizations by default.
        seed: of the inputs that are drawn.

    Raises:
        ContractError: the model can't be read or loaded.
    """
    from onnxproof.evidence.proof import place_model

    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "model.onnx"
        place_model(model, path, copy=False)
        return examine(path, contract, inputs or {}, runtime, seed=seed)


def examine(
    path: Path,
    contract: Contract,
    cases: Mapping[str, Sequence[Array]],
    runtime: RuntimeSpec,
    *,
    adapter: str | None = None,
    seed: int = 0,
    seconds: float = SECONDS,
    memory: int | None = None,
) -> Report:
    """:func:`check` of a file.

    Args:
        adapter: of a runtime that the caller wrote, as ``module:Class``.
        seconds, memory: bounds of loading, and of one run.
    """
    from onnxproof.evidence.model import parsed, unchecked

    model, unread = parsed(path)
    said = unchecked(model, unread)
    if model is None or said.inputs is None or said.outputs is None:
        raise ContractError(f"the model can't be read: {unread}", way_out="Give an ONNX file.")

    def worker(file: Path, session: Mapping[str, Any]) -> RuntimeProcess:
        process = RuntimeProcess(adapter or runtime.name)
        answer = process.load(file.resolve(), runtime.provider, session, seconds=seconds, memory=memory)
        if answer["answer"] != "loaded":
            process.stop()
            raise ContractError(
                f"{runtime.name} does not load the model: {' '.join(str(answer.get('error')).split())}",
                way_out="Run onnxproof verify on it first.",
            )
        return process

    domains = {c.name: Domain(c.low, c.high) for c in contract.clauses if isinstance(c, Input)}
    with tempfile.TemporaryDirectory() as scratch, worker(path, runtime.session) as process:
        subject = Subject(
            model,
            said.inputs,
            said.outputs,
            process,
            Path(scratch),
            path=path,
            worker=worker,
            domains=domains,
            cases=cases,
            seed=seed,
            seconds=seconds,
        )
        return Report(contract, tuple(_tried(clause, subject) for clause in contract.clauses))


def _tried(clause: Clause, subject: Subject) -> Finding:
    try:
        return clause.examine(subject)
    except Unmet as err:
        return Finding(1, {}, (str(err)[:500],))


def _lines(clause: Clause, finding: Finding) -> list[str]:
    values = ", ".join(f"{name} {_number(value)}" for name, value in finding.values.items())
    mark = "ok    " if holds(clause, finding) else "BROKEN"
    nothing = ["nothing was there to look at"] if not finding.examined else []
    return [
        f"  {mark} {clause.demand()}" + (f" ({values})" if values else ""),
        *(f"         {offence}" for offence in (*finding.offences, *nothing)),
    ]


def _number(value: float) -> str:
    return str(value) if math.isnan(value) else f"{value:.6g}"
