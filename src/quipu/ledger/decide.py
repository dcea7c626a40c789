"""Pure: what stands and what is asked → statements to run. It reads no database and no clock; randomness is handed in.

Each caller decides on a branch. A branch that raises is forgotten, so the others of its group never know of it.
"""

import json
from collections import ChainMap
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, TypeAlias

from quipu.errors import ConflictError, Fault, InvalidError
from quipu.ledger.canonical import canonical_plain
from quipu.ledger.commit import (
    Close,
    Commit,
    Committed,
    Demote,
    Drop,
    Erase,
    ForEach,
    Keep,
    Once,
    Put,
    Stands,
    Suspend,
    Touch,
)
from quipu.ledger.digests import entry_hash, record_digest, row_digest
from quipu.ledger.queries import SQL, Query
from quipu.ledger.records import record_row
from quipu.ledger.table import Key, Table, Value, Values
from quipu.model.journal import Entry, Head, Mention
from quipu.model.record import Record
from quipu.model.value import Json

Random: TypeAlias = Callable[[int], bytes]
RowKey: TypeAlias = tuple[str, Key]
OnceKey: TypeAlias = tuple[str, str, str]

#: Links that say that a record was made out of another, and so says what that says.
_DERIVING = ("derived_from", "compacted_from")
#: What is left of where an erased version came from.
_NO_PROVENANCE = '{"written_by":""}'
_LARGEST = 2**63

# fmt: off
#: Statements run in this order, each kind in bulk. Links are added before former ones end, by position.
_PHASES = (
    "add_entry", "add_record", "end_record", "add_vector", "copy_terms", "copy_vectors", "add_link",
    "end_links", "marks", "add_reason", "rows", "add_answer", "add_answer_record", "erase",
)
# fmt: on


@dataclass(frozen=True, slots=True)
class VersionState:
    """The newest version of a record."""

    version: int
    digest: str
    is_current: bool
    is_erased: bool = False


@dataclass(frozen=True, slots=True)
class Answered:
    """A write that came with a key, and what was answered."""

    fingerprint: str
    answer: Mapping[str, Json]
    at: int
    seq: int


@dataclass(slots=True)
class State:
    """What stands in one tenant, as far as the commits at hand need it."""

    tenant: str
    head: Head
    #: The number and the model of the space that vectors are kept in.
    space: int | None
    model: str | None
    versions: ChainMap[str, VersionState]
    #: The position that last kept a capability's row; 0: gone.
    rows: ChainMap[RowKey, int]
    #: Who has a value that only one row may have: (table, column, value) → key.
    unique: ChainMap[tuple[str, str, Value], Key | None]
    answers: ChainMap[OnceKey, Answered]
    #: The position at which something was last made out of a record, or took its words by a merge.
    derived: ChainMap[str, int]
    #: Rows that name a record and go with it: record → table and key.
    naming: ChainMap[str, tuple[tuple[Table[Any], Key], ...]] = field(default_factory=ChainMap[str, Any])
    #: Tables whose rows lose some columns with an erased record.
    erasable: Sequence[Table[Any]] = ()
    #: Rows of operational tables, by table: `ForEach` writes something for each of them.
    listed: Mapping[str, Sequence[Any]] = field(default_factory=dict[str, Sequence[Any]])
    writes: dict[str, list[tuple[Query, Values]]] = field(
        default_factory=dict[str, list[tuple[Query, Values]]]
    )

    def branch(self) -> "State":
        return replace(
            self,
            versions=self.versions.new_child(),
            rows=self.rows.new_child(),
            unique=self.unique.new_child(),
            answers=self.answers.new_child(),
            derived=self.derived.new_child(),
            naming=self.naming.new_child(),
            writes={},
        )

    def merge(self, branch: "State") -> None:
        self.head = branch.head
        self.versions.update(branch.versions.maps[0])
        self.rows.update(branch.rows.maps[0])
        self.unique.update(branch.unique.maps[0])
        self.answers.update(branch.answers.maps[0])
        self.derived.update(branch.derived.maps[0])
        self.naming.update(branch.naming.maps[0])
        for phase, statements in branch.writes.items():
            self.writes.setdefault(phase, []).extend(statements)

    def write(self, phase: str, query: Query, **values: Value) -> None:
        self.writes.setdefault(phase, []).append((query, {"tenant": self.tenant, **values}))

    def statements(self) -> list[tuple[Query, list[Values]]]:
        """What is to be written, in order, statements of one kind together."""
        found: list[tuple[Query, list[Values]]] = []
        for phase in _PHASES:
            for query, values in self.writes.get(phase, ()):
                if found and found[-1][0] is query:
                    found[-1][1].append(values)
                else:
                    found.append((query, [values]))
        return found


