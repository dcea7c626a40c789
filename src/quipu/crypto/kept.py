"""Keys that are kept in files, read when something is first signed, verified by them, or sealed.

Nothing that computes is loaded before: most commands only read.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from quipu.crypto.keys import Ed25519Signer
    from quipu.crypto.sealing import KeySealer


class KeptSigner:
    """A key in a file, made when something is first signed. Reading and verifying make none."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._signer: Ed25519Signer | None = None

    @property
    def known_keys(self) -> Mapping[str, str]:
        """The public key by its id; nothing when there is no key yet."""
        if self._signer is None and not _is_there(self._path):
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

    def _opened(self) -> Ed25519Signer:
        if self._signer is None:
            from quipu.crypto import keys

            self._signer = keys.opened(self._path)
        return self._signer


class KeptSealer:
    """Seals with a key in a file, made when something is first sealed. Opening makes none."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._sealer: KeySealer | None = None

    def seal(self, value: bytes, place: bytes) -> bytes:
        if self._sealer is None and not _is_there(self._path):
            from quipu.crypto import sealing

            sealing.make(self._path)
        return self._opened().seal(value, place)

    def unseal(self, sealed: bytes, place: bytes) -> bytes:
        return self._opened().unseal(sealed, place)

    def _opened(self) -> KeySealer:
        if self._sealer is None:
            from quipu.crypto import sealing

            self._sealer = sealing.opened(self._path)
        return self._sealer


def _is_there(path: Path) -> bool:
    from quipu.crypto import files

    return files.is_there(path)
