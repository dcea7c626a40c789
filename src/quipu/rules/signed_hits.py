"""Hits that a backend signs: a compact JWS (EdDSA) over what was asked and what is answered.

Covered are the query, the asker, a number used once, the rank, the id and the text; so a hit can neither be altered on
its way nor shown again for another question, to another asker or later.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final, TypeAlias, cast

#: Older than this, or from so far in the future, a signature is not believed.
AGE_MS: Final = 60_000
_VERSION: Final = 1
#: message, signature → is it right?
VerifyHit: TypeAlias = Callable[[bytes, str], bool]
Canonical: TypeAlias = Callable[[object], bytes]


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """What every signature of an answer repeats."""

    audience: str
    query: str
    nonce: str


def statement(
    asked: Asked, *, backend: str, rank: int, id: str, text: str, at: int
) -> Mapping[str, str | int]:
    """What is signed for one hit."""
    return {
        "v": _VERSION,
        "backend": backend,
        "aud": asked.audience,
        "query": _sha256(asked.query),
        "nonce": asked.nonce,
        "rank": rank,
        "id": id,
        "content": _sha256(text),
        "iat": at,
    }


def text_of(content: str | Mapping[str, Any]) -> str:
    """What of a hit's content is signed: a text as it is, a machine as JSON."""
    return content if isinstance(content, str) else json.dumps(content)


def signed(
    stated: Mapping[str, str | int], key_id: str, sign: Callable[[bytes], str], canonical: Canonical
) -> str:
    """The hit's signature, as a backend sends it; `sign` gives base64url without padding."""
    head = _b64(canonical({"alg": "EdDSA", "kid": key_id}))
    message = f"{head}.{_b64(canonical(dict(stated)))}"
    return f"{message}.{sign(message.encode())}"


def is_signed(
    token: str | None, asked: Asked, *, rank: int, id: str, text: str, now: int, verify: VerifyHit
) -> bool:
    """Whether this hit, at this place of the answer to this question, was signed by whom `verify` knows."""
    if token is None or token.count(".") != 2:
        return False
    message, _, signature = token.rpartition(".")
    told = _read(message.partition(".")[2])
    if told is None:
        return False
    moment = told.get("iat")
    if not isinstance(moment, int) or abs(now - moment) > AGE_MS:
        return False
    wanted = statement(asked, backend="", rank=rank, id=id, text=text, at=moment)
    if any(told.get(name) != value for name, value in wanted.items() if name != "backend"):
        return False
    return verify(message.encode(), signature)


def _read(part: str) -> dict[str, Any] | None:
    try:
        told = json.loads(base64.urlsafe_b64decode(part + "=" * (-len(part) % 4)))
    except (ValueError, binascii.Error, RecursionError):
        return None
    return cast("dict[str, Any]", told) if isinstance(told, dict) else None


def _sha256(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


def _b64(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()
