"""What a grant says, whether it may be registered, and which items it admits (OAP contract 4.4, 5.4; D7, D12, F20).

1. Unknown means refused: a member, a filter key, a profile or a scope that is not known here is never passed over.
2. Every layer only narrows: the filter of a query is a second filter, never another one.
3. What the clock, the caps and the status say is asked anew for every answer.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NoReturn, cast

from quipu.errors import InvalidError
from quipu.model.grants import EMBEDDINGS, EXPORT, QUERY, Asked, Binding, Grant, ItemFilter, Trust
from quipu.model.value import JsonObject
from quipu.rules import dids, grants_trust
from quipu.rules import grants_decisions as decisions
from quipu.rules.chain import Canonical
from quipu.rules.grants_items import KINDS
from quipu.rules.grants_times import DAY_MS, instant
from quipu.rules.receipts import hashed, without

LAWFUL = ("consent", "contract", "legal_obligation", "vital_interests", "public_task", "legitimate_interests")
#: Scopes under a professional duty of silence: nothing is lent from them.
PRIVILEGED = ("attorney-client", "medical", "source-protection", "confessional")
_REQUIRED = (
    "grant_id",
    "granter",
    "grantee",
    "purpose",
    "filter",
    "max_items",
    "expires_at",
    "revocable",
    "redaction_profile",
    "signature",
)
_OPTIONAL = (
    "trust_level",
    "lawful_basis",
    "scopes",
    "binding",
    "purpose_code",
    "issued_at",
    "revocation_endpoint",
)
_PROFILE = re.compile(r"oap\.profile\.projection\.[a-z0-9_.]{1,100}")
_ID = re.compile(r"mgr_[A-Za-z0-9_-]{1,64}")
_SCOPE = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")
_MOST = 1000
_NAME = 256
_PURPOSE = 2000
#: Clocks may differ by a minute.
_SKEW_MS = 60_000
QUERY_BYTES = 4096
MOST_RESULTS = 100
_QUERY_MEMBERS = frozenset(
    {
        "query", "max_results", "include_embeddings", "include_proofs", "kinds", "filter", "min_score", "as_of",
        "cursor", "projection", "schema_version", "version_negotiation",
    }
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Limits:
    """How much a host lends at most."""

    max_items: int = 10_000
    days: int = 180
    #: The highest level anybody is served at, whatever a grant says.
    ceiling: int = 4
    #: The highest level anybody is served at on the owner's word alone; beyond it somebody has to vouch.
    unvouched: int = 4


# -- reading ------------------------------------------------------------------------------------------------------


def grant_hash(body: JsonObject, canonical: Canonical) -> str:
    """What a token, a receipt and a repetition name a grant by."""
    return hashed(without(body, "signature"), canonical)


def parsed(body: JsonObject, canonical: Canonical) -> Grant:
    """What a grant says, if it says nothing that is not understood."""
    for name in _REQUIRED:
        if name not in body:
            _refused_at(f"/{name}", "required", f"A grant has a member {name}.")
    if unknown := sorted(body.keys() - {*_REQUIRED, *_OPTIONAL}):
        _refused_at(
            f"/{unknown[0][:64]}", "unknown_member", "A grant has no such member.", [*_REQUIRED, *_OPTIONAL]
        )
    owner, scope_id = dids.split(_text(body, "granter", dids.LONGEST + 65))
    if not _SCOPE.fullmatch(scope_id):
        _refused_at(
            "/granter", "bad_value", "The granter is a DID with a scope.", ["did:web:user.example#personal"]
        )
    if body["revocable"] is not True:
        _refused_at("/revocable", "bad_value", "A grant can be revoked at any time.", ["true"])
    return Grant(
        id=_matching(body, "grant_id", _ID),
        granter=dids.checked(owner, "/granter"),
        scope_id=scope_id,
        grantee=dids.checked(body["grantee"], "/grantee"),
        purpose=_text(body, "purpose", _PURPOSE),
        filter=parsed_filter(body["filter"], "/filter"),
        max_items=_whole(body["max_items"], "/max_items", 1, 1 << 40),
        expires_at=_time(body["expires_at"], "/expires_at"),
        profile=_matching(body, "redaction_profile", _PROFILE),
        trust_level=None if "trust_level" not in body else _whole(body["trust_level"], "/trust_level", 0, 4),
        lawful_basis=_lawful(body.get("lawful_basis", LAWFUL[0])),
        scopes=_scopes(body.get("scopes", [QUERY])),
        binding=_binding(body.get("binding", Binding.DPOP.value)),
        revocation_endpoint=_text(body, "revocation_endpoint", 2000)
        if "revocation_endpoint" in body
        else None,
        body=body,
        hash=grant_hash(body, canonical),
    )


def registrable(
    grant: Grant, now: int, limits: Limits, profiles: Sequence[str], fragments: frozenset[str]
) -> None:
    """The checks of 5.4 that need no network; raises for a grant that is not to be kept."""
    if grant.profile not in profiles:
        _refused_at("/redaction_profile", "profile_unsupported", "This profile is not known here.", profiles)
    if grant.max_items > limits.max_items:
        _refused_at(
            "/max_items",
            "cap_reached",
            "The grant is larger than this host lends.",
            [f"1 … {limits.max_items}"],
        )
    if grant.expires_at <= now:
        _refused_at("/expires_at", "grant_expired", "The grant has ended already.")
    if grant.expires_at > now + limits.days * DAY_MS:
        _refused_at("/expires_at", "bad_value", "The grant lasts too long.", [f"at most {limits.days} days"])
    if "issued_at" in grant.body and _time(grant.body["issued_at"], "/issued_at") > now + _SKEW_MS:
        _refused_at("/issued_at", "bad_value", "The grant was not given yet.")
    if "purpose_code" in grant.body:
        _text(grant.body, "purpose_code", _NAME)
    if grant.scope_id in fragments:
        _refused_at("/granter", "bad_value", "This fragment names a key or a service, not a scope.")
    if grant.scope_id in PRIVILEGED:
        _refused_at("/granter", "bad_value", "Nothing is lent from a privileged scope.")
    if grant.filter.scope_ids is not None and grant.filter.scope_ids != frozenset({grant.scope_id}):
        _refused_at(
            "/filter/scope_ids",
            "bad_value",
            "Another scope needs a bridge, and there is none.",
            [grant.scope_id],
        )


def level_of(grant: Grant, limits: Limits) -> tuple[int, bool]:
    """The effective level of trust, and whether it was the default (D12)."""
    wanted, trust = 1 if grant.trust_level is None else grant.trust_level, grant.trust or Trust()
    asked = wanted if trust.requested is None else trust.requested
    evidence = max(limits.unvouched, trust.vouched)
    return min(wanted, limits.ceiling, evidence, asked), grant.trust_level is None


def narrowing(grant: Grant, limits: Limits) -> list[str]:
    """The rules that had a say in the level beside the grant, for the record of the decision."""
    wanted, trust = 1 if grant.trust_level is None else grant.trust_level, grant.trust or Trust()
    named = [decisions.CEILING] if limits.ceiling < wanted else []
    if trust.told or limits.unvouched < wanted:
        named.append(decisions.EVIDENCE)
    if trust.requested is not None and trust.requested < wanted:
        named.append(decisions.REQUESTED)
    return named


def parsed_query(body: JsonObject) -> Asked:
    """What a query asks for."""
    if unknown := sorted(body.keys() - _QUERY_MEMBERS):
        _refused_at(
            f"/{unknown[0][:64]}", "unknown_member", "A query has no such member.", sorted(_QUERY_MEMBERS)
        )
    text = body.get("query") or ""
    if not isinstance(text, str) or len(text.encode("utf-8", "replace")) > QUERY_BYTES:
        _refused_at("/query", "too_large", "A query is text.", [f"at most {QUERY_BYTES} bytes"])
    cursor = body.get("cursor")
    if cursor is not None and (not isinstance(cursor, str) or len(cursor) > 2000):
        _refused_at("/cursor", "bad_value", "This is no cursor of ours.")
    given = body.get("filter")
    score = body.get("min_score", 0.0)
    if isinstance(score, bool) or not isinstance(score, int | float) or not 0 <= score <= 1:
        _refused_at("/min_score", "bad_value", "A score is a number.", ["0 … 1"])
    for name in ("include_embeddings", "include_proofs"):
        if not isinstance(body.get(name, False), bool):
            _refused_at(f"/{name}", "bad_value", "This is yes or no.", ["true", "false"])
    return Asked(
        text=text.strip(),
        max_results=_whole(body.get("max_results", 20), "/max_results", 1, MOST_RESULTS),
        include_embeddings=bool(body.get("include_embeddings", False)),
        include_proofs=bool(body.get("include_proofs", False)),
        kinds=None if body.get("kinds") is None else _kinds(body["kinds"], "/kinds"),
        filter=None if not given else parsed_filter(given, "/filter"),
        min_score=float(score),
        as_of=None if body.get("as_of") is None else _time(body["as_of"], "/as_of"),
        cursor=cursor,
        trust=grants_trust.parsed(body.get("projection")),
        body=body,
    )


# -- filters ------------------------------------------------------------------------------------------------------


def parsed_filter(value: object, pointer: str) -> ItemFilter:
    """A filter; an empty one would mean everything, and that has to be said."""
    if not isinstance(value, Mapping):
        _refused_at(pointer, "bad_value", "A filter is an object.")
    given = cast("Mapping[str, Any]", value)
    if unknown := sorted(str(name) for name in given.keys() - {*_FILTER, "all"}):
        _refused_at(
            f"{pointer}/{unknown[0][:64]}", "unknown_member", "A filter has no such key.", [*_FILTER, "all"]
        )
    if given.get("all", True) is not True:
        _refused_at(f"{pointer}/all", "bad_value", "Everything is asked for by true.", ["true"])
    if not given:
        _refused_at(
            pointer, "required", "An empty filter has to say that it means everything.", ['{"all": true}']
        )
    read = {name: _FILTER[name](part, f"{pointer}/{name}") for name, part in given.items() if name != "all"}
    return ItemFilter(**read)


def admits(wanted: ItemFilter, item: JsonObject) -> bool:
    """Whether a filter means an item. The item is whole, or, for a filter of the grantee's own, as the grantee sees it."""
    labels = frozenset(cast("Sequence[str]", item.get("labels", ())))
    provenance = cast("Mapping[str, Any]", item["provenance"])
    at = instant(str(provenance["captured_at"])) or 0
    tests = (
        wanted.subject_entity_ids is None or item.get("subject_entity_id") in wanted.subject_entity_ids,
        wanted.kinds is None or item["kind"] in wanted.kinds,
        wanted.captured_after is None or at > wanted.captured_after,
        wanted.captured_before is None or at < wanted.captured_before,
        wanted.labels_any is None or bool(labels & wanted.labels_any),
        wanted.labels_all is None or labels >= wanted.labels_all,
        wanted.labels_none is None or not labels & wanted.labels_none,
        wanted.min_confidence is None or float(provenance["confidence"]) >= wanted.min_confidence,
        wanted.scope_ids is None or item.get("scope_id") in wanted.scope_ids,
    )
    return all(tests)


