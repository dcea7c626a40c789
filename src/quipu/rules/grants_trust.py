"""How far a grantee is trusted: what it asks for, what it shows, and what a credential must say (OAP contract 7.1, D12).

1. A level is the least of what the grant, the host's ceiling, the evidence and the request allow; nothing raises it.
2. The owner's signature under the grant is evidence up to `Limits.unvouched`; beyond that somebody else has to vouch.
3. Nobody vouches for themselves. What cannot be read, verified or understood counts for nothing and is told.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NoReturn, cast

from quipu.errors import InvalidError
from quipu.model.grants import AskedTrust, Grant
from quipu.rules.dids import split
from quipu.rules.grants_times import instant

VOUCHED = "OAPConnectionVouched"
#: What became of a piece of evidence.
ACCEPTED, UNKNOWN, UNREADABLE = "accepted", "unknown_type", "unreadable"
OWN_WORD, UNTRUSTED, ELSEWHERE = "own_word", "untrusted_issuer", "another_connection"
OVER, UNVERIFIED = "expired", "unverified"
_TYPE = "vc+jwt"
_MOST = 8
_LONGEST = 16 << 10
_SKEW_MS = 60_000


def parsed(value: object) -> AskedTrust | None:
    """The member `projection` of a request."""
    if value is None:
        return None
    if not isinstance(value, Mapping):
        _refused("/projection", "A projection is an object.")
    given = cast("Mapping[str, Any]", value)
    if unknown := sorted(given.keys() - {"requested_trust_level", "evidence"}):
        _refused(f"/projection/{unknown[0][:64]}", "A projection has no such member.", "unknown_member")
    level = given.get("requested_trust_level")
    if level is not None and (isinstance(level, bool) or not isinstance(level, int) or not 0 <= level <= 4):
        _refused("/projection/requested_trust_level", "This is a whole number from 0 to 4.")
    shown: Any = given.get("evidence", [])
    if not isinstance(shown, list) or len(cast("list[Any]", shown)) > _MOST:
        _refused("/projection/evidence", f"Evidence is a list, at most {_MOST} long.")
    return AskedTrust(level, tuple(_piece(one) for one in cast("list[Any]", shown)))


def _piece(value: object) -> tuple[str, str]:
    given = cast("Mapping[str, Any]", value if isinstance(value, Mapping) else {})
    kind, credential = given.get("type"), given.get("credential")
    if not isinstance(kind, str) or not 0 < len(kind) <= 64 or not kind.isprintable():
        _refused("/projection/evidence", "Evidence says of which type it is.")
    if not isinstance(credential, str) or len(credential) > _LONGEST:
        _refused("/projection/evidence", "Evidence is a credential: a JWT.")
    return kind, credential


def issuer_of(claims: Mapping[str, Any]) -> str | None:
    """Who says it; None where it says two things."""
    given = claims.get("issuer", claims.get("iss"))
    if isinstance(given, Mapping):
        given = cast("Mapping[str, Any]", given).get("id")
    is_one = "iss" not in claims or claims["iss"] == given
    return given if isinstance(given, str) and is_one else None


def fault(
    header: Mapping[str, Any], claims: Mapping[str, Any], grant: Grant, vouchers: frozenset[str], now: int
) -> str | None:
    """Why a credential does not count, before its signature is looked at; None where it may."""
    issuer, subject = issuer_of(claims), _subject(claims)
    types: Any = claims.get("type")
    kid = header.get("kid")
    if issuer is None or header.get("typ") != _TYPE or not isinstance(kid, str):
        return UNREADABLE
    if not isinstance(types, list) or VOUCHED not in types or _level(subject) is None:
        return UNREADABLE
    if issuer == grant.grantee:
        return OWN_WORD
    if issuer != grant.granter and issuer not in vouchers:
        return UNTRUSTED
    if subject.get("id") != grant.grantee or subject.get("connected_to") != grant.granter:
        return ELSEWHERE
    if "#" in kid and split(kid)[0] != issuer:
        return UNVERIFIED
    begins, ends = _times(claims)
    return None if begins - _SKEW_MS <= now < ends else OVER


def vouched(claims: Mapping[str, Any]) -> int:
    """The level that a credential speaks for."""
    return _level(_subject(claims)) or 0


def ends(claims: Mapping[str, Any]) -> int:
    """When a credential stops speaking for anybody."""
    return _times(claims)[1]


def _subject(claims: Mapping[str, Any]) -> Mapping[str, Any]:
    given = claims.get("credentialSubject")
    return cast("Mapping[str, Any]", given) if isinstance(given, Mapping) else {}


def _level(subject: Mapping[str, Any]) -> int | None:
    level = subject.get("trust_level")
    return level if isinstance(level, int) and not isinstance(level, bool) and 0 <= level <= 4 else None


def _times(claims: Mapping[str, Any]) -> tuple[int, int]:
    """From when to when it counts; one that names no end, or one that cannot be read, has ended."""
    begins = [_moment(claims[name], never=1 << 62) for name in ("nbf", "iat", "validFrom") if name in claims]
    ends = [_moment(claims[name], never=0) for name in ("exp", "validUntil") if name in claims]
    return max(begins, default=0), min(ends, default=0)


def _moment(value: object, never: int) -> int:
    """A time in seconds or in words; `never` where it cannot be read."""
    if isinstance(value, str):
        at = instant(value)
        return never if at is None else at
    is_number = isinstance(value, int | float) and not isinstance(value, bool) and abs(value) < 1e12
    return int(cast("float", value) * 1000) if is_number else never


def _refused(pointer: str, message: str, reason: str = "bad_value") -> NoReturn:
    raise InvalidError.at(pointer, reason, message)
