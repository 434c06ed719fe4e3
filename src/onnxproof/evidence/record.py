"""The record of one proof: facts as they were found, and the verdicts that follow from them.

Fields marked *derived* are what :func:`onnxproof.evidence.derive.settle` makes of the others. They are written
for readers; every reader makes them anew.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import Field, FiniteFloat, SerializerFunctionWrapHandler, model_serializer

from onnxproof.evidence import terms
from onnxproof.evidence.promises import ContractFacts

RECORD_FORMAT: Literal["onnxproof.record/1"] = "onnxproof.record/1"
REPORT_FORMAT: Literal["onnxproof.report/1"] = "onnxproof.report/1"

Sha256 = terms.Sha256
Name = terms.Name
Text = terms.Text
Count = terms.Count
Seconds = terms.Seconds
Error = terms.Error
Value = terms.Value
Dim = terms.Dim
Options = terms.Options
Status = terms.Status
Strict = terms.Strict

Stage = Literal["dependencies", "export", "check", "load", "parity"]
Level = Literal["executed", "structural", "none"]
Failure = Literal[
    "missing-dependency",
    "export-error",
    "state-changed",
    "checker-error",
    "hash-mismatch",
    "load-error",
    "mismatch",
    "input-contract",
    "runtime-error",
    "contract-violation",
]
Expect = Literal["match", "rejected"]
Answer = Literal["outputs", "invalid-argument", "error", "crash", "timeout", "memory", "not_run"]
Outcome = Literal[
    "match", "mismatch", "rejected", "accepted", "error", "crash", "timeout", "memory", "not_run"
]
LoadAnswer = Literal["loaded", "error", "crash", "timeout", "memory", "not_run"]
CaseName = Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9_.\-]{0,99}$")]
CaseKind = Literal["values", "width", "rank", "scalar", "dtype", "constraint"]
OracleKind = Literal["callable", "program", "module"]
Role = Literal["model", "external-data", "sidecar", "case", "trace"]

STAGES: tuple[Stage, ...] = ("dependencies", "export", "check", "load", "parity")


class Source(Strict):
    """The code that made the record; ``dirty`` and ``revision`` are None where nothing says."""

    revision: Annotated[str, Field(min_length=1, max_length=200)] | None
    origin: Literal["given", "git", "unknown"]
    dirty: bool | None
    onnxproof_version: Name


class Weights(Strict):
    """How weights were drawn."""

    generator: Name
    seed: Annotated[int, Field(ge=0, le=2**63 - 1)]
    distribution: Literal["normal"]
    std: Annotated[FiniteFloat, Field(gt=0)]


class FeedForwardConfig(Strict):
    """A feed-forward network of the reference profiles.

    Bounds are those of the reference: 64 hidden layers, 65,536 units a layer, 2^24 weights.
    """

    net: Literal["feed_fwd"]
    input_dim: Annotated[int, Field(ge=1, le=65536)]
    hidden_dims: Annotated[list[Annotated[int, Field(ge=1, le=65536)]], Field(max_length=64)]
    output_dim: Annotated[int, Field(ge=1, le=65536)]
    activation: Literal["relu", "tanh", "sigmoid", "gelu"]
    dropout: Annotated[FiniteFloat, Field(ge=0, lt=1)]
    weights: Weights
    weights_sha256: Sha256


class BuilderConfig(Strict):
    """A model that a function returns: ``module:function`` and its keyword arguments."""

    net: Literal["builder"]
    builder: Annotated[str, Field(pattern=r"^[A-Za-z_][\w.]*:[A-Za-z_]\w*$", max_length=512)]
    arguments: Options
    weights_sha256: Sha256 | None


class CallableConfig(Strict):
    """A callable that a user handed over, or a recorded answer; only its name is known."""

    net: Literal["callable"]
    name: Name
    reference: Literal["jax", "torch", "recorded", "onnx"]
    weights_sha256: Sha256 | None


Config = Annotated[FeedForwardConfig | BuilderConfig | CallableConfig, Field(discriminator="net")]


class Exporter(Strict):
    """Who wrote the file, with which options."""

    name: Name
    options: Options


class Opset(Strict):
    """The opset asked for, and those that the file imports (None until the file was read)."""

    requested: Annotated[int, Field(ge=1, le=1000)] | None
    model: dict[Name, Count] | None


class ArtifactFile(Strict):
    """One file of the bundle; ``path`` is relative to its folder, with ``/`` between parts."""

    path: Name
    role: Role
    bytes: Count
    sha256: Sha256


class Artifacts(Strict):
    """Every file of the bundle but the record itself."""

    directory: Name
    model: Name
    files: Annotated[list[ArtifactFile], Field(max_length=10_000)]


class Host(Strict):
    """The machine that the runtimes ran on."""

    cpu: Text
    cores: Count


class Runtime(Strict):
    """A runtime as it was asked for, its version, and the known limits that bear on this model."""

    name: Name
    version: Name | None
    provider: Name
    session: Options
    limits: list[Name]


class Placement(Strict):
    """How many nodes a provider took, as the runtime itself reports it."""

    provider: Name
    nodes: Count


class Execution(Strict):
    """What loading gave: the answer, providers and placement as reported, seconds, peak memory of the process."""

    load: LoadAnswer
    error: Text | None
    providers: list[Name]
    placement: list[Placement] | None
    load_seconds: Seconds | None
    peak_memory_bytes: Count | None


class Tensor(Strict):
    """Name, dtype (NumPy's or ml_dtypes' name) and concrete shape of an array."""

    name: Name
    dtype: Name
    shape: Annotated[list[Count], Field(max_length=64)]


class Port(Strict):
    """An input or output of the graph: dtype as ONNX names it, in lower case; names of dimensions as text."""

    name: Name
    dtype: Name
    shape: Annotated[list[Dim], Field(max_length=64)] | None


class Worst(Strict):
    """The element whose error is the largest part of what is allowed, on both sides and in float64."""

    index: list[Count]
    got: Value
    want: Value
    oracle: Value | None


class Ulp(Strict):
    """Quantiles of the distance in units of the last place, over elements that are finite on both sides."""

    p50: Error
    p90: Error
    p99: Error
    max: Error


class OracleErrors(Strict):
    """Errors of both sides against float64, over elements finite there."""

    runtime_max_abs: Error
    runtime_max_rel: Error
    reference_max_abs: Error
    reference_max_rel: Error


class LostNan(Strict):
    """Elements that are NaN in the reference and numbers in the runtime, and the excess over all others."""

    elements: Annotated[int, Field(ge=1, le=2**53)]
    excess: Error


class Output(Strict):
    """One output of one case. ``excess`` is the largest ratio of an error to what is allowed for it."""

    name: Name
    want: Tensor | None
    got: Tensor | None
    nonfinite: Count
    max_abs_error: Error | None
    max_rel_error: Error | None
    excess: Error | None
    lost_nan: LostNan | None
    worst: Worst | None
    ulp: Ulp | None
    oracle: OracleErrors | None


class InputCase(Strict):
    """One case in one runtime. *Derived*: outcome, passed, failure, max_abs_error, max_rel_error, limit.

    ``shapes`` are those that the profile lists, ``inputs`` the arrays as the graph takes them, ``shape`` that of
    the first; ``answer`` is what the runtime did; ``expect`` and the outputs make an outcome of it. ``oracle`` is
    what computed the outputs in float64: the callable, its traced program where it narrows its values, a module.
    """

    name: CaseName
    kind: CaseKind
    shape: Annotated[list[Count], Field(max_length=64)]
    seed: Annotated[int, Field(ge=0, le=2**63 - 1)] | None
    shapes: Annotated[list[Annotated[list[Count], Field(max_length=64)]], Field(max_length=1024)]
    inputs: Annotated[list[Tensor], Field(max_length=1024)]
    expect: Expect
    oracle: OracleKind | None
    answer: Answer
    outcome: Outcome
    passed: bool
    failure: Failure | None
    limit: Name | None
    max_abs_error: Error | None
    max_rel_error: Error | None
    outputs: Annotated[list[Output], Field(max_length=1024)]
    seconds: Seconds | None
    warm_seconds: Seconds | None
    detail: Text | None


class Run(Strict):
    """One more runtime, provider or optimization level. *Derived*: status, failure, level, and in its cases."""

    runtime: Runtime
    execution: Execution
    status: Status
    failure: Failure | None
    level: Level
    input_cases: Annotated[list[InputCase], Field(max_length=1024)]


class Tolerances(Strict):
    """An element matches within ``atol + rtol * |want|``; what is not finite is equal to itself, or refused."""

    rtol: Annotated[FiniteFloat, Field(ge=0)]
    atol: Annotated[FiniteFloat, Field(ge=0)]
    nonfinite: Literal["equal", "refused"]


class Policy(Strict):
    """Which inputs must be refused (those listed, or all that the signature forbids), and bounds of a run."""

    refusals: Literal["listed", "signature"]
    load_seconds: Annotated[FiniteFloat, Field(gt=0, le=86400)]
    case_seconds: Annotated[FiniteFloat, Field(gt=0, le=86400)]
    memory_bytes: Count | None


class ModelState(Strict):
    """What survived the export; None where it can't be told."""

    parameters: bool | None
    gradients: bool | None
    modes: bool | None


