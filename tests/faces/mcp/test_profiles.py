"""The profiles readonly, admin and chatgpt, and the prefix."""

from __future__ import annotations

import json
from typing import Any

from jsonschema import Draft202012Validator
from mcp import Client
from mcp.types import CallToolResult

from quipu.model.principal import Permission
from tests.faces.mcp.conftest import Mint
from tests.faces.mcp.hosts import Person, body, fault, over_http, stdio, text
from tests.faces.serving import Served
from tests.requirement import requirement

FIVE = ["remember", "recall", "forget", "merge", "expire"]
ELEVEN = [
    "get", "list", "history", "create_store", "list_stores", "delete_store", "forget_all", "list_reviews", "review",
    "operation_status", "step",
]  # fmt: skip
FACT = {"type": "semantic", "content": "Mara is vegetarian"}
#: Everything in the tenant, but no administrator.
WORKER = (Permission.READ, Permission.WRITE, Permission.DELETE, Permission.REVIEW)


@requirement("mcp:profile.readonly")
async def test_readonly_can_recall_and_nothing_else(at: Served, mode: str) -> None:
    async with over_http(at, mode, path="/mcp?profile=readonly") as client:
        assert [tool.name for tool in (await client.list_tools()).tools] == ["recall"]
        assert (await client.list_resources()).resources
        assert fault(await client.call_tool("remember", FACT)) == "not_found"
        assert (
            fault(await client.call_tool("memory", {"command": "view", "path": "/memories"})) == "not_found"
        )


@requirement("mcp:profile.admin")
async def test_admin_has_the_default_and_eleven_more(at: Served, mode: str) -> None:
    async with over_http(at, mode, path="/mcp?profile=admin") as client:
        assert [tool.name for tool in (await client.list_tools()).tools] == [*FIVE, *ELEVEN]


class Tools:
    """Calls whose answers are held against the published schemas."""

    def __init__(self, client: Client, schemas: dict[str, Any]) -> None:
        self._client, self._schemas = client, schemas

    async def __call__(self, name: str, /, **arguments: Any) -> dict[str, Any]:
        answer = body(await self.raw(name, **arguments))
        Draft202012Validator(self._schemas[name]).validate(answer)
        return answer

    async def raw(self, name: str, /, **arguments: Any) -> CallToolResult:
        return await self._client.call_tool(name, arguments)


async def tools_of(client: Client) -> Tools:
    return Tools(client, {tool.name: tool.output_schema for tool in (await client.list_tools()).tools})


@requirement("mcp:admin.records")
async def test_records_by_id_by_page_and_by_history(at: Served, mode: str, agent: str) -> None:
    async with over_http(at, mode, path="/mcp?profile=admin") as client:
        call = await tools_of(client)
        ids = [(await call("remember", **FACT, agent_id=agent))["id"] for _ in range(3)]
        got = await call("get", ids=[ids[0], "mem_nothing"])
        first = await call("list", agent_id=agent, limit=2)
        second = await call("list", agent_id=agent, limit=2, cursor=first["next_cursor"])
        await call("remember", type="semantic", content="Mara is vegan", id=ids[0], agent_id=agent)
        versions = (await call("history", id=ids[0]))["versions"]
        assert fault(await call.raw("list", agent_id=agent, limit="two")) == "validation_error"
        assert await call("list", agent_id=agent, limit=2.0, cursor=None) == await call(
            "list", agent_id=agent, limit=2
        )
    assert [row["id"] for row in got["memories"]] == ids[:1]
    assert got["missing"] == ["mem_nothing"]
    assert [row["id"] for page in (first, second) for row in page["memories"]] == ids[::-1]
    assert second["next_cursor"] is None
    assert [row["content"] for row in versions] == ["Mara is vegetarian", "Mara is vegan"]


@requirement("mcp:admin.stores")
async def test_stores_are_made_listed_and_deleted(at: Served, mode: str, agent: str) -> None:
    async with over_http(at, mode, path="/mcp?profile=admin") as client:
        call = await tools_of(client)
        made = await call("create_store", name=agent, scope="team", type="short_term")
        await call("remember", **FACT, store=agent)
        listed = {row["name"]: row for row in (await call("list_stores"))["stores"]}
        assert fault(await call.raw("delete_store")) == "validation_error"
        assert await call("delete_store", name=agent) == {"deleted_records": 1}
        assert fault(await call.raw("delete_store", name=agent)) == "not_found"
    assert (made["scope"], made["tier"], made["record_count"]) == ("team", "short_term", 0)
    assert listed[agent]["record_count"] == 1


