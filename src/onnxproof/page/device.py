"""The record that a proof page saves: what a device's browser computed, held against the bundle once more.

The outputs are in it as bytes. Errors, outcomes and verdicts are *derived* from them and the bundle, by the same
functions as everywhere; a record that says otherwise is refused. It is the device's own statement: nothing in it
shows which machine computed the bytes.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import json
import math
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any, Literal

import numpy as np
from pydantic import Field, ValidationError

from onnxproof.errors import ConformanceError
from onnxproof.evidence import bundle
from onnxproof.evidence.court import concluded
from onnxproof.evidence.files import read_inside
from onnxproof.evidence.measure import measure
from onnxproof.evidence.profile import AD_HOC, builtin, problems_of
from onnxproof.evidence.record import (
    Answer,
    Count,
    Error,
    Execution,
    Failure,
    Host,
    InputCase,
    LoadAnswer,
    Name,
    Outcome,
    Output,
    Placement,
    Record,
    Run,
    Runtime,
    Seconds,
    Sha256,
    Status,
    Strict,
    Text,
)
from onnxproof.evidence.runtimes.web.wire import TYPES
from onnxproof.evidence.strict_json import StrictJsonError, parse
from onnxproof.evidence.tensors import Array, dtype_of
from onnxproof.evidence.validate import InvalidRecord

FORMAT: Literal["onnxproof.device/1"] = "onnxproof.device/1"
RUNTIMES: dict[str, str] = {"wasm": "ort-web-browser-wasm", "webgpu": "ort-web-browser-webgpu"}
MAX_BYTES = 256 * 2**20  # of the file; the outputs are in it
_SLACK = 1e-9  # of an error that is computed again: hypot of two languages may differ in the last digit


class DeviceOutput(Strict):
    """One output as little-endian bytes, in base64, compressed or not. *Derived*: the three errors."""

    name: Name
    dtype: Name
    shape: Annotated[list[Count], Field(max_length=64)]
    sha256: Sha256
    encoding: Literal["plain", "gzip"]
    data: Annotated[str, Field(max_length=MAX_BYTES)]
    max_abs_error: Error | None
    max_rel_error: Error | None
    excess: Error | None


class DeviceCase(Strict):
    """One case. *Derived*: outcome, failure, and in its outputs."""

    name: Name
    answer: Answer
    error: Text | None
    seconds: Seconds | None
    warm_seconds: Seconds | None
    outputs: Annotated[list[DeviceOutput], Field(max_length=1024)]
    outcome: Outcome
    failure: Failure | None


class Adapter(Strict):
    """The WebGPU adapter as the browser names it; ``software`` is the browser's own isFallbackAdapter."""

    vendor: Text
    architecture: Text
    device: Text
    description: Text
    software: bool


class DeviceRun(Strict):
    """One provider. *Derived*: status, failure, and in its cases."""

    provider: Literal["wasm", "webgpu"]
    version: Name
    threads: Annotated[int, Field(ge=1, le=1024)]
    adapter: Adapter | None
    load: LoadAnswer
    error: Text | None
    placement: Annotated[list[Placement], Field(max_length=16)] | None
    load_seconds: Seconds | None
    cases: Annotated[list[DeviceCase], Field(max_length=1024)]
    status: Status
    failure: Failure | None


class Device(Strict):
    """What the browser says of itself and its machine."""

    user_agent: Text
    platform: Text
    cores: Count
    cross_origin_isolated: bool


class Basis(Strict):
    """The bundle that was run: the digest of its record, and the hash of the model's file."""

    record: Sha256
    model: Sha256


class DeviceRecord(Strict):
    """What a page saves. *Derived*: status, and in its runs."""

    format: Literal["onnxproof.device/1"]
    onnxproof: Name
    saved: Annotated[str, Field(pattern=r"^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z$")]
    bundle: Basis
    device: Device
    runs: Annotated[list[DeviceRun], Field(min_length=1, max_length=2)]
    status: Literal["passed", "failed"]


def read_device_record(place: Path) -> DeviceRecord:
    """The record in a file, well-formed but not held against anything yet.

    Raises:
        InvalidRecord: it is no such record.
        ConformanceError: it can't be read.
    """
    try:
        data = read_inside(place.parent, place.name, MAX_BYTES)
    except OSError as err:
        raise ConformanceError(f"{str(place)!r} can't be read: {err.strerror or err}") from err
    try:
        return DeviceRecord.model_validate_json(json.dumps(parse(data, MAX_BYTES)))
    except StrictJsonError as err:
        raise InvalidRecord([err.what], str(place)) from err
    except ValidationError as err:
        raise InvalidRecord(problems_of(err), str(place)) from err


