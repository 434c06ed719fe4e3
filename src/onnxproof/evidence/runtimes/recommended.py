"""Options of ONNX Runtime sessions that make files faster; no value that is right depends on them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import onnxruntime

DENORMAL_AS_ZERO = "session.set_denormal_as_zero"  # onnxruntime_session_options_config_keys.h

# Entries of a session's configuration. Numbers below the least normal one are slow to compute with, and a masked
# softmax makes many of them; JAX flushes them to zero on the CPU.
RECOMMENDED: Mapping[str, str] = {DENORMAL_AS_ZERO: "1"}


def recommended_options() -> dict[str, str]:
    """Entries for a session's configuration, for any language that ONNX Runtime has an interface for.

    In C and C++ they go to ``AddConfigEntry``, in C# to ``AddSessionConfigEntry``, in JavaScript below ``extra``.
    """
    return dict(RECOMMENDED)


def session_options(*, threads: int | None = None) -> onnxruntime.SessionOptions:
    """Options for ``onnxruntime.InferenceSession`` on the CPU.

    ONNX Runtime sets denormals as zero for a whole process, when the first session of it is made: make that one with
    these options.

    Args:
        threads: threads within an operator; as many as ONNX Runtime likes when not given.

    Raises:
        ImportError: onnxruntime is not installed.
    """
    import onnxruntime as ort

    options = ort.SessionOptions()
    for name, value in RECOMMENDED.items():
        options.add_session_config_entry(name, value)
    if threads is not None:
        options.intra_op_num_threads = threads
    return options
