"""Rules as people write them, and back: closed keys, and errors that name the place."""

from __future__ import annotations

import difflib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import fields
from enum import StrEnum
from functools import partial
from typing import Any, TypeVar, cast

from quipu.errors import InvalidError
from quipu.model.governance import Effect, Found, Origin, Rule, When
from quipu.model.record import MemoryType, Sensitivity, Trust
from quipu.model.value import Json, JsonObject
from quipu.rules import filters, policy
from quipu.rules.policy_patterns import pattern

OPERATIONS = ("remember", "forget", "merge", "expire", "restore", "recall")
MOST_RULES = 500
_MOST_WORDS = 200
_RULE_KEYS = ("id", "when", "effect", "reason", "approvals", "expires_at", "origin")

E = TypeVar("E", bound=StrEnum)
Reader = Callable[[object, str], Any]


def rules_of(given: object, pointer: str = "", *, are_kept: bool = False) -> tuple[Rule, ...]:
    """The rules of a document `{"rules": [...]}`. Those that `are_kept` go on as they were once accepted."""
    document = _object(given, pointer)
    _known(document, ("rules",), pointer)
    listed = document.get("rules")
    if not isinstance(listed, list | tuple):
        raise _bad(f"{pointer}/rules", "The rules are a list.")
    entries = cast("Sequence[object]", listed)
    if len(entries) > MOST_RULES:
        raise InvalidError.at(
            f"{pointer}/rules", "too_large", "There are too many rules.", accepted=[f"at most {MOST_RULES}"]
        )
    rules = tuple(_rule(entry, f"{pointer}/rules/{place}") for place, entry in enumerate(entries))
    seen: set[str] = set()
    for place, rule in enumerate(rules):
        if rule.id in seen:
            raise _bad(f"{pointer}/rules/{place}/id", "Two rules have the same id.")
        if not are_kept and (name := policy.untrue_of_recalls(rule.when)) is not None:
            raise InvalidError.at(
                f"{pointer}/rules/{place}/when/{name}",
                "bad_value",
                "A recall is judged before anything is found, so this is never true of one.",
                accepted=["agents", "principals", "admin"],
                hint="Give recalls a rule of their own, without it.",
            )
        seen.add(rule.id)
    return rules


def _rule(given: object, pointer: str) -> Rule:
    body = _object(given, pointer)
    _known(body, _RULE_KEYS, pointer)
    for name in ("id", "effect"):
        if name not in body:
            raise InvalidError.at(f"{pointer}/{name}", "missing_field", f"A rule needs its {name}.")
    reserved = ("caller", "default")
    rule_id = _text(body["id"], f"{pointer}/id", longest=100)
    if rule_id in reserved or rule_id.startswith("shipped-"):
        raise _bad(f"{pointer}/id", "This id is taken by something that is no rule of yours.")
    effect = _member(Effect, body["effect"], f"{pointer}/effect")
    approvals = _whole(body.get("approvals", 1), f"{pointer}/approvals", least=1, most=10)
    if approvals > 1 and effect is not Effect.HOLD:
        raise _bad(f"{pointer}/approvals", "Only what is held is approved.")
    ends, why = body.get("expires_at"), body.get("reason")
    return Rule(
        id=rule_id,
        when=_when(body.get("when", {}), f"{pointer}/when"),
        effect=effect,
        reason=None if why is None else _text(why, f"{pointer}/reason", longest=1_024),
        approvals=approvals,
        expires_at=None if ends is None else _whole(ends, f"{pointer}/expires_at"),
        origin=_origin(body.get("origin", "operator"), f"{pointer}/origin"),
    )


def _origin(given: object, pointer: str) -> Origin:
    origin = _member(Origin, given, pointer)
    if origin is Origin.SHIPPED:
        raise _bad(pointer, "What ships is not written down.", [Origin.OPERATOR, Origin.LEARNED])
    return origin


def _when(given: object, pointer: str) -> When:
    body = _object(given, pointer)
    _known(body, tuple(_READERS), pointer)
    # A condition that asks for nothing would match everything, which is never what was meant.
    for name, value in body.items():
        if value is None or value == [] or value == ():
            raise _bad(f"{pointer}/{name}", "This condition asks for nothing; leave it out.")
    return When(**{name: _READERS[name](value, f"{pointer}/{name}") for name, value in body.items()})


def rule_body(rule: Rule) -> dict[str, Json]:
    """A rule as it is written."""
    body: dict[str, Json] = {"id": rule.id, "when": _when_body(rule.when), "effect": rule.effect.value}
    if rule.reason:
        body["reason"] = rule.reason
    if rule.approvals > 1:
        body["approvals"] = rule.approvals
    if rule.expires_at is not None:
        body["expires_at"] = rule.expires_at
    return {**body, "origin": rule.origin.value}


