"""What an entry tells of things that a commit keeps beside the journal: a digest, by which they can be checked later."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence

from quipu.model.access import Token
from quipu.model.change import AddToken, Close, Commit, Demote, KeepRules, Put
from quipu.model.journal import Op
from quipu.model.value import Json, JsonObject
from quipu.rules.spelling import Canonical, exact

#: To look one up in its enumeration takes longer than to compare it.
_CHANGE_RULES, _ISSUE_TOKEN = Op.CHANGE_RULES, Op.ISSUE_TOKEN


def needs_digest(commit: Commit) -> bool:
    """Whether the entry of a commit tells more than was drafted. Every write asks."""
    op = commit.draft.op
    return op is _CHANGE_RULES or op is _ISSUE_TOKEN or commit.reason is not None


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
        elif commit.reason and "reason" not in detail and isinstance(change, Put | Close | Demote):
            detail["reason"] = reason_digest(change.record.salt, commit.reason)
    return detail


def reason_digest(salt: bytes, reason: str) -> str:
    return hashlib.sha256(salt + reason.encode("utf-8", "surrogatepass")).hexdigest()


def token_digest(token: Token, text_hash: str, canonical: Canonical) -> str:
    """What the journal tells of a token besides what it allows. Nobody can guess the hash of its text, so nor this."""
    limits: list[Json] = [token.user_id, token.expires_at, token.rate, token.recall_budget]
    return hashlib.sha256(canonical(exact([text_hash, *limits]))).hexdigest()


def rules_digest(rules: Sequence[JsonObject], canonical: Canonical) -> str:
    """What the journal tells of rules besides their names."""
    return hashlib.sha256(canonical(exact([dict(rule) for rule in rules]))).hexdigest()
