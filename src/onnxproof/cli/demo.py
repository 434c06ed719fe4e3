"""``onnxproof demo``: run the demonstration and print it as a short table."""

from __future__ import annotations

import importlib.util
import json
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from onnxproof.cli.console import FAILED, progress
from onnxproof.errors import OnnxProofError

if TYPE_CHECKING:
    from rich.console import Console

    from onnxproof.demo.stages import Result

_NEEDED = {"flax": "flax", "optax": "optax", "sklearn": "scikit-learn"}


def run(folder: Path, *, as_json: bool) -> None:
    """Run the demonstration in ``folder``; exit with 1 when ONNX Runtime and JAX disagree."""
    missing = [package for module, package in _NEEDED.items() if importlib.util.find_spec(module) is None]
    if missing:
        raise OnnxProofError(
            f"the demo trains a model, for which {' and '.join(missing)} must be installed",
            way_out='Install them with: pip install "onnxproof[demo]"  (in a clone: pip install ".[demo]")',
        )
    with progress("importing JAX and Flax") as doing:
        from onnxproof.demo import stages

        result = stages.run(folder, doing)
    if as_json:
        typer.echo(json.dumps(_facts(result), indent=2))
    else:
        from rich.console import Console

        _show(result, Console())
    if not result.agrees:
        raise typer.Exit(FAILED)


def _facts(result: Result) -> dict[str, object]:
    from dataclasses import asdict

    return {
        "file": str(result.path),
        "bytes": result.bytes,
        "stages": [{"stage": s, "found": f, "seconds": round(t, 3)} for s, f, t in result.stages],
        "runs": [asdict(run) for run in result.runs],
        "accuracy": {"jax": result.accuracy_jax, "onnxruntime": result.accuracy_onnx},
        "agrees": result.agrees,
    }


def _show(result: Result, console: Console) -> None:
    from rich.table import Table

    from onnxproof.cli.console import human_bytes

    steps = Table(title="From JAX to ONNX Runtime", title_justify="left")
    steps.add_column("stage")
    steps.add_column("what was found", overflow="fold")
    steps.add_column("seconds", justify="right")
    for stage, found, seconds in result.stages:
        steps.add_row(stage, found, f"{seconds:.2f}")
    console.print(steps)
    errors = Table(title="Largest difference of a logit, held-out images", title_justify="left")
    for heading in ("batch", "ONNX to JAX", "ONNX to float64", "JAX to float64"):
        errors.add_column(heading, justify="right")
    for run in result.runs:
        values = (run.onnx_to_jax, run.onnx_to_float64, run.jax_to_float64)
        errors.add_row(str(run.batch), *(f"{v:.1e}" for v in values))
    console.print(errors)
    console.print(f"accuracy  {result.accuracy_jax:.2%} in JAX, {result.accuracy_onnx:.2%} in ONNX Runtime")
    console.print(f"file      {result.path}, {human_bytes(result.bytes)}", soft_wrap=True)
    if not result.agrees:
        console.print("ONNX Runtime and JAX disagree: please report this.", style="bold red")
        return
    console.print()
    console.print("Next: export a function of your own,", highlight=False)
    console.print("  onnxproof export your.module:fn -i x=B,16 -o model.onnx", markup=False, highlight=False)
    console.print(f"or open {result.path} in a viewer such as netron.app.", highlight=False, soft_wrap=True)
