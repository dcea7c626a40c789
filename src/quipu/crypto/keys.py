"""Ed25519 keys, what they sign, and how they stand in a file that only its owner can read."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Mapping
from pathlib import Path

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    PublicFormat,
    load_pem_private_key,
)

from quipu.crypto.files import write_once
from quipu.errors import BackendUnavailableError, UnverifiableError


def _b64(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode("ascii")


def _unb64(text: str) -> bytes:
    return base64.urlsafe_b64decode(text + "=" * (-len(text) % 4))


class Ed25519Signer:
    """A private key in memory."""

    def __init__(self, key: Ed25519PrivateKey) -> None:
        self._key = key
        raw = key.public_key().public_bytes(Encoding.Raw, PublicFormat.Raw)
        self.public_key = _b64(raw)
        self.key_id = key_id(self.public_key)
        self.known_keys: Mapping[str, str] = {self.key_id: self.public_key}

    def sign(self, message: bytes) -> str:
        return _b64(self._key.sign(message))

    @classmethod
    def fresh(cls) -> Ed25519Signer:
        """A key that lives no longer than the process."""
        return cls(Ed25519PrivateKey.generate())


def opened(path: Path) -> Ed25519Signer:
    """The key in a file, which is made if it is not there. Two processes that start at once end up with one key."""
    if not path.exists():
        key = Ed25519PrivateKey.generate()
        write_once(path, key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()))
    return Ed25519Signer(_read(path))


def _read(path: Path) -> Ed25519PrivateKey:
    try:
        key = load_pem_private_key(path.read_bytes(), password=None)
    except (OSError, ValueError) as error:
        raise BackendUnavailableError(
            f"The signing key {path.name} cannot be read.",
            reason="bad_key",
            hint="Restore the key file from a backup, or move it away to start with a new key.",
        ) from error
    if not isinstance(key, Ed25519PrivateKey):
        raise BackendUnavailableError(f"The key {path.name} is not an Ed25519 key.", reason="bad_key")
    return key


def key_id(public_key: str) -> str:
    """A short name of a public key, derived from it."""
    return hashlib.sha256(_unb64(public_key)).hexdigest()[:16]


def verify(message: bytes, name: str, signature: str, keys: Mapping[str, str]) -> bool:
    """Is this the signature of the named key? A key is only believed under the name that follows from it."""
    public = keys.get(name)
    if public is None:
        raise UnverifiableError(f"The public key {name} is not at hand.", reason="missing_key")
    try:
        signed = _unb64(signature)
        if key_id(public) != name or _b64(signed) != signature:  # a signature is written in one way only
            return False
        Ed25519PublicKey.from_public_bytes(_unb64(public)).verify(signed, message)
    except (InvalidSignature, ValueError):
        return False
    return True
