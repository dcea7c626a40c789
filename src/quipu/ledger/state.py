"""Between the database and the pure part: what commits need is read under the head's lock, what was decided is written."""

import json
from collections import ChainMap, defaultdict
from collections.abc import Sequence
from typing import Any

from quipu.ledger.commit import (
    KEY_LIFE_MS,
    Close,
    Commit,
    Demote,
    Drop,
    Erase,
    ForEach,
    Keep,
    Put,
    Stands,
    Touch,
)
from quipu.ledger.decide import Answered, OnceKey, RowKey, State, VersionState
from quipu.ledger.driver import Cursor
from quipu.ledger.queries import SQL
from quipu.ledger.records import head_of
from quipu.ledger.table import Key, Row, Table, Value
from quipu.model.journal import GENESIS


def locked_head(cursor: Cursor, tenant: str, now: int = 0) -> Row:
    """The head, locked until the transaction ends. A row that is not there cannot be locked, so it is made first."""
    row = cursor.row(SQL["lock_head"], tenant=tenant)
    if row is None:
        cursor.run(SQL["add_tenant"], tenant=tenant, at=now)
        cursor.run(SQL["add_head"], tenant=tenant, hash=GENESIS)
        row = cursor.row(SQL["lock_head"], tenant=tenant)
    assert row is not None
    return row


def read_state(cursor: Cursor, tenant: str, commits: Sequence[Commit], tables: Sequence[Table[Any]]) -> State:
    """Everything that deciding these commits needs to know."""
    now = max((commit.draft.at for commit in commits), default=0)
    row = locked_head(cursor, tenant, now)
    space = row[7]
    model = None
    if space is not None:
        model = next(
            model for number, model, _ in cursor.rows(SQL["spaces"], tenant=tenant) if number == space
        )
    changes = [change for commit in commits for change in commit.changes]
    erased = [change.id for change in changes if isinstance(change, Erase)]
    return State(
        tenant=tenant,
        head=head_of(row),
        space=space,
        model=model,
        versions=ChainMap(_versions(cursor, tenant, changes)),
        rows=ChainMap(_positions(cursor, tenant, changes, tables, erased)),
        unique=ChainMap(_holders(cursor, tenant, changes)),
        answers=ChainMap(_answers(cursor, tenant, commits)),
        derived=ChainMap(_derived(cursor, tenant, erased)),
        naming=ChainMap(
            {name: tuple(rows) for name, rows in _naming(cursor, tenant, tables, erased).items()}
        ),
        erasable=[table for table in tables if table.names and table.erasable] if erased else (),
        listed=_listed(cursor, tenant, changes),
    )


def write(cursor: Cursor, state: State) -> None:
    """Everything that was decided, in bulk."""
    for query, values in state.statements():
        cursor.run_many(query, values)
    head = state.head
    cursor.run(
        SQL["move_head"],
        tenant=state.tenant,
        seq=head.seq,
        hash=head.hash,
        at=head.at,
        changed=head.changed,
        guarded=head.guarded,
        suspended_at=head.suspended_at,
    )


def _versions(cursor: Cursor, tenant: str, changes: Sequence[Any]) -> dict[str, VersionState]:
    ids: set[str] = set()
    for change in changes:
        match change:
            case Put():
                ids.add(change.record.id)
            case Close() | Erase() | Demote():
                ids.add(change.id)
            case Touch() | Stands():
                ids.update(change.ids)
            case _:
                pass
    if not ids:
        return {}
    return {
        record_id: VersionState(version, bytes(digest).hex(), died is None, state == "erased")
        for record_id, version, died, state, digest in cursor.rows(
            SQL["states"], tenant=tenant, ids=sorted(ids)
        )
    }


def _listed(cursor: Cursor, tenant: str, changes: Sequence[Any]) -> dict[str, list[Any]]:
    tables = {change.over.name: change.over for change in changes if isinstance(change, ForEach)}
    return {
        name: [table.value(row) for row in cursor.rows(table.every, tenant=tenant)]
        for name, table in tables.items()
    }


def _positions(
    cursor: Cursor, tenant: str, changes: Sequence[Any], tables: Sequence[Table[Any]], erased: Sequence[str]
) -> dict[RowKey, int]:
    keys: defaultdict[Table[Any], set[Key]] = defaultdict(set)
    for change in changes:
        if not isinstance(change, Keep | Drop) or not change.table.is_journaled:
            continue
        if isinstance(change, Keep):
            keys[change.table].add(change.table.key_of(change.value))
        else:
            keys[change.table].add(change.key)
    for found in _naming(cursor, tenant, tables, erased).values():
        for table, key in found:
            keys[table].add(key)
    positions: dict[RowKey, int] = {}
    for table, wanted in keys.items():
        lists: dict[str, list[Any]] = {
            name: list({key[place] for key in wanted}) for place, name in enumerate(table.key)
        }
        for *key, seq in cursor.rows(table.states, tenant=tenant, **lists):
            positions[table.name, tuple(key)] = seq
    return positions


def _holders(cursor: Cursor, tenant: str, changes: Sequence[Any]) -> dict[tuple[str, str, Value], Key | None]:
    kept: defaultdict[Table[Any], list[Any]] = defaultdict(list)
    for change in changes:
        if isinstance(change, Keep) and change.table.unique:
            kept[change.table].append(change.value)
    holders: dict[tuple[str, str, Value], Key | None] = {}
    for table, values in kept.items():
        rows = [table.row(value) for value in values]
        for column, query in table.holders:
            wanted = [row[column] for row in rows]
            for *key, value in cursor.rows(query, tenant=tenant, wanted=wanted):
                holders[table.name, column, value] = tuple(key)
    return holders


def _answers(cursor: Cursor, tenant: str, commits: Sequence[Commit]) -> dict[OnceKey, Answered]:
    answers: dict[OnceKey, Answered] = {}
    for commit in commits:
        once = commit.once
        if once is None:
            continue
        row = cursor.row(
            SQL["answer"],
            tenant=tenant,
            principal=once.principal,
            operation=once.operation,
            key=once.key,
            after=commit.draft.at - KEY_LIFE_MS,
        )
        if row is not None:
            fingerprint, answer, at, seq = row
            answers[once.principal, once.operation, once.key] = Answered(
                fingerprint, json.loads(answer), at, seq
            )
    return answers


def _derived(cursor: Cursor, tenant: str, erased: Sequence[str]) -> dict[str, int]:
    if not erased:
        return {}
    found: dict[str, int] = {}
    for name in ("derived_since", "merged_since"):
        for record_id, position in cursor.rows(SQL[name], tenant=tenant, ids=list(erased)):
            found[record_id] = max(found.get(record_id, 0), position or 0)
    return found


def _naming(
    cursor: Cursor, tenant: str, tables: Sequence[Table[Any]], erased: Sequence[str]
) -> dict[str, list[tuple[Table[Any], Key]]]:
    """Rows that go with an erased record because nothing in them may stay."""
    found: dict[str, list[tuple[Table[Any], Key]]] = {}
    if not erased:
        return found
    for table in tables:
        if table.erasable:
            continue
        for query in table.naming:
            for record_id, *key in cursor.rows(query, tenant=tenant, wanted=list(erased)):
                found.setdefault(record_id, []).append((table, tuple(key)))
    return found
