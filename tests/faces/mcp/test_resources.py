"""Mode 2: memory as resources, and notices that they changed."""

from __future__ import annotations

import asyncio
import json
from typing import Any
from urllib.parse import quote

import pytest
from mcp import Client
from mcp.shared.exceptions import MCPError

from quipu.model.operations import CreateStoreRequest
from quipu.model.principal import Permission, local
from tests.faces.mcp.conftest import Mint
from tests.faces.mcp.hosts import body, over_http
from tests.faces.serving import Served
from tests.requirement import requirement

FACT = {"type": "semantic", "content": "Mara keeps bees", "source": "user"}


async def read(client: Client, uri: str) -> dict[str, Any]:
    (contents,) = (await client.read_resource(uri, cache_mode="bypass")).contents
    assert contents.mime_type == "application/json"
    return json.loads(contents.text)


@requirement("mcp:resources.listed")
async def test_resources_and_templates_are_listed(at: Served, mode: str, mint: Mint) -> None:
    async with over_http(at, mode) as client:
        assert [row.uri for row in (await client.list_resources()).resources] == [
            "memory://stores",
            "memory://reviews/pending",
        ]
        assert [row.uri_template for row in (await client.list_resource_templates()).resource_templates] == [
            "memory://records/{id}",
            "memory://stores/{store}/summary",
            "memory://{agent_id}/recall{?query,k,types}",
        ]
    async with over_http(at, mode, mint(Permission.READ)) as client:
        assert [row.uri for row in (await client.list_resources()).resources] == ["memory://stores"]


@requirement("mcp:resources.read")
async def test_each_resource_can_be_read(at: Served, mode: str, agent: str) -> None:
    async with over_http(at, mode) as client:
        kept = body(await client.call_tool("remember", {**FACT, "agent_id": agent}))
        held = {**FACT, "agent_id": agent, "approval_required": True}
        body(await client.call_tool("remember", held))
        record = await read(client, f"memory://records/{kept['id']}")
        found = await read(client, f"memory://{agent}/recall?types=semantic,episodic&query=Mara&k=3&other=1")
        stores = await read(client, "memory://stores")
        summary = await read(client, "memory://stores/main/summary")
        reviews = await read(client, "memory://reviews/pending")
    assert (record["content"], record["store"], record["provenance"]["trust"]) == (
        "Mara keeps bees",
        "main",
        "user",
    )
    assert [hit["id"] for hit in found["results"]] == [kept["id"]]
    assert stores["stores"][0]["name"] == "main"
    assert set(summary) == {"store", "counts", "oldest", "newest", "bytes", "pending_reviews"}
    assert agent in [row["agent_id"] for row in reviews["reviews"]]
    assert "bees" not in json.dumps([summary, reviews])


@requirement("mcp:resources.queries")
@pytest.mark.parametrize("query", ["x:y", "/etc/passwd", "..", "a&b=c", "löwe", "50% more?"])
async def test_any_query_can_stand_in_an_address(at: Served, mode: str, agent: str, query: str) -> None:
    async with over_http(at, mode) as client:
        found = await read(client, f"memory://{agent}/recall?query={quote(query, safe='')}")
    assert found["results"] == []


@requirement("mcp:resources.wrong")
@pytest.mark.parametrize(
    "tail",
    ["recall", "recall?query=", "recall?query=x&k=many", "recall?query=x&k=0", "recall?query=x&types=nope"],
)
async def test_a_bad_address_says_what_is_wrong(at: Served, mode: str, agent: str, tail: str) -> None:
    async with over_http(at, mode) as client:
        with pytest.raises(MCPError) as caught:
            await read(client, f"memory://{agent}/{tail}")
    assert caught.value.error.code == -32602
    assert caught.value.error.data["code"] == "validation_error"


