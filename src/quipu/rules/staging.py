"""Requests that wait for a person, as JSON and back."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import fields
from typing import Any, TypeAlias

from quipu.model.change import Proposal
from quipu.model.operations import (
    Embedding,
    ExpireAction,
    ExpirePolicy,
    ExpireRequest,
    ForgetRequest,
    MergeRequest,
    MergeStrategy,
    RememberRequest,
    UpdateStrategy,
)
from quipu.model.principal import Permission, Principal
from quipu.model.record import Link, MemoryType, PrivacyIntent, Sensitivity
from quipu.model.value import JsonObject

Held: TypeAlias = RememberRequest | ForgetRequest | MergeRequest | ExpireRequest

_KINDS: Mapping[str, type[Held]] = {
    "remember": RememberRequest,
    "forget": ForgetRequest,
    "merge": MergeRequest,
    "expire": ExpireRequest,
}


def _links(links: Sequence[Mapping[str, str]]) -> tuple[Link, ...]:
    return tuple(Link(link["to"], link["rel"]) for link in links)


def _embedding(body: Mapping[str, Any]) -> Embedding:
    vector = body["vector"]
    return Embedding(body["model"], bytes.fromhex(vector) if isinstance(vector, str) else tuple(vector))


def _policy(body: Mapping[str, Any]) -> ExpirePolicy:
    kind = body.get("type")
    given: dict[str, Any] = {**body, "type": None if kind is None else MemoryType(kind)}
    return ExpirePolicy(**given)


def _privacy(body: Mapping[str, Any]) -> PrivacyIntent:
    share, level = body.get("share_with"), body.get("sensitivity")
    return PrivacyIntent(
        retain=body.get("retain"),
        share_with=None if share is None else tuple(share),
        consent_id=body.get("consent_id"),
        sensitivity=None if level is None else Sensitivity(level),
    )


_PARSERS: Mapping[str, Callable[[Any], object]] = {
    "type": MemoryType,
    "update_strategy": UpdateStrategy,
    "strategy": MergeStrategy,
    "action": ExpireAction,
    "tags": tuple,
    "ids": tuple,
    "duplicates": tuple,
    "links": _links,
    "embedding": _embedding,
    "policy": _policy,
    "privacy_intent": _privacy,
}


def is_own(proposal: Proposal, agent_id: str, user_id: str | None, store: str | None) -> bool:
    """Whether a staged write is the agent's own; nobody else's is in reach before it is approved."""
    body = proposal.request
    return (
        proposal.agent_id == agent_id
        and user_id in (None, body.get("user_id"))
        and store in (None, body.get("store"))
    )


def may_see(proposal: Proposal, principal: Principal) -> bool:
    """Who wrote it, and reviewers of the agent; one who is bound to a user, only as long as its user is known."""
    if proposal.writer == principal.name:
        return True
    return (
        principal.may(Permission.REVIEW)
        and principal.may_act_for(proposal.agent_id)
        and principal.user_id in (None, proposal.request.get("user_id"))
    )


def operation_of(request: Held) -> str:
    return next(name for name, kind in _KINDS.items() if isinstance(request, kind))


def request_of(operation: str, body: JsonObject) -> Held:
    """The request a proposal holds."""
    kind = _KINDS[operation]
    known = {field.name for field in fields(kind)}
    values: dict[str, Any] = {}
    for name, value in body.items():
        if name in known:
            parse = _PARSERS.get(name)
            values[name] = value if value is None or parse is None else parse(value)
    return kind(**values)