def _when_body(when: When) -> dict[str, Json]:
    body: dict[str, Json] = {}
    for field in fields(When):
        value = getattr(when, field.name)
        if value is None or value == ():
            continue
        if isinstance(value, tuple):
            body[field.name] = [str(item) for item in cast("Sequence[object]", value)]
        else:
            body[field.name] = str(value) if isinstance(value, StrEnum) else value
    return body


# -- values -----------------------------------------------------------------------------------------------------


def _object(given: object, pointer: str) -> Mapping[str, object]:
    if not isinstance(given, Mapping):
        raise _bad(pointer, "An object is needed here.")
    return cast("Mapping[str, object]", given)


def _known(body: Mapping[str, object], keys: Sequence[str], pointer: str) -> None:
    for name in body:
        if name not in keys:
            close = difflib.get_close_matches(str(name), keys, n=3, cutoff=0.6)
            raise InvalidError.at(
                f"{pointer}/{name}",
                "unknown_field",
                f"There is no {name!r} here." + (f" Did you mean {close[0]}?" if close else ""),
                accepted=close or list(keys),
            )


def _text(given: object, pointer: str, *, longest: int = 256, least: int = 1) -> str:
    if not isinstance(given, str) or not least <= len(given) <= longest:
        raise _bad(pointer, "A text is needed here.", [f"{least} to {longest} characters"])
    if any("\ud800" <= sign <= "\udfff" for sign in given):
        raise _bad(pointer, "A text holds no unpaired surrogate.")
    return given


def _texts(given: object, pointer: str) -> tuple[str, ...]:
    listed = (given,) if isinstance(given, str) else given
    if not isinstance(listed, list | tuple):
        raise _bad(pointer, "A list of texts is needed here.")
    entries = cast("Sequence[object]", listed)
    if len(entries) > _MOST_WORDS:
        raise InvalidError.at(
            pointer, "too_large", "The list is too long.", accepted=[f"at most {_MOST_WORDS}"]
        )
    return tuple(_text(entry, f"{pointer}/{place}") for place, entry in enumerate(entries))


def _members(kind: type[E], given: object, pointer: str) -> tuple[E, ...]:
    return tuple(_member(kind, one, f"{pointer}/{place}") for place, one in enumerate(_texts(given, pointer)))


def _member(kind: type[E], given: object, pointer: str) -> E:
    if not isinstance(given, str) or given not in {one.value for one in kind}:
        raise _bad(pointer, "This is none of them.", [one.value for one in kind])
    return kind(given)


def _operations(given: object, pointer: str) -> tuple[str, ...]:
    for place, name in enumerate(found := _texts(given, pointer)):
        if name not in OPERATIONS:
            raise _bad(f"{pointer}/{place}", "This is none of them.", OPERATIONS)
    return found


def _whole(given: object, pointer: str, *, least: int = 0, most: int = 1 << 62) -> int:
    if not isinstance(given, int) or isinstance(given, bool) or not least <= given <= most:
        raise _bad(pointer, "A whole number is needed here.", [f"{least} or more"])
    return given


def _share(given: object, pointer: str) -> float:
    if not isinstance(given, int | float) or isinstance(given, bool) or not 0 <= given <= 1:
        raise _bad(pointer, "A number from 0 to 1 is needed here.", ["0 to 1"])
    return float(given)


def _yes(given: object, pointer: str) -> bool:
    if not isinstance(given, bool):
        raise _bad(pointer, "True or false is needed here.", ["true", "false"])
    return given


def _regex(given: object, pointer: str) -> str:
    text = _text(given, pointer, longest=200)
    pattern(text, pointer)
    return text


def _filter(given: object, pointer: str) -> JsonObject:
    body = cast("JsonObject", _object(given, pointer))
    if not body:
        raise _bad(pointer, "This condition asks for nothing; leave it out.")
    filters.checked(body, pointer)
    return body


def _bad(pointer: str, message: str, accepted: Sequence[str] = ()) -> InvalidError:
    return InvalidError.at(pointer, "bad_value", message, accepted=accepted)


_READERS: Mapping[str, Reader] = {
    "operations": _operations,
    "stores": _texts,
    "types": partial(_members, MemoryType),
    "tags": _texts,
    "agents": _texts,
    "users": _texts,
    "sources": _texts,
    "principals": _texts,
    "trust_at_most": partial(_member, Trust),
    "sensitivity_at_least": partial(_member, Sensitivity),
    "confidence_below": _share,
    "content_any": _texts,
    "content_regex": _regex,
    "filter": _filter,
    "hard_delete": _yes,
    "count_above": _whole,
    "size_above": _whole,
    "imported": _yes,
    "new_source": _yes,
    "admin": _yes,
    "found": partial(_members, Found),
    "conflicts": _yes,
}
