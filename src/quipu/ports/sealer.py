"""Values that can only be read with a key that is not in the ledger."""

from __future__ import annotations

from typing import Protocol


class Sealer(Protocol):
    """Encrypts and decrypts. `place` binds a value to where it is kept: moved elsewhere it cannot be opened."""

    def seal(self, value: bytes, place: bytes) -> bytes: ...

    def unseal(self, sealed: bytes, place: bytes) -> bytes:
        """Raises UnverifiableError without the right key, or when the value was altered or moved."""
        ...