# -- members ------------------------------------------------------------------------------------------------------


def _refused_at(pointer: str, reason: str, message: str, accepted: Sequence[str] = ()) -> NoReturn:
    raise InvalidError.at(pointer, reason, message, accepted=accepted)


def _text(body: JsonObject, name: str, longest: int) -> str:
    value = body[name]
    if not isinstance(value, str) or not value.strip() or len(value) > longest:
        _refused_at(f"/{name}", "bad_value", f"{name} is text.", [f"1 … {longest} characters"])
    return value


def _matching(body: JsonObject, name: str, shape: re.Pattern[str]) -> str:
    value = body[name]
    if not isinstance(value, str) or not shape.fullmatch(value):
        _refused_at(f"/{name}", "bad_value", f"{name} has another form.", [shape.pattern])
    return value


def _whole(value: object, pointer: str, least: int, most: int) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or not least <= value <= most:
        _refused_at(pointer, "bad_value", "This is a whole number.", [f"{least} … {most}"])
    return value


def _time(value: object, pointer: str) -> int:
    at = instant(value) if isinstance(value, str) else None
    if at is None:
        _refused_at(pointer, "bad_value", "Times are RFC 3339 in UTC.", ["2026-01-01T00:00:00Z"])
    return at


def _names(value: object, pointer: str) -> frozenset[str]:
    given: list[Any] = cast("list[Any]", value) if isinstance(value, list | tuple) else []
    if not given or len(given) > _MOST:
        _refused_at(pointer, "bad_value", "This is a list of names.", [f"1 … {_MOST} names"])
    if not all(isinstance(name, str) and 0 < len(name) <= _NAME for name in given):
        _refused_at(pointer, "bad_value", "This is a list of names.", [f"1 … {_NAME} characters each"])
    return frozenset(given)


