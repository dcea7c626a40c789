"""Text that is made out of entries: by compaction, under a budget, or by leaving out what was said twice."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from typing import Final

from quipu.errors import InvalidError
from quipu.model.record import MemoryType, Record
from quipu.model.value import Json
from quipu.rules.marking import normalised_markers
from quipu.rules.runs_options import size
from quipu.rules.runs_wire import entry_id

#: The tag of commitments that have not fired, and the key under which each keeps its condition.
COMMITMENT_TAG: Final = "commitment"
MOST_BUDGET: Final = 100_000
_TAG = re.compile(r"compacted-from:[^\s:][^\s]*")
_LONGEST_TAG = 256
#: Keys of metadata that lending goes by: whether a memory may leave, and which scope it is in.
_HANDLING: Final = ("exportable", "scope_id")


def compacted(records: Sequence[Record], template: str, most_bytes: int) -> tuple[list[Record], str]:
    """What one entry can say for several, the oldest first, and which of them it speaks for."""
    taken: list[Record] = []
    lines: list[str] = []
    left = most_bytes
    for record in sorted(records, key=lambda one: (one.created_at, one.born, one.id)):
        line = normalised_markers(record.content, template)
        left -= len(line.encode("utf-8")) + 1
        if left < 0:
            break
        taken.append(record)
        lines.append(line)
    return taken, "\n".join(lines)


def derivable(records: Sequence[Record], user_id: str | None) -> list[Record]:
    """What may become part of another entry: one person's own facts, but no commitment."""
    return [
        record
        for record in records
        if record.user_id == user_id
        and record.type is MemoryType.SEMANTIC
        and COMMITMENT_TAG not in record.metadata
    ]


def handled_alike(records: Sequence[Record]) -> list[Record]:
    """The most of them that may become one text: kept in one store, and meant to be handled alike.

    A text keeps the promises made for it, so what is secret, shared with few or not to leave is joined with its own.
    """
    groups: dict[object, list[Record]] = {}
    for record in records:
        held_back = json.dumps(handling(record), sort_keys=True)
        groups.setdefault((record.store_id, record.privacy, held_back), []).append(record)
    return max(groups.values(), key=len, default=list[Record]())


def handling(record: Record) -> dict[str, Json]:
    """What its metadata says of who may have it; whatever is made of it says the same."""
    return {name: record.metadata[name] for name in _HANDLING if name in record.metadata}


def provenance_tags(records: Sequence[Record], most: int) -> tuple[str, ...]:
    """`compacted-from:<id>` for each source whose id fits."""
    tags = (f"compacted-from:{entry_id(record)}" for record in records)
    return tuple(tag for tag in tags if len(tag) <= _LONGEST_TAG and _TAG.fullmatch(tag))[:most]


def earliest_end(records: Sequence[Record]) -> int | None:
    """Derived text lives no longer than the first of its sources."""
    return min((record.expires_at for record in records if record.expires_at is not None), default=None)


def checked_budget(budget: object) -> int:
    """A budget for distillation; more than the most is the most."""
    if budget is None:
        return MOST_BUDGET
    if isinstance(budget, bool) or not isinstance(budget, int) or budget < 1:
        raise InvalidError.at(
            "/tokenBudget", "bad_value", "A budget is at least 1.", accepted=["integer >= 1"]
        )
    return min(budget, MOST_BUDGET)


def distilled(sources: Sequence[str], budget: int, template: str) -> tuple[str, int]:
    """The first sentence of each source, as far as the budget goes, and what it took: what is read counts too.

    InvalidError where not even one sentence fits. Equal sources and budget give equal text.
    """
    clean = [normalised_markers(source, template).strip() for source in sources]
    left = budget - sum(size(text) for text in clean)
    lines: list[str] = []
    for text in clean:
        line = re.split(r"(?<=[.!?])\s|\n", text, maxsplit=1)[0]
        cost = size(line) + (1 if lines else 0)
        if not line or cost > left:
            continue
        lines.append(line)
        left -= cost
    if not lines:
        raise InvalidError(
            "The budget is too small for what is to be distilled.", reason="token_budget_exceeded"
        )
    return "\n".join(lines), budget - left


def same_said(record: Record) -> str:
    """Entries that say the same, however it is spaced and capitalised."""
    return " ".join(record.content.casefold().split())
