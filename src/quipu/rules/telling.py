"""What an entry tells of things that a commit keeps beside the journal: a digest, by which they can be checked later."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence

from quipu.model.access import Token
from quipu.model.change import (
    AddToken,
    AddWebhook,
    Close,
    Commit,
    Demote,
    EndToken,
    KeepRules,
    KeepSecret,
    OpenStore,
    Put,
)
from quipu.model.journal import Op
from quipu.model.notices import Webhook
from quipu.model.store import Store
from quipu.model.value import Json, JsonObject
from quipu.rules.spelling import Canonical, exact

#: To look one up in its enumeration takes longer than to compare it.
_REMEMBER, _UPDATE = Op.REMEMBER, Op.UPDATE
_TOLD = frozenset({Op.CHANGE_RULES, Op.ISSUE_TOKEN, Op.KEEP_SECRET, Op.ADD_WEBHOOK, Op.CREATE_STORE})


def needs_digest(commit: Commit) -> bool:
    """Whether the entry of a commit tells more than was drafted. Every write asks."""
    op = commit.draft.op
    if op is _REMEMBER or op is _UPDATE:
        return commit.reason is not None
    return op in _TOLD or commit.reason is not None


def told_detail(commit: Commit, canonical: Canonical) -> JsonObject:
    """The detail of a commit's entry, with digests of what it keeps beside the journal.

    That of a reason is salted like the first version it is about, and with as much: the salt goes when the version is
    erased, and what the digest was of can no longer be guessed.
    """
    detail = dict(commit.draft.detail)
    for change in commit.changes:
        if isinstance(change, KeepRules):
            detail["digest"] = rules_digest(change.rules, canonical)
        elif isinstance(change, AddToken):
            detail["digest"] = token_digest(change.token, change.digest, canonical)
        elif isinstance(change, EndToken):  # a rotation ends the text before
            detail |= {"ended": change.token_id, "ends_at": change.revoked_at}
        elif isinstance(change, KeepSecret):
            detail["digest"] = secret_digest(change.sealed)
        elif isinstance(change, AddWebhook):
            detail["digest"] = webhook_digest(change.webhook, change.sealed, canonical)
        elif isinstance(change, OpenStore):
            detail["digest"] = store_digest(change.store, canonical)
        elif commit.reason and "reason" not in detail and isinstance(change, Put | Close | Demote):
            detail["reason"] = reason_digest(change.record.salt, commit.reason)
    return detail


def reason_digest(salt: bytes, reason: str) -> str:
    return hashlib.sha256(salt + reason.encode("utf-8", "surrogatepass")).hexdigest()


def token_digest(token: Token, text_hash: str, canonical: Canonical) -> str:
    """What the journal tells of a token besides what it allows. Nobody can guess the hash of its text, so nor this."""
    limits: list[Json] = [token.user_id, token.expires_at, token.rate, token.recall_budget]
    return hashlib.sha256(canonical(exact([text_hash, *limits]))).hexdigest()


def secret_digest(sealed: bytes) -> str:
    """What the journal tells of a secret besides its label. It is of what was sealed, which nobody can guess."""
    return hashlib.sha256(sealed).hexdigest()


def webhook_digest(webhook: Webhook, sealed: bytes, canonical: Canonical) -> str:
    """What the journal tells of a webhook: where notices go, and of what. Its sealed key makes it unguessable."""
    wanted: list[Json] = [webhook.url, list(webhook.events), list(webhook.agents), webhook.with_content]
    return hashlib.sha256(canonical(exact([sealed.hex(), *wanted]))).hexdigest()


def store_digest(store: Store, canonical: Canonical) -> str:
    """What the journal tells of a store: its name, like that of a token, and what follows from it. Not its description."""
    named: list[Json] = [store.id, store.name, store.scope.value, store.tier.value, store.namespace]
    return hashlib.sha256(canonical(exact(named))).hexdigest()


def rules_digest(rules: Sequence[JsonObject], canonical: Canonical) -> str:
    """What the journal tells of rules besides their names."""
    return hashlib.sha256(canonical(exact([dict(rule) for rule in rules]))).hexdigest()
