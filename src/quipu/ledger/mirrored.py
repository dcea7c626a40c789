"""Rows about mirrors, to and from what the port speaks of."""

from __future__ import annotations

from quipu.ledger.rows import Row, Value, decoded, mentions_of
from quipu.ports.backend import Container
from quipu.ports.outbox import CopyState, Intent, Mirrored, Retry, Standing


def mirrored_values(tenant: str, name: str, copy: Mirrored) -> dict[str, Value]:
    return {
        "tenant": tenant,
        "name": name,
        "record_id": copy.record_id,
        "native_id": copy.native_id,
        "version": copy.version,
        "store_id": copy.container.store_id,
        "agent_id": copy.container.agent_id,
        "user_id": copy.container.user_id,
        "state": copy.state.value,
    }


def mirrored_of(tenant: str, row: Row) -> Mirrored:
    record_id, native_id, version, store_id, agent_id, user_id, state = row
    return Mirrored(
        record_id=record_id,
        native_id=native_id,
        version=version,
        container=Container(tenant=tenant, store_id=store_id, agent_id=agent_id, user_id=user_id),
        state=CopyState(state),
    )


def container_of(tenant: str, row: Row) -> Container:
    store_id, agent_id, user_id = row
    return Container(tenant=tenant, store_id=store_id, agent_id=agent_id, user_id=user_id)


def intent_of(row: Row) -> Intent:
    seq, attempts, at, records = row
    told = decoded(records) if isinstance(records, str) else records
    return Intent(seq, attempts, at, tuple(dict.fromkeys(mention.id for mention in mentions_of(told))))


def retry_values(tenant: str, name: str, retry: Retry) -> dict[str, Value]:
    return {
        "tenant": tenant,
        "name": name,
        "seq": retry.seq,
        "status": "dead" if retry.is_dead else "intent",
        "attempts": retry.attempts,
        "next_at": retry.next_at,
        "error": retry.error,
    }


def standing_of(row: Row) -> Standing:
    name, writes, filled, fill_below, succeeded_at, error, drift, waiting, dead, oldest_at = row
    return Standing(
        name=name,
        is_written=bool(writes),
        is_filled=bool(filled),
        fill_below=fill_below,
        succeeded_at=succeeded_at,
        error=error,
        drift=drift,
        waiting=waiting,
        dead=dead,
        oldest_at=oldest_at,
    )