@requirement("mcp:resources.not-found")
async def test_out_of_reach_is_the_same_as_not_there(at: Served, mode: str, agent: str, mint: Mint) -> None:
    tenant = f"t{abs(hash(agent)) % 10**9}"
    at.do(at.service.tenancy.create(local(), tenant))
    async with over_http(at, mode) as client:
        foreign = body(await client.call_tool("remember", {**FACT, "agent_id": agent}))["id"]
    told: list[tuple[int, Any]] = []
    async with over_http(at, mode, mint(Permission.READ, tenant=tenant, agents=("mine",))) as client:
        for name in (foreign, "mem_nothing"):
            with pytest.raises(MCPError) as caught:
                await read(client, f"memory://records/{name}")
            told.append(
                (
                    caught.value.error.code,
                    caught.value.error.message.replace(f"memory://records/{name}", "ID"),
                )
            )
            assert caught.value.error.data["uri"] == f"memory://records/{name}"
        for uri in (
            "memory://reviews/pending",
            f"memory://{agent}/recall?query=x",
            "memory://stores/no/summary",
        ):
            with pytest.raises(MCPError) as caught:
                await read(client, uri)
            message = caught.value.error.message.replace(uri.partition("?")[0], "ID")
            told.append((caught.value.error.code, message))
        assert [row["record_count"] for row in (await read(client, "memory://stores"))["stores"]] == [0]
    assert told == [(-32602, "Unknown resource: ID")] * len(told)


@requirement("mcp:notices.modern")
async def test_who_listens_is_told_of_every_write_whoever_made_it(at: Served, agent: str) -> None:
    async with over_http(at) as client, over_http(at, "legacy") as writer:
        kept = body(await writer.call_tool("remember", {**FACT, "agent_id": agent}))
        uris = [
            f"memory://records/{kept['id']}",
            "memory://stores/main/summary",
            f"memory://{agent}/recall?query=x",
        ]
        async with client.listen(resource_subscriptions=uris) as subscription:
            await writer.call_tool(
                "remember", {**FACT, "id": kept["id"], "content": "Mara keeps ants", "agent_id": agent}
            )
            heard: set[str] = set()
            async with asyncio.timeout(20):
                async for event in subscription:
                    heard.add(event.uri)
                    if heard == set(uris):
                        break


@requirement("mcp:notices.reviews")
async def test_reviewers_hear_of_new_items(at: Served, agent: str) -> None:
    uri = "memory://reviews/pending"
    async with over_http(at) as client, client.listen(resource_subscriptions=[uri]) as subscription:
        await client.call_tool("remember", {**FACT, "agent_id": agent, "approval_required": True})
        async with asyncio.timeout(20):
            assert (await anext(aiter(subscription))).uri == uri


@requirement("mcp:notices.gate")
async def test_nobody_listens_to_what_they_may_not_read(at: Served, agent: str, mint: Mint) -> None:
    async with over_http(at) as client:
        kept = body(await client.call_tool("remember", {**FACT, "agent_id": agent}))
    refused: list[str] = []
    async with over_http(at, "2026-07-28", mint(Permission.READ, agents=("mine",))) as client:
        for uri in (
            f"memory://records/{kept['id']}",
            "memory://records/mem_nothing",
            "memory://reviews/pending",
            f"memory://{agent}/recall?query=x",
            "memory://stores/no/summary",
            "file:///etc/passwd",
        ):
            with pytest.raises(MCPError) as caught:
                async with client.listen(resource_subscriptions=[uri]):
                    pass
            refused.append(caught.value.error.message)
    assert len(set(refused)) == 1


@requirement("mcp:notices.tenant")
async def test_another_tenants_writes_are_not_heard(at: Served, agent: str, mint: Mint) -> None:
    tenant = f"n{abs(hash(agent)) % 10**9}"
    at.do(at.service.tenancy.create(local(), tenant))
    theirs = mint(*[p for p in Permission if p is not Permission.OPERATE], tenant=tenant)
    uris = ["memory://stores"]
    async with (
        over_http(at) as mine,
        over_http(at, "2026-07-28", theirs) as client,
        client.listen(resource_subscriptions=uris) as subscription,
    ):
        body(await mine.call_tool("remember", {**FACT, "agent_id": agent}))
        events = aiter(subscription)
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(1.0):
                await anext(events)


@requirement("mcp:notices.modern")
async def test_names_that_an_address_writes_in_another_way_are_heard_of_too(at: Served, agent: str) -> None:
    name = f"größe & notes {agent}"
    at.do(at.service.stores.create(local(), CreateStoreRequest(name=name)))
    async with over_http(at) as client:
        summary, recalled = (
            f"memory://stores/{quote(name)}/summary",
            f"memory://{quote(agent)}%21/recall?query=x",
        )
        async with client.listen(resource_subscriptions=[summary, recalled]) as subscription:
            fact = {"type": "semantic", "content": "x", "agent_id": f"{agent}!", "store": name}
            body(await client.call_tool("remember", fact))
            heard: set[str] = set()
            async with asyncio.timeout(20):
                async for event in subscription:
                    heard.add(event.uri)
                    if heard == {summary, recalled}:
                        break
