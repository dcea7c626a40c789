"""Several hosts in one process, each a whole installation, and a network between them that is a small program."""

import json
from collections.abc import AsyncIterator, Callable, Collection, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx

from quipu.access.operations import CREATE_TOKEN
from quipu.bootstrap import Container, http_app, open_container
from quipu.config import Settings
from quipu.errors import BackendUnavailableError
from quipu.memory.operations import REMEMBER
from quipu.model.principal import Principal, local
from quipu.operation import AnyOperation, dispatch
from quipu.outbound import Answer
from quipu.testing.embedders import WordEmbedder
from tests.fixtures.memories import Clock

#: What an answer is made into on its way: method, address, answer.
Change = Callable[[str, str, Answer], Answer]


@dataclass(repr=False)
class Network:
    """Carries requests between hosts by their address. Who is not on it, or away, does not answer."""

    hosts: dict[str, "Host"] = field(default_factory=dict[str, "Host"])
    away: set[str] = field(default_factory=set[str])
    #: Every request: method and address.
    asked: list[tuple[str, str]] = field(default_factory=list[tuple[str, str]])
    changes: list[Change] = field(default_factory=list[Change])

    async def send(
        self,
        method: str,
        url: str,
        *,
        headers: Mapping[str, str] | None = None,
        body: bytes = b"",
        most_bytes: int = 0,
    ) -> Answer:
        self.asked.append((method, url))
        host = self.hosts.get(httpx.URL(url).host)
        if host is None or host.name in self.away:
            raise BackendUnavailableError("The other host cannot be reached.", reason="no_connection")
        found = await host.http(method, url, content=body, headers=dict(headers or {}))
        answer = Answer(found.status_code, dict(found.headers), found.content[: most_bytes or None])
        for change in self.changes:
            answer = change(method, url, answer)
        return answer

    def changing(self, part: str, change: Callable[[Any], Any]) -> None:
        """From now on, answers from addresses with this in them are what is made of them."""

        def changed(_: str, url: str, answer: Answer) -> Answer:
            if part not in url:
                return answer
            return Answer(answer.status, answer.headers, json.dumps(change(json.loads(answer.body))).encode())

        self.changes.append(changed)


@dataclass(repr=False)
class Host:
    """One of them, as its owner and as strangers see it."""

    name: str
    container: Container
    clock: Clock
    app: Any
    #: The owner's token, once there is one.
    text: str = ""

    @property
    def url(self) -> str:
        return f"https://{self.name}"

    @property
    def sharing(self) -> Any:
        return self.container.sharing

    @property
    def owner(self) -> str:
        return self.container.sharing.host.keyring.did("default")

    @property
    def did(self) -> str:
        return self.container.sharing.host.keyring.did(None)

    async def __call__(self, operation: AnyOperation, who: Principal | None = None, /, **fields: Any) -> Any:
        """Run an operation; without a principal, as its owner."""
        return await dispatch(self.container.context(who or local(agent_id="agent")), operation, fields)

    async def token(self) -> str:
        """What the owner signs in with over HTTP."""
        self.text = self.text or (await self(CREATE_TOKEN, name="owner", roles=["admin"])).text
        return self.text

    async def remember(self, text: str, **fields: Any) -> str:
        """The id of a new memory; `scope_id`, `structured` and the like go where items have them."""
        lifted = ("structured", "scope_id", "subject_entity_id", "exportable", "item_id")
        metadata = {name: fields.pop(name) for name in lifted if name in fields}
        return (await self(REMEMBER, content=text, metadata=metadata, **fields)).id

    async def http(self, method: str, url: str, **given: Any) -> httpx.Response:
        """What a stranger is answered."""
        transport = httpx.ASGITransport(self.app, raise_app_exceptions=False)
        async with httpx.AsyncClient(transport=transport, base_url=self.url) as client:
            return await client.request(method, url, **given)


@asynccontextmanager
async def hosts(
    folder: Path,
    *names: str,
    address: str | None = None,
    unreachable: Collection[str] = (),
    **settings: Any,
) -> AsyncIterator[tuple[Network, list[Host]]]:
    """Hosts of these names, with one clock. `settings` are everybody's; a public address is each one's own.

    address: The database of a single host; left out, each has a file in the folder.
    unreachable: Those that have no public address, and are known by their key.
    """
    network, clock = Network(), Clock()
    made: list[Host] = []
    for name in names:
        url = None if name in unreachable else f"https://{name}"
        container = await open_container(
            Settings(**{"rate": 0, "public_url": url, **settings}),
            stores=[address or str(folder / f"{name}.db")],
            embedder=WordEmbedder(),
            clock=clock,
            outbound=network,
        )
        host = Host(name, container, clock, http_app(container))
        if url is not None:
            network.hosts[name] = host
        made.append(host)
    try:
        yield network, made
    finally:
        for host in made:
            await host.container.close()
