"""What counts as pushed into a window of short-term memory (memorywire contract 8)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, TypeGuard

from quipu.model.change import Put
from quipu.model.record import State, Tier

if TYPE_CHECKING:
    from quipu.model.change import Change, Commit


def is_push(change: Change) -> TypeGuard[Put]:
    """Whether a change puts a live record into short-term memory."""
    return (
        isinstance(change, Put)
        and change.record.tier is Tier.SHORT_TERM
        and change.record.state is State.LIVE
    )


def have_push(commits: Sequence[Commit]) -> bool:
    """Whether one of the commits puts something there."""
    for commit in commits:  # every write is asked: any() would cost it three times as much
        for change in commit.changes:
            if is_push(change):
                return True
    return False
