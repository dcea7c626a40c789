"""The profile `graph`: a client written for the reference knowledge-graph server."""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator
from typing import Any

import pytest
from jsonschema import Draft202012Validator
from mcp import Client

from quipu.model.operations import RememberRequest
from quipu.model.principal import Permission, local
from quipu.model.record import MemoryType
from tests.faces.mcp.conftest import Mint
from tests.faces.mcp.hosts import body, fault, kept_open, over_http
from tests.faces.serving import Served
from tests.requirement import requirement

NINE = [
    "create_entities", "create_relations", "add_observations", "delete_entities", "delete_observations",
    "delete_relations", "read_graph", "search_nodes", "open_nodes",
]  # fmt: skip
ANA = {"name": "Ana", "entityType": "person", "observations": ["plays chess"]}
ACME = {"name": "Acme", "entityType": "company", "observations": []}
WORKS = {"from": "Ana", "to": "Acme", "relationType": "works at"}


class Graph:
    """Calls that check each answer against the schema it was published with."""

    def __init__(self, client: Client, schemas: dict[str, Any]) -> None:
        self.client, self._schemas = client, schemas

    async def __call__(self, name: str, /, **arguments: Any) -> dict[str, Any]:
        answer = body(await self.client.call_tool(name, arguments))
        Draft202012Validator(self._schemas[name]).validate(answer)
        return answer


@contextlib.asynccontextmanager
async def graph_of(at: Served, mode: str, agent: str, mint: Mint) -> AsyncIterator[Graph]:
    token = mint(Permission.READ, Permission.WRITE, Permission.DELETE, agents=(agent,))
    async with over_http(at, mode, token, "/mcp?profile=graph") as client:
        tools = (await client.list_tools()).tools
        yield Graph(client, {tool.name: tool.output_schema for tool in tools})


@pytest.fixture
async def graph(at: Served, mode: str, agent: str, mint: Mint) -> AsyncIterator[Graph]:
    async for made in kept_open(graph_of(at, mode, agent, mint)):
        yield made


@requirement("mcp:graph.tools")
async def test_the_nine_tools_are_there(graph: Graph) -> None:
    tools = (await graph.client.list_tools()).tools
    assert [tool.name for tool in tools] == NINE
    flags = {t.name: t.annotations for t in tools}
    for name, said in flags.items():
        assert said is not None
        is_read = name.startswith(("read", "search", "open"))
        is_delete = name.startswith("delete")
        assert (said.read_only_hint, said.destructive_hint, said.idempotent_hint) == (
            is_read, is_delete, is_read or is_delete,
        )  # fmt: skip


@requirement("mcp:graph.session")
async def test_what_a_client_of_the_reference_does(graph: Graph) -> None:
    assert await graph("create_entities", entities=[ANA, ACME]) == {"entities": [ANA, ACME]}
    assert await graph("create_entities", entities=[ANA]) == {"entities": []}
    assert await graph("create_relations", relations=[WORKS, WORKS]) == {"relations": [WORKS]}
    added = await graph(
        "add_observations", observations=[{"entityName": "Ana", "contents": ["plays chess", "is 40"]}]
    )
    assert added == {"results": [{"entityName": "Ana", "addedObservations": ["is 40"]}]}
    whole = {"entities": [{**ANA, "observations": ["plays chess", "is 40"]}, ACME], "relations": [WORKS]}
    assert await graph("read_graph") == whole
    assert await graph("search_nodes", query="CHESS") == {
        "entities": whole["entities"][:1],
        "relations": [WORKS],
    }
    assert await graph("open_nodes", names=["Acme", "nobody"]) == {"entities": [ACME], "relations": [WORKS]}
    (contents,) = (await graph.client.read_resource("memory://knowledge-graph")).contents
    assert json.loads(contents.text) == whole
    gone = await graph("delete_observations", deletions=[{"entityName": "Ana", "observations": ["is 40"]}])
    assert gone["success"] is True
    assert (await graph("delete_relations", relations=[WORKS]))["success"] is True
    assert await graph("read_graph") == {"entities": [ANA, ACME], "relations": []}


@requirement("mcp:graph.delete")
async def test_an_entity_goes_with_its_relations(graph: Graph) -> None:
    await graph("create_entities", entities=[ANA, ACME])
    await graph("create_relations", relations=[WORKS])
    assert (await graph("delete_entities", entityNames=["Ana"]))["success"] is True
    assert await graph("read_graph") == {"entities": [ACME], "relations": []}


@requirement("mcp:graph.honest")
async def test_a_delete_that_matched_nothing_is_no_success(graph: Graph) -> None:
    answers = [
        await graph("delete_entities", entityNames=["nobody"]),
        await graph("delete_relations", relations=[WORKS]),
        await graph("delete_observations", deletions=[{"entityName": "nobody", "observations": ["x"]}]),
    ]
    assert [answer["success"] for answer in answers] == [False] * 3


