"""JSON as evidence takes it: one reading for each text, within bounds that are checked before anything is built."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from typing import Any

from onnxproof.errors import ConformanceError

Json = None | bool | int | float | str | list["Json"] | dict[str, "Json"]

MAX_BYTES = 16 * 2**20
MAX_DEPTH = 32
MAX_INTEGER = 2**63 - 1
MAX_NUMBER_CHARACTERS = 40
_STRING = re.compile(r'"(?:[^"\\]|\\.)*"', re.DOTALL)


class StrictJsonError(ConformanceError, ValueError):
    """A text is not the strict JSON that evidence is written in."""


def parse(data: bytes, limit: int = MAX_BYTES) -> Json:
    """The value of a JSON text in UTF-8, of at most ``limit`` bytes.

    Raises:
        StrictJsonError: the text is too long, nested too deeply, not UTF-8 or not JSON; a key is repeated; a
            number is not finite, too long, or an integer beyond 64 bits; a string holds half a surrogate pair.
    """
    if len(data) > limit:
        raise StrictJsonError(f"the text has {len(data)} bytes, more than {limit}")
    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError as err:
        raise StrictJsonError(f"the text is not UTF-8: {err.reason} at byte {err.start}") from err
    _check_depth(text)
    try:
        value: Json = json.loads(
            text,
            object_pairs_hook=_object,
            parse_constant=_constant,
            parse_float=_float,
            parse_int=_int,
        )
    except json.JSONDecodeError as err:
        raise StrictJsonError(f"the text is not JSON: {err}") from err
    _check_strings(value)
    return value


def canonical(value: Any) -> str:
    """The one text of a value: keys in order, no spaces, no escapes but those JSON needs."""
    return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False)


def pretty(value: Any) -> str:
    """The text that files hold: keys in the order given, one line for each value, a newline at the end."""
    return json.dumps(value, indent=1, ensure_ascii=False, allow_nan=False) + "\n"


def _check_depth(text: str) -> None:
    depth = 0
    for char in re.findall(r"[\[\]{}]", _STRING.sub('""', text)):
        depth += 1 if char in "[{" else -1
        if depth > MAX_DEPTH:
            raise StrictJsonError(f"the text is nested more than {MAX_DEPTH} levels deep")


def _check_strings(value: Json) -> None:
    if isinstance(value, str):
        if any("\ud800" <= c <= "\udfff" for c in value):
            raise StrictJsonError("a string holds half a surrogate pair")
    elif isinstance(value, Mapping):
        for key, item in value.items():
            _check_strings(key)
            _check_strings(item)
    elif isinstance(value, Sequence):
        for item in value:
            _check_strings(item)


def _object(pairs: list[tuple[str, Json]]) -> dict[str, Json]:
    result = dict(pairs)
    if len(result) != len(pairs):
        keys = [key for key, _ in pairs]
        twice = sorted({key for key in keys if keys.count(key) > 1})
        raise StrictJsonError(f"a key is repeated: {', '.join(map(repr, twice[:3]))}")
    return result


def _constant(text: str) -> Json:
    raise StrictJsonError(f"{text} is not a JSON number")


def _float(text: str) -> float:
    value = float(text) if len(text) <= MAX_NUMBER_CHARACTERS else float("inf")
    if value in (float("inf"), float("-inf")):
        raise StrictJsonError(f"the number {text[:MAX_NUMBER_CHARACTERS]} is out of range or too long")
    return value


def _int(text: str) -> int:
    if len(text) > MAX_NUMBER_CHARACTERS or abs(int(text)) > MAX_INTEGER:
        raise StrictJsonError(f"the integer {text[:MAX_NUMBER_CHARACTERS]} is out of range")
    return int(text)
