"""Answers that are kept under the keys of their requests, so that a repetition gets the first one again."""

from __future__ import annotations

import apsw

from quipu.errors import ConflictError
from quipu.ledger import rows
from quipu.ledger.sqlite import statements
from quipu.model.change import KEY_LIFE_MS, Commit, Committed, Once


def keep(connection: apsw.Connection, commit: Commit, once: Once, seq: int, at: int) -> None:
    """Keep what is answered to a commit; what is too old goes."""
    statements.run(connection, "forget_answers", tenant=commit.tenant, before=commit.draft.at - KEY_LIFE_MS)
    key = {
        "tenant": commit.tenant,
        "principal": once.principal,
        "operation": once.operation,
        "key": once.key,
    }
    statements.run(
        connection,
        "keep_answer",
        **key,
        fingerprint=once.fingerprint,
        answer=rows.encoded(once.answer),
        at=at,
        seq=seq,
    )
    for record_id in once.record_ids:
        statements.run(connection, "keep_answer_record", **key, record_id=record_id)


def answered(connection: apsw.Connection, tenant: str, once: Once, now: int) -> Committed | None:
    """What was answered under this key, as long as keys live."""
    row = statements.first(
        connection, "answer", tenant=tenant, principal=once.principal, operation=once.operation, key=once.key
    )
    if row is None or row[2] < now - KEY_LIFE_MS:
        return None
    fingerprint, answer, at, seq = row
    if fingerprint != once.fingerprint:
        raise ConflictError(
            "This idempotency key was used for a different request.",
            reason="idempotency_key_mismatch",
            hint="Use a fresh key for each request.",
        )
    return Committed(seq=seq, at=at, replayed=rows.decoded(answer))
