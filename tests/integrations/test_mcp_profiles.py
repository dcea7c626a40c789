"""The MCP profiles `graph` and `anthropic`, called by real clients of both generations."""

import json
from collections.abc import AsyncIterator
from typing import Any

import pytest
from jsonschema import Draft202012Validator

from quipu.bootstrap import mcp_parts, open_container
from quipu.config import Settings
from quipu.mcp.settings import PROFILES
from quipu.memory.operations import CREATE_STORE, GET, LIST
from quipu.model.principal import Permission
from quipu.testing.embedders import WordEmbedder
from tests.fixtures.memories import Clock
from tests.mcp.clients import MEMORY, MODES, World, body, fault, text
from tests.requirement import requirement

NINE = [
    *("create_entities", "create_relations", "add_observations"),
    *("delete_entities", "delete_observations", "delete_relations"),
    *("read_graph", "search_nodes", "open_nodes"),
]
ANA = {"name": "Ana", "entityType": "person", "observations": ["plays chess"]}
WORKS = {"from": "Ana", "to": "Acme", "relationType": "works at"}


@pytest.fixture(params=MODES)
async def world(request: pytest.FixtureRequest) -> AsyncIterator[World]:
    clock = Clock()
    container = await open_container(
        Settings(agent="agent"), stores=[":memory:"], embedder=WordEmbedder(), clock=clock
    )
    yield World(container, clock, request.param)
    await container.close()


async def test_what_is_handed_in_has_the_names_that_clients_may_choose(world: World) -> None:
    further = mcp_parts(world.container).further_tools()
    assert {profile for tool in further for profile in tool.profiles} == {*PROFILES[-2:]}


@requirement("mcp:profiles.graph")
async def test_the_nine_tools_have_the_names_and_hints_of_the_reference(world: World) -> None:
    async with world.client(world.caller(profile="graph")) as client:
        tools = (await client.list_tools()).tools
    assert [tool.name for tool in tools] == NINE
    for tool in tools:
        hints = tool.annotations
        assert hints is not None
        is_read = tool.name.startswith(("read", "search", "open"))
        is_delete = tool.name.startswith("delete")
        assert (hints.read_only_hint, hints.destructive_hint, hints.idempotent_hint) == (
            *(is_read, is_delete, is_read or is_delete),
        )
    relation = tools[1].input_schema["properties"]["relations"]["items"]
    assert set(relation["required"]) == {"from", "to", "relationType"}


async def test_answers_fit_what_was_published(world: World) -> None:
    async with world.client(world.caller(profile="graph")) as client:
        outputs: dict[str, Any] = {
            tool.name: tool.output_schema for tool in (await client.list_tools()).tools
        }
        for name, given in (
            ("create_entities", {"entities": [ANA]}),
            ("create_relations", {"relations": [WORKS]}),
            ("add_observations", {"observations": [{"entityName": "Ana", "contents": ["is 40"]}]}),
            ("read_graph", {}),
            ("search_nodes", {"query": "chess"}),
            ("open_nodes", {"names": ["Ana"]}),
            ("delete_observations", {"deletions": [{"entityName": "Ana", "observations": ["is 40"]}]}),
            ("delete_relations", {"relations": [WORKS]}),
            ("delete_entities", {"entityNames": ["Ana"]}),
        ):
            answer = await client.call_tool(name, given)
            Draft202012Validator(outputs[name]).validate(body(answer))
            assert text(answer)
        assert fault(await client.call_tool("create_entities", {"entities": "Ana"})) == "validation_error"
        assert fault(await client.call_tool("read_graph", {"agent_id": "other"})) == "validation_error"


