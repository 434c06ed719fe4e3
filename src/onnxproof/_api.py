"""``to_onnx``: argument checks, then the pipeline in order."""

from __future__ import annotations

import gc
import os
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Literal, TypedDict, Unpack, overload

import onnx
import onnx_ir as ir

from onnxproof import targets
from onnxproof.artifact.describe import Metadata, describe
from onnxproof.artifact.save import ExportMode, save
from onnxproof.capture.layout import with_channels_first
from onnxproof.capture.program import Eqn, Program, Var
from onnxproof.capture.trace import capture, x64
from onnxproof.capture.unroll import UnrollScans
from onnxproof.errors import InputSpecError, OpsetError
from onnxproof.lowering.driver import load_rules, lower
from onnxproof.passes.pipeline import PassContext, run
from onnxproof.passes.placement import note_fallbacks
from onnxproof.passes.scopes import functions_of_scopes
from onnxproof.passes.weight_inputs import weights_as_inputs
from onnxproof.raising import load_composites
from onnxproof.raising.composite import raise_composites
from onnxproof.raising.gate import NormalizationMode

MIN_OPSET, MAX_OPSET = 17, 28  # 28 is the newest that ONNX Runtime 1.32 takes
Functions = Literal["marked", "scopes"]
Weights = Literal["embedded", "external", "inputs"]
Inputs = Sequence[Any] | Mapping[str, Any]


class Options(TypedDict, total=False):
    """Keyword arguments that every form of :func:`to_onnx` takes; it describes them."""

    enable_double_precision: bool
    input_names: Sequence[str] | None
    output_names: Sequence[str] | None
    inputs_as_nchw: Sequence[int] | None
    outputs_as_nchw: Sequence[int] | None
    export_mode: ExportMode
    normalization_mode: NormalizationMode
    target: str | None
    constraints: Sequence[str]
    drop_effects: Collection[str]
    unroll_scans: UnrollScans
    external_data: bool | None
    strip_provenance: bool | None
    functions: Functions
    metadata: Metadata | Mapping[str, str] | None
    weights: Weights | None


