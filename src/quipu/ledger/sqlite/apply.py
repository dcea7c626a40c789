"""One commit inside a transaction: check what it expects, make its changes, tie its knot."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import apsw

from quipu.errors import ConflictError, NotFoundError
from quipu.ledger import rows
from quipu.ledger.search.terms import Tokenizer
from quipu.ledger.sqlite import adding, answers, looking, registry, runs, statements
from quipu.model.change import (
    Approve,
    Change,
    Close,
    Commit,
    Committed,
    Demote,
    DropStore,
    Erase,
    OpenStore,
    Put,
    Settle,
    Stage,
    Touch,
)
from quipu.model.journal import Entry, Mention
from quipu.model.record import State
from quipu.model.runs import RUN_CHANGES, ExpireRun, KeepRef, OpenRun, RunStep
from quipu.ports.surroundings import Canonical
from quipu.rules.chain import entry_hash
from quipu.rules.telling import needs_digest, told_detail

#: Changes that concern no record as readers see it.
_BESIDE = (Touch, *RUN_CHANGES)


@dataclass(slots=True)
class _Head:
    seq: int
    hash: bytes
    at: int
    changed: int
    space: adding.Space
    guarded: int
    has_mirrors: bool


class Transaction:
    """Applies commits in the transactions of one connection, one after the other.

    What it has read of a tenant stays good until the transaction ends, as nobody else can write meanwhile: many commits
    in one transaction read it once. `forget` says that a new transaction begins, or that something else was written.

    New records, their entries and the head wait until something else is to be written or read, or the transaction
    ends: those of many commits go into the file by one statement each. `flush` must come before either.
    """

    def __init__(self, connection: apsw.Connection, tokenizer: Tokenizer, canonical: Canonical) -> None:
        self._connection = connection
        self._tokenizer = tokenizer
        self._waiting = adding.Waiting(connection, tokenizer)
        #: Tenants whose chain has grown beyond what their row says.
        self._grown: dict[str, _Head] = {}
        self._canonical = canonical
        self._tenant = ""
        self._seq = 0
        self._at = 0
        self._actor = ""
        self._space = adding.Space(None, None, None)
        self._heads: dict[str, _Head] = {}
        self._stores: set[tuple[str, str]] = set()

    def forget(self) -> None:
        """What was read of any tenant may hold no more; what waits belongs to a transaction that was undone."""
        self._heads.clear()
        self._stores.clear()
        self._waiting.forget()
        self._grown.clear()

    def flush(self) -> None:
        """Write what waits."""
        self._waiting.flush()
        for tenant, head in self._grown.items():
            self._run(
                "move_head", tenant=tenant, seq=head.seq, hash=head.hash, at=head.at, changed=head.changed
            )
        self._grown.clear()

    def apply(self, commit: Commit, guard: int | None = None) -> Committed:
        head = self._head(commit.tenant)
        if guard is not None and guard != head.guarded:
            raise ConflictError("The list of secrets has changed meanwhile.", reason="secrets_changed")
        if commit.once and (
            done := answers.answered(self._connection, commit.tenant, commit.once, commit.draft.at)
        ):
            return done
        at = max(commit.draft.at, head.at)
        self._tenant, self._seq, self._at = commit.tenant, head.seq + 1, at
        self._actor, self._space = commit.draft.actor, head.space
        mentions = list(commit.mentions)
        new = adding.plainly_new(commit.changes)
        if new:
            mentions.extend(self._put_all(new))
        is_plain = bool(new) and len(new) == len(commit.changes)
        is_change = is_plain
        if not is_plain:
            self.flush()
            if looking.leaves_behind(self._connection, commit):
                raise ConflictError(
                    "What is erased has become something else meanwhile.", reason="version_mismatch"
                )
            for change in commit.changes[len(new) :]:
                mentions.extend(self._change(change))
            is_change = any(not isinstance(change, _BESIDE) for change in commit.changes)
        self._tie(commit, head, mentions, is_change=is_change)
        if not is_plain:
            self.flush()  # it may have written what the next one reads
        if is_change and mentions and head.has_mirrors:
            self._run("intend", tenant=commit.tenant, seq=self._seq)
        if commit.reason:
            for record_id in {mention.id: None for mention in mentions}:
                self._run(
                    "add_reason", tenant=commit.tenant, record_id=record_id, seq=self._seq, text=commit.reason
                )
        if commit.once:
            answers.keep(self._connection, commit, commit.once, self._seq, self._at)
        return Committed(seq=self._seq, at=at)

    def _head(self, tenant: str) -> _Head:
        known = self._heads.get(tenant)
        if known is not None:
            return known
        row = self._first("ground", tenant=tenant)
        if row is None:
            raise NotFoundError("There is no such tenant.", reason="tenant")
        seq, digest, at, changed, *space, guarded, has_mirrors = row
        head = self._heads[tenant] = _Head(
            seq, digest, at, changed, adding.Space(*space), guarded, has_mirrors=bool(has_mirrors)
        )
        return head

    def _tie(self, commit: Commit, head: _Head, mentions: Sequence[Mention], *, is_change: bool) -> None:
        draft = commit.draft
        entry = Entry(
            tenant=commit.tenant,
            seq=self._seq,
            at=self._at,
            actor=draft.actor,
            op=draft.op,
            store=draft.store,
            agent=draft.agent,
            run=draft.run,
            node=draft.node,
            records=tuple(mentions),
            detail=told_detail(commit, self._canonical) if needs_digest(commit) else draft.detail,
            prev=head.hash.hex(),
            hash="",
        )
        digest = bytes.fromhex(entry_hash(entry, self._canonical))
        self._waiting.tie((*rows.entry_values(entry, is_terse=True)[:-1], digest))
        head.seq, head.hash, head.at = self._seq, digest, self._at
        head.changed = self._seq if is_change else head.changed
        self._grown[commit.tenant] = head

    def _run(self, statement: str, /, **values: rows.Value) -> None:
        statements.run(self._connection, statement, **values)

    def _first(self, statement: str, /, **values: rows.Value) -> rows.Row | None:
        return statements.first(self._connection, statement, **values)

    # -- changes ------------------------------------------------------------------------------------------------

    def _change(self, change: Change) -> Sequence[Mention]:
        match change:
            case Put():
                return self._put(change)
            case Close():
                return self._close(change)
            case Erase():
                return self._erase(change)
            case Demote():
                return self._demote(change)
            case Touch():
                return self._touch(change)
            case OpenStore():
                return self._open_store(change)
            case DropStore():
                return self._drop_store(change)
            case Stage():
                return self._stage(change)
            case Approve():
                return self._approve(change)
            case Settle():
                return self._settle(change)
            case OpenRun() | RunStep() | ExpireRun() | KeepRef():
                runs.change(self._connection, self._tenant, self._seq, self._at, change)
                return ()
            case _:
                tied = registry.Tied(self._tenant, self._seq, self._at, self._actor)
                registry.change(self._connection, tied, change)
                self._heads.pop(self._tenant, None)  # it may have moved the guard
                return ()

    def _put(self, put: Put) -> Sequence[Mention]:
        record = put.record
        self._check_store(record.store_id)
        previous = self._expected(record.id, put.expects, must_stand=put.must_stand) if put.expects else None
        if previous is not None and not previous.is_closed:
            self._end(previous.row, record.id, "replaced", None)
        row = adding.add(self._connection, self._tokenizer, self._seq, put)
        self._index(put, row, previous)
        for link in record.links:
            self._run(
                "add_link",
                tenant=record.tenant,
                from_id=record.id,
                to_id=self._survivor(link.to),
                rel=link.rel,
                seq=self._seq,
            )
        if record.created_at > self._at:
            self._run("move_ahead", tenant=record.tenant, created_at=record.created_at)
        if put.lifts_demotion and put.expects:
            self._run("lift_demotion", tenant=record.tenant, id=record.id, seq=self._seq)
        return [Mention(record.id, record.version, record.digest)]

    def _put_all(self, puts: Sequence[Put]) -> Sequence[Mention]:
        """What `_put` does for each, but that they wait."""
        latest = self._at
        mentions: list[Mention] = []
        for put in puts:
            record = put.record
            self._check_store(record.store_id)
            self._waiting.put(self._seq, self._space, put)
            latest = max(latest, record.created_at)
            mentions.append(Mention(record.id, record.version, record.digest))
        if latest > self._at:
            self._run("move_ahead", tenant=self._tenant, created_at=latest)
        return mentions

    def _survivor(self, record_id: str) -> str:
        """The record itself, or the one it was merged into, or that one was, and so on."""
        passed = {record_id}
        while (row := self._first("merged_into", tenant=self._tenant, id=record_id)) and row[0] is not None:
            if row[0] in passed:
                break
            record_id = row[0]
            passed.add(record_id)
        return record_id

    def _check_store(self, store_id: str) -> None:
        """Another process may have deleted the store since the caller looked it up."""
        if (self._tenant, store_id) not in self._stores:
            if not self._first("store_exists", tenant=self._tenant, id=store_id):
                raise NotFoundError("There is no such memory store.", reason="store")
            self._stores.add((self._tenant, store_id))

    def _index(self, put: Put, row: int, previous: _Previous | None) -> None:
        if put.keeps_index and previous is not None:
            self._run("copy_terms", source=previous.row, target=row)
            self._run("copy_vectors", source=previous.row, target=row)
        else:
            adding.add_vector(self._connection, self._space, put, row)

    def _close(self, close: Close) -> Sequence[Mention]:
        record = close.record
        previous = self._expected(record.id, record.version, must_stand=True)
        self._end(previous.row, record.id, close.ending.value, close.merged_into)
        return [Mention(record.id, record.version, record.digest)]

    def _end(self, row: int, record_id: str, ending: str, merged_into: str | None) -> None:
        self._run("close_version", row=row, seq=self._seq, ending=ending, merged_into=merged_into)
        self._run("close_links", tenant=self._tenant, id=record_id, seq=self._seq)
        if merged_into is not None:
            self._run(
                "redirect_links", tenant=self._tenant, id=record_id, merged_into=merged_into, seq=self._seq
            )
            self._run("close_links_to", tenant=self._tenant, id=record_id, seq=self._seq)

    def _expected(self, record_id: str, version: int, *, must_stand: bool) -> _Previous:
        row = self._first("latest", tenant=self._tenant, id=record_id)
        is_as_expected = row is not None and row[1] == version and row[3] is None
        if row is None or not is_as_expected or (must_stand and row[2] is not None):
            raise ConflictError(
                "The record has changed meanwhile.",
                reason="version_mismatch",
                hint="Read it again and repeat the change.",
            )
        return _Previous(row[0], row[2] is not None)

    def _erase(self, erase: Erase) -> Sequence[Mention]:
        versions = statements.select(self._connection, "rows_of", tenant=self._tenant, id=erase.id)
        self._run("empty_event_tags", tenant=self._tenant, id=erase.id)  # by runs, while they are still known
        self._run("empty_versions", tenant=self._tenant, id=erase.id, seq=self._seq)
        for row, *_ in versions:
            self._run("drop_vectors_of", row=row)
        for name in ("drop_links_of", "drop_mark", "drop_reasons", "drop_answers", "empty_variables"):
            self._run(name, tenant=self._tenant, id=erase.id)
        self._run("drop_proposals", tenant=self._tenant, id=erase.id, at=self._at)
        return [Mention(erase.id, version, digest.hex()) for _row, version, digest, _emptied in versions]

    def _demote(self, demote: Demote) -> Sequence[Mention]:
        record = demote.record
        self._expected(record.id, record.version, must_stand=True)
        self._run("demote", tenant=self._tenant, id=record.id, seq=self._seq)
        return [Mention(record.id, record.version, record.digest)]

    def _touch(self, touch: Touch) -> Sequence[Mention]:
        for record_id in touch.ids:
            latest = self._first("latest", tenant=self._tenant, id=record_id)
            # An erasure between the recall and this note must not bring the mark back.
            if latest is not None and latest[4] != State.ERASED.value:
                self._run("touch", tenant=self._tenant, id=record_id, at=touch.at)
        return ()

    def _open_store(self, change: OpenStore) -> Sequence[Mention]:
        store = change.store
        try:
            self._run(
                "open_store",
                tenant=store.tenant,
                id=store.id,
                name=store.name,
                scope=store.scope.value,
                tier=store.tier.value,
                namespace=store.namespace,
                description=store.description,
                created_at=store.created_at,
            )
        except apsw.ConstraintError as error:
            if getattr(error, "extendedresult", None) != apsw.SQLITE_CONSTRAINT_UNIQUE:
                raise
            raise ConflictError("A store of this name exists already.", reason="name_taken") from error
        return ()

    def _drop_store(self, change: DropStore) -> Sequence[Mention]:
        if self._first("current_in_store", tenant=self._tenant, id=change.store_id):
            raise ConflictError("The store has been written to meanwhile.", reason="version_mismatch")
        self._run("drop_store", tenant=self._tenant, id=change.store_id)
        self._stores.discard((self._tenant, change.store_id))
        return ()

    def _stage(self, stage: Stage) -> Sequence[Mention]:
        self._run(
            "stage",
            tenant=self._tenant,
            id=stage.proposal_id,
            operation=stage.operation,
            agent_id=stage.agent_id,
            record_id=stage.record_id,
            request=rows.encoded(stage.request),
            writer=stage.writer or self._actor,
            held_by=rows.encoded(list(stage.held_by)),
            created_at=self._at,
            lapses_at=stage.lapses_at,
            approvals=stage.approvals,
            because=stage.because,
            salt=stage.salt or None,
            traits=rows.encoded(stage.traits),
        )
        return ()

    def _approve(self, approve: Approve) -> Sequence[Mention]:
        known = self._first("given", tenant=self._tenant, id=approve.proposal_id)
        former = rows.given_text(approve.former)
        if known is None or rows.decoded(known[0]) != rows.decoded(former):
            raise ConflictError("Somebody else has decided meanwhile.", reason="decided_meanwhile")
        given = rows.given_text(approve.given)
        self._run("approve", tenant=self._tenant, id=approve.proposal_id, given=given)
        return ()

    def _settle(self, settle: Settle) -> Sequence[Mention]:
        status = "approved" if settle.approved else "rejected"
        self._run(
            "settle",
            tenant=self._tenant,
            id=settle.proposal_id,
            status=status,
            reviewer=settle.reviewer,
            reason=settle.reason,
            keeps=int(settle.keeps),
            undoable=int(settle.undoable),
            teaches=int(settle.teaches),
            at=self._at,
        )
        if not self._connection.changes():
            raise ConflictError("This proposal has been decided already.", reason="already_decided")
        return ()


@dataclass(frozen=True, slots=True)
class _Previous:
    row: int
    is_closed: bool
