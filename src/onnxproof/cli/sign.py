"""``onnxproof sign``, and the part of ``onnxproof verify`` that holds a signature against a key."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer

from onnxproof.cli.app import Debug, Json, app
from onnxproof.cli.console import reporting
from onnxproof.cli.examples import examples
from onnxproof.cli.places import there


@app.command(epilog=examples("sign"))
def sign(
    bundle: Annotated[Path, typer.Argument(metavar="BUNDLE", show_default=False)],
    key: Annotated[
        Path,
        typer.Option(
            metavar="FILE",
            help="An elliptic-curve private key in PEM, without a password.",
            show_default=False,
        ),
    ],
    output: Annotated[
        Path | None,
        typer.Option("-o", "--output", help="The signature. Default: BUNDLE.sig.", show_default=False),
    ] = None,
    as_json: Json = False,
    debug: Debug = False,
) -> None:
    """Sign every file of a bundle with a key of yours; verify --key checks it."""
    with reporting(debug):
        there(bundle, "BUNDLE", "folder")
        there(key, "--key", "file")
        run(bundle, key, output, as_json=as_json)


def run(bundle: Path, key: Path, signature: Path | None, *, as_json: bool) -> None:
    """Sign a bundle whose files are those of its record."""
    from onnxproof.evidence.conform import read_bundle, verify_folder
    from onnxproof.evidence.signatures import sign

    verify_folder(read_bundle(bundle), bundle)
    written = sign(bundle, key, signature)
    facts = {"bundle": str(bundle), "signature": str(written)}
    typer.echo(json.dumps(facts, indent=2) if as_json else f"signature  {written}")


def check(bundle: Path, key: Path | None, signature: Path | None) -> None:
    """Refuse a bundle whose signature is not that of ``key`` over its files; without a key, do nothing."""
    if key is None:
        if signature is not None:
            raise typer.BadParameter(
                "a signature is checked with a key: give --key", param_hint="--signature"
            )
        return
    there(key, "--key", "file")
    if not there(bundle, "BUNDLE|MODEL").is_dir():
        raise typer.BadParameter("only bundles are signed", param_hint="--key")
    from onnxproof.evidence.signatures import default_signature, verify

    verify(bundle, key, signature)
    typer.echo(f"signed     {signature or default_signature(bundle)}", err=True)
