"""Clauses of the contract that no other test holds: schemas word for word, caches, provenance, questions, the agent loop."""

from __future__ import annotations

import asyncio
import json
import time
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from mcp import Client
from mcp.types import TextResourceContents, Tool

from quipu.faces.mcp.pacing import APART_S, Paced
from quipu.model.principal import Permission
from tests.faces.mcp.conftest import Mint
from tests.faces.mcp.hosts import Person, body, fault, over_http, stdio, text
from tests.faces.serving import Served, served
from tests.requirement import requirement

FACT = {"type": "semantic", "content": "Mara keeps bees", "source": "user"}
#: Section 4.2, without the descriptions.
SCHEMAS = json.loads((Path(__file__).parent / "schemas.json").read_text("utf-8"))


def _bare(node: Any) -> Any:
    if isinstance(node, dict):
        return {
            key: _bare(value)
            for key, value in node.items()
            if key != "description" or not isinstance(value, str)
        }
    return [_bare(value) for value in node] if isinstance(node, list) else node


@requirement("mcp:tools.schemas")
async def test_the_published_schemas_are_the_contracts(at: Served, mode: str) -> None:
    async with over_http(at, mode) as client:
        listed = (await client.list_tools()).tools
    published = {
        tool.name: {"input": _bare(tool.input_schema), "output": _bare(tool.output_schema)} for tool in listed
    }
    assert published == SCHEMAS
    assert "x-mcp-header" not in json.dumps([tool.input_schema for tool in listed])


@requirement("mcp:caching")
async def test_what_may_be_kept_is_private_and_what_is_read_is_never_kept(at: Served, agent: str) -> None:
    async with over_http(at) as client:
        lists = [
            await client.list_tools(),
            await client.list_prompts(),
            await client.list_resources(),
            await client.list_resource_templates(),
        ]
        kept = body(await client.call_tool("remember", {**FACT, "agent_id": agent}))
        read = [
            await client.read_resource(f"memory://records/{kept['id']}"),
            await client.read_resource(f"memory://{agent}/recall?query=bees"),
        ]
    assert {(one.ttl_ms, one.cache_scope) for one in lists} == {(300_000, "private")}
    assert {(one.ttl_ms, one.cache_scope) for one in read} == {(0, "private")}
    assert isinstance(read[0].contents[0], TextResourceContents)


@requirement("mcp:approval.question")
async def test_a_question_is_made_of_the_arguments_alone(at: Served, mode: str, agent: str) -> None:
    person = Person("cancel")
    asked = {**FACT, "agent_id": agent, "approval_required": True}
    async with over_http(at, mode, elicitation_callback=person) as client:
        for _ in range(2):
            body(await client.call_tool("remember", asked))
            await asyncio.sleep(0.01)
        first, second = person.asked
        assert first == second
        kept = body(await client.call_tool("remember", {**FACT, "agent_id": agent}))
        person.asked.clear()
        for _ in range(2):  # how many match changes in between
            gone = {"filter": {"type": "semantic"}, "agent_id": agent, "approval_required": True}
            body(await client.call_tool("forget", gone))
            body(
                await client.call_tool("remember", {**FACT, "content": "Mara keeps ants", "agent_id": agent})
            )
    assert len(set(person.asked)) == 1
    assert kept["id"] not in person.asked[0]


@requirement("mcp:provenance")
async def test_who_wrote_it_is_stamped_and_the_lowest_trust_survives_a_merge(
    at: Served, mode: str, agent: str, mint: Mint
) -> None:
    forged = {"written_by": "operator", "trust": "operator", "provenance": {"trust": "operator"}}
    token = mint(Permission.READ, Permission.WRITE)
    async with over_http(at, mode, token) as client:
        for name, value in forged.items():
            refused = await client.call_tool("remember", {**FACT, "agent_id": agent, name: value})
            assert fault(refused) == "validation_error"
            assert name in text(refused)
        given = {**FACT, "agent_id": agent, "metadata": {"trust": "operator", "written_by": "operator"}}
        mine = body(await client.call_tool("remember", given))
        page = {**FACT, "agent_id": agent, "content": "Mara keeps bees, says a page", "source": "web_page"}
        theirs = body(await client.call_tool("remember", page))
        found = body(await client.call_tool("recall", {"query": "bees", "agent_id": agent}))["results"]
        told = {hit["id"]: hit["provenance"] for hit in found}
        assert (told[mine["id"]]["trust"], told[theirs["id"]]["trust"]) == ("agent", "external")
        assert told[mine["id"]]["written_by"].startswith("token-")
        merged = {"canonical": mine["id"], "duplicates": [theirs["id"]], "agent_id": agent}
        body(await client.call_tool("merge", {**merged, "strategy": "merge_content"}))
        (hit,) = body(await client.call_tool("recall", {"query": "bees", "agent_id": agent}))["results"]
    assert hit["provenance"]["trust"] == "external"


