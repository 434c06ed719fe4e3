"""``onnxproof conform``: run profiles, write the report, exit with the class of the first failure."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from onnxproof.cli.app import Debug, Json, app
from onnxproof.cli.console import progress, reporting
from onnxproof.cli.examples import examples
from onnxproof.cli.missing import say_missing
from onnxproof.cli.places import to_write

if TYPE_CHECKING:
    from onnxproof.evidence.profile import Profile

DEFAULT = "torch"  # the group of profiles that run when none is named


@app.command(epilog=examples("conform"))
def conform(
    output: Annotated[Path, typer.Option("-o", "--output", help="The report to write, as JSON.")] = Path(
        "conformance.json"
    ),
    artifacts: Annotated[
        Path | None,
        typer.Option(
            help="The folder for bundles. Default: conformance-artifacts beside the report.",
            show_default=False,
        ),
    ] = None,
    profile: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME",
            help="A profile that ships, a TOML file, or a group: torch, jax, all. Default: torch.",
            show_default=False,
        ),
    ] = None,
    listed: Annotated[bool, typer.Option("--list", help="Print the profiles that ship, and stop.")] = False,
    source_revision: Annotated[
        str | None,
        typer.Option(
            metavar="SHA",
            help="The revision to record. Default: that of the git checkout.",
            show_default=False,
        ),
    ] = None,
    force: Annotated[bool, typer.Option("--force", help="Replace the profiles' earlier bundles.")] = False,
    executor: Annotated[
        str | None,
        typer.Option(
            metavar="processes[:N]|dask:ADDRESS",
            help="Run profiles, runtimes and cases as jobs, here or on a Dask cluster. Default: one after"
            " the other.",
            show_default=False,
        ),
    ] = None,
    as_json: Json = False,
    debug: Debug = False,
) -> None:
    """Run conformance profiles; exits with 10 to 18 by the class of the first failure."""
    with reporting(debug):
        if listed:
            show(as_json=as_json)
        else:
            run(output, artifacts, profile or [], source_revision, force, executor, as_json=as_json)


def show(*, as_json: bool) -> None:
    """Print every profile that ships: its name, what is exported in which dtype, and what is allowed."""
    from onnxproof.evidence.profile import GROUPS, group

    groups = {name: [_facts(p) for p in group(name)] for name in GROUPS[:-1]}
    if as_json:
        typer.echo(json.dumps(groups, indent=2))
        return
    for name, listed in groups.items():
        typer.echo(f"{name}: {len(listed)} profiles")
        for f in listed:
            typer.echo(
                f"  {f['name']:24} {f['model']:12} {f['dtype']:9} {f['cases']} cases  rtol {f['rtol']:.2g}"
                f"  atol {f['atol']:.2g}"
            )


def _facts(profile: Profile) -> dict[str, Any]:
    from onnxproof.evidence.record import BuilderConfig

    config, allowed = profile.config, profile.tolerances
    return {
        "name": profile.name,
        "model": config.arguments["architecture"] if isinstance(config, BuilderConfig) else config.net,
        "dtype": profile.dtype,
        "cases": len(profile.cases),
        "rtol": allowed.rtol,
        "atol": allowed.atol,
    }


def run(
    output: Path,
    artifacts: Path | None,
    names: Sequence[str],
    source_revision: str | None,
    force: bool,
    executor: str | None,
    *,
    as_json: bool,
) -> None:
    """Run the profiles (those of PyTorch when none is named) and save the report to ``output``."""
    from onnxproof.cli.target import from_here
    from onnxproof.evidence import run_profiles, save_report, summary_lines
    from onnxproof.evidence.files import UnsafePath
    from onnxproof.evidence.profile import ProfileError, load_all
    from onnxproof.evidence.validate import read_record

    try:
        profiles = load_all(names or [DEFAULT])
    except ProfileError as err:
        raise typer.BadParameter(str(err), param_hint="--profile") from None
    from_here()  # functions that a profile names
    to_write(output, "-o", ".json")
    folder = artifacts or output.parent / "conformance-artifacts"
    if output.is_symlink():
        raise UnsafePath(f"{str(output)!r} is a symbolic link")
    with progress("running profiles") as doing:
        few = ", ".join(p.name for p in profiles[:3]) + (", ..." if len(profiles) > 3 else "")
        doing(f"running {len(profiles)} profiles: {few}")
        if executor is None:
            report = run_profiles(profiles, folder, source_revision=source_revision, force=force)
        else:
            from onnxproof.evidence import jobs

            with jobs.pool(executor) as where:
                report = jobs.run_profiles(
                    profiles, folder, where, source_revision=source_revision, force=force
                )
    output.parent.mkdir(parents=True, exist_ok=True)
    save_report(report, output)
    if as_json:
        typer.echo(json.dumps(report, indent=1))
    else:
        for record in report["profiles"]:
            typer.echo("\n".join(summary_lines(record)))
        typer.echo(f"report     {output}")
    if report["exit_code"]:
        say_missing([read_record(r) for r in report["profiles"]])
        raise typer.Exit(report["exit_code"])
