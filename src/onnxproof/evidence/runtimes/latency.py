"""How long ONNX Runtime takes: to load a model, for its first run, and for those after it."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from onnxproof.errors import ConformanceError
from onnxproof.evidence.runtimes.ort import to_ort
from onnxproof.evidence.runtimes.recommended import session_options

if TYPE_CHECKING:
    import numpy as np

    Array = np.ndarray[Any, Any]

MIN_RUNS, MAX_RUNS = 5, 10_000


@dataclass(frozen=True, slots=True)
class Times:
    """Seconds of the first run, then the median, the 90th percentile and the number of those after it."""

    first: float
    median: float
    p90: float
    runs: int


def load(model: str, *, threads: int, recommended: bool) -> tuple[Any, float]:
    """A session of a model on the CPU, and the seconds that it took to load.

    Args:
        threads: within an operator; 0 leaves that to ONNX Runtime.

    Raises:
        ConformanceError: ONNX Runtime refuses the model.
    """
    import onnxruntime as ort

    options = session_options() if recommended else ort.SessionOptions()
    options.intra_op_num_threads = threads
    options.log_severity_level = 3
    began = time.perf_counter()
    try:
        session = ort.InferenceSession(model, options, providers=["CPUExecutionProvider"])
    except Exception as err:  # ONNX Runtime raises classes of its own, one for each status code
        raise ConformanceError(f"ONNX Runtime does not load the model: {err}") from err
    return session, time.perf_counter() - began


def time_session(session: Any, inputs: Mapping[str, Array], seconds: float) -> Times:
    """Run for about ``seconds``, on inputs that are in ONNX Runtime's hands already.

    Raises:
        ConformanceError: ONNX Runtime fails on them.
    """
    feed = {name: to_ort(array) for name, array in inputs.items()}
    names = [o.name for o in session.get_outputs()]
    try:
        return timed(lambda: session.run_with_ort_values(names, feed), seconds)
    except Exception as err:  # ONNX Runtime raises classes of its own, one for each status code
        raise ConformanceError(f"ONNX Runtime fails on these inputs: {err}") from err


def timed(call: Callable[[], Any], seconds: float) -> Times:
    """Call once, then again and again for about ``seconds``."""
    first = _once(call)
    taken: list[float] = []
    while len(taken) < MIN_RUNS or (sum(taken) < seconds and len(taken) < MAX_RUNS):
        taken.append(_once(call))
    return Times(first, statistics.median(taken), _percentile(taken, 0.9), len(taken))


def _once(call: Callable[[], Any]) -> float:
    began = time.perf_counter()
    call()
    return time.perf_counter() - began


def _percentile(values: Sequence[float], part: float) -> float:
    ordered = sorted(values)
    return ordered[min(int(part * len(ordered)), len(ordered) - 1)]
