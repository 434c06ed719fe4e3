"""``onnxproof bench``: what a model costs in ONNX Runtime, beside the JAX callable that it came from."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from onnxproof.cli.app import Debug, Json, app
from onnxproof.cli.console import progress, reporting
from onnxproof.cli.examples import examples
from onnxproof.cli.places import there

if TYPE_CHECKING:
    from onnxproof.inspection.bench import Row, Sizes


@app.command(epilog=examples("bench"))
def bench(
    model: Annotated[
        Path, typer.Argument(metavar="MODEL|BUNDLE", help="An ONNX file, or a bundle.", show_default=False)
    ],
    batch: Annotated[
        list[int] | None,
        typer.Option(
            min=1, help="A size of the first dimension that varies. Default: 1.", show_default=False
        ),
    ] = None,
    threads: Annotated[
        list[int] | None,
        typer.Option(
            min=0, help="Threads within an operator. Default: ONNX Runtime's choice.", show_default=False
        ),
    ] = None,
    size: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME=SIZE", help="The size of another dimension that varies. Default: 16."),
    ] = None,
    against: Annotated[
        str | None,
        typer.Option(
            metavar="MODULE:NAME",
            help="Time this callable under jax.jit too, on the same arrays.",
            show_default=False,
        ),
    ] = None,
    double: Annotated[bool, typer.Option("--double", help="Let the callable compute in 64 bits.")] = False,
    seconds: Annotated[float, typer.Option(min=0.01, help="How long each setting runs when warm.")] = 1.0,
    seed: Annotated[int, typer.Option(help="Seed of the inputs drawn.")] = 0,
    as_json: Json = False,
    debug: Debug = False,
) -> None:
    """Time a model in ONNX Runtime: loading, the first run, and warm runs.

    With ONNX Runtime's own options, and with those of onnxproof.session_options().
    """
    with reporting(debug):
        there(model, "MODEL|BUNDLE")
        with progress(f"reading {model}") as doing:
            from onnxproof.cli.explain import sizes as parsed_sizes
            from onnxproof.evidence.model import unchecked
            from onnxproof.inspection import bench as timing
            from onnxproof.inspection.reading import place_of, read

            ports = unchecked(read(place_of(model)), None).inputs or []
            settings = timing.sizes_of(ports, batch or (), parsed_sizes(size or ()))
            rows = []
            for row in timing.bench(model, settings, threads or (0,), seconds, seed):
                rows.append(row)
                doing(f"{row.options} options, {row.threads or 'any number of'} threads: done")
            if against is not None:
                doing(f"running {against} in JAX")
                rows += _of_jax(against, ports, settings, seconds, seed, double=double)
        if as_json:
            typer.echo(json.dumps({"model": str(model), "rows": [r.as_dict() for r in rows]}, indent=2))
        else:
            typer.echo("\n".join(lines(rows)))


def _of_jax(
    target: str, ports: Sequence[Any], settings: Sequence[Sizes], seconds: float, seed: int, *, double: bool
) -> Iterator[Row]:
    """Time a callable under ``jax.jit``; it takes the arrays in the order of the graph's inputs."""
    import time

    import jax

    from onnxproof.cli.target import build, guarded, load
    from onnxproof.evidence.runtimes.latency import timed
    from onnxproof.inspection.bench import OTHERS, Row
    from onnxproof.inspection.drawing import draw

    with jax.enable_x64(double):
        fn = build(load(target), target, [port.name for port in ports])
        for setting in settings:
            arrays = [jax.device_put(a) for a in draw(ports, OTHERS, seed, setting.all)]
            began = time.perf_counter()
            compiled = guarded(f"compiling {target}", _compiling(jax.jit(fn), arrays))
            compiling = time.perf_counter() - began
            times = guarded(f"running {target}", lambda: timed(_call(compiled, arrays), seconds))  # noqa: B023
            yield Row(
                "jax", "", 0, setting.batch, compiling, times.first, times.median, times.p90, times.runs
            )


def _compiling(jitted: Any, arrays: Sequence[Any]) -> Callable[[], Any]:
    return lambda: jitted.lower(*arrays).compile()


def _call(compiled: Any, arrays: Sequence[Any]) -> Callable[[], Any]:
    import jax

    return lambda: jax.block_until_ready(compiled(*arrays))


def lines(rows: Sequence[Row]) -> Iterator[str]:
    """The times as a table, in milliseconds."""
    heads = ("runner", "options", "threads", "batch", "load", "first", "median", "p90", "runs")
    table: list[tuple[str, ...]] = [heads]
    for row in rows:
        times = (f"{1e3 * t:.3g}" for t in (row.load, row.first, row.median, row.p90))
        table.append(
            (
                row.runner,
                row.options or "jit",
                str(row.threads or "any"),
                "fixed" if row.batch is None else str(row.batch),
                *times,
                str(row.runs),
            )
        )
    widths = [max(len(line[i]) for line in table) for i in range(len(heads))]
    for line in table:
        words = (
            f"{w:{n}}" if i < 2 else f"{w:>{n}}" for i, (w, n) in enumerate(zip(line, widths, strict=True))
        )
        yield "  ".join(words)
    yield "times in milliseconds; load is the session's, or tracing and compiling; median and p90 are of warm runs"