@requirement("mcp:graph.errors")
async def test_wrong_shapes_and_unknown_entities_are_named(graph: Graph) -> None:
    for name, arguments in (
        ("create_entities", {"entities": [{"name": "x"}]}),
        ("create_entities", {"entities": "Ana"}),
        ("search_nodes", {"query": 5}),
        ("open_nodes", {"name": ["Ana"]}),
    ):
        assert fault(await graph.client.call_tool(name, arguments)) == "validation_error"
    given = {"observations": [{"entityName": "nobody", "contents": ["x"]}]}
    assert fault(await graph.client.call_tool("add_observations", given)) == "not_found"


@requirement("mcp:graph.concurrent")
async def test_observations_added_at_the_same_time_are_all_kept(at: Served, agent: str, mint: Mint) -> None:
    async with graph_of(at, "2026-07-28", agent, mint) as one, graph_of(at, "legacy", agent, mint) as two:
        await one("create_entities", entities=[ANA])
        await asyncio.gather(
            *(
                graph("add_observations", observations=[{"entityName": "Ana", "contents": [f"fact {count}"]}])
                for count, graph in enumerate((one, two) * 4)
            )
        )
        (entity,) = (await one("open_nodes", names=["Ana"]))["entities"]
    assert sorted(entity["observations"]) == [*(f"fact {count}" for count in range(8)), "plays chess"]


@requirement("mcp:graph.errors")
async def test_a_call_that_is_wrong_in_one_part_changes_nothing(graph: Graph) -> None:
    await graph("create_entities", entities=[ANA])
    for name, arguments, code in (
        ("create_entities", {"entities": [ACME, {"name": "x"}]}, "validation_error"),
        ("create_entities", {"entities": [ACME, {**ACME, "name": "a\0b"}]}, "validation_error"),
        ("create_relations", {"relations": [WORKS, {**WORKS, "to": "a\0b"}]}, "validation_error"),
        (
            "add_observations",
            {"observations": [{"entityName": name, "contents": ["x"]} for name in ("Ana", "nobody")]},
            "not_found",
        ),
        (
            "delete_observations",
            {"deletions": [{"entityName": "Ana", "observations": ["plays chess"]}, {"entityName": "Ana"}]},
            "validation_error",
        ),
    ):
        assert fault(await graph.client.call_tool(name, arguments)) == code
        assert await graph("read_graph") == {"entities": [ANA], "relations": []}


@requirement("mcp:graph.concurrent")
async def test_what_two_clients_made_at_the_same_time_is_one(at: Served, graph: Graph, agent: str) -> None:
    """Neither saw the other's when it began to write, so there are two records of each."""
    again = {**ANA, "observations": ["is 40"]}
    await graph("create_entities", entities=[ANA, ACME])
    await graph("create_relations", relations=[WORKS])
    for said in ({"graph": "entity", **again}, {"graph": "relation", **WORKS}):
        request = RememberRequest(agent_id=agent, type=MemoryType.SEMANTIC, content="twice", metadata=said)
        await asyncio.to_thread(at.do, at.service.remember(local(), request))

    whole = {**ANA, "observations": ["plays chess", "is 40"]}
    assert await graph("read_graph") == {"entities": [whole, ACME], "relations": [WORKS]}
    add = {"entityName": "Ana", "contents": ["is 40", "swims"]}
    assert (await graph("add_observations", observations=[add]))["results"] == [
        {"entityName": "Ana", "addedObservations": ["swims"]}
    ]
    await graph("delete_observations", deletions=[{"entityName": "Ana", "observations": ["is 40"]}])
    (ana,) = (await graph("open_nodes", names=["Ana"]))["entities"]
    assert ana["observations"] == ["plays chess", "swims"]
    assert (await graph("delete_relations", relations=[WORKS]))["message"] == "Deleted 1 relations."
    assert (await graph("delete_entities", entityNames=["Ana"]))["message"] == "Deleted 1 entities."
    assert await graph("read_graph") == {"entities": [ACME], "relations": []}


@requirement("mcp:approval.profiles")
async def test_a_change_that_is_held_waits_once(at: Served, graph: Graph, agent: str) -> None:
    await graph("create_entities", entities=[ANA])
    rules = {"rules": [{"id": agent, "when": {"agents": [agent]}, "effect": "hold"}]}
    await asyncio.to_thread(at.do, at.service.policies.set(local(), rules))
    try:
        add = {"observations": [{"entityName": "Ana", "contents": ["is 40"]}]}
        waiting = await graph.client.call_tool("add_observations", add)
    finally:
        await asyncio.to_thread(at.do, at.service.policies.set(local(), {"rules": []}))
    assert fault(waiting) == "conflict"
    held = await asyncio.to_thread(at.do, at.service.governance.proposals(local(), "pending"))
    assert len([proposal for proposal in held if proposal.agent_id == agent]) == 1
