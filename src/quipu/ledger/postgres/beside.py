"""What a commit writes beside records: stores, proposals, tokens, secrets, answers. Nothing here waits."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, TypeAlias

from quipu.errors import ConflictError, NotFoundError
from quipu.ledger import admission, rows
from quipu.ledger.postgres.working import Answer, AnswerKey, Held, Working
from quipu.model.change import (
    KEY_LIFE_MS,
    AddToken,
    Approve,
    Committed,
    DropSecret,
    DropStore,
    EndToken,
    KeepSecret,
    Once,
    OpenStore,
    Settle,
    Stage,
    Suspend,
)
from quipu.ports.surroundings import Canonical

#: Search terms by text.
Terms: TypeAlias = Mapping[str, bytes]


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


class Beside:
    """Decides what is written beside the records of one caller's commits."""

    def __init__(self, working: Working, canonical: Canonical, terms: Terms) -> None:
        """`working` is this plan's own branch."""
        self.working = working
        self.writes = Writes()
        self._canonical, self._terms = canonical, terms
        self._tenant = working.tenant
        self._seq = 0
        self._at = 0
        self._actor = ""

    def _write(self, statement: str, /, **values: Any) -> None:
        self.writes.others.append((statement, {"tenant": self._tenant, **values}))

    # -- stores and proposals -----------------------------------------------------------------------------------

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
        self.working.proposals[stage.proposal_id] = Held("pending", stage.record_id, [])
        self.working.held_since[stage.proposal_id] = (self._seq, stage.request)
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
        given, former = rows.given_text(approve.given), rows.decoded(rows.given_text(approve.former))
        if held is None or held.status != "pending" or held.given != former:
            raise ConflictError("Somebody else has decided meanwhile.", reason="decided_meanwhile")
        self.working.proposals[approve.proposal_id] = replace(held, given=rows.decoded(given))
        self._write("approve", id=approve.proposal_id, given=given)

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
