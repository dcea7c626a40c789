"""Asking for access: what an agent may ask an owner for, and what becomes of it (OAP contract 5.4, RFC 9396)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, cast

from quipu.errors import InvalidError
from quipu.model.grants import AccessRequest, GrantStatus, KeptGrant, TaskState
from quipu.model.value import JsonObject
from quipu.rules.chain import Canonical
from quipu.rules.grants import Grant, parsed
from quipu.rules.grants_times import DAY_MS, rfc3339

TYPE = "oap_memory_grant"
TASK = "urn:oap:task:"
#: How long an owner has to answer, and how many requests wait at most: of one agent, and in all.
WAITS_MS = 7 * DAY_MS
MOST_OF_ONE = 5
MOST = 100
#: What a draft may say; the rest of a grant is the owner's to add.
_MEMBERS = (
    "type",
    "granter",
    "grantee",
    "purpose",
    "filter",
    "max_items",
    "expires_at",
    "redaction_profile",
    "trust_level",
    "lawful_basis",
    "scopes",
    "binding",
    "purpose_code",
)


def wanted(body: JsonObject) -> dict[str, Any]:
    """The draft of a grant that a request carries, before it is known who asks."""
    given = body.get("authorization_details")
    details = cast("list[object]", given) if isinstance(given, list | tuple) else []
    if len(details) != 1 or not isinstance(details[0], Mapping) or body.keys() - {"authorization_details"}:
        raise InvalidError.at(
            "/authorization_details", "bad_value", "Ask for one grant.", accepted=[f"one of type {TYPE}"]
        )
    draft = dict(cast("Mapping[str, Any]", details[0]))
    where = "/authorization_details/0"
    if draft.get("type") != TYPE:
        raise InvalidError.at(f"{where}/type", "bad_value", "There are no others.", accepted=[TYPE])
    if unknown := sorted(draft.keys() - set(_MEMBERS)):
        raise InvalidError.at(
            f"{where}/{unknown[0][:64]}", "unknown_member", "A request has no such member.", accepted=_MEMBERS
        )
    for name in ("granter", "grantee", "purpose", "filter"):
        if name not in draft:
            raise InvalidError.at(f"{where}/{name}", "required", f"A request has a member {name}.")
    del draft["type"]
    return draft


def as_grant(draft: JsonObject, defaults: JsonObject, now: int, canonical: Canonical) -> Grant:
    """The grant that it would become, to be checked as one; it is signed by nobody."""
    filled = {
        "grant_id": "mgr_asked",
        "expires_at": rfc3339((now + DAY_MS) // 1000 * 1000),
        "revocable": True,
        "signature": "",
        **defaults,
        **draft,
    }
    return parsed(filled, canonical)


def grant_id(request_id: str) -> str:
    """The id of the grant that a request becomes: one follows from the other."""
    return "mgr_" + request_id.partition("_")[2]


def task_id(request_id: str) -> str:
    """What the asker knows a request by."""
    return TASK + request_id.partition("_")[2]


def request_id(task: str) -> str:
    """The request that a task is about."""
    return KeptGrant.REQUEST + task.removeprefix(TASK)


def read(kept: KeptGrant, grant: KeptGrant | None, now: int) -> AccessRequest:
    """How a request stands: it became a grant, was refused, has lapsed, or waits."""
    if grant is not None:
        state = TaskState.COMPLETED
    elif kept.status is GrantStatus.REVOKED:
        state = TaskState.CANCELED
    elif now >= kept.expires_at:
        state = TaskState.EXPIRED
    else:
        state = TaskState.AWAITING_INPUT
    return AccessRequest(
        tenant=kept.tenant,
        id=kept.id,
        draft=kept.body,
        grantee=kept.grantee,
        asked_at=kept.registered_at,
        lapses_at=kept.expires_at,
        state=state,
        grant=grant,
    )
