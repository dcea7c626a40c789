"""Hits that a memory signs, for whoever asks it among others: a compact JWS (EdDSA) over what was asked and answered.

Covered are the query, who asked, a value that is used once, the rank, the id and the text. So a hit can neither be
altered on its way nor shown again for another question, to another asker, or later.
"""

import hashlib
import json
from collections.abc import Mapping, Sequence
from typing import Any, Final, Protocol

from quipu import jose
from quipu.errors import QuipuError
from quipu.memory.model import Hit, SignFor

#: Older than this, or from so far in the future, a signature is not believed.
AGE_MS: Final = 60_000
_VERSION: Final = 1
#: What a memory is called in its own statements; whoever checks them knows it by its key.
_BACKEND: Final = "quipu"


class HitSigner(Protocol):
    """The key that this memory signs with."""

    @property
    def key_id(self) -> str: ...
    def sign(self, message: bytes) -> str:
        """The signature, as base64url."""
        ...


def signed(hits: Sequence[Hit], asked: SignFor, query: str, signer: HitSigner, at: int) -> list[Hit]:
    """The hits, each made out to who asked."""
    by = jose.Signatory(signer.key_id, {}, signer.sign)
    return [
        hit.model_copy(
            update={
                "signature": jose.token(
                    {}, _statement(asked, query, rank=rank, id=hit.id, content=hit.content, at=at), by
                )
            }
        )
        for rank, hit in enumerate(hits)
    ]


def are_signed(
    hits: Sequence[Mapping[str, Any]], asked: SignFor, query: str, public_key: str, now: int
) -> bool:
    """Whether each of these hits, at its place in the answer to this question, was signed by this key (base64url)."""
    jwk = {"kty": "OKP", "crv": "Ed25519", "x": public_key}
    return all(_is_signed(hit, asked, query, jwk, rank, now) for rank, hit in enumerate(hits))


def _is_signed(
    hit: Mapping[str, Any], asked: SignFor, query: str, jwk: Mapping[str, str], rank: int, now: int
) -> bool:
    token = hit.get("signature")
    if not isinstance(token, str):
        return False
    try:
        claims = jose.opened(token).claims
        is_theirs = jose.is_signed(token, jwk)
    except (QuipuError, ValueError):
        return False
    at = claims.get("iat")
    if not is_theirs or not isinstance(at, int) or abs(now - at) > AGE_MS:
        return False
    wanted = _statement(asked, query, rank=rank, id=str(hit.get("id")), content=hit.get("content"), at=at)
    return all(claims.get(name) == value for name, value in wanted.items() if name != "backend")


def _statement(asked: SignFor, query: str, *, rank: int, id: str, content: object, at: int) -> dict[str, Any]:
    """What is signed for one hit; a text as it is, a machine as JSON."""
    text = content if isinstance(content, str) else json.dumps(content, sort_keys=True, separators=(",", ":"))
    return {
        "v": _VERSION,
        "backend": _BACKEND,
        "aud": asked.audience,
        "query": _sha256(query),
        "nonce": asked.nonce,
        "rank": rank,
        "id": id,
        "content": _sha256(text),
        "iat": at,
    }


def _sha256(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()