@overload
def to_onnx(
    fn: Callable[..., Any],
    inputs: Inputs,
    input_params: Mapping[str, Any] | None = ...,
    model_name: str | None = ...,
    opset: int = ...,
    *,
    return_mode: Literal["proto"] = ...,
    **options: Unpack[Options],
) -> onnx.ModelProto: ...
@overload
def to_onnx(
    fn: Callable[..., Any],
    inputs: Inputs,
    input_params: Mapping[str, Any] | None = ...,
    model_name: str | None = ...,
    opset: int = ...,
    *,
    return_mode: Literal["ir"],
    **options: Unpack[Options],
) -> ir.Model: ...
@overload
def to_onnx(
    fn: Callable[..., Any],
    inputs: Inputs,
    input_params: Mapping[str, Any] | None = ...,
    model_name: str | None = ...,
    opset: int = ...,
    *,
    return_mode: Literal["file"],
    output_path: str | os.PathLike[str],
    **options: Unpack[Options],
) -> str: ...
def to_onnx(
    fn: Callable[..., Any],
    inputs: Inputs,
    input_params: Mapping[str, Any] | None = None,
    model_name: str | None = None,
    opset: int = 23,
    *,
    return_mode: Literal["proto", "ir", "file"] = "proto",
    output_path: str | os.PathLike[str] | None = None,
    enable_double_precision: bool = False,
    input_names: Sequence[str] | None = None,
    output_names: Sequence[str] | None = None,
    inputs_as_nchw: Sequence[int] | None = None,
    outputs_as_nchw: Sequence[int] | None = None,
    export_mode: ExportMode = "standard",
    normalization_mode: NormalizationMode = "auto",
    target: str | None = None,
    constraints: Sequence[str] = (),
    drop_effects: Collection[str] = (),
    unroll_scans: UnrollScans = "auto",
    external_data: bool | None = None,
    strip_provenance: bool | None = None,
    functions: Functions = "marked",
    metadata: Metadata | Mapping[str, str] | None = None,
    weights: Weights | None = None,
) -> onnx.ModelProto | ir.Model | str:
    """Export a JAX callable to ONNX.

    Args:
        fn: anything that JAX can trace: a function, a jitted function, a module object, a partial.
        inputs: one entry for each positional argument (or a mapping by name): a shape such as ``("B", 16)``,
            an array, a ``jax.ShapeDtypeStruct`` (strings allowed in its shape), or a pytree of these. Dimensions
            are integers, names, or expressions such as ``"2*T"``.
        input_params: keyword arguments. Arrays and specs become inputs; plain Python values are fixed.
        model_name: name of the graph; the callable's name by default.
        opset: ONNX opset, 17 to 28.
        return_mode: ``"proto"`` gives a ``ModelProto``, ``"ir"`` an ``onnx_ir.Model``, ``"file"`` writes to
            ``output_path`` and gives the path.
        enable_double_precision: trace with 64-bit types.
        input_names, output_names: one name for each tensor, pytrees flattened in JAX's order. By default names
            come from arguments and from paths in the result. Of a result with parts that are pytrees, such as
            ``(params, state, loss)``, ``output_names`` may name the parts: ``new_params`` gives
            ``new_params.layers.0.kernel``, beside the input ``params.layers.0.kernel``.
        inputs_as_nchw, outputs_as_nchw: positions of arrays that the model takes or gives with channels first
            where the callable has them last.
        export_mode: ``"web"`` writes one self-contained file; ``"standard"`` moves weights beyond 1.5 GiB to
            a file beside the model.
        normalization_mode: ``"auto"`` uses native normalization operators where they passed the accuracy gate,
            ``"prefer_native"`` wherever the schema allows, ``"force_decomposed"`` never.
        target: the runtime whose kernels the graph must fit: ``"ort-cpu"``; ``"ort-web-wasm"``, the default of
            ``export_mode="web"``; or ``"ort-web-webgpu"``, with which the metadata ``onnxproof.fallback`` lists the
            operators that run in WebAssembly.
        constraints: facts on dimensions, such as ``"T >= 2"``.
        drop_effects: kinds of effects to leave out: ``"debug"``, ``"checks"``.
        unroll_scans: ``"auto"`` spells out scans over stacked weights, such as the layers of a deep network, where
            that was measured to pay; ``"always"`` every scan of known length, ``"never"`` none.
        external_data: True or False to decide over the side file yourself.
        strip_provenance: leave out scopes, primitives and source lines; by default of ``export_mode="web"`` alone,
            since a public page has no use for the lines of your source.
        functions: ``"marked"`` makes ONNX functions of what :func:`onnxproof.onnx_function` marks, ``"scopes"`` also
            of blocks that repeat: scopes such as ``Net/Block_0`` and ``Net/Block_1`` whose operators are the same.
        metadata: what people read about the model: :class:`onnxproof.Metadata`, or texts by key.
        weights: ``"embedded"`` in the file, ``"external"`` beside it, or ``"inputs"``: inputs of the graph, by path,
            after those of the callable; nothing is folded into them. By size when not given.

    Raises:
        InputSpecError, NameCollision: inputs, outputs or options are not described well.
        TraceError, NestedTraceError: the callable can't be traced here.
        UnsupportedPrimitive, UnsupportedParam, UnsupportedDimension, UnsupportedDtype, EffectfulProgram: the
            program can't be exported faithfully.
        OpsetError, IllegalForTarget: the opset or the target lacks what the program needs.
        ArtifactError: the file can't be written.
    """
    _check_choice("return_mode", return_mode, ("proto", "ir", "file"))
    _check_choice("export_mode", export_mode, ("standard", "web"))
    _check_choice("normalization_mode", normalization_mode, ("auto", "prefer_native", "force_decomposed"))
    _check_choice("unroll_scans", unroll_scans, ("auto", "always", "never"))
    _check_choices("drop_effects", drop_effects, ("debug", "checks"))
    _check_choice("functions", functions, ("marked", "scopes"))
    if strip_provenance is None:
        strip_provenance = export_mode == "web" and functions != "scopes"
    if functions == "scopes" and strip_provenance:
        raise InputSpecError(
            'functions="scopes" goes by scopes, which strip_provenance leaves out',
            way_out="Give one of the two.",
        )
    _check_opset(opset)
    chosen = _target(target, export_mode, opset)  # what is wrong with it is said before anything is traced
    if return_mode == "file" and output_path is None:
        raise InputSpecError(
            'return_mode="file" needs an output_path', way_out='For example output_path="model.onnx".'
        )
    external_data = _check_weights(weights, external_data, export_mode, return_mode)
    model = build(
        fn,
        inputs,
        input_params,
        model_name or name_of(fn),
        opset,
        double=enable_double_precision,
        names=(input_names, output_names),
        nchw=(inputs_as_nchw or (), outputs_as_nchw or ()),
        normalization=normalization_mode,
        constraints=constraints,
        drop_effects=drop_effects,
        unroll_scans=unroll_scans,
        context=PassContext(opset, chosen, provenance=not strip_provenance),
        weight_inputs=weights == "inputs",
    ).model
    if functions == "scopes":
        functions_of_scopes(model)
    if metadata is not None:
        describe(model, metadata)
    if return_mode == "ir":
        return model
    if return_mode == "file" and output_path is not None:
        return str(save(model, output_path, mode=export_mode, external_data=external_data)[0])
    return ir.to_proto(model)


