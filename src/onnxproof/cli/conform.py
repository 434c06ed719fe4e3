"""``onnxproof conform``: run profiles, write the report, exit with the class of the first failure."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import typer

from onnxproof.cli.console import progress


def run(
    output: Path,
    artifacts: Path | None,
    names: Sequence[str],
    source_revision: str | None,
    force: bool,
    executor: str | None,
) -> None:
    """Run the profiles (all that ship when none is named) and save the report to ``output``."""
    from onnxproof.evidence import run_profiles, save_report, summary_lines
    from onnxproof.evidence.files import UnsafePath
    from onnxproof.evidence.profile import ProfileError, builtin, load

    try:
        profiles = [load(name) for name in names] or list(builtin().values())
    except ProfileError as err:
        raise typer.BadParameter(str(err), param_hint="--profile") from None
    folder = artifacts or output.parent / "conformance-artifacts"
    if output.is_symlink():
        raise UnsafePath(f"{str(output)!r} is a symbolic link")
    with progress("running profiles") as doing:
        doing(f"running {', '.join(p.name for p in profiles)}")
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
    for record in report["profiles"]:
        typer.echo("\n".join(summary_lines(record)))
    typer.echo(f"report     {output}")
    if report["exit_code"]:
        raise typer.Exit(report["exit_code"])