class ExportDetail(Strict):
    """What the exporter said."""

    warnings: Annotated[list[Text], Field(max_length=256)]
    error: Text | None


class ShapeInference(Strict):
    """Strict ONNX shape inference with data propagation."""

    status: Status
    error: Text | None


class CheckDetail(Strict):
    """What the file says of itself, and what the checker says of it."""

    opset: dict[Name, Count] | None
    ir_version: Count | None
    producer: Text | None
    inputs: list[Port] | None
    outputs: list[Port] | None
    checker_error: Text | None
    shape_inference: ShapeInference


class LoadDetail(Strict):
    """Providers of the first runtime, and every file that is not as recorded."""

    providers: list[Name]
    problems: Annotated[list[Text], Field(max_length=256)]


class ParityDetail(Strict):
    """*Derived*: how many cases there are over all runs, and how many compared values."""

    cases: Count
    compared: Count


class StageBase(Strict):
    """*Derived*: status and failure. ``detail`` is None where the stage did not run."""

    status: Status
    failure: Failure | None


class Dependencies(StageBase):
    """Versions of what the export and the runtimes need; None for what can't be imported."""

    detail: dict[Name, Name | None] | None


class Export(StageBase):
    detail: ExportDetail | None


class Check(StageBase):
    detail: CheckDetail | None