@dataclass(frozen=True, slots=True)
class Built:
    """A finished model, the Program it came from, the values that its Vars became, and what computes each Var."""

    model: ir.Model
    program: Program
    values: Mapping[Var, ir.Value]
    primitives: Mapping[Var, Eqn]


def build(
    fn: Callable[..., Any],
    inputs: Inputs,
    input_params: Mapping[str, Any] | None,
    name: str,
    opset: int,
    *,
    double: bool,
    names: tuple[Sequence[str] | None, Sequence[str] | None],
    nchw: tuple[Sequence[int], Sequence[int]],
    normalization: NormalizationMode,
    constraints: Sequence[str],
    drop_effects: Collection[str],
    context: PassContext,
    unroll_scans: UnrollScans = "auto",
    weight_inputs: bool = False,
) -> Built:
    """trace → raise → lower → passes."""
    load_composites()
    known = load_rules()
    with _collection_paused(), x64(double):
        traced = capture(
            fn,
            inputs,
            known=known,
            input_params=input_params,
            names_in=names[0],
            names_out=names[1],
            constraints=constraints,
            drop_effects=drop_effects,
            unroll_scans=unroll_scans,
        )
        program = with_channels_first(traced.program, *nchw)
        raised = raise_composites(program, opset=opset, normalization=normalization)
        lowered = lower(raised, opset=opset, name=name, provenance=context.provenance)
        model = lowered.model
        if traced.dropped:
            model.metadata_props["onnxproof.dropped_effects"] = "; ".join(traced.dropped)
        if weight_inputs:
            weights_as_inputs(model, (lowered.values[v] for v, p in raised.params.items() if p.name))
        run(model, context)
        note_fallbacks(model, context)
    makers = {v: eqn for eqn in raised.walk() for v in eqn.outputs}
    return Built(model, program, lowered.values, makers)


@contextmanager
def _collection_paused() -> Iterator[None]:
    """Pause the cyclic garbage collector: its full passes over a growing graph cost time that is not linear."""
    paused = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if paused:
            gc.enable()


def name_of(fn: Callable[..., Any]) -> str:
    name = getattr(fn, "__name__", None)
    return name if isinstance(name, str) and name.isidentifier() else type(fn).__name__


def _check_choice(name: str, value: Any, choices: Sequence[str]) -> None:
    if value not in choices:
        raise InputSpecError(f"{name}={value!r}; it is one of {', '.join(map(repr, choices))}")


def _check_choices(name: str, values: Collection[str], choices: Sequence[str]) -> None:
    if isinstance(values, str):
        raise InputSpecError(f"{name}={values!r} is a string", way_out=f"Give a tuple: {name}=({values!r},).")
    for value in values:
        _check_choice(name, value, choices)


def _check_weights(
    weights: Weights | None, external_data: bool | None, export_mode: ExportMode, return_mode: str
) -> bool | None:
    """Where ``weights`` go, as ``external_data`` says it."""
    if weights is None:
        return external_data
    _check_choice("weights", weights, ("embedded", "external", "inputs"))
    if external_data is not None:
        raise InputSpecError(
            f"weights={weights!r} and external_data={external_data} say where weights go, both",
            way_out="Give one of the two.",
        )
    if weights == "external" and (export_mode == "web" or return_mode == "proto"):
        what = 'export_mode="web" writes' if export_mode == "web" else 'return_mode="proto" gives'
        raise InputSpecError(f'weights="external" needs a file beside the model, and {what} one piece')
    return weights == "external"


def _check_opset(opset: Any) -> None:
    if not isinstance(opset, int) or isinstance(opset, bool) or not MIN_OPSET <= opset <= MAX_OPSET:
        raise OpsetError(
            f"opset={opset!r} is out of range",
            way_out=f"Use an integer from {MIN_OPSET} to {MAX_OPSET}.",
        )


def _target(name: str | None, export_mode: ExportMode, opset: int) -> str:
    """The target's name: as given, or that of the mode."""
    chosen = name if name is not None else targets.WEB if export_mode == "web" else targets.DEFAULT
    found = targets.get(chosen)
    if opset > found.max_opset:
        raise OpsetError(
            f"opset={opset!r} is beyond what {chosen} ({found.runtime}) loads",
            way_out=f"Use an opset up to {found.max_opset}.",
        )
    return chosen
