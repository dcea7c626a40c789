"""Changes that concern no record: tenants, credentials, secrets."""

from __future__ import annotations

from dataclasses import dataclass
from typing import assert_never

import apsw

from quipu.errors import NotFoundError
from quipu.ledger import admission, rows
from quipu.ledger.sqlite import statements
from quipu.model.change import (
    AddToken,
    AddWebhook,
    Dismiss,
    DropSecret,
    DropWebhook,
    EndToken,
    KeepRules,
    KeepSecret,
    RegistryChange,
    Suspend,
)


@dataclass(frozen=True, slots=True)
class Tied:
    """The entry that tells of a change."""

    tenant: str
    seq: int
    at: int
    actor: str


def change(connection: apsw.Connection, tied: Tied, wanted: RegistryChange) -> None:
    """Carry out a change that concerns no record."""
    tenant, seq = tied.tenant, tied.seq
    match wanted:
        case AddToken(token=token, digest=digest):
            statements.run(connection, "add_token", **admission.token_values(token, digest))
        case EndToken(token_id=token_id, revoked_at=revoked_at):
            statements.run(connection, "end_token", tenant=tenant, id=token_id, revoked_at=revoked_at)
        case Suspend(at=at):
            statements.run(connection, "suspend_tenant", tenant=tenant, at=at)
        case KeepSecret(secret=secret, sealed=sealed):
            statements.run(connection, "keep_secret", **admission.secret_values(secret, sealed))
            statements.run(connection, "move_guard", tenant=tenant, seq=seq)
        case DropSecret(secret_id=secret_id):
            statements.run(connection, "drop_secret", tenant=tenant, id=secret_id)
            if not connection.changes():
                raise NotFoundError("There is no such secret.", reason="secret")
            statements.run(connection, "move_guard", tenant=tenant, seq=seq)
        case KeepRules(rules=rules):
            statements.run(connection, "keep_rules", tenant=tenant, rules=rows.encoded(list(rules)), seq=seq)
        case AddWebhook(webhook=webhook, sealed=sealed):
            statements.run(connection, "add_webhook", **admission.webhook_values(webhook, sealed))
        case DropWebhook(webhook_id=webhook_id):
            statements.run(connection, "drop_webhook", tenant=tenant, id=webhook_id)
        case Dismiss(suggestion_id=suggestion_id):
            statements.run(
                connection, "dismiss", tenant=tenant, id=suggestion_id, at=tied.at, reviewer=tied.actor
            )
        case _:
            assert_never(wanted)
