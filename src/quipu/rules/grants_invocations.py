"""The Request Envelope of `/oap/invoke`: closed, fresh, and signed by the agent that it names (OAP contract 4.8, 5.1)."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, NoReturn, cast

from quipu.errors import InvalidError
from quipu.model.value import JsonObject
from quipu.rules import dids
from quipu.rules.grants_times import instant

#: How far the clocks of two hosts may differ.
FRESH_MS = 300_000
_REQUIRED = (
    "oap_version", "request_id", "timestamp", "principal_did", "agent_did", "action", "input", "context", "signature",
)  # fmt: skip
_OPTIONAL = ("scope_id", "consent_receipt", "subscription_token", "idempotency_key", "policy_assertions")
_ULID = re.compile(r"[0-9A-HJKMNP-TV-Z]{26}")
_CONTEXT: Mapping[str, re.Pattern[str]] = {
    "locale": re.compile(r"[a-z]{2}(-[A-Z]{2})?"),
    "currency": re.compile(r"[A-Z]{3}"),
    "jurisdiction_user": re.compile(r"[A-Z]{2}"),
    "jurisdiction_agent": re.compile(r"[A-Z]{2}"),
}
_CLASSES = ("public", "internal", "confidential", "privileged")


@dataclass(frozen=True, slots=True, kw_only=True)
class Invocation:
    """What an envelope asks for, and in whose name."""

    action: str
    input: dict[str, Any] = field(repr=False)
    principal: str
    agent: str
    request_id: str
    at: int
    scope_id: str | None = None
    key: str | None = None
    kid: str
    signature: str = field(repr=False)


def parsed(body: JsonObject) -> Invocation:
    """An envelope that says nothing but what is understood."""
    for name in _REQUIRED:
        if name not in body:
            _refused(f"/{name}", f"A request has a member {name}.", "required")
    if unknown := sorted(body.keys() - {*_REQUIRED, *_OPTIONAL}):
        _refused(f"/{unknown[0][:64]}", "A request has no such member.", "unknown_member")
    if body["oap_version"] != "1.0":
        _refused("/oap_version", "This version is not spoken here.")
    _check_context(_object(body, "context"))
    _check_assertions(body.get("policy_assertions", {}))
    signature, name = _object(body, "signature"), _text(body, "request_id")
    at = instant(_text(body, "timestamp"))
    if not _ULID.fullmatch(name):
        _refused("/request_id", "The id of a request is a ULID.")
    if at is None:
        _refused("/timestamp", "Times are RFC 3339 in UTC.")
    for optional in ("consent_receipt", "subscription_token"):
        if optional in body:
            _text(body, optional)
    return Invocation(
        action=_text(body, "action"),
        input=dict(_object(body, "input")),
        principal=dids.checked(body["principal_did"], "/principal_did"),
        agent=dids.checked(body["agent_did"], "/agent_did"),
        request_id=name,
        at=at,
        scope_id=_text(body, "scope_id") if "scope_id" in body else None,
        key=_text(body, "idempotency_key") if "idempotency_key" in body else None,
        kid=_text(signature, "kid", "/signature"),
        signature=_text(signature, "value", "/signature"),
    )


def is_fresh(invocation: Invocation, now: int) -> bool:
    """Whether it was made just now."""
    return abs(now - invocation.at) <= FRESH_MS


def _check_context(given: Mapping[str, Any]) -> None:
    for name, shape in _CONTEXT.items():
        if not isinstance(given.get(name), str) or not shape.fullmatch(given[name]):
            _refused(f"/context/{name}", f"{name} has another form.")


def _check_assertions(given: object) -> None:
    """What a caller asserts of its own policy is read, and believed only where it asks for less."""
    told = cast("Mapping[str, Any]", given) if isinstance(given, Mapping) else {"confidentiality_class": None}
    if told.get("confidentiality_class", _CLASSES[0]) not in _CLASSES:
        _refused("/policy_assertions", "There is no such class.")


def _object(body: JsonObject, name: str) -> Mapping[str, Any]:
    value = body[name]
    if not isinstance(value, Mapping):
        _refused(f"/{name}", f"{name} is an object.")
    return cast("Mapping[str, Any]", value)


def _text(body: Mapping[str, Any], name: str, above: str = "") -> str:
    value = body.get(name)
    if not isinstance(value, str) or not 0 < len(value) <= 4096:
        _refused(f"{above}/{name}", f"{name} is text.")
    return value


def _refused(pointer: str, message: str, reason: str = "bad_value") -> NoReturn:
    raise InvalidError.at(pointer, reason, message)
