"""What half precision, 8 and 4 bits cost in accuracy and save in bytes: writes the table of docs/quantize.md.

Run as ``python -m benchmarks.precision``. ``digits`` is trained, and its cases are images that it has not seen; the
other networks are those of ``benchmarks.zoo_models``, whose weights are drawn. Nothing depends on the machine but
for what ONNX Runtime's kernels round, and no time is measured.
"""

from __future__ import annotations

import argparse
import tempfile
from collections.abc import Iterator
from pathlib import Path

import jax
import numpy as np

import onnxproof
from benchmarks.page import DOCS, write
from benchmarks.zoo_models import network
from onnxproof.cli.console import human_bytes
from onnxproof.errors import OnnxProofError
from onnxproof.precision.modes import MODES
from onnxproof.precision.narrow import Narrowed

PAGE = DOCS / "quantize.md"
NETWORKS = ("mlp", "resnet", "vit", "bert", "llama_prefill", "lstm", "moe")
CASES = 3
Arrays = list[np.ndarray]


def digits(folder: Path) -> tuple[Path, dict[str, Arrays]]:
    """The classifier of the demo, and a bundle of it; images that it was trained with, for calibration."""
    from onnxproof.demo.digits import load, train

    data = load()
    model = train(data)
    path = onnxproof.to_onnx(model, [("B", 8, 8, 1)], return_mode="file", output_path=folder / "digits.onnx")
    onnxproof.verify(model, path, {"held-out": [data.held_images]}, bundle_path=folder / "digits.evidence")
    return folder / "digits.evidence", {"training": [data.images[:200]]}


def zoo(name: str, folder: Path) -> tuple[Path, dict[str, Arrays]]:
    """A network of the zoo, a bundle of it, and other inputs of the same kind for calibration."""
    net = network(name)
    path = onnxproof.to_onnx(net.fn, net.specs, return_mode="file", output_path=folder / f"{name}.onnx")
    feeds = [_like(net.feed, seed) for seed in range(2 * CASES)]
    cases = {f"case-{i}": feed for i, feed in enumerate(feeds[:CASES])}
    record = onnxproof.verify(
        net.fn, path, cases, bundle_path=folder / f"{name}.evidence", atol=1e-4, rtol=1e-4
    )
    if record.failure is not None:
        raise SystemExit(f"{name} itself fails: {record.failure}")
    return folder / f"{name}.evidence", {f"more-{i}": feed for i, feed in enumerate(feeds[CASES:])}


def _like(feed: tuple[np.ndarray, ...], seed: int) -> Arrays:
    """The feed itself, then others: floats drawn anew, integers of the same range in another order."""
    rng = np.random.default_rng(seed)
    if seed == 0:
        return list(feed)
    return [
        rng.normal(size=x.shape).astype(x.dtype)
        if x.dtype.kind == "f"
        else rng.permutation(x.ravel()).reshape(x.shape)
        for x in feed
    ]


def narrowed(name: str, folder: Path) -> Iterator[tuple[str, Narrowed | OnnxProofError]]:
    """Every mode of a network: what came of it, or why there is none."""
    bundle, more = digits(folder) if name == "digits" else zoo(name, folder)
    for mode in MODES:
        output = folder / f"{name}.{mode}.onnx"
        try:
            if mode in ("float16", "bfloat16"):
                yield mode, onnxproof.convert(bundle, output, mode)
            elif mode == "float16-weights":
                yield mode, onnxproof.convert(bundle, output, weights_only=True)
            else:
                calibration = more if mode == "int8-static" else None
                yield mode, onnxproof.quantize(bundle, output, mode, calibration=calibration)
        except OnnxProofError as err:
            yield mode, err


def row(name: str, mode: str, done: Narrowed | OnnxProofError) -> str:
    """A line of the table: the worst output stands for all."""
    if isinstance(done, OnnxProofError):
        return f"| {name} | {mode} | | | | | | none: {done.what.replace(str(PAGE.parent), '')} |"
    worst = max(done.losses, key=lambda loss: loss.of_scale)
    agreement = [loss.argmax_agreement for loss in done.losses if loss.argmax_agreement is not None]
    verdict = "passed" if done.record.failure is None else f"**{done.record.failure}**"
    return (
        f"| {name} | {mode} | {human_bytes(done.bytes_before)} | {done.bytes_after / done.bytes_before:.2f}"
        f" | {worst.of_scale:.1e} | {worst.rms:.1e} | {'' if worst.cosine is None else f'{worst.cosine:.6f}'}"
        f" | {f'{min(agreement):.1%}' if agreement else ''} | {verdict}, limit {done.limit:g} |"
    )


def main() -> None:
    """Measure, print as it goes, and put the table between the marks of the page."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*", default=["digits", *NETWORKS], help="networks to measure")
    parser.add_argument("--print", action="store_true", help="leave the page as it is")
    arguments = parser.parse_args()
    lines = [
        "| network | mode | bytes before | bytes after ÷ before | error ÷ largest value | root mean square"
        " | cosine | same arg-max | proof |",
        "|---|---|---:|---:|---:|---:|---:|---:|---|",
    ]
    for name in arguments.names:
        with tempfile.TemporaryDirectory() as folder:
            for mode, done in narrowed(name, Path(folder)):
                lines.append(row(name, mode, done))
                print(lines[-1], flush=True)
        jax.clear_caches()
    if not arguments.print:
        write("measured", "\n".join(lines), PAGE)


if __name__ == "__main__":
    main()