@dataclass(frozen=True, slots=True)
class Caller:
    """Commits that stand or fall together, and the position that their texts were checked at."""

    commits: Sequence[Commit]
    checked_at: int | None = None


def decide(state: State, callers: Sequence[Caller], random: Random) -> list[list[Committed] | Exception]:
    """What each caller gets once `state.statements()` are durable."""
    outcomes: list[list[Committed] | Exception] = []
    for caller in callers:
        branch = state.branch()
        try:
            done = _decided(branch, caller, random)
        except Exception as refusal:  # noqa: BLE001  for this caller alone
            outcomes.append(refusal)
        else:
            state.merge(branch)
            outcomes.append(done)
    return outcomes


def _decided(state: State, caller: Caller, random: Random) -> list[Committed]:
    if caller.checked_at is not None and caller.checked_at < state.head.guarded:
        raise ConflictError("Secrets or rules have changed meanwhile.", reason="secrets_changed")
    for commit in caller.commits:
        if commit.once is not None and (first := _repeated(state, commit.once, commit.draft.at)) is not None:
            again = Committed(seq=first.seq, at=first.at, replayed=first.answer)
            return [again] * len(caller.commits)
    return [_Entry(state, commit, random).committed() for commit in caller.commits]


def _repeated(state: State, once: Once, now: int) -> Answered | None:
    first = state.answers.get((once.principal, once.operation, once.key))
    if first is not None:
        check_same_request(first.fingerprint, once.fingerprint)
    return first


def check_same_request(first: str, fingerprint: str) -> None:
    """Refuse another request under a key that came before."""
    if first != fingerprint:
        raise ConflictError(
            "This idempotency key came with another request before.",
            reason="idempotency_key_mismatch",
            hint="Use a new key for a new request.",
        )


