"""Somebody who was given a grant: a host of the network, asking by hand what the product's own borrower asks."""

import base64
import hashlib
import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from itertools import count
from typing import Any

import httpx

from quipu import jose
from quipu.jose import Signatory
from quipu.sharing import receipts
from quipu.sharing.grants import operations as ops
from quipu.sharing.grants.messages import ShareResponse
from tests.sharing.network import Host

_NUMBERS = count(1)


def proof(by: Signatory, method: str, url: str, at: int, token: str | None = None, **claims: Any) -> str:
    """A DPoP proof."""
    made: dict[str, Any] = {
        "htm": method,
        "htu": url,
        "iat": at // 1000,
        "jti": f"proof-number-{next(_NUMBERS)}",
    }
    if token is not None:
        digest = hashlib.sha256(token.encode()).digest()
        made["ath"] = base64.urlsafe_b64encode(digest).rstrip(b"=").decode()
    header = {"typ": "dpop+jwt", "jwk": dict(by.jwk)}
    return jose.token(header, {**made, **claims}, by)


@dataclass(repr=False)
class Grantee:
    """The owner of one host, who reads what the owner of another shares."""

    lender: Host
    own: Host
    grant_id: str = ""
    #: Headers beside those that are needed.
    headers: dict[str, str] = field(default_factory=dict[str, str])
    _token: str | None = None

    @property
    def by(self) -> Signatory:
        return self.own.container.sharing.host.keyring.signatory("default")

    @property
    def did(self) -> str:
        return self.own.owner

    async def given(self, **fields: Any) -> ShareResponse:
        """The lender's owner shares."""
        wanted = {"grantee": self.did, "purpose": "a test", **fields}
        if not wanted.keys() & {"label", "kind", "subject", "filter", "all"}:
            wanted["all"] = True
        shared: ShareResponse = await self.lender(ops.SHARE, **wanted)
        self.grant_id, self._token = shared.grant_id, None
        return shared

    async def token(self) -> str:
        if self._token is None:
            answer = await self.exchange()
            assert answer.status_code == 200, answer.text
            self._token = answer.json()["access_token"]
        return self._token

    async def exchange(self, **claims: Any) -> httpx.Response:
        url = f"{self.lender.url}/oap/memory/grant/{self.grant_id}/token"
        return await self.lender.http(
            "POST", url, headers={"DPoP": proof(self.by, "POST", url, self.lender.clock(), **claims)}
        )

    async def asks(self, method: str, path: str, body: Any = None, **given: Any) -> httpx.Response:
        """A request with the token, proven."""
        token = await self.token()
        url = f"{self.lender.url}{path}"
        headers = {
            "Authorization": f"DPoP {token}",
            "DPoP": proof(self.by, method, url, self.lender.clock(), token),
            "Content-Type": "application/oap+json",
            **self.headers,
            **given,
        }
        data = b"" if body is None else json.dumps(body).encode()
        return await self.lender.http(method, url, content=data, headers=headers)

    async def query(self, query: str = "", **members: Any) -> httpx.Response:
        return await self.asks("POST", "/oap/memory/query", {"query": query, **members})

    async def sees(self, query: str = "", **members: Any) -> Any:
        """The output of a query that is answered."""
        answer = await self.query(query, **members)
        assert answer.status_code == 200, answer.text
        return answer.json()["output"]

    async def texts(self, query: str = "", **members: Any) -> list[Any]:
        """What the items say."""
        return [one["content"].get("text") for one in (await self.sees(query, **members))["items"]]


def reason(answer: httpx.Response) -> tuple[int, str | None]:
    """Status and reason of a refusal."""
    return answer.status_code, answer.json()["error"]["details"].get("reason")


def log_faults(entries: Iterable[Mapping[str, Any]]) -> list[int]:
    """Numbers of the entries of a log that do not follow the one before them."""
    faults: list[int] = []
    previous = receipts.GENESIS
    for number, entry in enumerate(entries, 1):
        if entry.get("prev") != previous or entry.get("seq") != number:
            faults.append(number)
        previous = receipts.hashed(entry)
    return faults