@requirement("mcp:admin.forget-all")
async def test_forget_all_asks_in_place_and_waits_otherwise(at: Served, mode: str, agent: str) -> None:
    person = Person()
    async with over_http(at, mode, path="/mcp?profile=admin") as client:
        call = await tools_of(client)
        kept = (await call("remember", **FACT, agent_id=agent))["id"]
        assert (await call("forget_all", store="main", agent_id=agent))["pending_approval"] is True
        assert fault(await call.raw("forget_all", agent_id=agent)) == "validation_error"
    async with over_http(at, mode, path="/mcp?profile=admin", elicitation_callback=person) as client:
        call = await tools_of(client)
        done = await call("forget_all", store="main", agent_id=agent)
    assert (done["forgotten_ids"], done["pending_approval"]) == ([kept], False)
    assert len(person.asked) == 1


@requirement("mcp:admin.reviews")
async def test_reviews_are_listed_and_decided_by_somebody_else(
    at: Served, mode: str, agent: str, mint: Mint
) -> None:
    path = "/mcp?profile=admin"
    async with over_http(at, mode, mint(*WORKER), path) as client:
        call = await tools_of(client)
        held = await call("remember", **FACT, agent_id=agent, approval_required=True)
        handle = held["approval_url"].rpartition("/")[2]
        assert (await call("operation_status", handle=handle))["status"] == "pending"
        refused = await call.raw("review", id=handle, approved=True)
    async with over_http(at, mode, path=path) as client:
        call = await tools_of(client)
        (review,) = [row for row in (await call("list_reviews"))["reviews"] if row["id"] == handle]
        decided = await call("review", id=handle, approved=True, reason="fine")
        status = await call("operation_status", handle=handle)
        assert fault(await call.raw("review", id=handle, approved=True)) == "conflict"
        assert fault(await call.raw("review", id=handle, approved="yes")) == "validation_error"
        assert fault(await call.raw("operation_status", handle="prp_nothing")) == "not_found"
    assert fault(refused) == "forbidden"
    assert review["request"]["content"] == "Mara is vegetarian"
    assert (decided["approved"], decided["reviewer"], decided["reason"]) == (True, "admin", "fine")
    assert status["status"] == "approved"


@requirement("mcp:chatgpt")
async def test_chatgpt_searches_and_fetches(at: Served, mode: str, agent: str, mint: Mint) -> None:
    token = mint(Permission.READ, Permission.WRITE, agents=(agent,))
    async with over_http(at, mode, token) as client:
        kept = body(await client.call_tool("remember", {**FACT, "metadata": {"topic": "food"}}))
    async with over_http(at, mode, token, "/mcp?profile=chatgpt") as client:
        assert [tool.name for tool in (await client.list_tools()).tools] == ["search", "fetch"]
        call = await tools_of(client)
        found = await call.raw("search", query="Mara")
        fetched = await call.raw("fetch", id=kept["id"])
        missing = await call.raw("fetch", id="mem_nothing")
    url = f"{at.url}/memories/{kept['id']}"
    assert body(found) == {"results": [{"id": kept["id"], "title": "Mara is vegetarian", "url": url}]}
    assert body(fetched) == {
        "id": kept["id"],
        "title": "Mara is vegetarian",
        "text": "Mara is vegetarian",
        "url": url,
        "metadata": {"topic": "food"},
    }
    assert [len(result.content) for result in (found, fetched)] == [1, 1]
    assert json.loads(text(fetched)) == fetched.structured_content
    assert fault(missing) == "not_found"


@requirement("mcp:prefix")
async def test_a_prefix_stands_before_each_name(tmp_path: Any, mode: str) -> None:
    async with Client(stdio(tmp_path / "m.db", "--prefix", "memory_"), mode=mode) as client:
        assert [tool.name for tool in (await client.list_tools()).tools] == [
            f"memory_{name}" for name in FIVE
        ]
        assert not (await client.call_tool("memory_recall", {"query": "x"})).is_error