def judge(device: DeviceRecord, record: Record, folder: Path) -> list[Record]:
    """One record for each run of a device: the bundle's own, with what the device computed in place of its runs.

    Args:
        record: the bundle's, valid, its files unchanged.

    Raises:
        InvalidRecord: the device ran another bundle, or what it says does not follow from its outputs.
    """
    if problems := list(_basis_problems(device, record)):
        raise InvalidRecord(problems)
    judged = []
    for i, run in enumerate(device.runs):
        place = f"runs.{i}"
        outputs = [
            [decoded(o, f"{place}.cases.{j}.outputs.{k}") for k, o in enumerate(case.outputs)]
            for j, case in enumerate(run.cases)
        ]
        found = _record(run, outputs, device, record, folder)
        problems += _differences(run, found, place)
        judged.append(found)
    status = "failed" if any(r.status == "failed" for r in judged) else "passed"
    if device.status != status:
        problems.append(f"status: is {device.status!r}, but the runs give {status!r}")
    if problems:
        raise InvalidRecord(problems)
    return judged


def lines(device: DeviceRecord) -> list[str]:
    """The device and its runs in a few lines of text."""
    said = [f"a record of {device.saved} by {device.device.user_agent}, {device.device.cores} cores"]
    for run in device.runs:
        threads = f"{run.threads} thread{'s' * (run.threads > 1)}"
        where = threads if run.adapter is None else _adapter_words(run.adapter)
        said.append(f"  {RUNTIMES[run.provider]} {run.version}: {where}")
    said.append("  its outputs were compared again; which machine computed them is the device's own word")
    return said


def decoded(output: DeviceOutput, place: str = "output") -> Array:
    """The array of an output.

    Raises:
        InvalidRecord: its bytes are not those of its shape, dtype and hash.
    """
    if output.dtype not in TYPES:
        raise InvalidRecord([f"{place}.dtype: the browser has no tensors of {output.dtype!r}"])
    dtype = dtype_of(output.dtype)
    size = math.prod(output.shape) * dtype.itemsize
    if size > bundle.MAX_TENSOR_BYTES:
        raise InvalidRecord([f"{place}.shape: {size} bytes are too many"])
    try:
        raw = base64.b64decode(output.data, validate=True)
        if output.encoding == "gzip":
            reader = zlib.decompressobj(wbits=31)
            raw = reader.decompress(raw, size + 1)
    except (binascii.Error, ValueError, zlib.error) as err:
        raise InvalidRecord([f"{place}.data: can't be decoded: {err}"]) from err
    if len(raw) != size:
        raise InvalidRecord([f"{place}.data: is not the {size} bytes of {output.dtype}{output.shape}"])
    if hashlib.sha256(raw).hexdigest() != output.sha256:
        raise InvalidRecord([f"{place}.sha256: is not that of the bytes"])
    if dtype == np.bool_ and raw.strip(b"\x00\x01"):
        raise InvalidRecord([f"{place}.data: holds booleans that are neither 0 nor 1"])
    array: Array = np.frombuffer(raw, dtype.newbyteorder("<")).astype(dtype, copy=False)
    return array.reshape(output.shape)


def _adapter_words(adapter: Adapter) -> str:
    names = [n for n in (adapter.vendor, adapter.architecture, adapter.device, adapter.description) if n]
    return f"{'software adapter' if adapter.software else 'adapter'} {' '.join(names) or 'without a name'}"


