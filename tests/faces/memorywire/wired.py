"""memorywire's REST binding over a real service, behind the real plumbing: in process, or on a port."""

from __future__ import annotations

import asyncio
import json
import socket
import time
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx

from quipu.bootstrap import Running, mint_id, start
from quipu.config import Config
from quipu.faces.http.app import Plumbing, application
from quipu.faces.http.authentication import Bearer
from quipu.faces.http.backoff import Backoff
from quipu.faces.http.lifecycle import Lifecycle
from quipu.faces.http.server import ServerOptions, bind, serve, server
from quipu.faces.http.settings import HttpSettings
from quipu.faces.memorywire import routes
from quipu.model.principal import Permission, local
from quipu.testing.builders import FixedClock
from quipu.testing.embedders import WordEmbedder
from tests.faces.memorywire.shapes import problems

V0 = "/memorywire/v0"
READ, WRITE, DELETE, REVIEW, ADMIN = (
    Permission(f"memory:{name}") for name in ("read", "write", "delete", "review", "admin")
)
EVERYTHING = (READ, WRITE, DELETE, REVIEW, ADMIN)


@dataclass(slots=True)
class Caller:
    """Somebody with a token."""

    client: httpx.AsyncClient
    token: str
    token_id: str = ""

    async def ask(
        self, method: str, path: str, *, headers: Mapping[str, str] | None = None, **given: Any
    ) -> httpx.Response:
        auth = {"Authorization": f"Bearer {self.token}"} if self.token else {}
        address = path if path.startswith(("/openapi", "/docs")) else V0 + path
        return await self.client.request(method, address, headers={**auth, **(headers or {})}, **given)

    async def get(self, path: str, **given: Any) -> httpx.Response:
        return await self.ask("GET", path, **given)

    async def post(self, path: str, body: object = None, **given: Any) -> httpx.Response:
        return await self.ask("POST", path, json=body, **given)

    async def kept(self, content: str, **fields: Any) -> str:
        """The id of a new memory of agent `ana`."""
        answer = await self.post(
            "/remember", {"agent_id": "ana", "type": "semantic", "content": content, **fields}
        )
        assert answer.status_code == 200, answer.text
        return str(answer.json()["id"])

    async def recalled(self, query: str, **fields: Any) -> list[dict[str, Any]]:
        body = {"agent_id": "ana", "query": query, "min_relevance": 0, "k": 20, **fields}
        answer = await self.post("/recall", body)
        assert answer.status_code == 200, answer.text
        return answer.json()["results"]


@dataclass(slots=True)
class Wired:
    """A running application, and people to use it."""

    running: Running
    lifecycle: Lifecycle
    client: httpx.AsyncClient
    clock: FixedClock
    url: str = "http://quipu.test"
    callers: dict[str, Caller] = field(default_factory=dict)

    async def caller(
        self, name: str = "ada", *permissions: Permission, tenant: str = "default", **given: Any
    ) -> Caller:
        """Somebody of that name; without permissions named, with all that concern memory."""
        me = local(tenant)
        issued = await self.running.service.tokens.issue(
            me, name=name, permissions=permissions or EVERYTHING, **given
        )
        return Caller(self.client, issued.text, issued.token.id)

    @property
    def stranger(self) -> Caller:
        return Caller(self.client, "")


async def opened(
    clock: FixedClock,
    file: Path | None = None,
    *,
    idle_s: float = 15.0,
    public_url: str = "https://memory.example",
    embedder: WordEmbedder | None = None,
    **settings: Any,
) -> tuple[Running, Any, Lifecycle]:
    config = Config(store_url="sqlite://:memory:" if file is None else f"sqlite://{file}")
    running = await start(config, embedder=embedder or WordEmbedder(), clock=clock)
    await running.parts.ledger.open("default")
    lifecycle = Lifecycle()
    lifecycle.ready()
    plumbing = Plumbing(
        clock=clock,
        mint_id=mint_id,
        authenticators=[Bearer(running.service.credentials, Backoff(time.monotonic))],
        lifecycle=lifecycle,
        settings=HttpSettings(**settings),
    )
    faces = [routes.face(running.service, public_url=public_url, idle_s=idle_s)]
    return running, application(faces, plumbing), lifecycle


@asynccontextmanager
async def wired(
    clock: FixedClock | None = None, file: Path | None = None, **given: Any
) -> AsyncIterator[Wired]:
    """In process."""
    clock = clock or FixedClock()
    running, app, lifecycle = await opened(clock, file, **given)
    transport = httpx.ASGITransport(app, raise_app_exceptions=False)
    async with httpx.AsyncClient(transport=transport, base_url="http://quipu.test") as client:
        try:
            yield Wired(running, lifecycle, client, clock)
        finally:
            await running.close()


@asynccontextmanager
async def served(
    clock: FixedClock | None = None, file: Path | None = None, *, send_buffer: int = 0, **given: Any
) -> AsyncIterator[Wired]:
    """On a port of this machine, by the real server."""
    clock = clock or FixedClock()
    running, app, lifecycle = await opened(clock, file, **given)
    options = ServerOptions(port=0)
    listening = bind(options)
    if send_buffer:
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, send_buffer)
    url = f"http://127.0.0.1:{listening.getsockname()[1]}"
    at_work = server(app, lifecycle, options)
    up = asyncio.Event()
    task = asyncio.create_task(serve(at_work, listening, lifecycle, up.set))
    await up.wait()
    try:
        async with httpx.AsyncClient(base_url=url, timeout=30) as client:
            yield Wired(running, lifecycle, client, clock, url)
    finally:
        at_work.should_exit = True
        await task
        await running.close()


def lines_of(answer: httpx.Response) -> list[dict[str, Any]]:
    """The values of an NDJSON answer."""
    return [json.loads(line) for line in answer.text.splitlines() if line]


def is_problem(answer: httpx.Response, status: int, code: str, reason: str | None = None) -> dict[str, Any]:
    """The body of an answer that must be this problem, and valid as one."""
    assert answer.status_code == status, answer.text
    assert answer.headers["content-type"] == "application/problem+json"
    body = answer.json()
    assert problems("problem", body) == []
    assert (body["status"], body["code"]) == (status, code), body
    assert reason is None or body["reason"] == reason, body
    assert body["request_id"] == answer.headers["quipu-request-id"]
    return body
