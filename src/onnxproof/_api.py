"""``to_onnx``: argument checks, then the pipeline in order."""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any, Literal, overload

import onnx
import onnx_ir as ir

from onnxproof.artifact.save import ExportMode, save
from onnxproof.capture.trace import capture, x64
from onnxproof.errors import InputSpecError, OpsetError
from onnxproof.lowering.driver import load_rules, lower
from onnxproof.passes.pipeline import PassContext, run

MIN_OPSET, MAX_OPSET = 17, 28  # 28 is the newest that ONNX Runtime 1.32 takes
NormalizationMode = Literal["auto", "prefer_native", "force_decomposed"]


def to_onnx(
    fn: Callable[..., Any],
    inputs: Sequence[Any] | Mapping[str, Any],
    input_params: Mapping[str, Any] | None = None,
    model_name: str | None = None,
    opset: int = 23,
    *,
    return_mode: Literal["proto", "ir", "file"] = "proto",
    output_path: str | os.PathLike[str] | None = None,
    enable_double_precision: bool = False,
    input_names: Sequence[str] | None = None,
    output_names: Sequence[str] | None = None,
    export_mode: ExportMode = "standard",
    normalization_mode: NormalizationMode = "auto",
    target: str = "ort-cpu",
    constraints: Sequence[str] = (),
    drop_effects: Collection[str] = (),
    external_data: bool | None = None,
    strip_provenance: bool = False,
) -> Any:
    """Export ``fn`` to ONNX."""
    _check_choice("return_mode", return_mode, ("proto", "ir", "file"))
    _check_opset(opset)
    if return_mode == "file" and output_path is None:
        raise InputSpecError('return_mode="file" needs output_path')
    with x64(enable_double_precision):
        traced = capture(
            fn,
            inputs,
            known=load_rules(),
            input_params=input_params,
            names_in=input_names,
            names_out=output_names,
            constraints=constraints,
            drop_effects=drop_effects,
        )
    name = model_name or _name_of(fn)
    model = lower(traced.program, opset=opset, name=name, provenance=not strip_provenance)
    run(model, PassContext(opset, target, provenance=not strip_provenance))
    if return_mode == "ir":
        return model
    if return_mode == "file":
        assert output_path is not None
        return str(save(model, output_path, mode=export_mode, external_data=external_data)[0])
    return ir.to_proto(model)


def _name_of(fn: Callable[..., Any]) -> str:
    return getattr(fn, "__name__", None) or type(fn).__name__


def _check_choice(name: str, value: Any, choices: Sequence[str]) -> None:
    if value not in choices:
        raise InputSpecError(f"{name}={value!r}; it is one of {', '.join(map(repr, choices))}")


def _check_opset(opset: Any) -> None:
    if not isinstance(opset, int) or not MIN_OPSET <= opset <= MAX_OPSET:
        raise OpsetError(
            f"opset={opset!r} is out of range", way_out=f"Use an integer from {MIN_OPSET} to {MAX_OPSET}."
        )