def _basis_problems(device: DeviceRecord, record: Record) -> Iterator[str]:
    model = next(f.sha256 for f in record.artifacts.files if f.role == "model")
    if device.bundle.record != record.digest:
        yield f"bundle.record: the device ran the bundle {device.bundle.record}, this is {record.digest}"
    if device.bundle.model != model:
        yield f"bundle.model: the device ran the model {device.bundle.model}, this is {model}"
    if len({run.provider for run in device.runs}) != len(device.runs):
        yield "runs: a provider is there twice"
    want = [c.name for c in record.input_cases]
    for i, run in enumerate(device.runs):
        if [c.name for c in run.cases] != want:
            yield f"runs.{i}.cases: are not the cases of the bundle, each once and in their order"
        if (run.adapter is None) != (run.provider == "wasm"):
            yield f"runs.{i}.adapter: goes with WebGPU and with nothing else"
        if run.load == "not_run":
            yield f"runs.{i}.load: the model was not loaded"
        if run.provider == "wasm" and run.threads > 1 and not device.device.cross_origin_isolated:
            yield f"runs.{i}.threads: no browser has {run.threads} on a page that is not isolated"
        for j, (case, known) in enumerate(zip(run.cases, record.input_cases, strict=False)):
            if (case.answer == "not_run") == (run.load == "loaded"):
                yield f"runs.{i}.cases.{j}.answer: a case is run exactly when the model was loaded"
            if bool(case.outputs) != (case.answer == "outputs" and known.expect == "match"):
                yield f"runs.{i}.cases.{j}.outputs: do not go with the answer {case.answer!r}"


def _record(
    run: DeviceRun, outputs: list[list[Array]], device: DeviceRecord, record: Record, folder: Path
) -> Record:
    session: dict[str, Any] = {"threads": run.threads}
    if run.adapter is not None:
        session |= {"adapter": _adapter_words(run.adapter)[:4000], "software_adapter": run.adapter.software}
    cases = [
        _case(case, known, arrays, record, folder)
        for case, known, arrays in zip(run.cases, record.input_cases, outputs, strict=True)
    ]
    # What ships is known by its settings, and these are other runtimes.
    profile = AD_HOC if record.profile in builtin() else record.profile
    record = record.model_copy(
        update={
            "host": Host(cpu=device.device.user_agent, cores=device.device.cores),
            "profile": profile,
            "contracts": None,  # were held against what another runtime computes
        }
    )
    heard = Run(
        runtime=Runtime(
            name=RUNTIMES[run.provider],
            version=run.version,
            provider=run.provider,
            session=session,
            limits=[],
        ),
        execution=Execution(
            load=run.load,
            error=run.error,
            providers=[run.provider],
            placement=run.placement,
            load_seconds=run.load_seconds,
            peak_memory_bytes=None,
        ),
        status="not_run",
        failure=None,
        level="none",
        input_cases=cases,
    )
    return concluded(record, [heard], [], ran=run.load == "loaded")


def _case(case: DeviceCase, known: InputCase, got: list[Array], record: Record, folder: Path) -> InputCase:
    outputs: list[Output] = []
    if case.answer == "outputs" and known.expect == "match":
        want = bundle.read_tensors(folder, record.artifacts, known.name, "output")
        oracle = bundle.read_tensors(folder, record.artifacts, known.name, "oracle")
        for i in range(max(len(got), len(want))):
            name = want[i][0] if i < len(want) else case.outputs[i].name
            sides = (
                got[i] if i < len(got) else None,
                want[i][1] if i < len(want) else None,
                oracle[i][1] if i < len(oracle) else None,
            )
            outputs.append(measure(name, *sides, record.tolerances))
    return known.model_copy(
        update={
            "answer": case.answer,
            "outputs": outputs,
            "seconds": case.seconds,
            "warm_seconds": case.warm_seconds,
            "detail": case.error,
        }
    )


def _differences(run: DeviceRun, found: Record, place: str) -> Iterator[str]:
    """Where what a page derived is not what follows from the outputs and the bundle."""
    for i, (case, want) in enumerate(zip(run.cases, found.input_cases, strict=True)):
        at = f"{place}.cases.{i}"
        for j, (output, true) in enumerate(zip(case.outputs, want.outputs, strict=False)):
            for key in ("max_abs_error", "max_rel_error", "excess"):
                said, computed = getattr(output, key), getattr(true, key)
                if not _close(said, computed):
                    yield f"{at}.outputs.{j}.{key}: is {said!r}, but the outputs give {computed!r}"
        for key in ("outcome", "failure"):
            said, computed = getattr(case, key), getattr(want, key)
            if said != computed:
                yield f"{at}.{key}: is {said!r}, but the facts give {computed!r}"
    for key in ("status", "failure"):
        if getattr(run, key) != getattr(found, key):
            yield f"{place}.{key}: is {getattr(run, key)!r}, but the facts give {getattr(found, key)!r}"


def _close(said: Error | None, computed: Error | None) -> bool:
    if isinstance(said, float) and isinstance(computed, float):
        return math.isclose(said, computed, rel_tol=_SLACK)
    return type(said) is type(computed) and said == computed