class _Entry:
    """One commit on its way to being an entry of the journal."""

    def __init__(self, state: State, commit: Commit, random: Random) -> None:
        self._state, self._commit, self._random = state, commit, random
        self._seq = state.head.seq + 1
        self._at = max(commit.draft.at, state.head.at)  # entry times never run back
        self._mentions: list[Mention] = list(commit.mentions)
        #: What verification reads off the entry: rows, versions that end, records that are erased.
        self._side: list[list[Any]] = []
        self._ends: list[list[Any]] = []
        self._erased: list[str] = []
        self._head: dict[str, Any] = {}

    def committed(self) -> Committed:
        state, commit, draft = self._state, self._commit, self._commit.draft
        if commit.tenant != state.tenant:
            raise ValueError("commits that belong together are of one tenant")
        if commit.erases_as_of is not None:
            self._check_nothing_derived(commit.erases_as_of)
        for change in commit.changes:
            self._change(change)
        detail: dict[str, Any] = {**draft.detail, "nonce": self._random(8).hex()}
        witness = (("side", self._side), ("ends", self._ends), ("erased", self._erased))
        detail.update((name, value) for name, value in witness if value)
        if "suspended_at" in self._head:
            detail["suspended_at"] = self._head["suspended_at"]
        _check_keepable((draft.actor, draft.op, draft.store, draft.agent, draft.run, draft.node))
        entry = Entry(
            seq=self._seq,
            at=self._at,
            actor=draft.actor,
            op=draft.op,
            store=draft.store,
            agent=draft.agent,
            run=draft.run,
            node=draft.node,
            records=tuple(self._mentions),
            detail=detail,
            prev=state.head.hash,
            hash=b"",
        )
        hashed = entry_hash(state.tenant, entry)
        state.head = replace(state.head, seq=self._seq, hash=hashed, at=self._at, **self._head)
        state.write(
            "add_entry",
            SQL["add_entry"],
            seq=self._seq,
            at=self._at,
            actor=draft.actor,
            op=draft.op,
            store=draft.store,
            agent=draft.agent,
            run=draft.run,
            node=draft.node,
            records=canonical_plain([[one.id, one.version, one.digest] for one in self._mentions]).decode(),
            detail=canonical_plain(detail).decode(),
            hash=hashed,
        )
        self._reason()
        self._once()
        return Committed(seq=self._seq, at=self._at)

    def _change(self, change: Any) -> None:
        match change:
            case Put():
                self._put(change)
            case Close():
                self._close(change)
            case Erase():
                self._erase(change)
            case Demote():
                current = self._current(change.id, change.expects)
                self._state.write("marks", SQL["demote"], id=change.id, seq=self._seq)
                self._mention(change.id, current)
                self._head["changed"] = self._seq
            case Stands():
                for known in map(self._state.versions.get, change.ids):
                    if known is not None and known.is_erased:
                        raise _mismatch(known)
            case Touch():
                for record_id in dict.fromkeys(change.ids):
                    known = self._state.versions.get(record_id)
                    if known is not None and not known.is_erased:  # an erasure may have come between
                        self._state.write("marks", SQL["touch"], id=record_id, at=change.at)
            case Keep():
                self._keep(change)
            case Drop():
                self._drop(change)
            case ForEach():
                for one in self._state.listed.get(change.over.name, ()):
                    for value in change.rows(one, self._seq, self._at):
                        self._state.write("rows", change.table.upsert, **change.table.row(value))
            case Suspend():
                self._head["suspended_at"] = change.at
            case _:
                raise TypeError(type(change).__name__)

    # -- records ----------------------------------------------------------------------------------------------------

    def _put(self, put: Put) -> None:
        state, record = self._state, put.record
        known = state.versions.get(record.id)
        newest = 0 if known is None else known.version
        if newest != put.expects or (known is not None and known.is_erased):
            raise _mismatch(known)
        if put.must_stand and (known is None or not known.is_current):
            raise _mismatch(known)
        _check_record(record)
        salt = self._random(16)
        if record.version != newest + 1:
            record = replace(record, version=newest + 1)
        digest = record_digest(record, salt)  # of what stands before `born`
        if known is not None and known.is_current:
            state.write(
                "end_record",
                SQL["end_record"],
                id=record.id,
                version=newest,
                died=self._seq,
                ending="replaced",
                merged_into=None,
            )
        row = record_row(state.tenant, record, put.terms)
        state.write(
            "add_record", SQL["add_record"], **row | {"born": self._seq, "salt": salt, "digest": digest}
        )
        if put.keeps_index:
            place: Values = {"id": record.id, "version": record.version, "former": newest}
            state.write("copy_terms", SQL["copy_terms"], **place)
            state.write("copy_vectors", SQL["copy_vectors"], **place)
        elif put.vector is not None:
            self._vector(record, put)
        if newest:
            state.write("end_links", SQL["end_links"], id=record.id, died=self._seq)
        for link in dict.fromkeys(record.links):
            state.write(
                "add_link", SQL["add_link"], from_id=record.id, to_id=link.to, rel=link.rel, born=self._seq
            )
            if link.rel in _DERIVING:
                state.derived[link.to] = self._seq
        if newest and put.lifts_demotion:
            state.write("marks", SQL["lift_demotion"], id=record.id, seq=self._seq)
        state.versions[record.id] = VersionState(record.version, digest.hex(), is_current=True)
        self._mentions.append(Mention(record.id, record.version, digest.hex()))
        self._head["changed"] = self._seq

    def _vector(self, record: Record, put: Put) -> None:
        state = self._state
        if state.space is None or put.model != state.model:
            raise ConflictError(
                "This memory uses another embedder by now.",
                reason="embedding_mismatch",
                hint="Open it again with that embedder.",
            )
        state.write(
            "add_vector",
            SQL["add_vector"],
            id=record.id,
            version=record.version,
            space=state.space,
            data=put.vector,
        )

    def _close(self, close: Close) -> None:
        current = self._current(close.id, close.expects)
        self._state.write(
            "end_record",
            SQL["end_record"],
            id=close.id,
            version=current.version,
            died=self._seq,
            ending=close.ending,
            merged_into=close.merged_into,
        )
        self._state.write("end_links", SQL["end_links"], id=close.id, died=self._seq)
        if close.merged_into is not None:
            self._state.derived[close.id] = self._seq
        self._state.versions[close.id] = replace(current, is_current=False)
        self._ends.append([close.id, current.version, close.ending, close.merged_into])
        self._mention(close.id, current)
        self._head["changed"] = self._seq

    def _current(self, record_id: str, expects: int) -> VersionState:
        known = self._state.versions.get(record_id)
        if known is None or not known.is_current or known.version != expects:
            raise _mismatch(known)
        return known

    def _erase(self, erase: Erase) -> None:
        state, record_id = self._state, erase.id
        known = state.versions.get(record_id)
        if known is not None:
            state.write("erase", SQL["empty_record"], id=record_id, seq=self._seq, provenance=_NO_PROVENANCE)
            for name in ("drop_vectors", "drop_links", "drop_mark", "drop_reasons"):
                state.write("erase", SQL[name], id=record_id)
            state.versions[record_id] = replace(known, is_current=False, is_erased=True)
            self._mention(record_id, known)
        self._erased.append(record_id)
        for name in ("drop_answers", "drop_answer_records"):
            state.write("erase", SQL[name], id=record_id)
        for table in state.erasable:
            for query in table.empties:
                state.write("erase", query, record_id=record_id)
        for table, key in state.naming.get(record_id, ()):
            if state.rows.get((table.name, key)):
                self._drop(Drop(table, key))
        self._head["changed"] = self._seq

    def _check_nothing_derived(self, position: int) -> None:
        """Neither a memory, nor a row that says that something about it is kept elsewhere."""
        state = self._state
        ids = [change.id for change in self._commit.changes if isinstance(change, Erase)]
        rows = [row for record_id in ids for row in state.naming.get(record_id, ())]
        if any(state.derived.get(record_id, 0) > position for record_id in ids) or any(
            state.rows.get((table.name, key), 0) > position for table, key in rows
        ):
            raise ConflictError("Something was made out of it meanwhile.", reason="derived_meanwhile")

    def _mention(self, record_id: str, known: VersionState) -> None:
        self._mentions.append(Mention(record_id, known.version, known.digest))

    # -- rows of capabilities -----------------------------------------------------------------------------------------

    def _keep(self, keep: Keep) -> None:
        state, table = self._state, keep.table
        if not table.is_journaled:
            state.write("rows", table.upsert, **table.row(keep.value))
            return
        key = table.key_of(keep.value)
        position = state.rows.get((table.name, key), 0)
        if keep.expects is not None and position != keep.expects:
            raise ConflictError("Somebody else has changed it meanwhile.", reason="row_changed")
        row = table.row(keep.value)
        if table.stamps is not None and not position:
            row[table.stamps] = self._seq
        _check_keepable(tuple(value for value in row.values() if isinstance(value, str)))
        self._check_unique(table, key, row)
        salt = self._random(16)
        digest = row_digest(row, salt)
        state.rows[table.name, key] = self._seq
        state.write("rows", table.upsert, **row, salt=salt, digest=digest, seq=self._seq)
        self._side.append([table.name, list(key), digest.hex()])
        if not table.erasable:  # an erasure later in the group takes it along
            for record_id in (row[name] for name in table.names):
                if isinstance(record_id, str):
                    state.naming[record_id] = (*state.naming.get(record_id, ()), (table, key))
        if table.guards:
            self._head["guarded"] = self._seq

    def _check_unique(self, table: Table[Any], key: Key, row: Values) -> None:
        for column in table.unique:
            place = (table.name, column, row[column])
            if self._state.unique.get(place) not in (None, key):
                raise ConflictError(f"This {column} is taken.", reason="name_taken")
            self._release(table, key)
            self._state.unique[place] = key

    def _release(self, table: Table[Any], key: Key) -> None:
        """The values that the row had before are free again."""
        for place, holder in list(self._state.unique.items()):
            if place[0] == table.name and holder == key:
                self._state.unique[place] = None

    def _drop(self, drop: Drop) -> None:
        state, table = self._state, drop.table
        if not table.is_journaled:
            state.write("rows", table.delete, **table.named(drop.key))
            return
        position = state.rows.get((table.name, drop.key), 0)
        if not position or drop.expects not in (None, position):
            raise ConflictError("There is no such row any more.", reason="row_changed")
        self._release(table, drop.key)
        state.rows[table.name, drop.key] = 0
        state.write("rows", table.delete, **table.named(drop.key))
        self._side.append([table.name, list(drop.key), None])
        if table.guards:
            self._head["guarded"] = self._seq

    # -- reasons and answers ------------------------------------------------------------------------------------------

    def _reason(self) -> None:
        text = self._commit.reason
        if text is None:
            return
        _check_keepable((text,))
        for record_id in dict.fromkeys(mention.id for mention in self._mentions):
            self._state.write("add_reason", SQL["add_reason"], record_id=record_id, seq=self._seq, text=text)

    def _once(self) -> None:
        once = self._commit.once
        if once is None:
            return
        name: Values = {"principal": once.principal, "operation": once.operation, "key": once.key}
        answer = json.dumps(once.answer, ensure_ascii=False)
        self._state.write(
            "add_answer",
            SQL["add_answer"],
            **name,
            fingerprint=once.fingerprint,
            answer=answer,
            at=self._at,
            seq=self._seq,
        )
        for record_id in once.record_ids:
            self._state.write("add_answer_record", SQL["add_answer_record"], **name, record_id=record_id)
        place = (once.principal, once.operation, once.key)
        self._state.answers[place] = Answered(once.fingerprint, once.answer, self._at, self._seq)


