"""Profiles: everything that a claim of parity depends on, as data.

The name of a profile that ships with the package stands for its exact settings: another profile under that name is
refused. The digest of a profile is that of the canonical text of its settings, and every record carries it.

A file holds one profile, or several that share settings: its table ``variants`` then has a table for each, by
name, of what is added to the rest of the file or takes the place of it.
"""

from __future__ import annotations

import itertools
import tomllib
from collections.abc import Sequence
from functools import cache
from importlib import resources
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import Field, ValidationError, model_validator

from onnxproof.errors import ConformanceError
from onnxproof.evidence.derive import sha256_of
from onnxproof.evidence.record import (
    CaseKind,
    CaseName,
    Config,
    Count,
    Expect,
    Exporter,
    FeedForwardConfig,
    Name,
    Options,
    Policy,
    Strict,
    Tolerances,
)

AD_HOC = "ad-hoc"  # the profile of what a user verified without one
VARIANTS = "onnxproof.profiles/1"  # the format of a file of several profiles
MAX_PROFILE_BYTES = 2**20
MAX_VARIANTS = 256
# What stands for several of the profiles that ship.
GROUPS = ("torch", "jax", "all")
MAX_CASE_VALUES = 2**24


class ProfileError(ConformanceError, ValueError):
    """A profile can't be read, breaks a bound, or takes the name of another."""


class ProfileCase(Strict):
    """One case: the shape of each input, and the seed that its values are drawn with."""

    name: CaseName
    kind: CaseKind
    shapes: Annotated[
        list[Annotated[list[Count], Field(max_length=64)]], Field(min_length=1, max_length=1024)
    ]
    seed: Annotated[int, Field(ge=0, le=2**63 - 1)] | None
    expect: Expect


class RuntimeSpec(Strict):
    """A runtime to run in, on which provider, with which session options."""

    name: Name
    provider: Name
    session: Options


class Profile(Strict):
    """All settings of one conformance run."""

    format: Literal["onnxproof.profile/1"] = "onnxproof.profile/1"
    name: Annotated[str, Field(pattern=r"^[a-z0-9][a-z0-9._\-]{0,99}$")]
    dtype: Name
    opset: Annotated[int, Field(ge=1, le=1000)] | None
    model: Annotated[str, Field(pattern=r"^[A-Za-z0-9][\w.\-]{0,99}$")] = "model.onnx"
    config: Config
    exporter: Exporter
    runtimes: Annotated[list[RuntimeSpec], Field(min_length=1, max_length=64)]
    cases: Annotated[list[ProfileCase], Field(min_length=1, max_length=512)]
    tolerances: Tolerances
    policy: Policy

    @model_validator(mode="after")
    def _consistent(self) -> Profile:
        names = [case.name for case in self.cases]
        if len(set(names)) != len(names):
            raise ValueError("two cases have one name")
        if not any(case.expect == "match" for case in self.cases):
            raise ValueError("no case compares values")
        if isinstance(self.config, FeedForwardConfig):
            for problem in feed_forward_problems(self.config, self.cases):
                raise ValueError(problem)
        return self

    def settings(self) -> dict[str, Any]:
        """What the digest is made of: the same that :func:`derive.settings_of` finds in a record."""
        data = self.model_dump(mode="json")
        del data["format"]
        return data

    def digest(self) -> str:
        """SHA-256 of the canonical text of the settings."""
        return sha256_of(self.settings())


def feed_forward_problems(config: FeedForwardConfig, cases: list[ProfileCase]) -> list[str]:
    """What a feed-forward profile can't state: too many weights or values, or inputs that no such network has."""
    widths = [config.input_dim, *config.hidden_dims, config.output_dim]
    problems = []
    if sum((a + 1) * b for a, b in itertools.pairwise(widths)) > 2**24:
        problems.append("the network has more than 2^24 weights")
    if sum(case.expect == "match" for case in cases) > 64:
        problems.append("there are more than 64 batch sizes")
    for case in cases:
        if [len(shape) for shape in case.shapes] != [2]:
            problems.append(f"case {case.name!r} is not one batch of rows")
            continue
        batch, width = case.shapes[0]
        if batch * max(widths) > MAX_CASE_VALUES:
            problems.append(f"case {case.name!r} has more than 2^24 values in a layer")
        wrong = width != config.input_dim
        expected = ("width", "rejected") if wrong else ("values", "match")
        if (case.kind, case.expect) != expected:
            problems.append(f"case {case.name!r} does not expect what a width of {width} gives")
        elif case.name != (f"width-{width}" if wrong else f"batch-{batch}"):
            problems.append(f"case {case.name!r} has a name that no profile gives it")
    return problems


@cache
def builtin() -> dict[str, Profile]:
    """The profiles that ship with the package, by name."""
    folder = resources.files("onnxproof.evidence") / "profiles"
    files = sorted((f for f in folder.iterdir() if f.name.endswith(".toml")), key=lambda f: f.name)
    profiles = [p for f in files for p in parse(f.read_bytes(), f.name)]
    return {p.name: p for p in profiles}


