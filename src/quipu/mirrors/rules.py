"""Pure: what a mirror is sent, how long it is tried, and what its scores are worth."""

import math
import re
from collections.abc import Collection, Sequence
from dataclasses import replace
from typing import Any, Final

from quipu.ledger.commit import Close, Commit, Erase, ForEach, Put
from quipu.mirrors.backend import Container, Copy, ScoreKind
from quipu.mirrors.model import MIRRORS, OUTBOX, MirrorRow, Owed
from quipu.model.record import MemoryType, Record
from quipu.search.text import is_stop_word

_FIRST_MS: Final = 1_000
_LONGEST_MS: Final = 300_000
_GIVEN_UP_MS: Final = 24 * 3600 * 1000


# -- the outbox -------------------------------------------------------------------------------------------------------


def changed(commits: Sequence[Commit]) -> list[set[str]]:
    """For each commit, the records whose copies it concerns."""
    return [
        {
            change.record.id if isinstance(change, Put) else change.id
            for change in commit.changes
            if isinstance(change, Put | Close | Erase)
        }
        for commit in commits
    ]


def with_outbox(commit: Commit) -> Commit:
    """The commit, and with it what every mirror that the tenant has by then is owed."""
    (ids,) = changed([commit])
    if not ids:
        return commit

    def owed(mirror: Any, position: int, at: int) -> list[Owed]:
        assert isinstance(mirror, MirrorRow)
        return [Owed(mirror=mirror.name, record_id=name, position=position, at=at) for name in sorted(ids)]

    return replace(commit, changes=(*commit.changes, ForEach(MIRRORS, OUTBOX, owed)))


def tried(owed: Owed, error: str, now: int) -> Owed:
    """After another try that failed: again after a second, doubling to five minutes, for a day."""
    attempts = owed.attempts + 1
    pause = _LONGEST_MS if attempts > 9 else min(_FIRST_MS << (attempts - 1), _LONGEST_MS)
    is_over = now - owed.at >= _GIVEN_UP_MS
    return replace(
        owed,
        attempts=attempts,
        next_at=now + pause,
        error=error,
        status="given_up" if is_over else "waiting",
    )


# -- copies -----------------------------------------------------------------------------------------------------------


def is_mirrored(record: Record, now: int, types: Collection[MemoryType]) -> bool:
    """Whether a mirror holds this version: it stands, in time, is of a type that the mirror takes, and no secret."""
    is_secret = record.privacy is not None and record.privacy.sensitivity == "secret"
    stands = record.standing == "live" and record.ending is None and not record.is_expired(now)
    return stands and not is_secret and record.type in types


def container_of(tenant: str, record: Record) -> Container:
    return Container(
        tenant=tenant, store_id=record.store_id, agent_id=record.agent_id, user_id=record.user_id
    )


def copy_of(tenant: str, record: Record, native_id: str | None) -> Copy:
    """What a mirror is given of a record."""
    return Copy(
        container=container_of(tenant, record),
        record_id=record.id,
        version=record.version,
        type=record.type,
        content=record.content,
        metadata=record.metadata,
        tags=record.tags,
        session_id=record.session_id,
        source=record.source,
        confidence=record.confidence,
        created_at=record.created_at,
        native_id=native_id,
    )


# -- foreign hits -----------------------------------------------------------------------------------------------------


def reported(score: float | None, kind: ScoreKind) -> float:
    """A mirror's score as a similarity from 0 to 1, the right way round; what says nothing is 0."""
    if score is None or math.isnan(score) or kind in ("rrf", "rank_only"):
        return 0.0
    if kind == "distance":
        return 1 / (1 + max(0.0, score))
    return min(1.0, max(0.0, score))


def covered(query: str, text: str) -> float:
    """The share of a query's words that a text has; of those that mean something, where there are any."""
    words = re.findall(r"\w+", query.lower())
    wanted = {word for word in words if not is_stop_word(word)} or set(words)
    has = set(re.findall(r"\w+", text.lower()))
    return len(wanted & has) / len(wanted) if wanted else 0.0
