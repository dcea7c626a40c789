"""Synchronous reads of one moment and one tenant, on a worker thread: for work that needs several reads."""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from quipu.ledger.commit import KEY_LIFE_MS, Committed
from quipu.ledger.decide import check_same_request
from quipu.ledger.driver import Cursor
from quipu.ledger.index import IndexRow, Known, News, Owner, Space, VersionKey
from quipu.ledger.queries import SQL
from quipu.ledger.records import (
    StoredVersion,
    UnreadableEntry,
    chain_of,
    entries_of,
    head_of,
    mark_of,
    record_of,
    stored_version,
)
from quipu.ledger.table import Key, Row, Table, Value
from quipu.model.journal import GENESIS, Checkpoint, Entry, Head
from quipu.model.record import Mark, Record
from quipu.model.search import Scope, Selection, Snapshot
from quipu.model.value import JsonObject

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

T = TypeVar("T", bound="DataclassInstance")
_FOREVER = 2**62
#: Whoever is further behind than this many positions reads an owner's rows anew.
_FOLLOW_AT_MOST = 20_000
#: Greater than any id.
_LAST_ID = "\U0010ffff"
_LIST = 900
#: The conditions of a journal query that asks for nothing in particular.
_EVERY_ENTRY: Mapping[str, Any] = {
    **{"before": _FOREVER, "op": None, "actor": None, "agent": None},
    **{"run": None, "record": None, "since": None, "until": None},
}


@dataclass(frozen=True, slots=True)
class Kept(Generic[T]):
    """A journaled row, and the position that last kept it: what `Keep.expects` asks for."""

    value: T
    seq: int


@dataclass(frozen=True, slots=True)
class StoredRow:
    """A journaled row as it stands in the database, for verification."""

    key: Key
    columns: Mapping[str, Value]
    #: None: something that it named was erased, and what it said with it.
    salt: bytes | None
    digest: bytes
    seq: int


@dataclass(frozen=True, slots=True, kw_only=True)
class JournalQuery:
    """Which entries; without anything, all of them from the first."""

    after: int = 0
    before: int | None = None
    op: str | None = None
    actor: str | None = None
    agent: str | None = None
    run: str | None = None
    #: The id of a record that the entry names.
    record: str | None = None
    since: int | None = None
    until: int | None = None
    newest_first: bool = False
    limit: int = 1000


@dataclass(frozen=True, slots=True)
class Summary:
    """What a scope holds: type → count, and when the oldest and the newest were created."""

    counts: Mapping[str, int]
    oldest_at: int | None
    newest_at: int | None
    content_bytes: int


@dataclass(frozen=True, slots=True)
class AgentCount:
    """How many memories of one kind an agent has in a store, and when the newest was created."""

    agent_id: str
    store_id: str
    type: str
    count: int
    newest_at: int


