"""A walk through records, a page at a time: which page to read, and what of it is wanted."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from typing import TypeAlias

from quipu.ledger.rows import Value
from quipu.model.record import Record, State
from quipu.model.search import Selection, Snapshot
from quipu.model.store import Store
from quipu.rules import filters

PAGE = 500
#: Above every id.
_TOP = "\U0010ffff"
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
    while left is None or left > 0:
        page = await read(*_page(selection, snapshot, below))
        for record in page:
            if _selected(record, selection, snapshot) and (
                tree is None or filters.passes(tree, record, names.get(record.store_id, ""))
            ):
                yield record
                if left is not None and (left := left - 1) <= 0:
                    return
        if len(page) < PAGE:
            return
        below = page[-1].id


def _page(selection: Selection, snapshot: Snapshot, below: str) -> tuple[str, Mapping[str, Value]]:
    """A stretch of the walk, before what narrows it. Forgotten records are only found by their newest version."""
    by_newest = bool(selection.states & {State.FORGOTTEN, State.ERASED}) and snapshot.seq is None
    values: dict[str, Value] = {"tenant": selection.tenant, "below": below, "limit": PAGE}
    name = "page_of_newest" if by_newest else "page_at"
    if selection.agent_id is not None:
        name = "page_of_agent_newest" if by_newest else "page_of_agent_at"
        values["agent_id"] = selection.agent_id
    if not by_newest:
        values["seq"] = (1 << 62) if snapshot.seq is None else snapshot.seq
    return name, values


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
        and (selection.ids is None or record.id in selection.ids)
    )
