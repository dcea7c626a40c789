"""Asking another server under a grant: who it is, the token, the request, and whether the answer is what it says it is.

1. A server is known by the DID of its own address: what anybody else has signed is not believed.
2. A token is shown to the server that made it, under the grant that it was made for, and to nobody else.
3. What another server refuses is told by its word for it, never in its words.
"""

import json
from collections import OrderedDict
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Annotated, Any, Literal, TypeVar, cast
from urllib.parse import quote, unquote, urlsplit

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, ValidationError

from quipu import jose
from quipu.errors import (
    BackendUnavailableError,
    ForbiddenError,
    QuipuError,
    RateLimitedError,
    TamperedError,
)
from quipu.fields import Filter
from quipu.ledger.canonical import canonical
from quipu.outbound import Answer, address_of
from quipu.search.text import is_storable
from quipu.sharing import dids, receipts
from quipu.sharing.grants import tokens
from quipu.sharing.host import Host
from quipu.sharing.messages import MOST_RESULTS

_LARGEST_DOCUMENT, _LARGEST_ANSWER = 256 << 10, 16 << 20
_MANIFEST = "/.well-known/oap-memory.json"
_MOST_TOKENS = 1000
#: A token that ends sooner is not used any more.
_EARLY_MS = 30_000
#: What was signed just before a key was rotated may still be on its way.
_ROTATION_MS = 60_000
_UNAUTHENTICATED, _REFUSED, _TOO_FAST, _BROKEN = 401, 400, 429, 500
#: Why a grant is not accepted, by the other server's word for it.
_REFUSALS: Mapping[str, str] = {
    "grant_revoked": "The grant was taken back.",
    "grant_expired": "The grant has expired.",
    "grant_suspended": "The grant is suspended: the key that signed it is compromised.",
    "grant_unknown": "The other server knows no such grant.",
    "binding_failed": "The grant is for somebody else.",
    "scope_missing": "The grant does not allow this.",
}

ToldT = TypeVar("ToldT", bound="Told")


class Told(BaseModel):
    """What another server says: the members that are needed; all others are left alone."""

    model_config = ConfigDict(frozen=True, extra="ignore", hide_input_in_errors=True)


def _keepable(text: str) -> str:
    if not is_storable(text):
        raise ValueError("not to be kept")
    return text


Name = Annotated[str, Field(min_length=1, max_length=1024), AfterValidator(_keepable)]


class _Endpoints(Told):
    query: str
    grant: str


class _Manifest(Told):
    endpoints: _Endpoints


class _Token(Told):
    access_token: Annotated[str, Field(min_length=1, max_length=32_768, repr=False)]
    token_type: Literal["DPoP", "Bearer"]
    expires_in: int


class _Receipt(Told):
    receipt_id: Name


class _Erased(Told):
    item_ids: Annotated[tuple[str, ...], Field(max_length=10_000)]


class _Output(Told):
    erased: Annotated[tuple[_Erased, ...], Field(max_length=1000)] = ()
    items: Annotated[tuple[Filter, ...], Field(max_length=MOST_RESULTS)]
    next_cursor: Annotated[str, Field(max_length=1024), AfterValidator(_keepable)] | None = None


class QueryAnswer(Told):
    """What another server answers a query with."""

    request_id: str
    output: _Output
    receipt: _Receipt
    warnings: Annotated[tuple[Name, ...], Field(max_length=100)] = ()


class _Content(Told):
    text: str | None = None


class _Provenance(Told):
    captured_at: str | None = None


class _Tag(Told):
    received_under: str
    expires: str | None = None


class ItemTold(Told):
    """What is read of an item."""

    item_id: Name
    kind: Name
    content: _Content
    provenance: _Provenance = _Provenance()
    provenance_tags: tuple[_Tag, ...] = ()


def told(model: type[ToldT], body: object, what: str) -> ToldT:
    """What another server says, in the form that it should have."""
    try:
        return model.model_validate(body)
    except ValidationError as error:
        raise TamperedError(
            f"The other server's {what} is not what it should be.", reason="bad_answer"
        ) from error


def place_of_link(link: str) -> tuple[str, str]:
    """The server of a grant's link, and the grant's id."""
    return _origin(link), unquote(urlsplit(link).path.rpartition("/")[2])


