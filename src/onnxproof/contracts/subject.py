"""The file under a contract: its signature, its nodes, inputs drawn for it, and what a runtime makes of them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from onnxproof.contracts.clause import Unmet
from onnxproof.evidence.dimensions import dimension
from onnxproof.evidence.record import Port
from onnxproof.evidence.runtimes.process import RuntimeProcess
from onnxproof.evidence.tensors import Array, decode, dtype_of, encode

if TYPE_CHECKING:
    import onnx

ROWS = 32  # of the inputs that values are looked at on
MAX_WHOLE = 2**30  # bytes of a model that is written once more, with its values inside as outputs
SMALL_SIZE = 3  # of dimensions that vary and are not the batch
SCALES = (1.0, 10.0, 1000.0)  # of standard normal inputs, where nothing bounds them
_NUMPY_NAMES = {"float": "float32", "double": "float64"}


@dataclass(frozen=True, slots=True)
class Domain:
    """What an input may hold; None is no bound."""

    low: float | None = None
    high: float | None = None


@dataclass(frozen=True, slots=True)
class Probe:
    """Inputs that were run, and what came out; ``where`` is how findings name them."""

    where: str
    feed: Mapping[str, Array]
    results: Mapping[str, Array]


class Subject:
    """A model that is loaded in a process of its own.

    Args:
        model: what the file says of itself.
        inputs, outputs: the ports of the graph.
        process: where the model is loaded.
        scratch: a folder for tensors on their way.
        path: the file itself.
        worker: loads another file, with its own session options.
        domains: of inputs, by name.
        cases: inputs that the caller gave, by name of the case.
        seconds: what one run may take.
    """

    def __init__(
        self,
        model: onnx.ModelProto,
        inputs: Sequence[Port],
        outputs: Sequence[Port],
        process: RuntimeProcess,
        scratch: Path,
        *,
        path: Path,
        worker: Callable[[Path, Mapping[str, Any]], RuntimeProcess],
        domains: Mapping[str, Domain],
        cases: Mapping[str, Sequence[Array]],
        seed: int,
        seconds: float,
    ) -> None:
        self.model, self.inputs, self.outputs = model, tuple(inputs), tuple(outputs)
        self._process, self._scratch = process, scratch
        self._path, self._worker = path, worker
        self._domains, self._cases, self._seed, self._seconds = domains, cases, seed, seconds

    def input(self, name: str) -> Port:
        """The input of that name, or :class:`Unmet`."""
        return _port(name, self.inputs, "input")

    def output(self, name: str) -> Port:
        """The output of that name, or :class:`Unmet`."""
        return _port(name, self.outputs, "output")

    def run(self, feed: Mapping[str, Array]) -> dict[str, Array]:
        """Outputs by name.

        Raises:
            Unmet: the runtime refuses the inputs, fails, crashes or takes too long.
        """
        arrays = self._run(self._process, feed)
        return {port.name: array for port, array in zip(self.outputs, arrays, strict=True)}

    def run_variant(
        self, graph: onnx.ModelProto, feeds: Sequence[Mapping[str, Array]]
    ) -> Iterator[list[Array]]:
        """Outputs of another graph with the same inputs, without graph optimizations, for each of ``feeds``."""
        import onnx

        place = self._scratch / "variant.onnx"
        onnx.save(graph, place)
        with self._worker(place, {"graph_optimization_level": "ORT_DISABLE_ALL"}) as process:
            for feed in feeds:
                yield self._run(process, feed)

    def whole(self) -> onnx.ModelProto:
        """The model with the tensors that it keeps in other files.

        Raises:
            Unmet: it is too large to be written once more.
        """
        import onnx

        from onnxproof.evidence.model import external_files

        beside = [self._path.parent / name for name in external_files(self.model)]
        if sum(p.stat().st_size for p in (self._path, *beside) if p.is_file()) > MAX_WHOLE:
            raise Unmet("the model is too large for its values inside to be looked at")
        return onnx.load(self._path)

    def _run(self, process: RuntimeProcess, feed: Mapping[str, Array]) -> list[Array]:
        paths = []
        for i, port in enumerate(self.inputs):
            path = self._scratch / f"input_{i}.pb"
            path.write_bytes(encode(port.name, np.asarray(feed[port.name])))
            paths.append(path)
        answer = process.run(paths, self._scratch, seconds=self._seconds, again=False)
        if answer["answer"] != "outputs":
            shapes = ", ".join(f"{p.name} {list(feed[p.name].shape)}" for p in self.inputs)
            raise Unmet(f"the runtime fails on {shapes}: {' '.join(str(answer.get('error')).split())}"[:500])
        return [decode(Path(p).read_bytes())[1] for p in answer["outputs"]]

    @cached_property
    def batch(self) -> str:
        """The name of the dimension that rows lie along: the first of the first input that has one that varies.

        Raises:
            Unmet: there is none.
        """
        name = self._batch
        if name is None:
            said = ", ".join(f"{p.name!r} of {p.shape}" for p in self.inputs) or "no inputs"
            raise Unmet(f"there is no batch: no first dimension varies among {said}")
        return name

    @property
    def batched(self) -> bool:
        """Whether there is a dimension that rows lie along."""
        return self._batch is not None

    @cached_property
    def _batch(self) -> str | None:
        firsts = (p.shape[0] for p in self.inputs if p.shape)
        return next((d for d in firsts if isinstance(d, str) and d), None)

    def axis(self, port: Port) -> int | None:
        """Where the batch lies in a port, or None."""
        if port.shape is None or not self.batched or self.batch not in port.shape:
            return None
        return port.shape.index(self.batch)

    def draw(self, rows: int, *, scale: float = 1.0, salt: int = 0) -> dict[str, Array]:
        """Inputs of ``rows`` rows: uniform within a domain that is bounded, otherwise standard normal times ``scale``.

        Integers without a domain are 0 or 1, or any byte in an image of uint8.
        """
        rng = np.random.default_rng([self._seed, rows, salt])
        return {port.name: self._drawn(port, rows, scale, rng) for port in self.inputs}

    def shape(self, port: Port, rows: int) -> tuple[int, ...]:
        """The shape of a port at ``rows`` rows; dimensions that are neither fixed nor the batch are small."""
        if port.shape is None:
            raise Unmet(f"{port.name!r} has no shape that inputs could be drawn for")
        batch = self.batch if self.batched else None
        return tuple(
            d if isinstance(d, int) else rows if d == batch else dimension(d, SMALL_SIZE) for d in port.shape
        )

    @cached_property
    def probes(self) -> list[Probe]:
        """Runs that values are looked at on: ordinary, large and extreme inputs, and those of the caller."""
        drawn = [(f"inputs of scale {s:g}", self.draw(ROWS, scale=s)) for s in SCALES]
        drawn += [(f"all inputs {name}", feed) for name, feed in self._corners()]
        names = [p.name for p in self.inputs]
        drawn += [
            (f"case {name!r}", dict(zip(names, arrays, strict=True))) for name, arrays in self._cases.items()
        ]
        return [Probe(where, feed, self.run(feed)) for where, feed in drawn]

    def values(self, output: str) -> Iterator[tuple[str, Array]]:
        """An output of every probe, with the probe's name."""
        self.output(output)
        for probe in self.probes:
            yield probe.where, probe.results[output]

    def _corners(self) -> Iterator[tuple[str, dict[str, Array]]]:
        base = self.draw(2)
        for name in ("zero", "least", "greatest"):
            feed = {}
            for port, array in ((p, base[p.name]) for p in self.inputs):
                domain = self._domains.get(port.name, Domain())
                value: float | None = (
                    0.0 if name == "zero" else domain.low if name == "least" else domain.high
                )
                low, high = (
                    -np.inf if domain.low is None else domain.low,
                    np.inf if domain.high is None else domain.high,
                )
                inside = value is not None and low <= value <= high
                feed[port.name] = np.full(array.shape, value, array.dtype) if inside else array
            yield name, feed

    def _drawn(self, port: Port, rows: int, scale: float, rng: np.random.Generator) -> Array:
        shape, domain = self.shape(port, rows), self._domains.get(port.name, Domain())
        dtype = dtype_of(numpy_name(port.dtype))
        if dtype.kind in "fcV":
            if domain.low is not None and domain.high is not None:
                wide: Any = rng.uniform(domain.low, domain.high, shape)
            else:
                wide = np.clip(rng.normal(size=shape) * scale, domain.low, domain.high)
            return np.asarray(wide).astype(dtype)
        if dtype.kind == "b":
            return rng.integers(0, 2, shape).astype(bool)
        low = int(domain.low) if domain.low is not None else 0
        most = 255 if dtype.name == "uint8" else low + 1
        return rng.integers(
            low, int(domain.high) if domain.high is not None else most, shape, endpoint=True
        ).astype(dtype)


def numpy_name(dtype: str) -> str:
    """NumPy's name of a dtype that ONNX calls ``float`` or ``double``."""
    return _NUMPY_NAMES.get(dtype, dtype)


def graphs(model: onnx.ModelProto) -> Iterator[tuple[str, Sequence[onnx.NodeProto]]]:
    """The nodes of the graph, of every graph inside a node, and of every function, each with where it is."""
    stack: list[tuple[str, Sequence[onnx.NodeProto]]] = [("the graph", model.graph.node)]
    stack += [(f"function {f.name}", f.node) for f in model.functions]
    while stack:
        where, nodes = stack.pop()
        yield where, nodes
        for node in nodes:
            for attribute in node.attribute:
                inner = [attribute.g, *attribute.graphs] if attribute.type in (5, 10) else []
                stack += [(f"{where}, inside {node.op_type} {node.name}".rstrip(), g.node) for g in inner]


def _port(name: str, ports: Sequence[Port], what: str) -> Port:
    for port in ports:
        if port.name == name:
            return port
    there = ", ".join(repr(p.name) for p in ports) or "none"
    raise Unmet(f"there is no {what} {name!r}; there are: {there}")
