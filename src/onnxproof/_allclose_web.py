"""``allclose_onnxruntime_web``: one model file, one set of inputs, in Node or in a browser and here."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

import numpy as np

from onnxproof._allclose import against_jax, concrete
from onnxproof.errors import ConformanceError, InputSpecError
from onnxproof.evidence.compare import difference, report
from onnxproof.evidence.proof import place_model
from onnxproof.evidence.runtimes.ort import OrtSession
from onnxproof.evidence.runtimes.process import RuntimeProcess
from onnxproof.evidence.tensors import decode, encode

Array = np.ndarray[Any, Any]
Runner = Literal["node", "browser"]
Provider = Literal["wasm", "webgpu"]

RUNTIMES: Mapping[tuple[str, str], str] = {
    ("node", "wasm"): "ort-web-node-wasm",
    ("browser", "wasm"): "ort-web-browser-wasm",
    ("browser", "webgpu"): "ort-web-browser-webgpu",
}
_WEB, _CPU = "ONNX Runtime Web", "ONNX Runtime on the CPU"


def allclose_onnxruntime_web(
    model: Any,
    inputs: Sequence[Any],
    rtol: float | None = 1e-5,
    atol: float | None = 1e-5,
    *,
    runner: Runner = "node",
    provider: Provider = "wasm",
    threads: int = 1,
    fn: Callable[..., Any] | None = None,
    input_params: Mapping[str, Any] | None = None,
    enable_double_precision: bool = False,
    inputs_as_nchw: Sequence[int] | None = None,
    outputs_as_nchw: Sequence[int] | None = None,
    package: str | os.PathLike[str] | None = None,
    browser: str | os.PathLike[str] | None = None,
    seconds: float = 600.0,
) -> tuple[bool, str]:
    """Run ``model`` in ONNX Runtime Web and compare with JAX, or with ONNX Runtime on the CPU where ``fn`` is None.

    Args:
        model: path, bytes or ``ModelProto``.
        inputs: concrete arguments; a shape tuple of integers stands for standard normal float32 values. With ``fn``
            its arguments, else the graph's inputs, of which complex ones may be given as such.
        rtol, atol: of inexact outputs, ``|got - want| <= atol + rtol * |want|``; by dtype where None. Other outputs
            have to be equal.
        runner: ``"node"``, or ``"browser"`` for Chromium, which playwright drives.
        provider: ``"wasm"``, or ``"webgpu"`` in a browser; a session that runs no node on WebGPU is an error.
        threads: of WebAssembly; another number in use is an error.
        fn: the callable that was exported, and as for :func:`onnxproof.allclose` ``input_params``,
            ``enable_double_precision``, ``inputs_as_nchw``, ``outputs_as_nchw``.
        package: the folder that ``npm install onnxruntime-web`` was run in; by default ``node_modules`` is looked for
            upwards from the working folder.
        browser: the browser to start; by default Chromium or one made of it, as it is called on the path.
        seconds: after which the other process is ended, for loading and for running.

    Returns:
        Whether all outputs match, and a message that names the worst output and index, both values, whom they were
        compared with, and what ran.

    Raises:
        InputSpecError: an input is not an array, or there is no such runner.
        ConformanceError: something that is needed is missing, or the model can't be loaded or run there.
        ArtifactError: there is no such file.
    """
    name = RUNTIMES.get((runner, provider))
    if name is None:
        known = ", ".join(f"runner={r!r}, provider={p!r}" for r, p in RUNTIMES)
        raise InputSpecError(f"runner={runner!r} has no provider={provider!r}", way_out=f"There are {known}.")
    args = [concrete(i, x) for i, x in enumerate(inputs)]
    arguments = {"package": package, "browser": browser if runner == "browser" else None}
    given = {key: os.fspath(value) for key, value in arguments.items() if value is not None}
    with tempfile.TemporaryDirectory() as folder, RuntimeProcess(name, given) as process:
        path = Path(folder) / "model.onnx"
        place_model(model, path, copy=True)
        ran = _loaded(process, path, provider, threads, seconds)

        def run(flat: Sequence[Array]) -> list[tuple[str, Array]]:
            return _outputs(process, Path(folder), flat, seconds)

        if fn is None:
            matches, text = _against_cpu(path, args, run, (rtol, atol))
        else:
            matches, text = against_jax(
                fn,
                args,
                run,
                _WEB,
                (rtol, atol),
                params=dict(input_params or {}),
                double=enable_double_precision,
                nchw=(inputs_as_nchw or (), outputs_as_nchw or ()),
            )
    return matches, f"{text}; {_WEB} is {ran}"


def _loaded(process: RuntimeProcess, path: Path, provider: str, threads: int, seconds: float) -> str:
    """Load a model; in a few words what it was loaded by."""
    identity = process.identify()
    if identity["answer"] == "missing":
        what, _, way_out = str(identity["error"]).removeprefix("Missing: ").partition(": ")
        raise ConformanceError(f"missing-dependency: {what}", way_out=way_out)
    _answered(identity, "identity")
    answer = process.load(path, provider, {"numThreads": threads}, seconds=seconds, memory=None)
    _answered(answer, "loaded")
    placed = answer["placement"] or {}
    nodes = ", ".join(f"{count} nodes on {name}" for name, count in sorted(placed.items()))
    where = answer["providers"][0] if provider == "webgpu" else f"{provider}, threads: {threads}"
    return f"{identity['version']}, {where}" + (f" ({nodes})" if len(placed) > 1 else "")


def _outputs(
    process: RuntimeProcess, folder: Path, inputs: Sequence[Array], seconds: float
) -> list[tuple[str, Array]]:
    paths = [folder / f"input_{i}.pb" for i in range(len(inputs))]
    for path, array in zip(paths, inputs, strict=True):
        path.write_bytes(encode(path.stem, np.asarray(array)))
    answer = process.run(paths, folder, seconds=seconds, again=False)
    _answered(answer, "outputs")
    return [decode(Path(place).read_bytes()) for place in answer["outputs"]]


def _answered(answer: Mapping[str, Any], wanted: str) -> None:
    if answer["answer"] != wanted:
        said = str(answer["error"]).removeprefix("NotLoaded: ")
        raise ConformanceError(f"{_WEB} does not {_DOES[wanted]}: {answer['answer']}: {said}")


_DOES = {"identity": "start", "loaded": "load the model", "outputs": "run on these inputs"}


def _against_cpu(
    path: Path,
    args: Sequence[Any],
    run: Callable[[Sequence[Array]], list[tuple[str, Array]]],
    tolerance: tuple[float | None, float | None],
) -> tuple[bool, str]:
    flat = [_pairs(np.asarray(a)) for a in args]
    session = OrtSession(os.fspath(path))
    want = session.run(flat)
    got = run(flat)
    results = [difference(g, w, *tolerance) for (_, g), w in zip(got, want, strict=True)]
    return all(r.matches for r in results), report(session.output_names, results, None, (_WEB, _CPU))


def _pairs(array: Array) -> Array:
    """A complex array as the graph takes it: real and imaginary parts behind each other."""
    return np.stack([array.real, array.imag], -1) if np.iscomplexobj(array) else array
