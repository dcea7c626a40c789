"""What a mirror is sent, how long it is tried, and what is made of what it finds."""

from __future__ import annotations

import math
import re
from collections.abc import Collection
from typing import Final

from quipu.model.record import MemoryType, Record, Sensitivity, State
from quipu.model.search import Restriction, Scope
from quipu.rules import filters
from quipu.rules.reach import in_reach
from quipu.rules.stop_words import is_stop_word

_FIRST_MS: Final = 1_000
_LONGEST_MS: Final = 300_000
_GIVEN_UP_MS: Final = 24 * 3600 * 1000


def is_mirrored(record: Record, now: int, types: Collection[MemoryType]) -> bool:
    """Whether a mirror holds this version: live, in time, of a type it takes, and no secret."""
    is_secret = record.privacy is not None and record.privacy.sensitivity is Sensitivity.SECRET
    is_live = record.standing is State.LIVE and record.ending is None and not record.expired(now)
    return is_live and not is_secret and record.type in types


def next_try(attempts: int, now: int) -> int:
    """When an effect that has failed so many times is tried again: after 1 s, doubling to 5 min."""
    pause = _LONGEST_MS if attempts > 9 else min(_FIRST_MS << max(0, attempts - 1), _LONGEST_MS)
    return now + pause


def is_given_up(written_at: int, now: int) -> bool:
    """Whether it has been tried long enough: a day."""
    return now - written_at >= _GIVEN_UP_MS


def passes(record: Record, scope: Scope, by: Restriction, now: int, store_name: str) -> bool:
    """Whether a record that a mirror found may be returned, as far as that can be told from the record."""
    return (
        record.standing is State.LIVE
        and record.ending is None
        and not record.expired(now)
        and in_reach(record, scope)
        and by.session_id in (None, record.session_id)
        and (not by.types or record.type in by.types)
        and (by.created_from is None or record.created_at >= by.created_from)
        and (by.filter is None or filters.matches(by.filter, record, store_name))
    )


def reported(score: float | None, kind: str) -> float:
    """A mirror's score as a similarity, the right way round and within 0..1; what says nothing is 0."""
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