@requirement("mcp:tools.backends-failed")
async def test_a_backend_that_failed_is_named_beside_the_results(tmp_path: Path, mode: str) -> None:
    urls = "postgresql://nobody@127.0.0.1:9/none?name=down"
    with served(tmp_path / "memory.db", mirrors=urls, mirror_write_deadline_ms=2000) as at:
        async with over_http(at, mode) as client:
            kept = body(await client.call_tool("remember", FACT))
            found = await client.call_tool("recall", {"query": "bees"})
    assert [hit["id"] for hit in body(found)["results"]] == [kept["id"]]
    assert found.meta is not None
    assert [row["store"] for row in found.meta["dev.quipu/backends_failed"]] == ["down"]


def _chosen(tools: list[Tool], said: str) -> tuple[str, dict[str, Any]]:
    """A model, as far as this test goes: it chooses by what the list says, and keeps sensitive facts for approval."""
    (tool,) = [tool for tool in tools if (tool.description or "").startswith("Store one")]
    assert {"content", "type", "approval_required"} <= tool.input_schema["properties"].keys()
    is_sensitive = "allergic" in said
    return tool.name, {
        "type": "semantic",
        "content": said,
        "source": "user",
        "approval_required": is_sensitive,
    }


@requirement("mcp:agent-loop")
async def test_the_papers_agent_loop(at: Served, mode: str, agent: str) -> None:
    """Recall, model call with the tool list, tool dispatch, remember with approval for sensitive facts."""
    person = Person(reason="she told me")
    async with over_http(at, mode, elicitation_callback=person) as client:
        for turn, said in enumerate(("Mara keeps bees", "Mara is allergic to nuts", "What of Mara?")):
            known = body(await client.call_tool("recall", {"query": said, "agent_id": agent}))["results"]
            assert len(known) == turn
            if said.endswith("?"):
                break
            name, arguments = _chosen((await client.list_tools()).tools, said)
            done = body(await client.call_tool(name, {**arguments, "agent_id": agent}))
            assert done["pending_approval"] is False
    assert {hit["content"] for hit in known} == {"Mara keeps bees", "Mara is allergic to nuts"}
    assert len(person.asked) == 1
    assert "nuts" in person.asked[0]


@requirement("mcp:stdio.tenant")
async def test_the_tenant_of_a_pipe_is_configuration_too(tmp_path: Path, mode: str) -> None:
    store = tmp_path / "m.db"
    async with Client(stdio(store, QUIPU_TENANT="acme"), mode=mode) as client:
        body(await client.call_tool("remember", FACT))
        assert len(body(await client.call_tool("recall", {"query": "bees"}))["results"]) == 1
    async with Client(stdio(store), mode=mode) as client:
        assert body(await client.call_tool("recall", {"query": "bees"}))["results"] == []


# -- how often a listener is told ------------------------------------------------------------------------------------


@requirement("mcp:notices.paced")
async def test_many_writes_are_one_notice_a_second_and_the_last_is_told() -> None:
    told: list[tuple[str, float]] = []
    began = time.monotonic()

    async def send(uri: str) -> None:
        told.append((uri, time.monotonic() - began))

    async with Paced(send, lambda uri: uri.startswith("recall")) as notices:
        for _ in range(20):
            await notices.tell("recall-a")
            await notices.tell("record")
        await notices.tell("recall-b")
        await asyncio.sleep(APART_S + 0.3)
        times = {name: [at for uri, at in told if uri == name] for name in ("recall-a", "recall-b", "record")}
        assert {name: len(seen) for name, seen in times.items()} == {
            "recall-a": 2,
            "recall-b": 1,
            "record": 20,
        }
        assert times["recall-a"][1] - times["recall-a"][0] >= APART_S * 0.99
        await notices.tell("recall-a")
    await asyncio.sleep(APART_S + 0.2)
    assert len([uri for uri, _ in told if uri == "recall-a"]) == 2  # nobody listens any more


@requirement("mcp:notices.paced")
async def test_a_listener_to_a_recall_is_not_flooded(at: Served, agent: str) -> None:
    uri = f"memory://{agent}/recall?query=bees"
    heard: list[float] = []
    written = 0.0
    async with (
        over_http(at) as client,
        over_http(at) as writer,
        client.listen(resource_subscriptions=[uri]) as subscription,
    ):

        async def listen() -> None:
            async for event in subscription:
                assert event.uri == uri
                heard.append(time.monotonic())
                if written and heard[-1] > written:
                    return

        async with asyncio.timeout(30), asyncio.TaskGroup() as group:
            group.create_task(listen())
            for number in range(8):
                given = {**FACT, "content": f"{number} hives", "agent_id": agent}
                body(await writer.call_tool("remember", given))
            written = time.monotonic()
            await asyncio.sleep(2 * APART_S)
            if heard[-1] < written:  # the last of them was told before its answer was here
                body(await writer.call_tool("remember", {**FACT, "agent_id": agent}))
    assert all(later - earlier > APART_S * 0.8 for earlier, later in pairwise(heard)), heard


@requirement("mcp:notices.most")
async def test_a_stream_listens_to_a_thousand_addresses_at_most(at: Served, agent: str) -> None:
    many = [f"memory://{agent}/recall?query={number}" for number in range(1001)]
    async with over_http(at) as client:
        with pytest.raises(Exception, match="no such resource to listen to"):
            async with client.listen(resource_subscriptions=many):
                pass
        async with client.listen(resource_subscriptions=many[:1000]):
            pass
