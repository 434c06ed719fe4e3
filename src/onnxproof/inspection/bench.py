"""What a model costs in ONNX Runtime, each setting in a process of its own.

One process for each: ONNX Runtime takes some options in the first session of a process only, and what one session
leaves in caches and thread pools is no part of the next one's time.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from onnxproof.errors import ConformanceError, InputSpecError
from onnxproof.inspection import apart
from onnxproof.inspection.drawing import draw, names_of
from onnxproof.inspection.reading import place_of, read

OTHERS = 16  # of a dimension that varies, where it is not the batch and no size is given
_START_SECONDS = 120.0


@dataclass(frozen=True, slots=True)
class Sizes:
    """The dimensions that vary, with a number for each."""

    batch: int | None  # None where no dimension varies
    all: dict[str, int]


@dataclass(frozen=True, slots=True)
class Row:
    """One setting: seconds to load, of the first run, and of the warm ones. ``threads`` 0 is ONNX Runtime's choice."""

    runner: str  # "onnxruntime" or "jax"
    options: str  # "default" or "recommended"; empty for JAX
    threads: int
    batch: int | None
    load: float  # JAX's: to trace and compile
    first: float
    median: float
    p90: float
    runs: int

    def as_dict(self) -> dict[str, Any]:
        return asdict(self)


def sizes_of(ports: Sequence[Any], batches: Sequence[int], given: dict[str, int]) -> list[Sizes]:
    """Sizes for each batch: the first dimension that varies is the batch.

    Raises:
        InputSpecError: a size is of a dimension that there is not, or nothing varies and a batch is given.
    """
    names = names_of(ports)
    unknown = sorted(set(given) - set(names))
    if unknown:
        raise InputSpecError(
            f"the model has no dimension {', '.join(unknown)}",
            way_out=f"It has {', '.join(names) or 'none'}.",
        )
    if not names:
        if batches:
            raise InputSpecError(
                "no dimension of the model varies, so it has one batch size", way_out="Leave --batch out."
            )
        return [Sizes(None, {})]
    others = {name: given.get(name, OTHERS) for name in names[1:]}
    return [Sizes(n, {names[0]: n, **others}) for n in batches or (given.get(names[0], 1),)]


def bench(
    model: Path, sizes: Sequence[Sizes], threads: Sequence[int], seconds: float, seed: int
) -> Iterator[Row]:
    """Time a model with ONNX Runtime's own options and with those that are recommended.

    Raises:
        ConformanceError: it does not load or run, or takes too long.
    """
    path = place_of(model)
    for count in threads:
        for options in ("default", "recommended"):
            request = {
                "model": str(path),
                "threads": count,
                "recommended": options == "recommended",
                "sizes": [s.all for s in sizes],
                "seconds": seconds,
                "seed": seed,
            }
            done = apart.run(__name__, request, _START_SECONDS + 20 * seconds * len(sizes))
            found = apart.facts(done)
            if done.returncode != 0 or "times" not in found:
                raise ConformanceError(f"{str(path)!r} can't be timed: {apart.last_words(done)}")
            for size, times in zip(sizes, found["times"], strict=True):
                yield Row("onnxruntime", options, count, size.batch, found["load"], **times)


def main() -> None:
    """In the process: load, run at each size, print the times."""
    from onnxproof.evidence.model import unchecked
    from onnxproof.evidence.runtimes.latency import load, time_session

    request = json.load(sys.stdin)
    ports = unchecked(read(Path(request["model"])), None).inputs or []
    try:
        session, seconds = load(
            request["model"], threads=request["threads"], recommended=request["recommended"]
        )
        times = []
        for sizes in request["sizes"]:
            arrays = draw(ports, OTHERS, request["seed"], sizes)
            feed = {port.name: array for port, array in zip(ports, arrays, strict=True)}
            times.append(asdict(time_session(session, feed, request["seconds"])))
    except (ConformanceError, InputSpecError) as err:
        sys.exit(" ".join(str(err).split()))
    print(json.dumps({"load": seconds, "times": times}))
