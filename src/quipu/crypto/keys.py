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

from quipu.crypto.files import is_there, write_once
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
    if not is_there(path):
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


#: Points of small order, with the sign left out: under such a key one signature fits every text, or many.
_WEAK = frozenset(
    bytes.fromhex(point)
    for point in (
        "00" * 32,
        "01" + "00" * 31,
        "26e8958fc2b227b045c3f489f2ef98f0d5dfac05d3c63339b13802886d53fc05",
        "c7176a703d4dd84fba3c0b760d10670f2a2053fa2c39ccc64ec7fd7792ac037a",
        "ec" + "ff" * 30 + "7f",
        "ed" + "ff" * 30 + "7f",
        "ee" + "ff" * 30 + "7f",
    )
)


def public_key(raw: bytes) -> Ed25519PublicKey:
    """The key; ValueError where it is none, or one that proves nothing because anybody can sign for it."""
    if len(raw) == 32 and raw[:31] + bytes([raw[31] & 0x7F]) in _WEAK:
        raise ValueError("A key that anybody can sign for.")
    return Ed25519PublicKey.from_public_bytes(raw)


def key_id(public: str) -> str:
    """A short name of a public key, derived from it."""
    return hashlib.sha256(_unb64(public)).hexdigest()[:16]


def verify(message: bytes, name: str, signature: str, keys: Mapping[str, str]) -> bool:
    """Is this the signature of the named key? A key is only believed under the name that follows from it."""
    public = keys.get(name)
    if public is None:
        raise UnverifiableError(f"The public key {name} is not at hand.", reason="missing_key")
    try:
        signed = _unb64(signature)
        if key_id(public) != name or _b64(signed) != signature:  # a signature is written in one way only
            return False
        public_key(_unb64(public)).verify(signed, message)
    except (InvalidSignature, ValueError):
        return False
    return True
