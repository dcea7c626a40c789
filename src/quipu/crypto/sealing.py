"""Values sealed with AES-256-GCM under a key in a file that only its owner can read."""

from __future__ import annotations

import base64
import binascii
import os
from pathlib import Path

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from quipu.crypto.files import write_once
from quipu.errors import BackendUnavailableError, UnverifiableError

_NONCE = 12


class KeySealer:
    """Seals with a key in memory."""

    def __init__(self, key: bytes) -> None:
        self._cipher = AESGCM(key)

    def seal(self, value: bytes, place: bytes) -> bytes:
        nonce = os.urandom(_NONCE)
        return nonce + self._cipher.encrypt(nonce, value, place)

    def unseal(self, sealed: bytes, place: bytes) -> bytes:
        try:
            return self._cipher.decrypt(sealed[:_NONCE], sealed[_NONCE:], place)
        except (InvalidTag, ValueError) as error:
            raise UnverifiableError(
                "A sealed value cannot be opened: it was altered, or the key is another one.",
                reason="missing_key",
                hint="Put back the key file that belongs to this ledger.",
            ) from error

    @classmethod
    def fresh(cls) -> KeySealer:
        """A key that lives no longer than the process."""
        return cls(AESGCM.generate_key(256))


def make(path: Path) -> None:
    """A key in a file, if it is not there."""
    write_once(path, base64.b64encode(AESGCM.generate_key(256)) + b"\n")


def opened(path: Path) -> KeySealer:
    """The key in a file."""
    try:
        return KeySealer(base64.b64decode(path.read_bytes(), validate=False))
    except FileNotFoundError as error:
        raise UnverifiableError(
            f"The key {path.name} is missing.",
            reason="missing_key",
            hint="Put back the key file that belongs to this ledger.",
        ) from error
    except (OSError, ValueError, binascii.Error) as error:
        raise BackendUnavailableError(
            f"The key {path.name} cannot be read.",
            reason="bad_key",
            hint="Restore the key file from a backup.",
        ) from error
