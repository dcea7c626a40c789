"""Rows of lending, as both dialects keep them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import lru_cache
from typing import Any

from quipu.ledger import rows
from quipu.ledger.rows import Row
from quipu.model.change import Once
from quipu.model.disclosure import (
    CascadeStatus,
    CascadeStep,
    ChainEnd,
    Erasure,
    ErasureStep,
    HeldItem,
    KeptReceipt,
    LogKind,
    LogLine,
    Standing,
)
from quipu.model.grants import GrantStatus, KeptGrant, TaskState, TaskStep

#: So often used proofs that are past are swept away.
_SWEEP_MS = 60_000


def standing_values(end: Row | None, head: Row | None) -> dict[str, Any]:
    """How an owner stands, from the end of their receipts and their own row."""
    changed, model, dimensions, suspended_at = head or (0, None, None, None)
    return {
        "end": ChainEnd() if end is None else ChainEnd(end[0], end[1]),
        "changed": changed,
        "space": None if model is None else (model, dimensions),
        "is_suspended": suspended_at is not None,
    }


def answer_values(once: Once, at: int) -> dict[str, Any]:
    """An answer that is kept under a key; it belongs to no entry of the journal."""
    return {
        "principal": once.principal,
        "operation": once.operation,
        "key": once.key,
        "fingerprint": once.fingerprint,
        "answer": rows.encoded(once.answer),
        "at": at,
        "seq": 0,
    }


class Sweeps:
    """When each owner's used proofs were last swept away. Nobody asks about one after its time: now and then is enough."""

    def __init__(self) -> None:
        self._last: dict[str, int] = {}

    def is_due(self, tenant: str, now: int) -> bool:
        """Whether it is time again; whoever asks then does it."""
        last = self._last.get(tenant)
        is_due = last is None or abs(now - last) >= _SWEEP_MS
        if is_due:
            self._last[tenant] = now
        return is_due


def put_lines(standing: Standing, lines: Iterable[Row]) -> None:
    """The ends of logs, where a decision looks for them."""
    for row in lines:
        line = line_of(row)
        last = standing.tails.get((line.record_id, line.log))
        if last is None or last.seq < line.seq:
            standing.tails[line.record_id, line.log] = line
        if line.log is LogKind.STATE and line.seq == 1:
            standing.captures[line.record_id] = line


@lru_cache(maxsize=4096)
def _known(text: str) -> Any:
    """What a text says that was just read: the same text says the same, whatever became of anything meanwhile."""
    return rows.decoded(text)


def grant_of(row: Row) -> KeptGrant:
    """A grant from its row."""
    return KeptGrant(
        tenant=row[0],
        id=row[1],
        hash=row[2],
        body=_known(row[3]),
        grantee=row[4],
        status=GrantStatus(row[5]),
        registered_at=row[6],
        expires_at=row[7],
        revoked_at=row[8],
        uses=row[9],
        disclosed=row[10],
    )


def grant_values(grant: KeptGrant) -> dict[str, Any]:
    """A grant as a row."""
    return {
        "id": grant.id,
        "hash": grant.hash,
        "body": rows.encoded(grant.body),
        "grantee": grant.grantee,
        "registered_at": grant.registered_at,
        "expires_at": grant.expires_at,
        **grant_moves(grant),
    }


def grant_moves(grant: KeptGrant) -> dict[str, Any]:
    """What of a grant changes while it is kept."""
    return {
        "status": grant.status.value,
        "revoked_at": grant.revoked_at,
        "uses": grant.uses,
        "disclosed": grant.disclosed,
    }


def line_of(row: Row) -> LogLine:
    """A line of a log."""
    return LogLine(
        record_id=row[0],
        log=LogKind(row[1]),
        seq=row[2],
        version=row[3],
        entry=_known(row[4]),
        hash=row[5],
    )


