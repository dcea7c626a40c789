"""Two real hosts on loopback, each with its own DID, allowed to reach each other and nobody else."""

from __future__ import annotations

import contextlib
import hashlib
import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx

from quipu.model.operations import RememberRequest
from quipu.model.principal import Principal, local
from quipu.model.record import MemoryType
from quipu.ports.embedder import Embedder
from quipu.rules.receipts import b64
from quipu.testing.embedders import WordEmbedder
from tests.faces.serving import Served, served

OWNER: Principal = local()
#: A level that shows structure but no free text.
BRIEFING = {"labels_any": ["website_redesign"]}


def free_port() -> int:
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return one.getsockname()[1]


class Host:
    """One of the two, as its owner and as others see it."""

    def __init__(self, at: Served) -> None:
        self.at = at
        self.url = at.url
        self.sharing = at.service.sharing
        self.parts = at.web.running.parts

    @property
    def owner(self) -> str:
        return self.sharing.identity(OWNER)["owner"]

    @property
    def did(self) -> str:
        return self.sharing.identity(OWNER)["host"]

    def remember(self, text: str, **fields: Any) -> str:
        """Keep a memory; `structured`, `scope_id` and the like go where items have them."""
        lifted = ("structured", "scope_id", "subject_entity_id", "exportable", "oap_kind")
        metadata = {name: fields.pop(name) for name in lifted if name in fields}
        given = {"type": MemoryType.SEMANTIC, **fields}
        request = RememberRequest(agent_id="assistant", content=text, metadata=metadata, **given)
        return self.at.do(self.at.service.remember(OWNER, request)).id

    def grant(self, to: str, **members: Any) -> str:
        """Lend to somebody; returns the grant's id."""
        draft = {"grantee": to, "purpose": "Brief the contractor.", "filter": BRIEFING, **members}
        return self.at.do(self.sharing.grants.issue(OWNER, draft)).id

    def ask(self, other: Host, grant_id: str, query: str = "", **members: Any) -> Any:
        """Ask another host under a grant, as Quipu does it."""
        body = {"query": query, **members}
        return self.at.do(self.sharing.borrowing.ask(OWNER, other.url, grant_id, body))

    # -- by hand, for what no good client would send -----------------------------------------------------------

    def proof(self, method: str, url: str, token: str | None = None) -> str:
        return self.sharing.borrowing.proof(OWNER.tenant, method, url, token)

    def token(self, other: Host, grant_id: str) -> str:
        url = f"{other.url}/oap/memory/grant/{grant_id}/token"
        answer = httpx.post(url, headers={"DPoP": self.proof("POST", url)})
        assert answer.status_code == 200, answer.text
        return answer.json()["access_token"]

    def query(
        self, other: Host, token: str, body: dict[str, Any] | None = None, **headers: str
    ) -> httpx.Response:
        url = f"{other.url}/oap/memory/query"
        given = {"Authorization": f"DPoP {token}", "DPoP": self.proof("POST", url, token), **headers}
        return httpx.post(url, json=body or {}, headers={k: v for k, v in given.items() if v}, timeout=20)


@contextlib.contextmanager
def pair(
    folder: Path, *, embedder: Embedder | None = None, at_b: dict[str, Any] | None = None, **settings: Any
) -> Iterator[tuple[Host, Host]]:
    """Host A, which lends, and host B, which borrows."""
    ports = free_port(), free_port()
    urls = [f"http://127.0.0.1:{port}" for port in ports]
    common = {"oap_allowed_hosts": ",".join(urls), "oap_queries_per_minute": 100_000, **settings}
    with (
        served(folder / "a.db", port=ports[0], public_url=urls[0], embedder=embedder, **common) as a,
        served(folder / "b.db", port=ports[1], public_url=urls[1], **{**common, **(at_b or {})}) as b,
    ):
        yield Host(a), Host(b)
        for one in (a, b):  # each takes its time, so both at once
            one.ask_to_stop()


def digest(token: str) -> str:
    return b64(hashlib.sha256(token.encode()).digest())


def embedder() -> Embedder:
    return WordEmbedder()