class Reader:
    """Reads for one tenant over one cursor."""

    def __init__(self, cursor: Cursor, tenant: str) -> None:
        self.cursor, self.tenant = cursor, tenant

    # -- head and journal ---------------------------------------------------------------------------------------------

    def created_at(self) -> int | None:
        """When the tenant was made; None: there is no such tenant."""
        row = self.cursor.row(SQL["tenant_created"], tenant=self.tenant)
        return None if row is None else row[0]

    def head(self) -> Head:
        return head_of(self.cursor.row(SQL["head"], tenant=self.tenant))

    def entries(self, query: JournalQuery) -> list[Entry]:
        rows = self.cursor.rows(
            SQL["newest_entries" if query.newest_first else "entries"],
            tenant=self.tenant,
            after=query.after,
            before=_FOREVER if query.before is None else query.before,
            op=query.op,
            actor=query.actor,
            agent=query.agent,
            run=query.run,
            record=None if query.record is None else f'%["{query.record}",%',
            since=query.since,
            until=query.until,
            limit=query.limit,
        )
        if not rows:
            return []
        # Each entry follows the one before it, which a selection may have left out.
        before = {row[0] - 1 for row in rows}
        hashes = {
            seq: bytes(hash_)
            for seq, hash_ in self.cursor.rows(SQL["entry_hashes"], tenant=self.tenant, seqs=sorted(before))
        }
        return [entries_of([row], hashes.get(row[0] - 1, GENESIS))[0] for row in rows]

    def chain(self, after: int, prev: bytes, limit: int) -> list[Entry | UnreadableEntry]:
        """The journal behind a position whose hash is `prev`, for verification: also what cannot be read."""
        rows = self.cursor.rows(SQL["entries"], tenant=self.tenant, **_EVERY_ENTRY, after=after, limit=limit)
        return chain_of(rows, prev)

    def entry_hash(self, seq: int) -> bytes | None:
        row = self.cursor.row(SQL["entry_hash"], tenant=self.tenant, seq=seq)
        return None if row is None else bytes(row[0])

    def position_at(self, moment: int) -> int:
        row = self.cursor.row(SQL["position_at"], tenant=self.tenant, moment=moment)
        return 0 if row is None else row[0]

    def checkpoints(self, after: int, limit: int) -> list[Checkpoint]:
        """Signed positions behind another, in order."""
        rows = self.cursor.rows(SQL["checkpoints"], tenant=self.tenant, after=after, limit=limit)
        return [_checkpoint(row) for row in rows]

    def last_checkpoint(self) -> Checkpoint | None:
        row = self.cursor.row(SQL["last_checkpoint"], tenant=self.tenant)
        return None if row is None else _checkpoint(row)

    def replayed(
        self, principal: str, operation: str, key: str, fingerprint: str, now: int
    ) -> Committed | None:
        """The first answer to a write that came with this key."""
        row = self.cursor.row(
            SQL["answer"],
            tenant=self.tenant,
            principal=principal,
            operation=operation,
            key=key,
            after=now - KEY_LIFE_MS,
        )
        if row is None:
            return None
        check_same_request(row[0], fingerprint)
        return Committed(seq=row[3], at=row[2], replayed=json.loads(row[1]))

    # -- records ------------------------------------------------------------------------------------------------------

    def records(self, ids: Sequence[str], seq: int | None = None) -> dict[str, Record]:
        """The versions that are current, or were at a position."""
        position = _FOREVER if seq is None else seq
        return self._by_id("records_at", ids, seq=position)

    def newest_versions(self, ids: Sequence[str]) -> dict[str, Record]:
        """The newest version of each, whatever became of it."""
        return self._by_id("newest_versions", ids)

    def _by_id(self, name: str, ids: Sequence[str], **values: Any) -> dict[str, Record]:
        found: dict[str, Record] = {}
        wanted = [one for one in dict.fromkeys(ids) if _is_storable(one)]
        for start in range(0, len(wanted), _LIST):
            rows = self.cursor.rows(
                SQL[name], tenant=self.tenant, ids=wanted[start : start + _LIST], **values
            )
            found.update({row[0]: record_of(row) for row in rows})
        return {one: found[one] for one in wanted if one in found}

    def versions(self, record_id: str) -> list[Record]:
        if not _is_storable(record_id):
            return []
        rows = self.cursor.rows(SQL["versions"], tenant=self.tenant, id=record_id)
        return [record_of(row) for row in rows]

    def versions_of(self, keys: Sequence[VersionKey]) -> Iterator[Record]:
        """Whole versions, in the order of the keys."""
        for start in range(0, len(keys), _LIST):
            chunk = keys[start : start + _LIST]
            ids = list({record_id for record_id, _ in chunk})
            rows = self.cursor.rows(SQL["versions_of"], tenant=self.tenant, ids=ids)
            by_key = {(row[0], row[1]): row for row in rows}
            yield from (record_of(by_key[key]) for key in chunk)

    def metadata(self, keys: Sequence[VersionKey]) -> Iterator[JsonObject]:
        """Only their metadata."""
        for start in range(0, len(keys), _LIST):
            chunk = keys[start : start + _LIST]
            ids = list({record_id for record_id, _ in chunk})
            rows = self.cursor.rows(SQL["metadata_of"], tenant=self.tenant, ids=ids)
            by_key = {(row[0], row[1]): row[2] for row in rows}
            yield from (json.loads(by_key[key]) if by_key[key] else {} for key in chunk)

    def page(self, selection: Selection, snapshot: Snapshot, below: str | None, limit: int) -> list[Record]:
        """Records of a selection, newest id first; the filter and the states are the caller's to apply."""
        rows = self.cursor.rows(
            SQL["page_of_records"],
            tenant=self.tenant,
            below=_LAST_ID if below is None else below,
            agent_id=selection.agent_id,
            store_id=selection.store_id,
            user_id=selection.user_id,
            session_id=selection.session_id,
            created_to=selection.created_to,
            confidence_below=selection.confidence_below,
            seq=_FOREVER if snapshot.seq is None else snapshot.seq,
            with_ended=int(snapshot.seq is None and not selection.states <= {"live", "archived"}),
            limit=limit,
        )
        return [record_of(row) for row in rows]

    def newest(
        self, scope: Scope, snapshot: Snapshot, below: tuple[int, int, str] | None, limit: int
    ) -> list[Record]:
        """Live records of an agent behind a place in the order of creation, newest first; ties go by position."""
        created_at, born, record_id = below or (_FOREVER, _FOREVER, _LAST_ID)
        rows = self.cursor.rows(
            SQL["newest_records"],
            tenant=self.tenant,
            agent_id=scope.agent_id,
            store_id=scope.store_id,
            user_id=scope.user_id,
            seq=_FOREVER if snapshot.seq is None else snapshot.seq,
            now=snapshot.now,
            created_at=created_at,
            born=born,
            id=record_id,
            limit=limit,
        )
        return [record_of(row) for row in rows]

    def changed(self, agent_id: str, after: int, until: int, below: str, limit: int) -> list[str]:
        """Memories of an agent of which a version began or ended between two positions, newest id first."""
        place: dict[str, Any] = {"after": after, "until": until, "below": below, "limit": limit}
        rows = self.cursor.rows(SQL["changed_between"], tenant=self.tenant, agent_id=agent_id, **place)
        return [row[0] for row in rows]

    def facts(self, agent_id: str, user_id: str | None, store_id: str, key: str) -> list[Record]:
        """Current records that state a named fact."""
        rows = self.cursor.rows(
            SQL["facts"],
            tenant=self.tenant,
            agent_id=agent_id,
            user_id=user_id or "",
            store_id=store_id,
            key=key,
        )
        return [record_of(row) for row in rows]

    def due(self, now: int, limit: int) -> list[Record]:
        rows = self.cursor.rows(SQL["due"], tenant=self.tenant, now=now, limit=limit)
        return [record_of(row) for row in rows]

    def derived(self, ids: Sequence[str]) -> list[str]:
        """What was made here out of these records."""
        return [row[0] for row in self.cursor.rows(SQL["derived"], tenant=self.tenant, ids=list(ids))]

    def made_of(self, ids: Sequence[str]) -> list[str]:
        """The same, and what somebody else made out of them and says so."""
        return [row[0] for row in self.cursor.rows(SQL["made_of"], tenant=self.tenant, ids=list(ids))]

    def marks(self, ids: Sequence[str]) -> dict[str, Mark]:
        found: dict[str, Mark] = {}
        for start in range(0, len(ids), _LIST):
            rows = self.cursor.rows(SQL["marks"], tenant=self.tenant, ids=list(ids[start : start + _LIST]))
            found.update({row[0]: mark_of(row) for row in rows})
        return found

    def reasons(self, record_id: str) -> dict[int, str]:
        if not _is_storable(record_id):
            return {}
        return dict(self.cursor.rows(SQL["reasons"], tenant=self.tenant, id=record_id))

    def summary(self, scope: Scope, snapshot: Snapshot) -> Summary:
        rows = self.cursor.rows(
            SQL["summary"],
            tenant=self.tenant,
            agent_id=scope.agent_id,
            store_id=scope.store_id,
            user_id=scope.user_id,
            seq=_FOREVER if snapshot.seq is None else snapshot.seq,
            now=snapshot.now,
        )
        return Summary(
            counts={row[0]: row[1] for row in rows},
            oldest_at=min((row[2] for row in rows), default=None),
            newest_at=max((row[3] for row in rows), default=None),
            content_bytes=sum(int(row[4] or 0) for row in rows),
        )

    def counts(self, user_id: str | None, now: int) -> list[AgentCount]:
        rows = self.cursor.rows(SQL["count_by_agent"], tenant=self.tenant, user_id=user_id, now=now)
        return [AgentCount(*row) for row in rows]

    def links(self, ids: Sequence[str], seq: int) -> dict[str, set[str]]:
        """What each record was linked with at a position, both ways; a link follows its target through merges."""
        wanted = {record_id: set[str]() for record_id in ids if _is_storable(record_id)}
        names = list(wanted)
        for start in range(0, len(names), _LIST):
            chunk = names[start : start + _LIST]
            place: dict[str, Any] = {"tenant": self.tenant, "seq": seq}
            taken: dict[str, set[str]] = {}
            for into, gone in self.cursor.rows(SQL["merged_away"], **place, ids=chunk):
                taken.setdefault(gone, set()).add(into)
            rows = self.cursor.rows(SQL["links_at"], **place, ids=[*chunk, *taken])
            passed_on = self.survivors([target for _, target in rows], seq)
            for source, target in rows:
                if source in wanted:
                    wanted[source] |= {target, *passed_on.get(target, ())} - {source}
                for reached in (target, *taken.get(target, ())):
                    if reached in wanted and reached != source:
                        wanted[reached].add(source)
        return wanted

    def survivors(self, ids: Sequence[str], seq: int) -> dict[str, set[str]]:
        """What each of these was merged into at a position, and what that was merged into, and so on."""
        found: dict[str, set[str]] = {}
        names = list(dict.fromkeys(one for one in ids if _is_storable(one)))
        for start in range(0, len(names), _LIST):
            chunk = names[start : start + _LIST]
            for gone, into in self.cursor.rows(SQL["survivors"], tenant=self.tenant, ids=chunk, seq=seq):
                found.setdefault(gone, set()).add(into)
        return found

    # -- search ---------------------------------------------------------------------------------------------------------

    def space(self) -> Space | None:
        row = self.cursor.row(SQL["space"], tenant=self.tenant)
        return None if row is None else Space(row[1], row[2])

    def news(self, owner: Owner, known: Known) -> News | None:
        """What an owner's rows are, since somebody last read them; None: nothing is new."""
        row = self.cursor.row(SQL["head"], tenant=self.tenant)
        if row is None:
            return None
        changed, number, refilled = row[3], row[7], row[8]
        level = Known(changed, self.space(), refilled)
        if level == known:
            return None
        kind = "store" if owner.is_store else "agent"
        place: dict[str, Any] = {"tenant": self.tenant, "owner": owner.name}
        is_whole = (
            not known.seq
            or (known.space, known.refilled) != (level.space, level.refilled)
            or changed - known.seq > _FOLLOW_AT_MOST
            or self.cursor.row(SQL[f"emptied_of_{kind}"], **place, after=known.seq) is not None
        )
        after = 0 if is_whole else known.seq
        rows = self.cursor.rows(SQL[f"load_{kind}"], **place, space=number, after=after)
        deaths = [] if is_whole else self.cursor.rows(SQL[f"deaths_of_{kind}"], **place, after=after)
        marks = self.cursor.rows(SQL[f"demoted_of_{kind}"], **place, after=after)
        return News(
            known=level,
            is_whole=is_whole,
            rows=[IndexRow(*found) for found in rows],
            deaths=[(record_id, version, died) for record_id, version, died in deaths],
            demoted=[(record_id, bool(demoted)) for record_id, demoted in marks],
        )

    def without_vector(self, space: Space, limit: int) -> list[Record]:
        spaces = self.cursor.rows(SQL["spaces"], tenant=self.tenant)
        known = (n for n, model, size in spaces if (model, size) == (space.model, space.dimensions))
        rows = self.cursor.rows(
            SQL["without_vector"], tenant=self.tenant, number=next(known, -1), limit=limit
        )
        return [record_of(row) for row in rows]

    def vectors(self, keys: Sequence[VersionKey]) -> dict[VersionKey, bytes]:
        """The vectors of texts that have one; a longer text has one for each passage, and none for itself."""
        row = self.cursor.row(SQL["space"], tenant=self.tenant)
        if row is None or not keys:
            return {}
        ids = list({record_id for record_id, _ in keys})
        found = self.cursor.rows(SQL["vectors"], tenant=self.tenant, number=row[0], ids=ids)
        wanted, size = set(keys), 4 * row[2]
        return {
            (id_, version): bytes(data)
            for id_, version, data in found
            if (id_, version) in wanted and len(data) == size
        }

    def not_emptied(self, keys: Sequence[VersionKey]) -> set[VersionKey]:
        """Those of these versions that still say something."""
        ids = list({record_id for record_id, _ in keys})
        found = self.cursor.rows(SQL["not_emptied"], tenant=self.tenant, ids=ids)
        return {(id_, version) for id_, version in found}

    def every_version(self, after: VersionKey, limit: int) -> list[Record]:
        rows = self.cursor.rows(
            SQL["every_version"], tenant=self.tenant, after_id=after[0], after_version=after[1], limit=limit
        )
        return [record_of(row) for row in rows]

    # -- as it stands, for verification -----------------------------------------------------------------------------------

    def stored_versions(self, after: VersionKey, limit: int) -> list[StoredVersion]:
        """Every version behind another, in the order of id and version."""
        rows = self.cursor.rows(
            SQL["stored_versions"], tenant=self.tenant, after_id=after[0], after_version=after[1], limit=limit
        )
        return [stored_version(self.tenant, row) for row in rows]

    def stored_versions_of(self, ids: Sequence[str]) -> list[StoredVersion]:
        rows = self.cursor.rows(SQL["stored_versions_of"], tenant=self.tenant, ids=list(ids))
        return [stored_version(self.tenant, row) for row in rows]

    def stored_links(self, ids: Sequence[str]) -> list[tuple[str, str, str, int, int | None]]:
        """Source, target, relation, born and died of every link that leads from these records."""
        rows = self.cursor.rows(SQL["links_of"], tenant=self.tenant, ids=list(ids))
        return [(source, target, rel, born, died) for source, target, rel, born, died in rows]

    def stored_vectors(self, ids: Sequence[str]) -> list[tuple[str, int, int, bytes]]:
        """Id, version, number of the space and the numbers themselves, of every vector of these records."""
        rows = self.cursor.rows(SQL["vectors_of"], tenant=self.tenant, ids=list(ids))
        return [(record_id, version, space, bytes(data)) for record_id, version, space, data in rows]

    def spaces(self) -> dict[int, Space]:
        """Every space of the tenant by its number."""
        rows = self.cursor.rows(SQL["spaces"], tenant=self.tenant)
        return {number: Space(model, dimensions) for number, model, dimensions in rows}

    def stored_rows(self, table: Table[Any], after: Key | None, limit: int) -> list[StoredRow]:
        """Rows of a journaled table behind a key."""
        start = {f"after_{name}": value for name, value in table.named(after).items()} if after else {}
        query = table.page((), is_first=after is None)
        rows = self.cursor.rows(query, tenant=self.tenant, limit=limit, **start)
        return [_stored_row(table, row) for row in rows]

    def stored_row(self, table: Table[Any], key: Key) -> StoredRow | None:
        row = self.cursor.row(table.get, tenant=self.tenant, **table.named(key))
        return None if row is None else _stored_row(table, row)

    # -- rows of capabilities ---------------------------------------------------------------------------------------------

    def kept(self, table: Table[T], *key: Any) -> Kept[T] | None:
        row = self.cursor.row(table.get, tenant=self.tenant, **table.named(key))
        return None if row is None else _kept(table, row)

    def get(self, table: Table[T], *key: Any) -> T | None:
        found = self.kept(table, *key)
        return None if found is None else found.value

    def rows(
        self,
        table: Table[T],
        equal: Mapping[str, Any] | None = None,
        after: Key | None = None,
        limit: int = 100,
        newest_first: bool = False,
    ) -> list[Kept[T]]:
        query = table.page(tuple(equal or ()), is_first=after is None, newest_first=newest_first)
        start = {f"after_{name}": value for name, value in table.named(after).items()} if after else {}
        found = self.cursor.rows(query, tenant=self.tenant, limit=limit, **(equal or {}), **start)
        return [_kept(table, row) for row in found]

    def matching(self, table: Table[T], column: str, values: Sequence[Any]) -> list[Kept[T]]:
        rows = self.cursor.rows(table.matching(column), tenant=self.tenant, wanted=list(values))
        return [_kept(table, row) for row in rows]

    def count(self, table: Table[T], equal: Mapping[str, Any] | None = None) -> int:
        row = self.cursor.row(table.count(tuple(equal or ())), tenant=self.tenant, **(equal or {}))
        return 0 if row is None else row[0]

    def least(self, table: Table[Any], column: str, equal: Mapping[str, Any] | None = None) -> Any:
        """The smallest value of a column; None where there is no row."""
        row = self.cursor.row(table.least(column, tuple(equal or ())), tenant=self.tenant, **(equal or {}))
        return None if row is None else row[0]


def _kept(table: Table[T], row: Row) -> Kept[T]:
    return Kept(table.value(row), row[-1] if table.is_journaled else 0)


def _stored_row(table: Table[Any], row: Row) -> StoredRow:
    *values, salt, digest, seq = row
    columns = dict(zip(table.columns, values, strict=True))
    key = tuple(columns[name] for name in table.key)
    return StoredRow(key, columns, None if salt is None else bytes(salt), bytes(digest), seq)


def _checkpoint(row: Row) -> Checkpoint:
    seq, hash_, at, key_id, signature = row
    return Checkpoint(seq=seq, hash=bytes(hash_), at=at, key_id=key_id, signature=signature)


def _is_storable(text: str) -> bool:
    """Whether a text can stand in a database at all; what cannot is not there."""
    if "\0" in text:
        return False
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True
