"""Borrowing: asking another host under a grant, checking what it answers, and keeping it no longer than allowed (8.5).

What is received is data of somebody else's: it is never merged into memory, and never an instruction.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeGuard, cast
from urllib.parse import quote, urlsplit

from quipu.errors import BackendUnavailableError, InvalidError, TamperedError, UnauthenticatedError
from quipu.model.disclosure import HeldItem
from quipu.model.principal import Permission, Principal
from quipu.model.value import JsonObject
from quipu.ports.keys import Answer, LendingParts
from quipu.ports.parts import Parts
from quipu.rules import dids, receipts
from quipu.rules import grants_tokens as tokens
from quipu.rules.grants_times import instant
from quipu.rules.texts import is_keepable
from quipu.service.access import Access
from quipu.service.lending import document_of, lending_parts, owner_of

_DAY_MS = 86_400_000
_UNAUTHENTICATED = 401
#: What another host calls an item or a receipt.
_LONGEST_NAME = 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class Borrowed:
    """What another host answered, after it was checked."""

    source: str
    items: tuple[JsonObject, ...]
    ranking: tuple[JsonObject, ...]
    next_cursor: str | None
    receipt: JsonObject
    warnings: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class _Host:
    did: str
    document: JsonObject
    query: str
    grant: str


class Borrowing:
    """The grantee's side."""

    def __init__(self, parts: Parts, access: Access) -> None:
        self._parts, self._access = parts, access
        #: By owner, host and grant: what one host gave is shown to no other.
        self._tokens: dict[tuple[str, str, str], tuple[str, str, int]] = {}

    @property
    def _own(self) -> LendingParts:
        return lending_parts(self._parts)

    async def ask(self, principal: Principal, host: str, grant_id: str, body: JsonObject) -> Borrowed:
        """Query another host, named by its address or its DID, and hold what it shows."""
        tenant = owner_of(self._access, principal)
        place = await self._host(host)
        answer = await self._sent(tenant, place, grant_id, "POST", place.query, body)
        envelope = answer.members
        _raise_refusal(answer)
        self._check_signed(envelope, place, "envelope")
        output = _object(envelope.get("output"))
        items = [_object(item) for item in _list(output.get("items"))]
        for item in items:
            self._check_item(item, place)
        receipt, cursor = _object(envelope.get("receipt")), output.get("next_cursor")
        named = receipt.get("receipt_id")
        await self._held(tenant, place.did, grant_id, items, named if _is_name(named) else "")
        return Borrowed(
            source=place.did,
            items=tuple(items),
            ranking=tuple(_object(one) for one in _list(output.get("ranking"))),
            next_cursor=cursor if isinstance(cursor, str) else None,
            receipt=receipt,
            warnings=tuple(str(one) for one in _list(envelope.get("warnings"))),
        )

    async def vector(self, principal: Principal, host: str, grant_id: str, url: str) -> bytes:
        """The bytes of a vector that an answer named; only from the host that named it."""
        tenant, place = owner_of(self._access, principal), await self._host(host)
        if _netloc(url) != _netloc(place.query):
            raise InvalidError.at("/vector_url", "address_refused", "A vector is fetched from its own host.")
        answer = await self._sent(tenant, place, grant_id, "GET", url, None)
        _raise_refusal(answer)
        return answer.content

    async def held(self, principal: Principal) -> Sequence[HeldItem]:
        """What others have lent, as long as it may be kept."""
        self._access.authorise(principal, Permission.READ)
        tenant, now = owner_of(self._access, principal), self._parts.clock()
        await self._parts.ledger.lending.drop_expired(tenant, now)
        return await self._parts.ledger.lending.held(tenant)

    async def give_up(self, principal: Principal, host: str, grant_id: str) -> int:
        """Let go of what the grant showed, and tell the other host that it is no longer wanted; how much was held.

        What is held goes first: a host that is down, or has taken the grant back itself, does not keep it here.
        """
        tenant, place = owner_of(self._access, principal), await self._host(host)
        held = [
            one.item_id
            for one in await self._parts.ledger.lending.held(tenant)
            if (one.source, one.grant_id) == (place.did, grant_id)
        ]
        await self._parts.ledger.lending.drop_held(tenant, place.did, grant_id, held)
        answer = await self._sent(tenant, place, grant_id, "DELETE", f"{place.grant}/{grant_id}", None)
        _raise_refusal(answer)
        self._tokens.pop((tenant, place.grant, grant_id), None)
        return len(held)

    async def request(self, principal: Principal, host: str, draft: JsonObject) -> dict[str, Any]:
        """Ask an owner at another host to be lent something; returns the task, which a person there ends."""
        tenant, place = owner_of(self._access, principal), await self._host(host)
        details = {"type": "oap_memory_grant", "grantee": self._own.keyring.did(tenant), **draft}
        body: JsonObject = {"authorization_details": [details]}
        url = f"{place.grant}/request"
        headers = {"DPoP": self.proof(tenant, "POST", url, None), **self._said(tenant, body)}
        return self._output(await self._own.peers.post(url, body, headers), place)

    async def requested(self, principal: Principal, host: str, task_id: str) -> dict[str, Any]:
        """How a request that was made stands; with the grant, once there is one."""
        tenant, place = owner_of(self._access, principal), await self._host(host)
        parts = urlsplit(place.query)
        url = f"{parts.scheme}://{parts.netloc}/oap/tasks/{quote(task_id, safe=':')}"
        headers = {"DPoP": self.proof(tenant, "GET", url, None), **self._said(tenant, None)}
        return self._output(await self._own.peers.get(url, headers), place)

    def _output(self, answer: Answer, place: _Host) -> dict[str, Any]:
        _raise_refusal(answer)
        self._check_signed(answer.members, place, "envelope")
        return _object(answer.members.get("output"))

    # -- asking --------------------------------------------------------------------------------------------------

    async def _host(self, host: str) -> _Host:
        own = self._own
        if host.startswith("did:"):
            document = await document_of(self._parts, dids.checked(host, "/host"))
            url = dids.service_of(document, "OAPMemory")
            if url is None:
                raise InvalidError.at("/host", "did_unresolved", "This DID lends no memory.")
            root = f"{url.partition('://')[0]}://{_netloc(url)}"
        else:
            root = host.rstrip("/")
            url = f"{root}/.well-known/oap-memory.json"
        manifest = (await own.peers.get(url)).members
        tool = (await own.peers.get(f"{root}/.well-known/did.json")).members
        endpoints = _object(manifest.get("endpoints"))
        query, grant, did = endpoints.get("query"), endpoints.get("grant"), tool.get("id")
        if not isinstance(query, str) or not isinstance(grant, str) or not isinstance(did, str):
            raise BackendUnavailableError("That host lends no memory.", reason="peer_unreachable")
        if {_netloc(query), _netloc(grant)} != {_netloc(root)}:
            raise InvalidError.at("/host", "address_refused", "That host points elsewhere.")
        if not did.startswith("did:web:"):
            # Nobody says of themselves which key such a name is: it is the key.
            tool = await document_of(self._parts, dids.checked(did, "/host"))
        elif dids.place(did)[0] != _netloc(root):
            raise TamperedError("That host goes by another's name.", reason="bad_signature")
        return _Host(did, tool, query, grant)

    async def _sent(
        self, tenant: str, place: _Host, grant_id: str, method: str, url: str, body: JsonObject | None
    ) -> Answer:
        """What that host answers. A kept token may be worth nothing before its time: then once more, with a fresh one."""
        key = (tenant, place.grant, grant_id)
        was_kept = key in self._tokens
        answer = await self._sent_once(tenant, place, grant_id, method, url, body)
        if answer.status != _UNAUTHENTICATED:
            return answer
        self._tokens.pop(key, None)
        return await self._sent_once(tenant, place, grant_id, method, url, body) if was_kept else answer

    async def _sent_once(
        self, tenant: str, place: _Host, grant_id: str, method: str, url: str, body: JsonObject | None
    ) -> Answer:
        own = self._own
        scheme, token = await self._token(tenant, place, grant_id)
        headers = {"Authorization": f"{scheme} {token}", **self._said(tenant, body)}
        if scheme == "DPoP":
            headers["DPoP"] = self.proof(tenant, method, url, token)
        match method:
            case "POST":
                return await own.peers.post(url, body, headers)
            case "DELETE":
                return await own.peers.delete(url, headers)
            case _:
                return await own.peers.get(url, headers)

    async def _token(self, tenant: str, place: _Host, grant_id: str) -> tuple[str, str]:
        key, now = (tenant, place.grant, grant_id), self._parts.clock()
        kept = self._tokens.get(key)
        if kept is not None and kept[2] > now + 30_000:
            return kept[0], kept[1]
        url = f"{place.grant}/{grant_id}/token"
        headers = {"DPoP": self.proof(tenant, "POST", url, None), **self._said(tenant, None)}
        answer = await self._own.peers.post(url, {}, headers)
        _raise_refusal(answer)
        said = answer.members
        scheme, token = str(said.get("token_type")), said.get("access_token")
        if scheme not in ("DPoP", "Bearer") or not isinstance(token, str):
            raise BackendUnavailableError("That host gives no token.", reason="peer_unreachable")
        told: object = said.get("expires_in")
        lasts_s = told if isinstance(told, int) and 0 < told <= tokens.LONGEST_S else 0
        self._tokens[key] = (scheme, token, now + lasts_s * 1000)
        return scheme, token

    def _said(self, tenant: str, body: JsonObject | None) -> dict[str, str]:
        """What every request says of itself (D23): a name of its own, and whose body it is."""
        headers = {
            "OAP-Version": "1.0",
            "OAP-Request-Id": self._parts.mint_id("req").partition("_")[2],
            "OAP-Idempotency-Key": self._parts.mint_id("key"),
        }
        if body is not None:
            header = {"iat": self._parts.clock() // 1000, "jti": self._parts.mint_id("sig")}
            hand = self._own.keyring.hand(tenant)
            headers["OAP-Signature"] = self._own.jose.detached(self._parts.canonical(body), header, hand)
        return headers

    def proof(self, tenant: str, method: str, url: str, token: str | None) -> str:
        """A proof that this very request comes from the owner's key (RFC 9449)."""
        own = self._own
        parts = urlsplit(url)
        claims: dict[str, Any] = {
            "jti": self._parts.mint_id("prf"),
            "htm": method,
            "htu": f"{parts.scheme}://{parts.netloc}{parts.path}",
            "iat": self._parts.clock() // 1000,
        }
        if token is not None:
            claims["ath"] = receipts.b64(hashlib.sha256(token.encode("utf-8")).digest())
        header = {"alg": "EdDSA", "typ": tokens.PROOF_TYPE, "jwk": dict(own.keyring.jwk(tenant))}
        return own.jose.token(header, claims, own.keyring.hand(tenant))

    # -- checking ------------------------------------------------------------------------------------------------

    def _check_signed(self, body: Mapping[str, Any], place: _Host, what: str) -> None:
        if not self._is_signed(receipts.without(body, "signature"), _object(body.get("signature")), place):
            raise TamperedError(f"The {what} is not signed by that host.", reason="bad_signature")

    def _is_signed(self, covered: JsonObject, signature: JsonObject, place: _Host) -> bool:
        """By a key of the host that was not revoked: what such a key has signed, anybody may have."""
        key = dids.key_of(place.document, place.did, str(signature.get("kid")))
        if key is None or key.revoked is not None:
            return False
        try:
            message = self._parts.canonical(covered)
        except ValueError:  # a text or a number that nobody could have signed
            return False
        return self._own.jose.verify(message, str(signature.get("value")), key.jwk)

    def _check_item(self, item: JsonObject, place: _Host) -> None:
        """Its block is signed for this item; where nothing was taken away, the item is what was captured."""
        found = receipts.integrity_signed(item)
        if found is None:
            raise TamperedError("An item came without proof.", reason="bad_signature")
        covered, signature = found
        if not isinstance(item.get("item_id"), str) or not self._is_signed(covered, signature, place):
            raise TamperedError("An item's proof is not signed by that host.", reason="bad_signature")
        if not _is_name(item["item_id"]):
            raise TamperedError("An item has a name that cannot be kept.", reason="bad_proof")
        salt = covered.get("salt")
        if isinstance(salt, str) and receipts.state_hash(item, salt, self._parts.canonical) != covered.get(
            "state_hash"
        ):
            raise TamperedError("An item is not what its proof says.", reason="bad_proof")

    async def _held(
        self, tenant: str, source: str, grant_id: str, items: Sequence[JsonObject], receipt_id: str
    ) -> None:
        now = self._parts.clock()
        held = [
            HeldItem(
                tenant=tenant,
                source=source,
                grant_id=grant_id,
                item_id=str(item["item_id"]),
                item=item,
                receipt_id=receipt_id,
                received_at=now,
                expires_at=_expiry(item, now),
            )
            for item in items
        ]
        await self._parts.ledger.lending.hold(held)


def _is_name(text: object) -> TypeGuard[str]:
    """Whether every ledger can keep what another host calls something."""
    return isinstance(text, str) and 0 < len(text) <= _LONGEST_NAME and is_keepable(text)


def _expiry(item: JsonObject, now: int) -> int:
    """When it has to be gone: the earliest of its tags; without a word after a day."""
    tags = [_object(tag) for tag in _list(item.get("provenance_tags"))]
    ends = [instant(str(tag.get("expires"))) for tag in tags]
    return min((end for end in ends if end is not None), default=now + _DAY_MS)


def _raise_refusal(answer: Answer) -> None:
    """What the other host refused, by its own code; never its words."""
    if answer.status < 400:
        return
    details = _object(_object(answer.members.get("error")).get("details"))
    reason = str(details.get("reason", "peer_refused"))[:64]
    if answer.status == _UNAUTHENTICATED:
        raise UnauthenticatedError("The other host does not accept the grant.", reason=reason)
    raise InvalidError(f"The other host refused with {answer.status}.", reason="peer_refused", hint=reason)


def _object(value: object) -> dict[str, Any]:
    """What another host says is an object; nothing, where it is none."""
    return cast("dict[str, Any]", value) if isinstance(value, dict) else {}


def _list(value: object) -> list[Any]:
    return cast("list[Any]", value) if isinstance(value, list) else []


def _netloc(url: str) -> str:
    """Host and port of an address that somebody else wrote; nobody's, where it is none."""
    try:
        return urlsplit(url).netloc
    except ValueError:
        return ""
