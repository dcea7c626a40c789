"""How files are sealed: age, whose files other programs open too."""

from __future__ import annotations

from quipu.crypto.age import Age, is_sealed, new_identity
from quipu.ports.envelope import Envelope

__all__ = ["envelope", "is_sealed", "new_identity"]


def envelope() -> Envelope:
    """What seals and opens files."""
    return Age()
