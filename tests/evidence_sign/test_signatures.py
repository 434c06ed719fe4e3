"""Signatures of bundles with the ``model-signing`` library: ``make test-extras``."""

from __future__ import annotations

import base64
import json
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec
from typer.testing import CliRunner

from onnxproof.cli import application
from onnxproof.errors import ConformanceError
from onnxproof.evidence import run_profile
from onnxproof.evidence.signatures import SignatureError, sign, verify
from tests.evidence.faulty import profile

pytestmark = pytest.mark.filterwarnings(
    "ignore::DeprecationWarning"
)  # of the libraries that signing rests on


def keys(folder: Path, name: str, curve: ec.EllipticCurve | None = None) -> tuple[Path, Path]:
    """A new key pair: the files of the private and the public one."""
    key = ec.generate_private_key(curve or ec.SECP256R1())
    private, public = folder / f"{name}.pem", folder / f"{name}.pub"
    private.write_bytes(
        key.private_bytes(
            serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
        )
    )
    public.write_bytes(
        key.public_key().public_bytes(
            serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo
        )
    )
    return private, public


@pytest.fixture(scope="module")
def original(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("signed")
    run_profile(profile(), folder)
    return folder / "affine-fp32"


@pytest.fixture
def bundle(original: Path, tmp_path: Path) -> Path:
    shutil.copytree(original, tmp_path / "bundle")
    return tmp_path / "bundle"


@pytest.mark.parametrize("curve", [ec.SECP256R1(), ec.SECP384R1(), ec.SECP521R1()], ids=lambda c: c.name)
def test_round_trip(bundle: Path, tmp_path: Path, curve: ec.EllipticCurve) -> None:
    private, public = keys(tmp_path, "key", curve)
    signature = sign(bundle, private)
    assert signature == tmp_path / "bundle.sig"
    verify(bundle, public)
    moved = bundle.rename(tmp_path / "moved")
    verify(moved, public, signature)


def flip(path: Path) -> None:
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.write_bytes(data)


CHANGES: list[tuple[str, Callable[[Path], object]]] = [
    ("model", lambda b: flip(b / "model.onnx")),
    ("record", lambda b: flip(b / "record.json")),
    ("case", lambda b: flip(b / "cases" / "batch-1" / "output_0.pb")),
    ("extra", lambda b: (b / "extra").write_text("")),
    ("hidden", lambda b: (b / ".gitignore").write_text("")),
    ("missing", lambda b: (b / "trace.json").unlink()),
    ("renamed", lambda b: (b / "trace.json").rename(b / "trail.json")),
    ("link", lambda b: (b / "link").symlink_to(b / "model.onnx")),
]


@pytest.mark.parametrize(("name", "change"), CHANGES, ids=[c[0] for c in CHANGES])
def test_changed_files(bundle: Path, tmp_path: Path, name: str, change: Callable[[Path], object]) -> None:
    private, public = keys(tmp_path, "key")
    sign(bundle, private)
    change(bundle)
    with pytest.raises(ConformanceError):
        verify(bundle, public)


def test_other_keys(bundle: Path, tmp_path: Path) -> None:
    private, public = keys(tmp_path, "key")
    other, other_public = keys(tmp_path, "other")
    signature = sign(bundle, private)
    with pytest.raises(SignatureError, match="Key mismatch"):
        verify(bundle, other_public)
    data = json.loads(signature.read_text())
    forged = json.loads(sign(bundle, other, tmp_path / "forged.sig").read_text())
    data["dsseEnvelope"]["signatures"] = forged["dsseEnvelope"]["signatures"]
    signature.write_text(json.dumps(data))
    with pytest.raises(SignatureError, match="not of this key"):
        verify(bundle, public)
    with pytest.raises(SignatureError, match="can't be used"):
        sign(bundle, public)
    with pytest.raises(SignatureError, match="can't be used"):
        verify(bundle, private)
    with pytest.raises(SignatureError, match="can't be used"):
        sign(bundle, keys(tmp_path, "odd", ec.SECP256K1())[0])


@pytest.mark.parametrize("text", ["", "{}", "[]", "null", '{"mediaType": 1}', "\x00" * 100])
def test_malformed_signatures(bundle: Path, tmp_path: Path, text: str) -> None:
    _, public = keys(tmp_path, "key")
    (tmp_path / "bundle.sig").write_text(text)
    with pytest.raises(SignatureError, match="does not hold"):
        verify(bundle, public)


def test_signature_that_leaves_files_out(bundle: Path, tmp_path: Path) -> None:
    """The library lets a signer name files that are not looked at; we take no such signature."""
    import model_signing

    private, public = keys(tmp_path, "key")
    hashing = model_signing.hashing.Config().set_ignored_paths(paths=["model.onnx"], ignore_git_paths=False)
    config = model_signing.signing.Config().use_elliptic_key_signer(private_key=private)
    config.set_hashing_config(hashing).sign(bundle, tmp_path / "bundle.sig")
    with pytest.raises(SignatureError, match="leaves files out"):
        verify(bundle, public)


def test_commands(bundle: Path, tmp_path: Path) -> None:
    private, public = keys(tmp_path, "key")
    run = CliRunner().invoke
    done = run(application(), ["sign", str(bundle), "--key", str(private)])
    assert done.exit_code == 0, done.output
    assert run(application(), ["verify", str(bundle), "--key", str(public)]).exit_code == 0
    payload = json.loads((tmp_path / "bundle.sig").read_text())["dsseEnvelope"]["payload"]
    names = [r["name"] for r in json.loads(base64.b64decode(payload))["predicate"]["resources"]]
    assert sorted(names) == sorted(p.relative_to(bundle).as_posix() for p in bundle.rglob("*") if p.is_file())
    assert (
        run(application(), ["sign", str(bundle), "--key", str(private), "-o", str(bundle / "x")]).exit_code
        == 1
    )
    assert run(application(), ["verify", str(bundle), "--key", str(tmp_path / "none")]).exit_code == 2
    flip(bundle / "model.onnx")
    refused = run(application(), ["verify", str(bundle), "--key", str(public)])
    assert refused.exit_code == 1
    assert "does not hold" in refused.output
    assert (
        run(application(), ["sign", str(bundle), "--key", str(private)]).exit_code == 14
    )  # of changed files