class Load(StageBase):
    detail: LoadDetail | None


class Parity(StageBase):
    detail: ParityDetail | None


class Stages(Strict):
    """The five stages in order."""

    dependencies: Dependencies
    export: Export
    check: Check
    load: Load
    parity: Parity

    def of(self, name: Stage) -> Dependencies | Export | Check | Load | Parity:
        """The stage of that name."""
        found: Dependencies | Export | Check | Load | Parity = getattr(self, name)
        return found


class Record(Strict):
    """The proof of one export. *Derived*: profile_sha256, status, failure, level, exit_code, digest, in contracts.

    The level is said of (runtime, provider, dtype), for all runs together; each of ``other_runs`` carries its
    own as well. ``contracts`` are what the file promises and whether it keeps that; a record without any has no
    such key. ``digest`` is the SHA-256 of the canonical text of all other fields.
    """

    format: Literal["onnxproof.record/1"]
    profile: Name
    profile_sha256: Sha256
    status: Literal["passed", "failed"]
    failure: Failure | None
    level: Level
    exit_code: Annotated[int, Field(ge=0, le=19)]
    source: Source
    config: Config
    exporter: Exporter
    opset: Opset
    artifacts: Artifacts
    versions: dict[Name, Name | None]
    host: Host
    runtime: Runtime
    execution: Execution
    dtype: Name
    input_cases: Annotated[list[InputCase], Field(max_length=1024)]
    other_runs: Annotated[list[Run], Field(max_length=64)]
    tolerances: Tolerances
    policy: Policy
    model_state: ModelState
    stages: Stages
    contracts: Annotated[list[ContractFacts], Field(min_length=1, max_length=64)] | None = None
    digest: Sha256

    @model_serializer(mode="wrap")
    def _without_none(self, handler: SerializerFunctionWrapHandler) -> dict[str, Any]:
        data: dict[str, Any] = handler(self)
        return {k: v for k, v in data.items() if k != "contracts" or v is not None}

    def as_dict(self) -> dict[str, Any]:
        """The record as JSON has it."""
        return self.model_dump(mode="json")


class Report(Strict):
    """Several records. *Derived*: status and exit_code, that of the first record that failed."""

    format: Literal["onnxproof.report/1"]
    status: Literal["passed", "failed"]
    exit_code: Annotated[int, Field(ge=0, le=19)]
    profiles: Annotated[list[Record], Field(max_length=1024)]

    def as_dict(self) -> dict[str, Any]:
        """The report as JSON has it."""
        return self.model_dump(mode="json")
