"""What the command costs before it works: processes timed in turn, medians, and their ratios.

Run as ``python -m benchmarks.startup``; ``--rounds`` and ``--output`` say how often and where. The rounds go through
all processes in turn, so that a busy machine is busy for each alike. Bytecode is compiled before, as pip does.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from benchmarks import page

SRC = Path(__file__).resolve().parent.parent / "src"
MODEL = """
import jax.numpy as jnp
import numpy as np

kernel, bias = np.ones((16, 32), np.float32), np.zeros(32, np.float32)


def model(x):
    return jnp.tanh(x @ kernel + bias)
"""
TRACE = "import jax, model; print(jax.make_jaxpr(model.model)(jax.ShapeDtypeStruct((3, 16), 'float32')))"  # the least
COMMAND = ("-m", "onnxproof")
PROCESSES = {
    "python": ("-c", "pass"),
    "import onnxproof": ("-c", "import onnxproof"),
    "onnxproof --help": (*COMMAND, "--help"),
    "onnxproof inspect": (*COMMAND, "inspect", "model.onnx"),
    "import jax, trace": ("-c", TRACE),
    "onnxproof export": (*COMMAND, "export", "model:model", "-i", "x=B,16", "-o", "model.onnx", "--no-prove"),
}
LIMITS = {  # what is measured, what it is held against (None for seconds), and the most that is wanted
    "import onnxproof": (None, 0.15),
    "onnxproof --help": (None, 0.4),
    "onnxproof export": ("import jax, trace", 1.5),
}


def measure(rounds: int) -> dict[str, float]:
    """The median of the seconds that each process takes."""
    seconds: dict[str, list[float]] = {name: [] for name in PROCESSES}
    with tempfile.TemporaryDirectory() as folder:
        Path(folder, "model.py").write_text(MODEL)
        env = {k: v for k, v in os.environ.items() if k != "PYTHONDONTWRITEBYTECODE"}
        env |= {"PYTHONPATH": str(SRC), "PYTHONPYCACHEPREFIX": str(Path(folder, "bytecode"))}
        for i in range(rounds + 1):
            for name in (
                reversed(PROCESSES) if i == 0 else PROCESSES
            ):  # the first compiles, and exports what is read
                began = time.perf_counter()
                subprocess.run([sys.executable, *PROCESSES[name]], cwd=folder, env=env, check=True,
                               stdout=subprocess.DEVNULL)  # fmt: skip
                if i > 0:
                    seconds[name].append(time.perf_counter() - began)
    return {name: statistics.median(values) for name, values in seconds.items()}


def main() -> None:
    """Measure and print; the exit code does not depend on the times."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--output", type=Path, help="write the figures as JSON")
    page.add_option(parser)
    options = parser.parse_args()
    found = measure(options.rounds)
    lines = ["| process | median | wanted |", "|---|---|---|"]
    for name, value in found.items():
        base, most = LIMITS.get(name, (None, None))
        wanted = "" if most is None else f"below {most:g} s"
        if base is not None:
            wanted = f"{value / found[base]:.2f} times `{base}`, below {most:g}"
        lines.append(f"| `{name}` | {value:.3f} s | {wanted} |")
    print("\n".join(lines))
    if options.write:
        page.write("startup", "\n".join([f"{page.conditions('jax', 'typer')}.", "", *lines]))
    if options.output is not None:
        facts = {"python": platform.python_version(), "machine": platform.machine(), "seconds": found}
        options.output.write_text(json.dumps(facts, indent=2) + "\n")


if __name__ == "__main__":
    main()
