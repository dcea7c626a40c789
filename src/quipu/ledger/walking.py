"""A walk through records, a page at a time: which page to read, and what of it is wanted.

The ledger leaves out what is of others, and most of what cannot pass the filter; what is wanted is said here.
"""

from __future__ import annotations

import math
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from typing import TypeAlias

from quipu.ledger.rows import Value
from quipu.model.record import Record, State
from quipu.model.search import Selection, Snapshot
from quipu.model.store import Store
from quipu.rules import filters
from quipu.rules.filter_needs import Needs, Range, needs

PAGE = 500
#: Who wants few is read few at first.
_FEWEST = 50
#: Above every id.
_TOP = "\U0010ffff"
#: Later than any time.
_END = 1 << 62
#: What becomes of a version; the others are what it was born with.
_ENDED = frozenset({State.FORGOTTEN, State.ERASED})
#: A statement and its values → the records it finds.
Read: TypeAlias = Callable[[str, Mapping[str, Value]], Awaitable[Sequence[Record]]]


async def walk(
    read: Read, selection: Selection, snapshot: Snapshot, stores: Sequence[Store]
) -> AsyncIterator[Record]:
    """Newest id first, one version of each record: the one current at the snapshot."""
    left = selection.limit
    below = selection.below or _TOP
    names = {store.id: store.name for store in stores}
    tree = None if selection.filter is None else filters.compiled(selection.filter)
    needed = needs(tree)
    size = PAGE if left is None else min(PAGE, max(left, _FEWEST))
    while left is None or left > 0:
        page = await read(*_page(selection, snapshot, needed, below, size))
        for record in page:
            if _selected(record, selection, snapshot) and (
                tree is None or filters.passes(tree, record, names.get(record.store_id, ""))
            ):
                yield record
                if left is not None and (left := left - 1) <= 0:
                    return
        if len(page) < size:
            return
        below, size = page[-1].id, PAGE


def _page(
    selection: Selection, snapshot: Snapshot, needed: Needs, below: str, size: int
) -> tuple[str, Mapping[str, Value]]:
    """A stretch of the walk. Forgotten records are only found by their newest version."""
    created_at = Range() if needed.created_at is None else needed.created_at
    if selection.created_to is not None:
        created_at = created_at.within(Range(high=selection.created_to))
    confidence = needed.confidence
    if selection.confidence_below is not None:
        confidence = Range(high=selection.confidence_below).within(confidence or Range())
    by_newest = bool(selection.states & _ENDED) and snapshot.seq is None
    values: dict[str, Value] = {
        "tenant": selection.tenant,
        "below": below,
        "limit": size,
        "user_id": selection.user_id,
        "session_id": selection.session_id,
        "store_id": selection.store_id,
        "types": " ".join(sorted(selection.types)) or None,
        "states": None if selection.states & _ENDED else " ".join(sorted(selection.states)),
        "is_ended": 1 if by_newest and selection.states <= _ENDED else None,
        "created_from": _moment(math.floor, created_at.low),
        "created_to": _moment(math.ceil, created_at.high),
        **_bounds("confidence", confidence),
        **_bounds("importance", needed.importance),
        **_bounds("number", needed.number),
        "number_at": needed.number_at,
        "source": needed.source,
        "in_metadata": selection.in_metadata or needed.in_metadata,
        "in_tags": needed.in_tags,
    }
    name = "page_of_newest" if by_newest else "page_at"
    if selection.agent_id is not None:
        name = "page_of_agent_newest" if by_newest else "page_of_agent_at"
        values["agent_id"] = selection.agent_id
    if not by_newest:
        values["seq"] = (1 << 62) if snapshot.seq is None else snapshot.seq
    return name, values


def _bounds(name: str, range: Range | None) -> dict[str, Value]:
    low, high = (None, None) if range is None else (range.low, range.high)
    return {f"{name}_from": low, f"{name}_to": high}


def _moment(rounded: Callable[[float], int], number: float) -> int | None:
    """A bound of times as a ledger keeps them; None where there is none."""
    return rounded(max(-_END, min(_END, number))) if math.isfinite(number) else None


def _selected(record: Record, selection: Selection, snapshot: Snapshot) -> bool:
    """What narrows a walk, beside the filter."""
    state = record.standing if snapshot.seq is None or record.is_emptied else record.state
    if state is State.LIVE and record.expired(snapshot.now):
        return False
    return (
        state in selection.states
        and (selection.user_id is None or record.user_id == selection.user_id)
        and (selection.session_id is None or record.session_id == selection.session_id)
        and (selection.store_id is None or record.store_id == selection.store_id)
        and (not selection.types or record.type in selection.types)
        and (selection.created_to is None or record.created_at <= selection.created_to)
        and (selection.confidence_below is None or record.confidence < selection.confidence_below)
    )