def group(name: str) -> list[Profile]:
    """The shipped profiles of one of :data:`GROUPS`, in order of name."""
    shipped = builtin().values()
    return [
        p for p in shipped if name == "all" or (name == "torch") == isinstance(p.config, FeedForwardConfig)
    ]


def load(name_or_profile: str | Path | Profile) -> Profile:
    """A profile by name, from a TOML file of the user's (a path that ends in ``.toml``), or as it is.

    Raises:
        ProfileError: there is none or several, it is malformed, or it has a shipped profile's name but not its
            settings.
    """
    found = load_all([name_or_profile])
    if len(found) > 1:
        names = ", ".join(p.name for p in found)
        raise ProfileError(f"{str(name_or_profile)!r} stands for several profiles: {names}")
    return found[0]


def load_all(given: Sequence[str | Path | Profile]) -> list[Profile]:
    """As :func:`load`, of several, each of which may be a group or a file of several; none is there twice.

    Raises:
        ProfileError: as in :func:`load`, or two profiles have one name but not the same settings.
    """
    found: dict[str, Profile] = {}
    for one in given:
        for profile in [one] if isinstance(one, Profile) else _named(str(one)):
            if found.setdefault(profile.name, bound(profile)).digest() != profile.digest():
                raise ProfileError(f"two profiles are called {profile.name!r}")
    return list(found.values())


def _named(text: str) -> list[Profile]:
    if text in builtin():
        return [builtin()[text]]
    if text in GROUPS:
        return group(text)
    path = Path(text)
    if path.suffix != ".toml":
        raise ProfileError(
            f"there is no profile {text!r}",
            way_out="onnxproof conform --list prints those that ship; or give a .toml file.",
        )
    try:
        with open(path, "rb") as file:
            data = file.read(MAX_PROFILE_BYTES + 1)
    except OSError as err:
        raise ProfileError(f"profile {text!r} can't be read: {err.strerror or err}") from err
    return parse(data, path.name)


def parse(data: bytes, place: str) -> list[Profile]:
    """The profiles in the bytes of a TOML file, one or several.

    Raises:
        ProfileError: it is no TOML, or holds something other than profiles.
    """
    if len(data) > MAX_PROFILE_BYTES:
        raise ProfileError(f"{place} has more than {MAX_PROFILE_BYTES} bytes")
    try:
        table = tomllib.loads(data.decode())
    except (UnicodeDecodeError, tomllib.TOMLDecodeError, RecursionError) as err:
        raise ProfileError(f"{place} is not a TOML file: {err}") from err
    if table.get("format") != VARIANTS:
        return [_validated(table, place)]
    variants = table.pop("variants", None)
    if not isinstance(variants, dict) or not 0 < len(variants) <= MAX_VARIANTS:
        raise ProfileError(f"{place} has no table of 1 to {MAX_VARIANTS} variants")
    common = {k: v for k, v in table.items() if k != "format"}
    if not all(isinstance(own, dict) for own in variants.values()):
        raise ProfileError(f"a variant of {place} is not a table")
    return [
        _validated(_merged(common, {**own, "name": name}), f"{name!r} of {place}")
        for name, own in variants.items()
    ]


def _merged(common: dict[str, Any], own: dict[str, Any]) -> dict[str, Any]:
    """``common`` with ``own`` laid over it; tables are merged, everything else is replaced."""
    merged = dict(common)
    for key, value in own.items():
        before = merged.get(key)
        if isinstance(before, dict) and isinstance(value, dict):
            value = _merged(before, value)
        merged[key] = value
    return merged


def _with_nulls(table: dict[str, Any]) -> dict[str, Any]:
    """TOML has no null: what may be null is so where it is left out."""
    full: dict[str, Any] = {"opset": None, **table}
    for part, key in (("config", "weights_sha256"), ("policy", "memory_bytes")):
        if isinstance(full.get(part), dict):
            full[part] = {key: None, **full[part]}
    if isinstance(full.get("cases"), list):
        full["cases"] = [{"seed": None, **c} if isinstance(c, dict) else c for c in full["cases"]]
    return full


def _validated(table: dict[str, Any], place: str) -> Profile:
    try:
        return Profile.model_validate(_with_nulls(table))
    except ValidationError as err:
        raise ProfileError(f"{place} is not a profile:\n  " + "\n  ".join(problems_of(err))) from err


def bound(profile: Profile) -> Profile:
    """``profile``, unless it takes the name of a shipped one without its settings.

    Raises:
        ProfileError: it does.
    """
    shipped = builtin().get(profile.name)
    if shipped is not None and shipped.digest() != profile.digest():
        raise ProfileError(
            f"{profile.name!r} is the name of a profile with other settings",
            way_out="Give your profile a name of its own.",
        )
    return profile


def problems_of(err: ValidationError) -> list[str]:
    """One line for each error of a validation: the place, then what is wrong there."""
    return [
        f"{'.'.join(map(str, e['loc'])) or 'the whole'}: {e['msg']}" for e in err.errors(include_url=False)
    ]
