"""Which functions there are, and what the tables say of them."""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from types import ModuleType
from typing import Any

from tests.sweep import tables
from tests.sweep.call import Call

# In the order of the page. Modules within them that hold functions (distributions) count as theirs.
MODULES = (
    "jax.numpy",
    "jax.numpy.linalg",
    "jax.numpy.fft",
    "jax.lax",
    "jax.lax.linalg",
    "jax.nn",
    "jax.nn.initializers",
    "jax.random",
    "jax.image",
    "jax.ops",
    "jax.scipy.special",
    "jax.scipy.stats",
    "jax.scipy.linalg",
    "jax.scipy.signal",
    "jax.scipy.ndimage",
    "jax.scipy.fft",
    "jax.scipy.cluster.vq",
    "jax.scipy.integrate",
    "jax.scipy.interpolate",
    "jax.scipy.optimize",
    "jax.scipy.sparse.linalg",
    "jax.scipy.spatial.transform",
)


@dataclass(frozen=True)
class Function:
    """A public callable: the module that the page lists it under, and its name there (``norm.pdf``)."""

    module: str
    name: str

    @property
    def path(self) -> str:
        return f"{self.module}.{self.name}"

    def load(self) -> Callable[..., Any]:
        found: Any = importlib.import_module(self.module)
        for part in self.name.split("."):
            found = getattr(found, part)
        return found  # type: ignore[no-any-return]


def _public(module: ModuleType) -> Iterator[str]:
    for name in sorted(vars(module)):
        if not name.startswith("_"):
            value = getattr(module, name)
            if callable(value):
                yield name
            elif isinstance(value, ModuleType) and value.__name__ not in MODULES:
                yield from (f"{name}.{inner}" for inner in _public(value))


@cache
def functions() -> tuple[Function, ...]:
    """Every public callable of the installed JAX, in the order of the page."""
    return tuple(
        Function(module, name) for module in MODULES for name in _public(importlib.import_module(module))
    )


@dataclass(frozen=True)
class Tables:
    """What the tables say, by path.

    Attributes:
        calls: path → calls.
        apart: path → why the function is no computation on arrays.
        refused: path → why it can't be exported.
    """

    calls: Mapping[str, tuple[Call, ...]]
    apart: Mapping[str, str]
    refused: Mapping[str, str]


@cache
def load_tables() -> Tables:
    calls: dict[str, list[Call]] = {}
    apart: dict[str, str] = {}
    refused: dict[str, str] = {}
    for info in pkgutil.iter_modules(tables.__path__):
        table = importlib.import_module(f"{tables.__name__}.{info.name}")
        for module, rows in getattr(table, "CALLS", {}).items():
            for names, *of_row in rows:
                for name in names.split():
                    calls.setdefault(f"{module}.{name}", []).extend(of_row)
        for found, attribute in ((apart, "APART"), (refused, "REFUSED")):
            for module, reasons in getattr(table, attribute, {}).items():
                for reason, names in reasons.items():
                    found.update((f"{module}.{name}", reason) for name in names.split())
    return Tables({path: tuple(rows) for path, rows in calls.items()}, apart, refused)
