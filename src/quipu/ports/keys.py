"""Keys that people and hosts are known by, what is signed with them, and the documents that publish them."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias, cast

from quipu.model.grants import TextMode
from quipu.rules.dids import PublicKey
from quipu.rules.grants import Limits as GrantLimits
from quipu.rules.receipts import Hand

if TYPE_CHECKING:
    from quipu.model.value import JsonObject


class Keyring(Protocol):
    """The keys of this host and of the owners whose keys it keeps, outside the ledger.

    `who` is None for the host itself, or an owner's tenant.
    """

    def did(self, who: str | None) -> str: ...

    def hand(self, who: str | None) -> Hand:
        """The one who signs now; the first time makes the key."""
        ...

    def document(self, who: str | None) -> dict[str, Any]:
        """The DID document, with retired keys."""
        ...

    def rotate(self, who: str | None, at: int, *, is_compromised: bool) -> str:
        """Sign with a new key from now on; returns its name. What a compromised key has signed counts no more."""
        ...

    def jwk(self, who: str | None) -> Mapping[str, Any]:
        """The public key that signs now."""
        ...

    def tenant_of(self, did: str) -> str | None:
        """Whose DID this is, if it is one of our owners'."""
        ...

    def note_revoked(self, who: str, grant_id: str) -> None:
        """Keep in mind, outside the ledger, that an owner took a grant back: an older ledger may be put in its place."""
        ...

    def is_revoked(self, who: str, grant_id: str) -> bool:
        """Whether that was noted."""
        ...


class Documents(Protocol):
    """DID documents of others. Raises UnverifiableError where one cannot be had."""

    async def document(self, did: str) -> JsonObject: ...

    async def close(self) -> None: ...


@dataclass(frozen=True, slots=True)
class Opened:
    """A JWT before anything of it is believed."""

    header: Mapping[str, Any]
    claims: Mapping[str, Any]


class Jose(Protocol):
    """JSON Web Tokens and signatures over canonical bytes."""

    def opened(self, token: str) -> Opened:
        """Its parts; raises UnauthenticatedError for what is no JWT."""
        ...

    def is_signed(self, token: str, jwk: Mapping[str, Any]) -> bool:
        """Whether the key made it, by one of the accepted algorithms."""
        ...

    def token(self, header: Mapping[str, Any], claims: Mapping[str, Any], hand: Hand) -> str: ...

    def verify(self, message: bytes, signature: str, jwk: Mapping[str, Any]) -> bool:
        """A bare signature, base64url or base64, padded or not."""
        ...

    def detached(self, message: bytes, header: Mapping[str, Any], hand: Hand) -> str:
        """A detached JWS over bytes that travel beside it (RFC 7797)."""
        ...

    def opened_detached(self, text: str) -> Mapping[str, Any]: ...

    def verify_detached(self, message: bytes, text: str, jwk: Mapping[str, Any]) -> bool: ...

    def thumbprint(self, jwk: Mapping[str, Any]) -> str:
        """RFC 7638."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """What another host answered."""

    status: int
    body: Any
    headers: Mapping[str, str]
    content: bytes = b""

    @property
    def members(self) -> dict[str, Any]:
        """The object that it is; nothing, where it is none."""
        body: object = self.body
        return cast("dict[str, Any]", body) if isinstance(body, dict) else {}


class Peers(Protocol):
    """Other hosts, asked through the guard that keeps requests out of private networks (contract 6.1)."""

    async def get(self, url: str, headers: Mapping[str, str] | None = None) -> Answer: ...

    async def post(self, url: str, body: Any, headers: Mapping[str, str] | None = None) -> Answer: ...

    async def delete(self, url: str, headers: Mapping[str, str] | None = None) -> Answer: ...

    def pieces(self, url: str, most: int, seconds: float) -> AsyncGenerator[bytes]:
        """A file, piece by piece; no more bytes than `most`, and no longer than that."""
        ...

    async def close(self) -> None: ...


#: Item, as shown, salt, signer, seconds → the statement that proves some of it (8.3).
Prove: TypeAlias = Callable[[Mapping[str, Any], Mapping[str, Any], bytes, Hand, int], str]


@dataclass(frozen=True, slots=True, kw_only=True)
class LendingParts:
    """What lending is made of."""

    keyring: Keyring
    jose: Jose
    documents: Documents
    peers: Peers
    prove: Prove
    #: https://memory.example, without a slash at its end; empty where nobody outside can reach us.
    public_url: str = ""
    limits: GrantLimits = GrantLimits()  # noqa: RUF009  frozen, so one for all is safe
    #: DIDs whose word counts for a grantee, beside the owner's.
    vouchers: frozenset[str] = frozenset()
    text_mode: TextMode = TextMode.OMIT
    queries_per_minute: int = 60
    #: A request for access that was refused, or has lapsed, is kept for so long.
    request_life_ms: int = 30 * 86_400_000


__all__ = ["Answer", "Documents", "Hand", "Jose", "Keyring", "LendingParts", "Opened", "Peers", "PublicKey"]
