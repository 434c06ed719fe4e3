"""``onnxproof sign``, and the part of ``onnxproof verify`` that holds a signature against a key."""

from __future__ import annotations

import json
from pathlib import Path

import typer


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
    if not bundle.is_dir():
        raise typer.BadParameter("only bundles are signed", param_hint="--key")
    from onnxproof.evidence.signatures import default_signature, verify

    verify(bundle, key, signature)
    typer.echo(f"signed     {signature or default_signature(bundle)}", err=True)