def line_values(line: LogLine) -> dict[str, Any]:
    """A line as a row."""
    return {
        "record_id": line.record_id,
        "log": line.log.value,
        "seq": line.seq,
        "version": line.version,
        "entry": line.spelt or rows.encoded(line.entry),
        "hash": line.hash,
    }


def receipt_of(row: Row) -> KeptReceipt:
    """A receipt in its place."""
    return KeptReceipt(
        seq=row[0],
        id=row[1],
        type=row[2],
        agent=row[3],
        grant_id=row[4],
        at=row[5],
        body=rows.decoded(row[6]),
        hash=row[7],
    )


def receipt_values(receipt: KeptReceipt) -> dict[str, Any]:
    """A receipt as a row."""
    return {
        "seq": receipt.seq,
        "id": receipt.id,
        "type": receipt.type,
        "agent": receipt.agent,
        "grant_id": receipt.grant_id,
        "at": receipt.at,
        "body": receipt.spelt or rows.encoded(receipt.body),
        "hash": receipt.hash,
    }


def erasure_of(row: Row) -> Erasure:
    """A request to delete."""
    return Erasure(
        tenant=row[0],
        id=row[1],
        step=ErasureStep(row[2]),
        requested_at=row[3],
        completed_at=row[4],
        request=rows.decoded(row[5]),
        receipt=None if row[6] is None else rows.decoded(row[6]),
    )


def erasure_values(erasure: Erasure) -> dict[str, Any]:
    """A request to delete as a row."""
    return {
        "id": erasure.id,
        "step": erasure.step.value,
        "requested_at": erasure.requested_at,
        "completed_at": erasure.completed_at,
        "request": rows.encoded(erasure.request),
        "receipt": None if erasure.receipt is None else rows.encoded(erasure.receipt),
    }


def step_of(row: Row) -> CascadeStep:
    """One grantee that holds what was erased."""
    return CascadeStep(
        erasure_id=row[0],
        grantee=row[1],
        grant_id=row[2],
        item_ids=tuple(rows.decoded(row[3])),
        status=CascadeStatus(row[4]),
        attempts=row[5],
        next_at=row[6],
        receipt=None if row[7] is None else rows.decoded(row[7]),
    )


def step_values(step: CascadeStep) -> dict[str, Any]:
    """A grantee as a row."""
    return {
        "erasure_id": step.erasure_id,
        "grantee": step.grantee,
        "grant_id": step.grant_id,
        "item_ids": rows.encoded(list(step.item_ids)),
        "status": step.status.value,
        "attempts": step.attempts,
        "next_at": step.next_at,
        "receipt": None if step.receipt is None else rows.encoded(step.receipt),
    }


def held_of(row: Row) -> HeldItem:
    """Something lent to us."""
    return HeldItem(
        tenant=row[0],
        source=row[1],
        grant_id=row[2],
        item_id=row[3],
        item=rows.decoded(row[4]),
        receipt_id=row[5],
        received_at=row[6],
        expires_at=row[7],
    )


def held_values(held: HeldItem) -> Mapping[str, Any]:
    """Something lent to us as a row."""
    return {
        "tenant": held.tenant,
        "source": held.source,
        "grant_id": held.grant_id,
        "item_id": held.item_id,
        "item": rows.encoded(held.item),
        "receipt_id": held.receipt_id,
        "received_at": held.received_at,
        "expires_at": held.expires_at,
    }


def task_step_of(row: Row) -> TaskStep:
    """How a task stood."""
    return TaskStep(
        tenant=row[0],
        task_id=row[1],
        number=row[2],
        state=TaskState(row[3]),
        at=row[4],
        detail=rows.decoded(row[5]),
    )


def task_step_values(step: TaskStep) -> dict[str, Any]:
    """The same as a row."""
    return {
        "tenant": step.tenant,
        "task_id": step.task_id,
        "number": step.number,
        "state": step.state.value,
        "at": step.at,
        "detail": rows.encoded(step.detail),
    }