def _mismatch(known: VersionState | None) -> ConflictError:
    now = "is not there" if known is None or not known.is_current else f"is at version {known.version}"
    return ConflictError(
        f"The memory {now}; it was changed by somebody else.",
        reason="version_mismatch",
        hint="Read it again and repeat the change.",
    )


def _check_record(record: Record) -> None:
    named = (record.id, record.agent_id, record.user_id, record.session_id, record.source, record.key)
    texts = (
        *named,
        record.content,
        *record.tags,
        *(link.to for link in record.links),
        *(link.rel for link in record.links),
    )
    _check_keepable(texts)
    _check_json(record.metadata)
    _check_json(record.details)


def _check_json(value: Any) -> None:
    match value:
        case str():
            _check_keepable((value,))
        case bool() | None:
            pass
        case int() if not -_LARGEST <= value < _LARGEST:
            raise _unkeepable()
        case Mapping():
            for name, item in value.items():  # pyright: ignore[reportUnknownVariableType]  free JSON
                _check_json(name)
                _check_json(item)
        case list() | tuple():
            for item in value:  # pyright: ignore[reportUnknownVariableType]  free JSON
                _check_json(item)
        case _:
            pass


def _check_keepable(texts: Sequence[str | None]) -> None:
    """PostgreSQL keeps no U+0000, and no engine keeps half a character, so neither ledger does."""
    for text in texts:
        if text is None or (text.isascii() and "\0" not in text):
            continue
        try:
            text.encode()
        except UnicodeEncodeError:
            raise _unkeepable() from None
        if "\0" in text:
            raise _unkeepable()


def _unkeepable() -> InvalidError:
    fault = Fault(
        "", "bad_value", "text without U+0000 and without halves of characters, integers of 64 bits"
    )
    return InvalidError("A value cannot be kept.", faults=[fault])
