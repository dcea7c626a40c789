"""Ed25519 keys that sign what leaves the ledger: in memory, or in a file that only its owner can read."""

import base64
import hashlib
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Protocol

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    PublicFormat,
    load_pem_private_key,
)

from quipu.errors import BackendUnavailableError, UnverifiableError
from quipu.jose import WEAK_POINTS


class Signer(Protocol):
    """Signs for this ledger."""

    @property
    def known_keys(self) -> Mapping[str, str]:
        """Public keys by their ids: all that its signatures may be checked with."""
        ...

    @property
    def key_id(self) -> str:
        """The key that signs now."""
        ...

    @property
    def public_key(self) -> str: ...
    def sign(self, message: bytes) -> str:
        """The signature, as base64url."""
        ...


class KeySigner:
    """A private key in memory."""

    def __init__(self, key: Ed25519PrivateKey) -> None:
        self._key = key
        self.public_key = _text(key.public_key().public_bytes(Encoding.Raw, PublicFormat.Raw))
        self.key_id = key_id(self.public_key)
        self.known_keys: Mapping[str, str] = {self.key_id: self.public_key}

    def sign(self, message: bytes) -> str:
        return _text(self._key.sign(message))

    @classmethod
    def fresh(cls) -> "KeySigner":
        """A key that lives no longer than the process: for a memory that is not kept either."""
        return cls(Ed25519PrivateKey.generate())


class FileSigner:
    """A key in a file, made when something is first signed. Verifying makes none."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._signer: KeySigner | None = None

    @property
    def known_keys(self) -> Mapping[str, str]:
        """Nothing when there is no key yet."""
        if self._signer is None and not self._path.exists():
            return {}
        return self._opened().known_keys

    @property
    def key_id(self) -> str:
        return self._opened().key_id

    @property
    def public_key(self) -> str:
        return self._opened().public_key

    def sign(self, message: bytes) -> str:
        return self._opened().sign(message)

    def _opened(self) -> KeySigner:
        if self._signer is None:
            if not self._path.exists():
                self._make()
            self._signer = KeySigner(self._read())
        return self._signer

    def _make(self) -> None:
        """Of two who come at once one makes it."""
        key = Ed25519PrivateKey.generate()
        draft = self._path.with_name(f"{self._path.name}.{os.getpid()}")
        try:
            self._path.parent.mkdir(parents=True, exist_ok=True)
            with os.fdopen(os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
                file.write(key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()))
                file.flush()
                os.fsync(file.fileno())
            try:
                os.link(draft, self._path)
            except FileExistsError:
                pass  # somebody else was first: their key is the key
            finally:
                draft.unlink()
        except OSError as error:
            raise BackendUnavailableError(
                f"The signing key {self._path.name} cannot be written.",
                reason="bad_key",
                hint="Check that its folder exists and is writable, and that the disk has room.",
            ) from error

    def _read(self) -> Ed25519PrivateKey:
        try:
            key = load_pem_private_key(self._path.read_bytes(), password=None)
        except (OSError, ValueError) as error:
            raise BackendUnavailableError(
                f"The signing key {self._path.name} cannot be read.",
                reason="bad_key",
                hint="Restore the key file from a backup, or move it away to begin with a new key.",
            ) from error
        if not isinstance(key, Ed25519PrivateKey):
            raise BackendUnavailableError(f"The key {self._path.name} is no Ed25519 key.", reason="bad_key")
        return key


def key_id(public: str) -> str:
    """A short name of a public key, derived from it."""
    return hashlib.sha256(_bytes(public)).hexdigest()[:16]


def is_signed(message: bytes, name: str, signature: str, keys: Mapping[str, str]) -> bool:
    """Whether this is the signature of the named key; UnverifiableError where the key is not at hand.

    A key is only believed under the name that follows from it, and a signature is written in one way only.
    """
    public = keys.get(name)
    if public is None:
        raise UnverifiableError(f"The public key {name} is not at hand.", reason="missing_key")
    try:
        signed, raw = _bytes(signature), _bytes(public)
        if key_id(public) != name or _text(signed) != signature:
            return False
        if len(raw) == 32 and raw[:31] + bytes([raw[31] & 0x7F]) in WEAK_POINTS:
            return False
        Ed25519PublicKey.from_public_bytes(raw).verify(signed, message)
    except (InvalidSignature, ValueError):
        return False
    return True


def _text(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode("ascii")


def _bytes(text: str) -> bytes:
    return base64.urlsafe_b64decode(text + "=" * (-len(text) % 4))
