"""A vector belongs to the space of one model, and a ledger searches in one space at a time."""

from __future__ import annotations

from quipu.errors import ConflictError


def moved_on(model: str | None) -> ConflictError:
    """Somebody has moved the ledger to another embedder since this process opened it."""
    return ConflictError(
        f"This memory has been moved to the embedder {model}.",
        reason="embedding_mismatch",
        hint="Open it again with that embedder.",
    )
