"""Looking things up on one connection, where one statement alone does not answer."""

from __future__ import annotations

from collections.abc import Sequence

import apsw

from quipu.errors import NotFoundError
from quipu.ledger import rows
from quipu.ledger.sqlite import statements
from quipu.model.change import Commit, Erase
from quipu.model.record import Mark, Record
from quipu.rules import derivations


def records(
    connection: apsw.Connection, tenant: str, ids: Sequence[str], seq: int | None
) -> dict[str, Record]:
    """Records by id: the newest version of each, or the one that was current at a position."""
    found: dict[str, Record] = {}
    with connection:  # one moment for all of them: no half of a commit is seen
        for record_id in dict.fromkeys(ids):
            if seq is None:
                row = statements.first(connection, "record_newest", tenant=tenant, id=record_id)
            else:
                row = statements.first(connection, "record_at", tenant=tenant, id=record_id, seq=seq)
            if row is not None:
                found[record_id] = rows.record_of(row)
    return found


def marks(connection: apsw.Connection, tenant: str, ids: Sequence[str]) -> dict[str, Mark]:
    """Use and standing of records, by id."""
    found: dict[str, Mark] = {}
    for record_id in ids:
        row = statements.first(connection, "mark", tenant=tenant, id=record_id)
        if row is not None:
            found[record_id] = Mark(row[0], row[1], row[2], bool(row[3]))
    return found


def leaves_behind(connection: apsw.Connection, commit: Commit) -> bool:
    """Whether what a commit erases was made into something, or merged, since that was decided: it would live on there."""
    tenant, after = commit.tenant, commit.erases_as_of
    if after is None:
        return False
    ids = frozenset(change.id for change in commit.changes if isinstance(change, Erase))
    held = statements.select(connection, "held_since", tenant=tenant, after=after)
    return any(derivations.names_one_of(rows.decoded(request), ids) for (request,) in held) or any(
        statements.first(connection, "went_on_since", tenant=tenant, id=name, after=after) for name in ids
    )


def position_at(connection: apsw.Connection, tenant: str, moment: int) -> int:
    """The last position that was written by then; 0 before the first."""
    head = statements.first(connection, "head", tenant=tenant)
    if head is None:
        raise NotFoundError("There is no such tenant.", reason="tenant")
    low, high = 0, int(head[0])
    while low < high:  # times never run back along the chain
        middle = (low + high + 1) // 2
        at = statements.scalar(connection, "entry_time", tenant=tenant, seq=middle)
        if at is None:
            raise rows.lost_entry(middle)
        low, high = (middle, high) if at <= moment else (low, middle - 1)
    return low
