"""One commit, decided: check what it expects, say what is to be written, tie its knot. Nothing here waits."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from quipu.errors import ConflictError, InvalidError, NotFoundError
from quipu.ledger import admission, rows
from quipu.ledger.postgres import runs
from quipu.ledger.postgres.beside import Beside, replayed
from quipu.ledger.postgres.types import Vector
from quipu.ledger.postgres.working import Latest
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
from quipu.rules.chain import entry_hash
from quipu.rules.derivations import COMPACTED_FROM, DERIVED_FROM, names_one_of
from quipu.rules.telling import needs_digest, told_detail

#: Changes that concern no record as readers see it.
_BESIDE = (Touch, *RUN_CHANGES)

#: What an erasure does, in this order: tags go by the runs that wrote them, while these are still known.
_ERASING = (
    "empty_event_tags",
    "empty_versions",
    "drop_vectors_of",
    "drop_links_of",
    "drop_mark",
    "drop_reasons",
    "drop_answers",
    "empty_variables",
    "drop_proposals",
)


class Plan(Beside):
    """Decides the commits of one caller, which stand or fall together."""

    def apply(self, commit: Commit, guard: int | None = None) -> Committed:
        head = self.working.head
        if guard is not None and guard != head.guarded:
            raise ConflictError("The list of secrets has changed meanwhile.", reason="secrets_changed")
        if commit.once and (done := replayed(self.working.answers, commit.once, commit.draft.at)):
            return done
        self._seq, self._at, self._actor = head.seq + 1, max(commit.draft.at, head.at), commit.draft.actor
        if self._leaves_behind(commit):
            raise ConflictError(
                "What is erased has become something else meanwhile.", reason="version_mismatch"
            )
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
            detail=told_detail(commit, self._canonical) if needs_digest(commit) else draft.detail,
            prev=head.hash.hex(),
            hash="",
        )
        digest = bytes.fromhex(entry_hash(entry, self._canonical))
        self.writes.entries.append((*rows.entry_values(entry)[:-1], digest))
        self.working.head = replace(
            head, seq=self._seq, hash=digest, at=self._at, changed=self._seq if is_change else head.changed
        )

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
        previous = self._expected(record.id, put.expects, must_stand=put.must_stand) if put.expects else None
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
            survivor = working.survivor(link.to)
            self._write("add_link", from_id=record.id, to_id=survivor, rel=link.rel, seq=self._seq)
            if link.rel in (COMPACTED_FROM, DERIVED_FROM):
                working.went_on[survivor] = self._seq
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
        previous = self._expected(record.id, record.version, must_stand=True)
        self._end(record.id, previous, close.ending.value, close.merged_into)
        return [Mention(record.id, record.version, record.digest)]

    def _end(self, record_id: str, previous: Latest, ending: str, merged_into: str | None) -> None:
        seq, working = self._seq, self.working
        self._write("close_version", row=previous.row, seq=seq, ending=ending, merged_into=merged_into)
        self._write("close_links", id=record_id, seq=seq)
        if merged_into is not None:
            self._write("redirect_links", id=record_id, merged_into=merged_into, seq=seq)
            self._write("close_links_to", id=record_id, seq=seq)
            # What was made out of the one is now said to be made out of the other.
            working.went_on[record_id] = working.went_on[merged_into] = seq
        working.latest[record_id] = replace(previous, died=seq, merged_into=merged_into)
        self._leave_store(previous)

    def _leave_store(self, previous: Latest) -> None:
        if previous.store_id in self.working.current:
            self.working.current[previous.store_id] -= 1

    def _expected(self, record_id: str, version: int, *, must_stand: bool) -> Latest:
        found = self.working.latest.get(record_id)
        is_as_expected = found is not None and found.version == version and found.emptied is None
        if found is None or not is_as_expected or (must_stand and found.died is not None):
            raise ConflictError(
                "The record has changed meanwhile.",
                reason="version_mismatch",
                hint="Read it again and repeat the change.",
            )
        return found

    def _leaves_behind(self, commit: Commit) -> bool:
        """Whether what a commit erases was made into something, or merged, since that was decided: it would live on there."""
        after = commit.erases_as_of
        if after is None:
            return False
        ids = frozenset(change.id for change in commit.changes if isinstance(change, Erase))
        held = (request for seq, request in self.working.held_since.values() if seq > after)
        return any(self.working.went_on.get(name, 0) > after for name in ids) or any(
            names_one_of(request, ids) for request in held
        )

    def _erase(self, erase: Erase) -> Sequence[Mention]:
        working, record_id = self.working, erase.id
        self._write_erasure(record_id)
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

    def _write_erasure(self, record_id: str) -> None:
        """Records that are erased one right after the other are erased by the same statements."""
        last = self.writes.others[-1] if self.writes.others else None
        if last is not None and last[0] == _ERASING[-1] and last[1]["seq"] == self._seq:
            last[1]["ids"].append(record_id)
            return
        values = {"tenant": self._tenant, "ids": [record_id], "seq": self._seq, "at": self._at}
        self.writes.others.extend((statement, values) for statement in _ERASING)

    def _demote(self, demote: Demote) -> Sequence[Mention]:
        record = demote.record
        self._expected(record.id, record.version, must_stand=True)
        self._write("demote", id=record.id, seq=self._seq)
        return [Mention(record.id, record.version, record.digest)]

    def _touch(self, touch: Touch) -> None:
        for record_id in touch.ids:
            latest = self.working.latest.get(record_id)
            # An erasure between the recall and this note must not bring the mark back.
            if latest is not None and latest.state != State.ERASED.value:
                self._write("touch", id=record_id, at=touch.at)
