"""Requests that wait for a person, as JSON and back."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import fields, replace
from typing import Any, TypeAlias, TypeVar, cast

from quipu.model.change import Proposal
from quipu.model.journal import Entry
from quipu.model.operations import (
    BatchRequest,
    Embedding,
    ExpireAction,
    ExpirePolicy,
    ExpireRequest,
    Floor,
    ForgetRequest,
    Fusion,
    MergeRequest,
    MergeStrategy,
    RecallRequest,
    Redact,
    RememberRequest,
    RestoreRequest,
    UpdateStrategy,
)
from quipu.model.principal import Permission, Principal
from quipu.model.record import Link, MemoryType, PrivacyIntent, Sensitivity
from quipu.model.value import Json, JsonObject
from quipu.rules.chain import Canonical
from quipu.rules.spelling import exact

#: What callers ask for that changes memory, and may have to wait for a person first.
Held: TypeAlias = RememberRequest | ForgetRequest | MergeRequest | ExpireRequest
#: With what they ask for in other ways.
Write: TypeAlias = Held | RestoreRequest | BatchRequest
#: A recall may have to wait, too; it changes nothing.
Waiting: TypeAlias = Write | RecallRequest

Q = TypeVar("Q", bound="Waiting")

_KINDS: Mapping[str, type[Waiting]] = {
    "remember": RememberRequest,
    "forget": ForgetRequest,
    "merge": MergeRequest,
    "expire": ExpireRequest,
    "restore": RestoreRequest,
    "batch": BatchRequest,
    "recall": RecallRequest,
}
_NAMES = {kind: name for name, kind in _KINDS.items()}


#: What of a request says who, where and which.
_NAMES_IN = (
    "agent_id",
    "user_id",
    "session_id",
    "store",
    "id",
    "canonical",
    "import_id",
    "as_of",
    "idempotency_key",
)
_LISTS_OF_NAMES = ("ids", "duplicates")
#: An answer that is kept under a key says these again.
_ANSWERED = frozenset({"idempotency_key", "canonical", *_LISTS_OF_NAMES})


def names_of(request: Waiting) -> Iterator[tuple[str, str | None]]:
    """What of it says who, where and which, by pointer."""
    for name in _NAMES_IN:
        yield f"/{name}", getattr(request, name, None)
    for name in _LISTS_OF_NAMES:
        for place, one in enumerate(getattr(request, name, ())):
            yield f"/{name}/{place}", one
    if isinstance(request, RecallRequest) and request.embedding is not None:
        yield "/embedding/model", request.embedding.model


def answered_names(request: Waiting) -> Iterator[tuple[str, str | None]]:
    """Those that are kept with its key."""
    return ((pointer, name) for pointer, name in names_of(request) if pointer.split("/")[1] in _ANSWERED)


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
    "record_ids": tuple,
    "times": lambda rows: tuple(tuple(row) for row in rows),
    "items": lambda items: tuple(_parsed(RememberRequest, item) for item in items),
    "types": lambda types: tuple(MemoryType(name) for name in types),
    "fusion": Fusion,
    "redact": Redact,
    "min_relevance": lambda given: Floor(given) if isinstance(given, str) else given,
}


def own_records(proposal: Proposal, agent_id: str, user_id: str | None, store: str | None) -> frozenset[str]:
    """The agent's own records whose text it holds; nobody else's are in reach before they are approved."""
    bodies: list[Any] = list(_listed(proposal.request.get("items"))) or [proposal.request]
    ids = _listed(proposal.request.get("record_ids")) or (proposal.record_id,)
    return frozenset(
        record_id
        for record_id, body in zip(ids, bodies, strict=True)
        if record_id is not None
        and proposal.request
        and body.get("agent_id", proposal.agent_id) == agent_id
        and user_id in (None, body.get("user_id"))
        and store in (None, body.get("store"))
    )


def is_for_store(proposal: Proposal, store: str) -> bool:
    """Whether it holds words that are meant for a store."""
    bodies: list[Any] = [proposal.request, *_listed(proposal.request.get("items"))]
    return any(body.get("store") == store for body in bodies)


def made_by(proposal: Proposal) -> frozenset[str]:
    """Memories that a yes makes or changes."""
    ids = _listed(proposal.request.get("record_ids")) or (proposal.record_id,)
    return frozenset(name for name in ids if name is not None)


def renamed(proposal: Proposal, mint: Callable[[], str]) -> Proposal:
    """The same with other ids for the memories that it makes."""
    body: Mapping[str, Any] = proposal.request
    if proposal.operation == "remember" and body.get("id") is None:
        return replace(proposal, record_id=mint())
    if proposal.operation == "batch":
        pairs = zip(_listed(body.get("record_ids")), _listed(body.get("items")), strict=True)
        ids = [mint() if item.get("id") is None else name for name, item in pairs]
        return replace(proposal, request={**body, "record_ids": ids})
    return proposal


def may_see(proposal: Proposal, principal: Principal) -> bool:
    """Who wrote it, and reviewers of the agent and the operation; one bound to a user, only while its user is known."""
    if proposal.writer == principal.name:
        return True
    if not principal.may(Permission.REVIEW) or not principal.may_act_for(proposal.agent_id):
        return False
    if not reviews(principal, proposal.operation):
        return False
    # Of what is written together, all must be in sight.
    bodies: list[Any] = list(_listed(proposal.request.get("items"))) or [proposal.request]
    return all(
        principal.may_act_for(body.get("agent_id", proposal.agent_id))
        and principal.user_id in (None, body.get("user_id"))
        for body in bodies
    )


def shown(proposal: Proposal) -> Proposal:
    """As anybody may see it: without its salt, and without what is kept only so that a decision can be taken back."""
    is_passing = proposal.status != "pending" and bool(proposal.salt)
    return replace(proposal, salt=b"", request={} if is_passing else proposal.request)


def told(proposal: Proposal, canonical: Canonical) -> dict[str, Json]:
    """What the journal tells of a write that is held. Its content cannot be guessed without the salt, which goes with it."""
    around: list[Json] = [proposal.record_id, proposal.lapses_at, proposal.because, proposal.traits]
    detail: dict[str, Json] = {
        "proposal": proposal.id,
        "operation": proposal.operation,
        "held_by": list(proposal.held_by),
        "digest": hashlib.sha256(proposal.salt + canonical(exact(proposal.request))).hexdigest(),
        "around": hashlib.sha256(proposal.salt + canonical(exact(around))).hexdigest(),
    }
    return detail if proposal.approvals == 1 else {**detail, "needed": proposal.approvals}


def is_as_held(proposal: Proposal, entry: Entry, canonical: Canonical) -> bool:
    """Whether a proposal that waits is what its entry tells of it."""
    now = {"needed": 1, **told(proposal, canonical)}
    was = {name: value for name, value in entry.detail.items() if name in now}
    if "digest" in was:  # from then on it was told, too, how many must agree where they are several
        was.setdefault("needed", 1)
    return entry.agent == proposal.agent_id and was == {name: now[name] for name in was}


def reviews(principal: Principal, operation: str) -> bool:
    """Whether a reviewer decides on such writes. What is written together is remembered."""
    return principal.reviews_operation("remember" if operation == "batch" else operation)


def _listed(value: object) -> Sequence[Any]:
    return cast("Sequence[Any]", value) if isinstance(value, list | tuple) else ()


def operation_of(request: Waiting) -> str:
    return _NAMES[type(request)]


def request_of(operation: str, body: JsonObject) -> Waiting:
    """The request a proposal holds."""
    return _parsed(_KINDS[operation], body)


def _parsed(kind: type[Q], body: Mapping[str, Any]) -> Q:
    known = {field.name for field in fields(kind)}
    values: dict[str, Any] = {}
    for name, value in body.items():
        if name in known:
            parse = _PARSERS.get(name)
            values[name] = value if value is None or parse is None else parse(value)
    return kind(**values)
