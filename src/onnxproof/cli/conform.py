"""``onnxproof conform``: run profiles, write the report, exit with the class of the first failure."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import typer

from onnxproof.cli.console import progress

DEFAULT = "torch"  # the group of profiles that run when none is named


def show() -> None:
    """Print every profile that ships: its name, what is exported in which dtype, and what is allowed."""
    from onnxproof.evidence.profile import GROUPS, group
    from onnxproof.evidence.record import BuilderConfig

    for name in GROUPS[:-1]:
        profiles = group(name)
        typer.echo(f"{name}: {len(profiles)} profiles")
        for p in profiles:
            what = p.config.arguments["architecture"] if isinstance(p.config, BuilderConfig) else p.config.net
            t, cases = p.tolerances, len(p.cases)
            typer.echo(
                f"  {p.name:24} {what:12} {p.dtype:9} {cases} cases  rtol {t.rtol:.2g}  atol {t.atol:.2g}"
            )


def run(
    output: Path,
    artifacts: Path | None,
    names: Sequence[str],
    source_revision: str | None,
    force: bool,
    executor: str | None,
) -> None:
    """Run the profiles (those of PyTorch when none is named) and save the report to ``output``."""
    from onnxproof.evidence import run_profiles, save_report, summary_lines
    from onnxproof.evidence.files import UnsafePath
    from onnxproof.evidence.profile import ProfileError, load_all

    try:
        profiles = load_all(names or [DEFAULT])
    except ProfileError as err:
        raise typer.BadParameter(str(err), param_hint="--profile") from None
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
    for record in report["profiles"]:
        typer.echo("\n".join(summary_lines(record)))
    typer.echo(f"report     {output}")
    if report["exit_code"]:
        raise typer.Exit(report["exit_code"])
