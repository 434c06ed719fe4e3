"""A table of the matrix: ``python -m tests.frameworks.report [-v] [PATTERN ...]``.

One line for each model: status, nodes, initializers, the largest error in units of the tolerance, and the
operators. A pattern selects lines by a part of ``framework-architecture``; ``-v`` also prints whole errors.
"""

from __future__ import annotations

import sys
from collections import Counter

import onnx

from tests.frameworks import matrix


def histogram(graph: onnx.GraphProto) -> Counter[str]:
    """Operators of a graph and of the graphs within."""
    found: Counter[str] = Counter()
    for node in graph.node:
        found[node.op_type] += 1
        for attribute in node.attribute:
            for inner in (attribute.g, *attribute.graphs):
                found += histogram(inner)
    return found


def line(framework: str, architecture: str) -> tuple[str, str]:
    """(status, rest of the line) of one model; the status is a word."""
    try:
        proto = matrix.exported(framework, architecture)
    except Exception as err:  # a report: whatever is raised is a line of it
        return type(err).__name__, str(err)
    ops = histogram(proto.graph)
    for function in proto.functions:
        ops.update(node.op_type for node in function.node)
    model = matrix.built(framework, architecture)
    names = {t.name for t in proto.graph.initializer}
    lost, unknown = matrix.lost_names(proto, model), matrix.unknown_names(proto, model.weights)
    try:
        onnx.checker.check_model(proto, full_check=True)
        worst = max(error for _, error in matrix.errors(model, matrix.session(proto)))
    except Exception as err:
        return type(err).__name__, f"{ops.total():4d} nodes  {err!s}"
    if worst > 1 or worst != worst:
        status = "mismatch"
    elif lost or unknown:
        return "names", f"lost: {', '.join(lost)}; unknown: {', '.join(unknown)}"
    else:
        status = "ok"
    shown = " ".join(f"{op}:{n}" if n > 1 else op for op, n in ops.most_common())
    return status, f"{ops.total():4d} nodes {len(names):3d} inits  error {worst:6.3f}  {shown}"


def main(arguments: list[str]) -> None:
    verbose = "-v" in arguments
    patterns = [a for a in arguments if a != "-v"]
    counts: Counter[str] = Counter()
    for architecture in matrix.ARCHITECTURES:
        for framework in matrix.FRAMEWORKS:
            name = f"{framework}-{architecture}"
            if patterns and not any(p in name for p in patterns):
                continue
            status, rest = line(framework, architecture)
            counts[status] += 1
            print(
                f"{architecture:12s} {framework:8s} {status:10s} {rest if verbose else _short(rest)}",
                flush=True,
            )
    print(", ".join(f"{n} {status}" for status, n in counts.most_common()))


def _short(text: str) -> str:
    return " ".join(text.split())[:400]


if __name__ == "__main__":
    main(sys.argv[1:])
