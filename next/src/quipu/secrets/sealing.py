"""Values sealed with AES-256-GCM under a key in a file that only its owner can read."""

import base64
import binascii
import os
from pathlib import Path
from typing import Protocol

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from quipu.errors import BackendUnavailableError, UnverifiableError

_NONCE = 12
_HINT = "Put back the key file that belongs to this ledger (`sealing_key` says where it is looked for)."


class Sealer(Protocol):
    """Seals values, each to the place where it is kept."""

    def seal(self, value: bytes, place: bytes) -> bytes: ...
    def unseal(self, sealed: bytes, place: bytes) -> bytes:
        """UnverifiableError when it was altered or the key is another one."""
        ...


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
                hint=_HINT,
            ) from error

    @classmethod
    def fresh(cls) -> "KeySealer":
        """A key that lives no longer than the process: for a memory that is not kept either."""
        return cls(AESGCM.generate_key(256))


class FileSealer:
    """Seals with a key in a file, which is made when something is first sealed."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._sealer: KeySealer | None = None

    def seal(self, value: bytes, place: bytes) -> bytes:
        if self._sealer is None and not self._path.exists():
            self._make()
        return self._opened().seal(value, place)

    def unseal(self, sealed: bytes, place: bytes) -> bytes:
        return self._opened().unseal(sealed, place)

    def _make(self) -> None:
        """Of two who come at once one makes it."""
        self._path.parent.mkdir(parents=True, exist_ok=True)
        draft = self._path.with_name(f"{self._path.name}.{os.getpid()}")
        with os.fdopen(os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
            file.write(base64.b64encode(AESGCM.generate_key(256)) + b"\n")
            file.flush()
            os.fsync(file.fileno())
        try:
            os.link(draft, self._path)
        except FileExistsError:
            pass
        finally:
            draft.unlink()

    def _opened(self) -> KeySealer:
        if self._sealer is None:
            try:
                self._sealer = KeySealer(base64.b64decode(self._path.read_bytes(), validate=False))
            except FileNotFoundError as error:
                raise UnverifiableError(
                    f"The key {self._path.name} is missing.", reason="missing_key", hint=_HINT
                ) from error
            except (OSError, ValueError, binascii.Error) as error:
                raise BackendUnavailableError(
                    f"The key {self._path.name} cannot be read.",
                    reason="bad_key",
                    hint="Restore the key file from a backup.",
                ) from error
        return self._sealer
