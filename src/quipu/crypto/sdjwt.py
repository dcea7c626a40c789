"""Selective disclosure (RFC 9901): one signed statement about an item, of which only some members are handed over.

Every salt is made from the version's own salt, so that nothing more has to be kept: erasing the version erases all of
them, and no disclosure can be made again.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
from collections.abc import Mapping
from typing import Any, cast

from quipu.crypto.jose import JsonWebSignatures
from quipu.errors import TamperedError, UnauthenticatedError
from quipu.rules.receipts import Hand, b64

_OPEN = ("item_id", "owner_did")
#: Members whose own members are handed over one by one.
_NESTED = ("content", "provenance")
TYPE = "oap-memory-item+sd-jwt"


def issued(item: Mapping[str, Any], shown: Mapping[str, Any], salt: bytes, hand: Hand, at_s: int) -> str:
    """The statement about the whole item, and the disclosures of what `shown` has unaltered."""
    jose = JsonWebSignatures()
    claims: dict[str, Any] = {"iss": hand.did, "iat": at_s, "_sd_alg": "sha-256"}
    claims |= {name: item[name] for name in _OPEN if name in item}
    handed: list[str] = []
    rest = {name: part for name, part in item.items() if name not in (*_OPEN, *_NESTED)}
    claims["_sd"] = _hidden(rest, shown, "", salt, handed)
    for name in _NESTED:
        inner = cast("Mapping[str, Any]", item.get(name, {}))
        seen = cast("Mapping[str, Any]", shown.get(name, {}))
        claims[name] = {"_sd": _hidden(inner, seen, name, salt, handed)}
    token = jose.token({"alg": "EdDSA", "typ": TYPE, "kid": hand.kid}, claims, hand)
    return "~".join([token, *handed, ""])


def _hidden(
    members: Mapping[str, Any], shown: Mapping[str, Any], above: str, salt: bytes, handed: list[str]
) -> list[str]:
    digests: list[str] = []
    for name, value in members.items():
        mixed = hmac.digest(salt, f"sd:{above}/{name}".encode(), "sha256")[:16]
        text = b64(json.dumps([b64(mixed), name, value], ensure_ascii=False).encode("utf-8"))
        digests.append(_digest(text))
        if name in shown and shown[name] == value:
            handed.append(text)
    return sorted(digests)


def disclosed(text: str, jwk: Mapping[str, Any]) -> dict[str, Any]:
    """What a statement proves. Raises TamperedError for one that does not hold."""
    jose = JsonWebSignatures()
    token, *handed = text.split("~")
    try:
        opened = jose.opened(token)
        if opened.header.get("typ") != TYPE or not jose.is_signed(token, jwk) or not handed or handed[-1]:
            raise _wrong()
    except UnauthenticatedError as error:
        raise _wrong() from error
    claims = dict(opened.claims)
    if not text.isascii():
        raise _wrong()
    by_digest = {_digest(part): _read(part) for part in handed[:-1]}
    if len(by_digest) != len(handed) - 1:
        raise _wrong()
    proven: dict[str, Any] = {name: claims[name] for name in _OPEN if name in claims}
    used = _take(claims.get("_sd"), by_digest, proven)
    for name in _NESTED:
        inner: dict[str, Any] = {}
        nested = claims.get(name)
        told = cast("Mapping[str, Any]", nested).get("_sd") if isinstance(nested, Mapping) else None
        used |= _take(told, by_digest, inner)
        if inner:
            proven[name] = inner
    if used != by_digest.keys():
        raise _wrong()  # a disclosure that the statement knows nothing of
    return proven


def _take(digests: object, by_digest: Mapping[str, tuple[str, Any]], into: dict[str, Any]) -> set[str]:
    given = cast("list[Any]", digests) if isinstance(digests, list) else []
    used = {one for one in given if isinstance(one, str)} & by_digest.keys()
    for digest in used:
        name, value = by_digest[digest]
        into[name] = value
    return used


def _digest(text: str) -> str:
    return b64(hashlib.sha256(text.encode("ascii")).digest())


def _read(text: str) -> tuple[str, Any]:
    try:
        found: Any = json.loads(base64.urlsafe_b64decode(text + "=" * (-len(text) % 4)))
        _salt, name, value = found
    except (ValueError, TypeError, RecursionError) as error:
        raise _wrong() from error
    return str(name), value


def _wrong() -> TamperedError:
    return TamperedError("The statement about this item does not hold.", reason="bad_proof")
