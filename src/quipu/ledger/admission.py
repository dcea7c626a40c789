"""Tenants, credentials and secrets as rows, the same for every ledger."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache

from quipu.errors import BackendUnavailableError
from quipu.ledger.rows import ALTERED, Row, Value, decoded, encoded
from quipu.model.access import KeptSecret, Tenant, Token
from quipu.model.notices import Event, KeptWebhook, Webhook
from quipu.model.principal import Permission
from quipu.ports.ledger import Guard, Sealed


def _unreadable(what: str, name: str) -> BackendUnavailableError:
    """The news that a row has words that we do not have: none that we wrote has."""
    return BackendUnavailableError(f"{what} {name} cannot be read.", reason="corrupt", hint=ALTERED)


def tenant_of(row: Row) -> Tenant:
    return Tenant(id=row[0], created_at=row[1], suspended_at=row[2])


def token_values(token: Token, digest: str) -> dict[str, Value]:
    """The values of `add_token`, by name."""
    return {
        "tenant": token.tenant,
        "id": token.id,
        "digest": bytes.fromhex(digest),
        "name": token.name,
        "prefix": token.prefix,
        "permissions": encoded(sorted(token.permissions)),
        "agents": encoded(list(token.agents)),
        "user_id": token.user_id,
        "created_at": token.created_at,
        "created_by": token.created_by,
        "expires_at": token.expires_at,
        "revoked_at": token.revoked_at,
        "rate": token.rate,
        "recall_budget": token.recall_budget,
        "review_stores": encoded(list(token.review_stores)),
        "review_operations": encoded(list(token.review_operations)),
    }


def token_with_tenant(row: Row) -> tuple[Token, Tenant]:
    """Both, from a row of `token`."""
    *of_token, created_at, suspended_at = row
    token = token_of(tuple(of_token))
    return token, Tenant(id=token.tenant, created_at=created_at, suspended_at=suspended_at)


def token_of(row: Row) -> Token:
    """A token, from a row of `tokens`."""
    try:
        return _token_of(row)
    except ValueError as error:
        raise _unreadable("Token", row[1]) from error


#: Every request of a server reads its token's row, and hardly ever is it another than the last time.
@lru_cache(maxsize=1024)
def _token_of(row: Row) -> Token:
    return Token(
        tenant=row[0],
        id=row[1],
        name=row[2],
        prefix=row[3],
        permissions=frozenset(Permission(name) for name in decoded(row[4])),
        agents=tuple(decoded(row[5])),
        user_id=row[6],
        created_at=row[7],
        created_by=row[8],
        expires_at=row[9],
        revoked_at=row[10],
        rate=row[11],
        recall_budget=row[12],
        review_stores=tuple(decoded(row[13])),
        review_operations=tuple(decoded(row[14])),
    )


def secret_values(secret: KeptSecret, sealed: bytes) -> dict[str, Value]:
    """The values of `keep_secret`, by name."""
    return {
        "tenant": secret.tenant,
        "id": secret.id,
        "label": secret.label,
        "run_id": secret.run_id,
        "created_at": secret.created_at,
        "created_by": secret.created_by,
        "sealed": sealed,
    }


def guard_of(tenant: str, found: Sequence[Row]) -> Guard:
    """The list of secrets from the rows of `guard`: one for each, or one without any."""
    return Guard(found[0][0], tuple(_sealed_of(tenant, *row[1:]) for row in found if row[1] is not None))


def _sealed_of(
    tenant: str,
    secret_id: str,
    label: str,
    run_id: str | None,
    created_at: int,
    created_by: str,
    sealed: bytes,
) -> Sealed:
    secret = KeptSecret(
        tenant=tenant, id=secret_id, label=label, run_id=run_id, created_at=created_at, created_by=created_by
    )
    return Sealed(secret, sealed)


def webhook_values(webhook: Webhook, sealed: bytes) -> dict[str, Value]:
    """The values of `add_webhook`, by name."""
    return {
        "tenant": webhook.tenant,
        "id": webhook.id,
        "url": webhook.url,
        "events": encoded(list(webhook.events)),
        "agents": encoded(list(webhook.agents)),
        "with_content": webhook.with_content,
        "created_at": webhook.created_at,
        "created_by": webhook.created_by,
        "sealed": sealed,
        "position": webhook.position,
    }


def webhook_of(row: Row) -> KeptWebhook:
    """A webhook, from a row of `webhooks`."""
    try:
        return _webhook_of(row)
    except ValueError as error:
        raise _unreadable("Webhook", row[1]) from error


def _webhook_of(row: Row) -> KeptWebhook:
    webhook = Webhook(
        tenant=row[0],
        id=row[1],
        url=row[2],
        events=tuple(Event(name) for name in decoded(row[3])),
        agents=tuple(decoded(row[4])),
        with_content=bool(row[5]),
        created_at=row[6],
        created_by=row[7],
        position=row[8],
        attempts=row[9],
        next_at=row[10],
        error=row[11],
        dropped=row[12],
    )
    return KeptWebhook(webhook, bytes(row[13]))


def moved_webhook_values(was: Webhook, now: Webhook) -> dict[str, Value]:
    """The values of `move_webhook`, by name."""
    return {
        "tenant": was.tenant,
        "id": was.id,
        "position": now.position,
        "attempts": now.attempts,
        "next_at": now.next_at,
        "error": now.error,
        "dropped": now.dropped,
        "was_position": was.position,
        "was_attempts": was.attempts,
        "was_next_at": was.next_at,
    }
