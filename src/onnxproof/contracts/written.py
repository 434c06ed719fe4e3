"""Contracts by name, as TOML, or as ``module:name``."""

from __future__ import annotations

import tomllib
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from onnxproof.contracts.clause import Clause, make
from onnxproof.contracts.contract import Contract
from onnxproof.contracts.errors import ContractError
from onnxproof.contracts.own import Own
from onnxproof.contracts.policy import Continuous, Discrete, policy

FORMAT = "onnxproof.contract/1"
NAMED: dict[str, Callable[[], Contract]] = {
    "policy-continuous": lambda: policy(Continuous()),
    "policy-discrete": lambda: policy(Discrete()),
}
MAX_BYTES = 2**20
Load = Callable[[str], Any]  # what finds ``module:name``


def find(text: str, load: Load) -> Contract:
    """The contract that ``text`` names: one that ships, a TOML file, or ``module:name``.

    Args:
        load: gives the object of ``module:name``, which is a contract or a function that returns one.

    Raises:
        ContractError: there is no such contract, or it is not whole.
    """
    if text in NAMED:
        return NAMED[text]()
    if text.endswith(".toml"):
        return read_toml(Path(text), load)
    if ":" not in text:
        raise ContractError(
            f"there is no contract {text!r}",
            way_out=f"Known are {', '.join(NAMED)}; or give a .toml file, or module:name.",
        )
    found = load(text)
    try:
        contract = found if isinstance(found, Contract) or not callable(found) else found()
    except TypeError as err:
        raise ContractError(
            f"{text} can't be called without arguments: {err}",
            way_out="Name a contract, or a function without arguments that returns one.",
        ) from err
    if not isinstance(contract, Contract):
        raise ContractError(f"{text} is a {type(contract).__name__}, not a contract")
    return contract


def read_toml(path: Path, load: Load | None = None) -> Contract:
    """The contract of a TOML file.

    ``[policy]`` starts from :func:`onnxproof.contracts.policy` (``actions``, or ``low``, ``high``, ``size`` and
    ``slack``; and its keyword arguments); every table of ``[[clauses]]`` names a clause and its fields.

    Args:
        load: finds the function of a clause ``own``; without it such a clause is refused.

    Raises:
        ContractError: it can't be read, or is not whole.
    """
    try:
        data = path.read_bytes()
        if len(data) > MAX_BYTES:
            raise ContractError(f"{str(path)!r} is larger than {MAX_BYTES} bytes")
        table = tomllib.loads(data.decode())
    except OSError as err:
        raise ContractError(f"{str(path)!r} can't be read: {err.strerror or err}") from err
    except ValueError as err:
        raise ContractError(f"{str(path)!r} is not TOML: {err}") from err
    return parse(table, path.stem, load)


def parse(table: Mapping[str, Any], name: str, load: Load | None = None) -> Contract:
    """The contract of a table; ``name`` is its name where it says none."""
    unknown = sorted(set(table) - {"format", "name", "policy", "clauses"})
    if table.get("format") != FORMAT or unknown:
        what = f"has {', '.join(map(repr, unknown))}" if unknown else f"does not say format = {FORMAT!r}"
        raise ContractError(f"the contract {name!r} {what}", way_out="It has: format, name, policy, clauses.")
    said = table.get("name", name)
    listed = table.get("clauses", [])
    if not isinstance(said, str) or not isinstance(listed, list):
        raise ContractError(f"the contract {name!r}: name is a text, and clauses a list of tables")
    clauses = tuple(_clause(entry, load) for entry in listed)
    if "policy" not in table:
        return Contract(said, clauses)
    return _policy(table["policy"]).named(said) + clauses


def _clause(entry: Any, load: Load | None) -> Clause:
    if not isinstance(entry, Mapping) or not isinstance(entry.get("clause"), str):
        raise ContractError("each of clauses is a table with the name of a clause under 'clause'")
    settings = {k: v for k, v in entry.items() if k != "clause"}
    if entry["clause"] == Own.kind and load is not None:
        function = load(str(settings.get("function", "")))
        if not callable(function):
            raise ContractError(f"{settings.get('function')!r} is not a function")
        return Own(function, settings.get("says"))
    return make(entry["clause"], settings)


def _policy(table: Any) -> Contract:
    if not isinstance(table, Mapping):
        raise ContractError("policy is a table")
    options = dict(table)
    kind: Continuous | Discrete
    if "actions" in options:
        kind = Discrete(options.pop("actions"))
    else:
        low, high = (_bound(options.pop(k, default)) for k, default in (("low", -1.0), ("high", 1.0)))
        kind = Continuous(low, high, options.pop("size", None), options.pop("slack", Continuous.slack))
    try:
        return policy(kind, **options)
    except TypeError as err:
        raise ContractError(f"the table policy is not whole: {err}") from err


def _bound(value: Any) -> float | tuple[float, ...]:
    return tuple(value) if isinstance(value, list) else value
