"""Rows of lending, as both dialects keep them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from quipu.ledger import rows
from quipu.ledger.rows import Row
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
)
from quipu.model.grants import GrantStatus, KeptGrant


def standing_values(end: Row | None, head: Row | None) -> dict[str, Any]:
    """How an owner stands, from the end of their receipts and their own row."""
    changed, model, dimensions, suspended_at = head or (0, None, None, None)
    return {
        "end": ChainEnd() if end is None else ChainEnd(end[0], end[1]),
        "changed": changed,
        "space": None if model is None else (model, dimensions),
        "is_suspended": suspended_at is not None,
    }


def grant_of(row: Row) -> KeptGrant:
    """A grant from its row."""
    return KeptGrant(
        tenant=row[0],
        id=row[1],
        hash=row[2],
        body=rows.decoded(row[3]),
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
        "status": grant.status.value,
        "registered_at": grant.registered_at,
        "expires_at": grant.expires_at,
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
        entry=rows.decoded(row[4]),
        hash=row[5],
    )


def line_values(line: LogLine) -> dict[str, Any]:
    """A line as a row."""
    return {
        "record_id": line.record_id,
        "log": line.log.value,
        "seq": line.seq,
        "version": line.version,
        "entry": rows.encoded(line.entry),
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
        "body": rows.encoded(receipt.body),
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