@requirement("mcp:profiles.anthropic")
async def test_there_is_one_tool_with_the_six_commands(world: World) -> None:
    async with world.client(world.caller(profile="anthropic")) as client:
        (tool,) = (await client.list_tools()).tools
        assert tool.name == "memory"
        commands = tool.input_schema["properties"]["command"]["enum"]
        assert commands == ["view", "create", "str_replace", "insert", "delete", "rename"]
        made = {"command": "create", "path": "/memories/a", "file_text": "Mara keeps bees"}
        assert text(await client.call_tool("memory", made)) == "File created successfully at: /memories/a"
        again = await client.call_tool("memory", made)
        assert again.is_error
        assert text(again) == "File /memories/a already exists"
        assert fault(await client.call_tool("memory", {"command": "view"})) == "validation_error"
        assert (await client.list_resources()).resources == []
        assert (await client.call_tool("remember", {"type": "semantic", "content": "x"})).is_error


async def test_a_credential_reaches_the_files_and_the_graph_of_its_agent_only(world: World) -> None:
    for agent in ("one", "two"):
        principal = world.named(permissions=MEMORY, agents=(agent,), default_agent=agent)
        async with world.client(world.caller(principal, profile="anthropic")) as client:
            made = {"command": "create", "path": "/memories/a", "file_text": f"of {agent}"}
            assert not (await client.call_tool("memory", made)).is_error
            seen = await client.call_tool("memory", {"command": "view", "path": "/memories/a"})
            assert text(seen).endswith(f"of {agent}")
        async with world.client(world.caller(principal, profile="graph")) as client:
            await client.call_tool("create_entities", {"entities": [{**ANA, "name": agent}]})
            found = body(await client.call_tool("read_graph", {}))["entities"]
            assert [entity["name"] for entity in found] == [agent]


async def test_a_credential_without_an_agent_is_told_so(world: World) -> None:
    principal = world.named(permissions=MEMORY, agents=("a-*",), default_agent=None)
    for profile, tool, given in (
        ("graph", "read_graph", {}),
        ("anthropic", "memory", {"command": "view", "path": "/memories"}),
    ):
        async with world.client(world.caller(principal, profile=profile)) as client:
            answer = await client.call_tool(tool, given)
            assert fault(answer) == "validation_error"
            assert "default agent" in text(answer)


async def test_permissions_hold(world: World) -> None:
    principal = world.named(permissions=frozenset({Permission.READ}))
    async with world.client(world.caller(principal, profile="graph")) as client:
        assert [tool.name for tool in (await client.list_tools()).tools] == NINE[-3:]
        assert fault_code(await client.call_tool("create_entities", {"entities": [ANA]})) == "not_found"
    async with world.client(world.caller(principal, profile="anthropic")) as client:
        made = {"command": "create", "path": "/memories/a", "file_text": "x"}
        assert fault(await client.call_tool("memory", made)) == "forbidden"


def fault_code(result: Any) -> str:
    return result.meta["dev.quipu/error"]["code"]


async def test_a_pinned_store_is_where_everything_goes(world: World) -> None:
    await world(CREATE_STORE, name="work")
    caller = world.caller(profile="graph", store="work")
    async with world.client(caller) as client:
        await client.call_tool("create_entities", {"entities": [ANA, {**ANA, "name": "Bo"}]})
        await client.call_tool("create_relations", {"relations": [WORKS]})
        assert len(body(await client.call_tool("read_graph", {}))["entities"]) == 2
    records = (await world(LIST)).records
    assert {(await world(GET, id=record.id)).store for record in records} == {"work"}
    async with world.client(world.caller(profile="graph", store="main")) as client:
        assert json.loads(text(await client.call_tool("read_graph", {}))) == {"entities": [], "relations": []}


@requirement("mcp:profiles.held")
async def test_a_held_change_is_an_error_that_says_that_nothing_has_changed(world: World) -> None:
    await world.rules({"id": "all", "effect": "hold"})
    async with world.client(world.caller(profile="graph")) as client:
        held = await client.call_tool("create_entities", {"entities": [ANA]})
        assert fault(held) == "conflict"
        assert "Nothing has changed" in text(held)
        assert body(await client.call_tool("read_graph", {}))["entities"] == []