def _kinds(value: object, pointer: str) -> frozenset[str]:
    names = _names(value, pointer)
    if names - set(KINDS):
        _refused_at(pointer, "bad_value", "There is no such kind.", KINDS)
    return names


def _share(value: object, pointer: str) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value <= 1:
        _refused_at(pointer, "bad_value", "Confidence is a number.", ["0 … 1"])
    return float(value)


def _lawful(value: object) -> str:
    # OAP's own example writes the singular.
    named = "legitimate_interests" if value == "legitimate_interest" else value
    if not isinstance(named, str) or named not in LAWFUL:
        _refused_at("/lawful_basis", "bad_value", "There is no such lawful basis.", LAWFUL)
    return named


def _scopes(value: object) -> frozenset[str]:
    names, known = _names(value, "/scopes"), (QUERY, EMBEDDINGS, EXPORT)
    if names - set(known):
        _refused_at("/scopes", "bad_value", "There is no such scope of a token.", known)
    return names


def _binding(value: object) -> Binding:
    try:
        return Binding(cast("str", value))
    except ValueError:
        _refused_at("/binding", "bad_value", "A token is bound to a key, or it is not.", list(Binding))


_FILTER: Mapping[str, Callable[[object, str], Any]] = {
    "subject_entity_ids": _names,
    "kinds": _kinds,
    "captured_after": _time,
    "captured_before": _time,
    "labels_any": _names,
    "labels_all": _names,
    "labels_none": _names,
    "min_confidence": _share,
    "scope_ids": _names,
    "as_of": _time,
}