@dataclass(frozen=True, slots=True, kw_only=True)
class Lender:
    """A server that shares."""

    did: str
    document: Mapping[str, Any]
    query_url: str
    grant_url: str


@dataclass(slots=True, kw_only=True)
class Lenders:
    """Asks servers that share, in the name of an owner of this one."""

    host: Host
    #: By tenant, address of grants and grant: kind of token, token, when it ends.
    _tokens: OrderedDict[tuple[str, str, str], tuple[str, str, int]] = field(
        default_factory=OrderedDict[tuple[str, str, str], tuple[str, str, int]]
    )

    # -- who it is ----------------------------------------------------------------------------------------------------

    async def find(self, origin: str) -> Lender:
        """The server at an address such as https://memory.example."""
        did = dids.web_of(origin)
        manifest = told(_Manifest, await self._got(f"{origin}{_MANIFEST}"), "manifest")
        query, grant = manifest.endpoints.query, manifest.endpoints.grant
        if {_origin(query), _origin(grant)} != {origin}:
            raise TamperedError("The other server points elsewhere.", reason="bad_answer")
        document = await self.host.documents.document(did, is_fresh=True)
        return Lender(did=did, document=document, query_url=query, grant_url=grant)

    async def find_by_did(self, did: str) -> Lender:
        """The server of a DID, which is its address in other words."""
        return await self.find(self.host.documents.url(dids.place_of(did)[0], ""))

    async def _got(self, url: str) -> object:
        answer = await self.host.documents.outbound.send(
            "GET", url, headers={"Accept": "application/json"}, most_bytes=_LARGEST_DOCUMENT
        )
        if not answer.is_success:
            raise BackendUnavailableError("There is no memory shared at this address.", reason="no_memory")
        return _json(answer)

    # -- asking -------------------------------------------------------------------------------------------------------

    async def query(self, tenant: str, lender: Lender, grant_id: str, body: Mapping[str, Any]) -> QueryAnswer:
        """An answer that the server has signed, for this very question."""
        request_id = self.host.ulid()
        answer = await self._sent(
            tenant, lender, grant_id, "POST", lender.query_url, json.dumps(body).encode(), request_id
        )
        envelope = _object(_json(answer))
        if not self._is_right(lender, receipts.without(envelope, "signature"), envelope.get("signature")):
            raise TamperedError("The answer is not signed by that server.", reason="bad_signature")
        found = told(QueryAnswer, envelope, "answer")
        if found.request_id != request_id:
            raise TamperedError("The answer is one to another question.", reason="bad_answer")
        return found

    async def end(self, tenant: str, lender: Lender, grant_id: str) -> None:
        """Give a grant up."""
        url = f"{lender.grant_url}/{quote(grant_id, safe='')}"
        await self._sent(tenant, lender, grant_id, "DELETE", url, b"", self.host.ulid())
        self._tokens.pop((tenant, lender.grant_url, grant_id), None)

    async def _sent(
        self, tenant: str, lender: Lender, grant_id: str, method: str, url: str, body: bytes, request_id: str
    ) -> Answer:
        """A token that was kept may be worth nothing before its time: then once more, with a fresh one."""
        key = (tenant, lender.grant_url, grant_id)
        while True:
            was_kept = self._kept(key) is not None
            scheme, token = await self._token(key)
            headers = {"Authorization": f"{scheme} {token}", **self._headers(request_id)}
            if scheme == "DPoP":
                headers["DPoP"] = self._proof(tenant, method, url, token)
            answer = await self.host.documents.outbound.send(
                method, url, headers=headers, body=body, most_bytes=_LARGEST_ANSWER
            )
            if answer.status == _UNAUTHENTICATED:
                self._tokens.pop(key, None)
                if was_kept:
                    continue
            self._check_accepted(tenant, answer)
            return answer

    def _kept(self, key: tuple[str, str, str]) -> tuple[str, str] | None:
        kept = self._tokens.get(key)
        if kept is None:
            return None
        left = kept[2] - self.host.clock()
        # Further ahead than any token lasts: a clock was wrong.
        return kept[:2] if _EARLY_MS < left <= tokens.TOKEN_S * 1000 else None

    async def _token(self, key: tuple[str, str, str]) -> tuple[str, str]:
        tenant, grant_url, grant_id = key
        if (known := self._kept(key)) is not None:
            return known
        url = f"{grant_url}/{quote(grant_id, safe='')}/token"
        headers = {"DPoP": self._proof(tenant, "POST", url), **self._headers(self.host.ulid())}
        answer = await self.host.documents.outbound.send(
            "POST", url, headers=headers, body=b"{}", most_bytes=_LARGEST_DOCUMENT
        )
        self._check_accepted(tenant, answer)
        made = told(_Token, _json(answer), "token")
        lasts_ms = min(max(made.expires_in, 0), tokens.TOKEN_S) * 1000
        self._tokens[key] = (made.token_type, made.access_token, self.host.clock() + lasts_ms)
        if len(self._tokens) > _MOST_TOKENS:
            self._tokens.popitem(last=False)
        return made.token_type, made.access_token

    def _headers(self, request_id: str) -> dict[str, str]:
        return {
            "OAP-Version": receipts.VERSION,
            "OAP-Request-Id": request_id,
            "Content-Type": "application/oap+json",
        }

    def _proof(self, tenant: str, method: str, url: str, token: str | None = None) -> str:
        by = self.host.keyring.signatory(tenant)
        return tokens.proof(
            by, method, url, at=self.host.clock(), jti=jose.b64(self.host.random(16)), token=token
        )

    def _check_accepted(self, tenant: str, answer: Answer) -> None:
        """What the other server refuses, said in our words."""
        if answer.status < _REFUSED:
            return
        reason = _reason(answer)
        if answer.status == _TOO_FAST:
            raise RateLimitedError("The other server is asked too fast.", reason="request_rate")
        if answer.status >= _BROKEN:
            raise BackendUnavailableError("The other server cannot answer.", reason="no_answer")
        message = _REFUSALS.get(reason)
        if message is None:
            raise ForbiddenError(f"The other server refuses ({answer.status}).", reason="peer_refused")
        hint = f"You are {self.host.keyring.did(tenant)} here." if reason == "binding_failed" else None
        raise ForbiddenError(message, reason=reason, hint=hint or "Ask who shares it for a new grant.")

    # -- checking -----------------------------------------------------------------------------------------------------

    def check_item(self, lender: Lender, grant_id: str, item: Mapping[str, Any]) -> ItemTold:
        """Its block is signed, for this item; where nothing was taken away, the item is what was captured."""
        found, proof = told(ItemTold, item, "item"), receipts.integrity_signed(item)
        if proof is None or not self._is_right(lender, *proof):
            raise TamperedError("An item's proof is not signed by that server.", reason="bad_signature")
        covered, salt = proof[0], proof[0].get("salt")
        if isinstance(salt, str) and receipts.state_hash(item, salt) != covered.get("state_hash"):
            raise TamperedError("An item is not what its proof says.", reason="bad_proof")
        if not any(tag.received_under == f"grant:{grant_id}" for tag in found.provenance_tags):
            raise TamperedError("An item came under another grant.", reason="bad_proof")
        return found

    def _is_right(self, lender: Lender, covered: Mapping[str, Any], signature: object) -> bool:
        given = _object(signature)
        key = dids.key_of(lender.document, lender.did, str(given.get("kid")))
        if key is None or key.revoked is not None:
            return False
        if key.expires is not None and self.host.clock() > key.expires + _ROTATION_MS:
            return False
        try:
            message = canonical(covered)
        except ValueError:  # a text or a number that nobody could have signed
            return False
        return jose.verify(message, str(given.get("value")), key.jwk)


def _origin(url: str) -> str:
    """Scheme, host and port of an address that somebody else wrote."""
    where = address_of(url)
    if where is None:
        raise TamperedError("This is no address of a server.", reason="bad_answer")
    return f"{where.scheme}://{where.netloc.decode('ascii')}"


def _json(answer: Answer) -> object:
    try:
        return json.loads(answer.body)
    except (ValueError, RecursionError) as error:
        raise TamperedError("The other server's answer is no JSON.", reason="bad_answer") from error


def _object(value: object) -> dict[str, Any]:
    return cast("dict[str, Any]", value) if isinstance(value, dict) else {}


def _reason(answer: Answer) -> str:
    """The other server's word for a refusal, where it is one that is known."""
    try:
        body: Any = _json(answer)
        return str(body["error"]["details"]["reason"])
    except (QuipuError, KeyError, TypeError):
        return ""
