"""Sessions of the older generation: subscribe to a resource, hear that it changed, unsubscribe."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest
from mcp import Client
from mcp.client.streamable_http import streamable_http_client
from mcp.shared._httpx_utils import create_mcp_http_client
from mcp.shared.exceptions import MCPError

from quipu.model.principal import Permission, local
from tests.faces.mcp.conftest import Mint
from tests.faces.mcp.hosts import body, over_http, stdio
from tests.faces.serving import Served
from tests.requirement import requirement

FACT = {"content": "Mara keeps bees", "type": "semantic"}
pytestmark = pytest.mark.filterwarnings("ignore::mcp.MCPDeprecationWarning")
STORES = "memory://stores"


class Heard:
    """What a client was told of."""

    def __init__(self) -> None:
        self.uris: list[str] = []
        self._more = asyncio.Event()

    async def __call__(self, message: Any) -> None:
        if getattr(message, "method", "") == "notifications/resources/updated":
            self.uris.append(str(message.params.uri))
            self._more.set()

    async def next(self) -> str:
        async with asyncio.timeout(20):
            while not self.uris:
                self._more.clear()
                await self._more.wait()
        return self.uris.pop(0)


@requirement("mcp:notices.legacy")
async def test_a_subscriber_over_http_is_told_until_it_unsubscribes(at: Served, agent: str) -> None:
    heard = Heard()
    async with over_http(at, "legacy", message_handler=heard) as client, over_http(at) as writer:
        assert client.server_capabilities.resources.subscribe is True
        kept = body(await writer.call_tool("remember", {**FACT, "agent_id": agent}))
        record = f"memory://records/{kept['id']}"
        await client.subscribe_resource(record)
        await client.subscribe_resource(STORES)
        changed = {**FACT, "id": kept["id"], "content": "Mara keeps ants", "agent_id": agent}
        await writer.call_tool("remember", changed)
        assert {await heard.next(), await heard.next()} == {record, STORES}
        await client.unsubscribe_resource(record)
        await writer.call_tool("remember", {**changed, "content": "Mara keeps wasps"})
        assert await heard.next() == STORES
        # Everything unsubscribed and subscribed again is told once, not twice.
        await client.unsubscribe_resource(STORES)
        await client.subscribe_resource(record)
        await writer.call_tool("remember", {**changed, "content": "Mara keeps bees again"})
        assert await heard.next() == record
        await asyncio.sleep(0.3)
        assert heard.uris == []


@requirement("mcp:notices.legacy")
async def test_a_subscriber_over_stdio_is_told(tmp_path: Path) -> None:
    heard = Heard()
    async with Client(stdio(tmp_path / "m.db"), mode="legacy", message_handler=heard) as client:
        await client.subscribe_resource(STORES)
        await client.call_tool("remember", FACT)
        assert await heard.next() == STORES


@requirement("mcp:notices.gate")
async def test_nobody_subscribes_to_what_they_may_not_read(at: Served, agent: str, mint: Mint) -> None:
    async with over_http(at) as writer:
        kept = body(await writer.call_tool("remember", {**FACT, "agent_id": agent}))
    told: set[str] = set()
    async with over_http(at, "legacy", mint(Permission.READ, agents=("mine",))) as client:
        for uri in (f"memory://records/{kept['id']}", "memory://records/mem_nothing", "file:///etc/passwd"):
            with pytest.raises(MCPError) as caught:
                await client.subscribe_resource(uri)
            told.add(caught.value.error.message)
        await client.unsubscribe_resource("memory://records/mem_nothing")
    assert len(told) == 1


@requirement("mcp:notices.legacy")
async def test_a_session_that_goes_on_with_another_token_can_subscribe_again(at: Served, agent: str) -> None:
    """Notices end with the token they were asked for with; the session is still that of the same name."""
    heard, name = Heard(), f"rotated-{agent}"

    async def token() -> Any:
        issued = at.service.tokens.issue(local(), name=name, permissions=(Permission.READ,))
        return await asyncio.to_thread(at.do, issued)

    first = await token()
    http = create_mcp_http_client(headers=at.headers(first.text))
    way = streamable_http_client(f"{at.url}/mcp", http_client=http)
    async with http, Client(way, mode="legacy", message_handler=heard) as client, over_http(at) as writer:
        await client.subscribe_resource(STORES)
        await asyncio.to_thread(at.do, at.service.tokens.revoke(local(), first.token.id))
        http.headers.update(at.headers((await token()).text))
        await writer.call_tool("remember", {**FACT, "agent_id": agent})  # wakes the feed, which ends
        await asyncio.sleep(0.3)
        assert heard.uris == []
        await client.subscribe_resource(STORES)
        await writer.call_tool("remember", {**FACT, "agent_id": agent})
        assert await heard.next() == STORES
