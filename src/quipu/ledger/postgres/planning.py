"""One commit, decided: check what it expects, say what is to be written, tie its knot. Nothing here waits."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, TypeAlias

from quipu.errors import ConflictError, InvalidError, NotFoundError
from quipu.ledger import admission, rows
from quipu.ledger.postgres import runs
from quipu.ledger.postgres.types import Vector
from quipu.ledger.postgres.working import Answer, AnswerKey, Held, Latest, Working
from quipu.ledger.search.spaces import moved_on
from quipu.model.change import (
    AddToken,
    AddWebhook,
    Approve,
    Change,
    Close,
    Commit,
    Committed,
    Demote,
    Dismiss,
    DropSecret,
    DropStore,
    DropWebhook,
    EndToken,
    Erase,
    KeepRules,
    KeepSecret,
    Once,
    OpenStore,
    Put,
    Settle,
    Stage,
    Suspend,
    Touch,
)
from quipu.model.journal import Entry, Mention
from quipu.model.record import State
from quipu.model.runs import RUN_CHANGES, ExpireRun, KeepRef, OpenRun, RunStep
from quipu.ports.surroundings import Canonical
from quipu.rules.chain import entry_hash

#: Idempotency keys are honoured this long.
KEY_LIFE_MS = 24 * 3600 * 1000
#: Changes that concern no record as readers see it.
_BESIDE = (Touch, *RUN_CHANGES)

#: Search terms by text.
Terms: TypeAlias = Mapping[str, bytes]
_DROPPED = (
    "drop_vectors_of",
    "drop_links_of",
    "drop_mark",
    "drop_reasons",
    "drop_answers",
    "empty_variables",
)


@dataclass(slots=True)
class Writes:
    """What is to be written: first new versions, vectors and entries, then the rest in its order."""

    versions: list[tuple[Any, ...]] = field(default_factory=list[tuple[Any, ...]])
    vectors: list[tuple[Any, ...]] = field(default_factory=list[tuple[Any, ...]])
    entries: list[tuple[Any, ...]] = field(default_factory=list[tuple[Any, ...]])
    others: list[tuple[str, Mapping[str, Any]]] = field(default_factory=list[tuple[str, Mapping[str, Any]]])
    #: Positions whose effects mirrors are to see.
    intended: list[int] = field(default_factory=list[int])

    def extend(self, more: Writes) -> None:
        self.versions += more.versions
        self.vectors += more.vectors
        self.entries += more.entries
        self.intended += more.intended
        self.others += more.others


class Plan:
    """Decides the commits of one caller, which stand or fall together."""

    def __init__(self, working: Working, canonical: Canonical, terms: Terms) -> None:
        """`working` is this plan's own branch."""
        self.working = working
        self.writes = Writes()
        self._canonical, self._terms = canonical, terms
        self._tenant = working.tenant
        self._seq = 0
        self._at = 0
        self._actor = ""

    def apply(self, commit: Commit, guard: int | None = None) -> Committed:
        head = self.working.head
        if guard is not None and guard != head.guarded:
            raise ConflictError("The list of secrets has changed meanwhile.", reason="secrets_changed")
        if commit.once and (done := replayed(self.working.answers, commit.once, commit.draft.at)):
            return done
        self._seq, self._at, self._actor = head.seq + 1, max(commit.draft.at, head.at), commit.draft.actor
        mentions = list(commit.mentions)
        for change in commit.changes:
            mentions.extend(self._change(change))
        is_change = any(not isinstance(change, _BESIDE) for change in commit.changes)
        self._tie(commit, mentions, is_change=is_change)
        if is_change and mentions:
            self.writes.intended.append(self._seq)
        if commit.reason:
            for record_id in {mention.id: None for mention in mentions}:
                self._write("add_reason", record_id=record_id, seq=self._seq, text=commit.reason)
        if commit.once:
            self._keep_answer(commit.once, commit.draft.at)
        return Committed(seq=self._seq, at=self._at)

    def _tie(self, commit: Commit, mentions: Sequence[Mention], *, is_change: bool) -> None:
        draft, head = commit.draft, self.working.head
        entry = Entry(
            tenant=self._tenant,
            seq=self._seq,
            at=self._at,
            actor=draft.actor,
            op=draft.op,
            store=draft.store,
            agent=draft.agent,
            run=draft.run,
            node=draft.node,
            records=tuple(mentions),
            detail=draft.detail,
            prev=head.hash.hex(),
            hash="",
        )
        digest = bytes.fromhex(entry_hash(entry, self._canonical))
        self.writes.entries.append((*rows.entry_values(entry)[:-1], digest))
        self.working.head = replace(
            head, seq=self._seq, hash=digest, at=self._at, changed=self._seq if is_change else head.changed
        )

    def _write(self, statement: str, /, **values: Any) -> None:
        self.writes.others.append((statement, {"tenant": self._tenant, **values}))

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
                self._touch(change)
            case OpenStore():
                self._open_store(change)
            case DropStore():
                self._drop_store(change)
            case Stage():
                self._stage(change)
            case Approve():
                self._approve(change)
            case Settle():
                self._settle(change)
            case AddToken() | EndToken() | Suspend():
                self._admit(change)
            case KeepSecret() | DropSecret():
                self._keep_out(change)
            case OpenRun() | RunStep() | ExpireRun() | KeepRef():
                runs.change(self.working, self.writes.others, self._at, change, self._seq)
            case KeepRules():
                self._write("keep_rules", rules=rows.encoded(list(change.rules)), seq=self._seq)
                self.working.head = replace(self.working.head, guarded=self._seq)
            case AddWebhook(webhook=told, sealed=key):
                self.writes.others.append(("add_webhook", admission.webhook_values(told, key)))
            case DropWebhook():
                self._write("drop_webhook", id=change.webhook_id)
            case Dismiss():
                self._write("dismiss", id=change.suggestion_id, at=self._at, reviewer=self._actor)
        return ()

    def _put(self, put: Put) -> Sequence[Mention]:
        record, working = put.record, self.working
        if working.stores.get(record.store_id) is None:
            # Another process may have deleted the store since the caller looked it up.
            raise NotFoundError("There is no such memory store.", reason="store")
        previous = self._expected(record.id, put.expects) if put.expects else None
        known = working.latest.get(record.id)
        if known is not None and (previous is None or record.version <= known.version):
            raise ConflictError("This id is taken.", reason="version_mismatch")
        if previous is not None and previous.died is None:
            self._end(record.id, previous, "replaced", None)
        row = working.head.last_row + 1
        terms = None if put.search_text is None else self._terms[put.search_text]
        self.writes.versions.append((row, *rows.record_values(record, self._seq, terms)))
        self._index(put, row, previous)
        for link in record.links:
            target = working.latest.get(link.to)
            survivor = link.to if target is None or target.merged_into is None else target.merged_into
            self._write("add_link", from_id=record.id, to_id=survivor, rel=link.rel, seq=self._seq)
        if record.created_at > self._at:
            self._write("move_ahead", created_at=record.created_at)
        if put.lifts_demotion and put.expects:
            self._write("lift_demotion", id=record.id, seq=self._seq)
        self._note_version(put, row)
        return [Mention(record.id, record.version, record.digest)]

    def _note_version(self, put: Put, row: int) -> None:
        record, working = put.record, self.working
        working.head = replace(working.head, last_row=row)
        working.latest[record.id] = Latest(
            row, record.version, None, None, record.state.value, None, record.store_id
        )
        if record.id in working.versions:
            known = working.versions[record.id]
            working.versions[record.id] = (*known, (record.version, record.digest))
        if record.store_id in working.current:
            working.current[record.store_id] += 1

    def _index(self, put: Put, row: int, previous: Latest | None) -> None:
        working = self.working
        if put.keeps_index and previous is not None:
            self._write("copy_terms", source=previous.row, target=row)
            self._write("copy_vectors", source=previous.row, target=row)
        elif put.vector is not None and working.head.space is not None:
            if put.model is not None and put.model != working.model:
                raise moved_on(working.model)
            if len(put.vector) != 4 * (working.dimensions or 0):
                raise InvalidError.at(
                    "/embedding", "embedding_mismatch", "A vector has the wrong dimensions."
                )
            self.writes.vectors.append((self._tenant, row, working.head.space, Vector(put.vector)))

    def _close(self, close: Close) -> Sequence[Mention]:
        record = close.record
        previous = self._expected(record.id, record.version)
        if previous.died is not None:
            raise ConflictError("The record has changed meanwhile.", reason="version_mismatch")
        self._end(record.id, previous, close.ending.value, close.merged_into)
        return [Mention(record.id, record.version, record.digest)]

    def _end(self, record_id: str, previous: Latest, ending: str, merged_into: str | None) -> None:
        seq, working = self._seq, self.working
        self._write("close_version", row=previous.row, seq=seq, ending=ending, merged_into=merged_into)
        self._write("close_links", id=record_id, seq=seq)
        if merged_into is not None:
            self._write("redirect_links", id=record_id, merged_into=merged_into, seq=seq)
            self._write("close_links_to", id=record_id, seq=seq)
        working.latest[record_id] = replace(previous, died=seq, merged_into=merged_into)
        self._leave_store(previous)

    def _leave_store(self, previous: Latest) -> None:
        if previous.store_id in self.working.current:
            self.working.current[previous.store_id] -= 1

    def _expected(self, record_id: str, version: int) -> Latest:
        found = self.working.latest.get(record_id)
        if found is None or found.version != version or found.emptied is not None:
            raise ConflictError(
                "The record has changed meanwhile.",
                reason="version_mismatch",
                hint="Read it again and repeat the change.",
            )
        return found

    def _erase(self, erase: Erase) -> Sequence[Mention]:
        working, record_id = self.working, erase.id
        self._write("empty_event_tags", id=record_id)  # by runs, while they are still known
        self._write("empty_versions", id=record_id, seq=self._seq)
        for statement in _DROPPED:
            self._write(statement, id=record_id)
        self._write("drop_proposals", id=record_id, at=self._at)
        latest = working.latest.get(record_id)
        if latest is not None:
            if latest.died is None:
                self._leave_store(latest)
            working.latest[record_id] = replace(
                latest,
                died=self._seq if latest.died is None else latest.died,
                emptied=self._seq,
                state=State.ERASED.value,
                merged_into=None,
            )
        for key, answer in list(working.answers.items()):
            if answer is not None and record_id in answer.record_ids:
                working.answers[key] = None
        for proposal_id, held in list(working.proposals.items()):
            if record_id in (proposal_id, held.record_id):
                status = "rejected" if held.status == "pending" else held.status
                working.proposals[proposal_id] = replace(held, status=status)
        return [Mention(record_id, version, digest) for version, digest in working.versions[record_id]]

    def _demote(self, demote: Demote) -> Sequence[Mention]:
        record = demote.record
        self._expected(record.id, record.version)
        self._write("demote", id=record.id, seq=self._seq)
        return [Mention(record.id, record.version, record.digest)]

    def _touch(self, touch: Touch) -> None:
        for record_id in touch.ids:
            latest = self.working.latest.get(record_id)
            # An erasure between the recall and this note must not bring the mark back.
            if latest is not None and latest.state != State.ERASED.value:
                self._write("touch", id=record_id, at=touch.at)

    def _open_store(self, change: OpenStore) -> None:
        store, stores = change.store, self.working.stores
        if stores.get(store.id) is not None or store.name in stores.values():
            raise ConflictError("A store of this name exists already.", reason="name_taken")
        stores[store.id] = store.name
        self._write(
            "open_store",
            id=store.id,
            name=store.name,
            scope=store.scope.value,
            tier=store.tier.value,
            namespace=store.namespace,
            description=store.description,
            created_at=store.created_at,
        )

    def _drop_store(self, change: DropStore) -> None:
        if self.working.current[change.store_id]:
            raise ConflictError("The store has been written to meanwhile.", reason="version_mismatch")
        self._write("drop_store", id=change.store_id)
        self.working.stores[change.store_id] = None

    def _stage(self, stage: Stage) -> None:
        self.working.proposals[stage.proposal_id] = Held("pending", stage.record_id, 0)
        self._write(
            "stage",
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

    def _approve(self, approve: Approve) -> None:
        held = self.working.proposals.get(approve.proposal_id)
        if held is None or held.status != "pending" or held.given != approve.expects:
            raise ConflictError("Somebody else has decided meanwhile.", reason="decided_meanwhile")
        self.working.proposals[approve.proposal_id] = replace(held, given=len(approve.given))
        self._write("approve", id=approve.proposal_id, given=rows.given_text(approve.given))

    def _settle(self, settle: Settle) -> None:
        held = self.working.proposals.get(settle.proposal_id)
        if held is None or held.status != "pending":
            raise ConflictError("This proposal has been decided already.", reason="already_decided")
        status = "approved" if settle.approved else "rejected"
        self.working.proposals[settle.proposal_id] = replace(held, status=status)
        self._write(
            "settle",
            id=settle.proposal_id,
            status=status,
            reviewer=settle.reviewer,
            reason=settle.reason,
            keeps=settle.keeps,
            undoable=settle.undoable,
            teaches=settle.teaches,
            at=self._at,
        )

    # -- the registry -------------------------------------------------------------------------------------------

    def _admit(self, change: AddToken | EndToken | Suspend) -> None:
        match change:
            case AddToken(token=token, digest=digest):
                self.writes.others.append(("add_token", admission.token_values(token, digest)))
            case EndToken(token_id=token_id, revoked_at=revoked_at):
                self._write("end_token", id=token_id, revoked_at=revoked_at)
            case Suspend(at=at):
                self._write("suspend_tenant", at=at)

    def _keep_out(self, change: KeepSecret | DropSecret) -> None:
        match change:
            case KeepSecret(secret=secret, sealed=sealed):
                self.working.secrets[secret.id] = True
                self.writes.others.append(("keep_secret", admission.secret_values(secret, sealed)))
            case DropSecret(secret_id=secret_id):
                if not self.working.secrets.get(secret_id):
                    raise NotFoundError("There is no such secret.", reason="secret")
                self.working.secrets[secret_id] = False
                self._write("drop_secret", id=secret_id)
        self._write("move_guard", seq=self._seq)
        self.working.head = replace(self.working.head, guarded=self._seq)

    # -- idempotency --------------------------------------------------------------------------------------------

    def _keep_answer(self, once: Once, now: int) -> None:
        key = {"principal": once.principal, "operation": once.operation, "key": once.key}
        text = rows.encoded(once.answer)
        self._write("forget_answers", before=now - KEY_LIFE_MS)
        self._write(
            "keep_answer", **key, fingerprint=once.fingerprint, answer=text, at=self._at, seq=self._seq
        )
        for record_id in once.record_ids:
            self._write("keep_answer_record", **key, record_id=record_id)
        self.working.answers[once.principal, once.operation, once.key] = Answer(
            once.fingerprint, text, self._at, self._seq, frozenset(once.record_ids)
        )


def replayed(answers: Mapping[AnswerKey, Answer | None], once: Once, now: int) -> Committed | None:
    """What was answered under this key, as long as keys live."""
    found = answers.get((once.principal, once.operation, once.key))
    if found is None or found.at < now - KEY_LIFE_MS:
        return None
    if found.fingerprint != once.fingerprint:
        raise ConflictError(
            "This idempotency key was used for a different request.",
            reason="idempotency_key_mismatch",
            hint="Use a fresh key for each request.",
        )
    return Committed(seq=found.seq, at=found.at, replayed=rows.decoded(found.text))
