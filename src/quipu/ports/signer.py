"""Signatures over the chain."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol


class Signer(Protocol):
    """Holds a private key."""

    @property
    def key_id(self) -> str: ...

    @property
    def public_key(self) -> str:
        """Raw Ed25519 public key, base64url without padding."""
        ...

    @property
    def known_keys(self) -> Mapping[str, str]:
        """Public keys by id; empty as long as nothing was ever signed. Asking makes no key."""
        ...

    def sign(self, message: bytes) -> str: ...
