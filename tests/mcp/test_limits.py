"""By walking every tool, every resource and every method: nothing shows or changes what a credential does not reach."""

import json
from typing import Any

import pytest
from mcp import Client
from mcp.shared.exceptions import MCPError
from mcp.types import Tool

from quipu.memory.operations import CREATE_STORE, REMEMBER
from quipu.model.principal import Permission
from tests.mcp.clients import World
from tests.requirement import requirement

WORDS = "their private words"
LIMITED: dict[str, dict[str, Any]] = {
    "an agent": {"agents": ("mine",), "default_agent": "mine"},
    "a pattern of agents": {"agents": ("mine-*",), "default_agent": None},
    "a user": {"user_id": "me", "default_agent": "agent"},
    "a store": {"review_stores": ("mine",), "default_agent": "agent"},
    "reading": {"permissions": frozenset({Permission.READ}), "agents": ("mine",), "default_agent": "mine"},
}


def arguments(tool: Tool, record_id: str) -> dict[str, Any]:
    """A call that is about their record, in every way in which the tool can say so."""
    known: dict[str, Any] = {
        **{"id": record_id, "ids": [record_id], "canonical": record_id, "duplicates": [record_id]},
        **{"query": WORDS, "min_relevance": "off", "k": 100, "store": "theirs", "agent_id": "agent"},
        **{"content": "overwritten", "type": "semantic", "policy": {"type": "semantic"}, "name": "theirs"},
        **{"confirm": "theirs", "rules": [], "user_id": "them"},
    }
    return {name: value for name, value in known.items() if name in tool.input_schema["properties"]}


async def said_by(client: Client, name: str, given: dict[str, Any]) -> str:
    answer = await client.call_tool(name, given)
    return json.dumps([block.model_dump(mode="json") for block in answer.content], default=str) + json.dumps(
        answer.structured_content
    )


@requirement("mcp:identity.narrows")
@pytest.mark.parametrize("limit", LIMITED)
@pytest.mark.parametrize("profile", ["admin", "chatgpt"])
async def test_no_tool_and_no_resource_goes_beyond_a_credentials_limits(
    world: World, limit: str, profile: str
) -> None:
    await world(CREATE_STORE, name="theirs")
    await world(CREATE_STORE, name="mine")
    theirs = (await world(REMEMBER, content=WORDS, user_id="them", store="theirs")).id
    await world(REMEMBER, content=WORDS, user_id="them", store="theirs", approval_required=True)
    given = {"permissions": frozenset(Permission) - {Permission.OPERATE}, **LIMITED[limit]}
    caller = world.caller(world.named(**given), profile=profile)
    walked = 0
    async with world.client(caller) as client:
        for tool in (await client.list_tools()).tools:
            whole = arguments(tool, theirs)
            needed = set(tool.input_schema.get("required", ()))
            tries = [whole, *({**whole, left: None} for left in whole if left not in needed)]
            tries.append({name: value for name, value in whole.items() if name in needed | {"ids"}})
            for one in tries:
                asked = {name: value for name, value in one.items() if value is not None}
                assert WORDS not in await said_by(client, tool.name, asked), (tool.name, asked)
                walked += 1
        for uri in (
            f"memory://records/{theirs}",
            "memory://stores",
            "memory://stores/theirs/summary",
            "memory://agent/recall?query=private",
            "memory://mine/recall?query=private",
            "memory://reviews/pending",
        ):
            try:
                contents = (await client.read_resource(uri)).contents
            except MCPError:
                continue
            assert WORDS not in json.dumps([one.model_dump(mode="json") for one in contents])
            walked += 1
        if profile == "admin" and limit != "reading" and given["default_agent"] is not None:
            prompt = await client.get_prompt("recall", {"query": WORDS})
            assert WORDS not in prompt.messages[0].content.text.replace(f"answer: {WORDS}", "")  # type: ignore[union-attr]
    assert walked > (30 if profile == "admin" and limit != "reading" else 2)
    current = (await world.container.ledger.records("default", [theirs]))[theirs]
    assert (current.version, current.content, current.died) == (1, WORDS, None)
