"""Signatures of bundles, by the ``model-signing`` library with a local elliptic-curve key.

The signature covers every file of the folder, the record among them. It stands beside the bundle, not in it: a
bundle holds nothing that its record does not list.
"""

from __future__ import annotations

import os
import stat
from pathlib import Path
from typing import Any

from onnxproof.errors import ArtifactError, ConformanceError
from onnxproof.evidence.bundle import RECORD
from onnxproof.evidence.files import UnsafePath, walk, write_file
from onnxproof.evidence.strict_json import MAX_BYTES

MAX_KEY_BYTES = 2**16


class SignatureError(ConformanceError):
    """A bundle could not be signed, or its signature does not hold."""


def default_signature(folder: Path) -> Path:
    """Where the signature of a bundle stands unless said otherwise: ``bundle.sig`` beside ``bundle``."""
    place = Path(os.path.abspath(folder))
    return place.with_name(f"{place.name}.sig")


def sign(folder: Path, key: Path, signature: Path | None = None) -> Path:
    """Sign a bundle.

    Args:
        key: a private key in PEM, on the curve P-256, P-384 or P-521, without a password.
        signature: the file to write; :func:`default_signature` when not given.

    Returns:
        The file of the signature, a Sigstore bundle in JSON.

    Raises:
        SignatureError: ``model-signing`` is not installed, or the key is not usable.
        ConformanceError: the folder is no bundle, or holds a link.
        ArtifactError: the signature can't be written.
    """
    import tempfile

    hashing, signing, _ = _library()
    target = signature or default_signature(folder)
    _check_folder(folder, target)
    _readable(key, "key")
    try:
        config = signing.Config().use_elliptic_key_signer(private_key=key)
    except (ValueError, TypeError) as err:  # TypeError: it has a password
        raise SignatureError(f"the key {str(key)!r} can't be used: {err}", way_out=_MAKE_A_KEY) from err
    with tempfile.TemporaryDirectory() as scratch:
        place = Path(scratch) / "signature"
        config.set_hashing_config(_hashing(hashing)).sign(folder, place)
        data = place.read_bytes()
    write_file(target, data)
    return target


def verify(folder: Path, key: Path, signature: Path | None = None) -> None:
    """Hold the signature of a bundle against its files and a public key.

    Args:
        key: the public key in PEM.

    Raises:
        SignatureError: the signature is missing, malformed, of another key, or of other files.
        ConformanceError: the folder is no bundle, or holds a link.
    """
    hashing, _, verifying = _library()
    from cryptography.exceptions import InvalidSignature

    target = signature or default_signature(folder)
    _check_folder(folder, target)
    _readable(key, "key")
    _readable(target, "signature")
    try:
        config = verifying.Config().use_elliptic_key_verifier(public_key=key)
    except (ValueError, TypeError, AttributeError) as err:
        raise SignatureError(f"the key {str(key)!r} can't be used: {err}") from err
    try:
        config.set_hashing_config(_hashing(hashing)).verify(folder, target)
    except InvalidSignature as err:
        raise SignatureError(f"the signature {target.name!r} is not of this key") from err
    except (ValueError, KeyError, IndexError, TypeError, AttributeError, OSError) as err:
        raise SignatureError(f"the signature {target.name!r} does not hold: {err}") from err


_MAKE_A_KEY = "Make one with: openssl ecparam -name prime256v1 -genkey -noout -out key.pem"


def _library() -> tuple[Any, Any, Any]:
    try:
        from model_signing import hashing, signing, verifying
    except ModuleNotFoundError as err:
        raise SignatureError(
            "missing-dependency: model-signing is not installed",
            way_out="pip install 'onnxproof[sign]'",
        ) from err
    return hashing, signing, verifying


def _hashing(hashing: Any) -> Any:
    """Every file by SHA-256: no link is followed, nothing is left out, whatever a signature says."""

    class Whole(hashing.Config):  # type: ignore[misc]  # the library is imported on use
        def add_ignored_paths(self, *, model_path: Any, paths: Any) -> None:
            if list(paths):
                raise ValueError("it leaves files out")

    config = Whole().use_file_serialization(hashing_algorithm="sha256", allow_symlinks=False)
    return config.set_ignored_paths(paths=[], ignore_git_paths=False)


def _check_folder(folder: Path, signature: Path) -> None:
    if folder.is_symlink() or not folder.is_dir():
        raise ConformanceError(f"{str(folder)!r} is not a folder")
    if Path(os.path.abspath(signature)).is_relative_to(os.path.abspath(folder)):
        raise SignatureError("a signature can't stand in the folder that it signs")
    for path, regular in walk(folder):
        if not regular:
            raise UnsafePath(f"{path!r} is not a regular file")
    if not (folder / RECORD).is_file():
        raise ConformanceError(f"{str(folder)!r} is no bundle: there is no {RECORD}")


def _readable(path: Path, what: str) -> None:
    try:
        found = os.lstat(path)
    except OSError as err:
        raise ArtifactError(f"the {what} {str(path)!r} can't be read: {err.strerror}") from err
    if stat.S_ISLNK(found.st_mode) and what == "signature":
        raise UnsafePath(f"{str(path)!r} is a symbolic link")
    if found.st_size > (MAX_BYTES if what == "signature" else MAX_KEY_BYTES):
        raise SignatureError(f"the {what} {str(path)!r} has {found.st_size} bytes, which none has")
