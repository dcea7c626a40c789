"""The experimental methods: operations and the governance channel beside the tools."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any, Literal

import pytest
from mcp import Client
from mcp.client import advertise
from mcp.shared.exceptions import MCPError
from mcp.types import Request, RequestParams, Result
from pydantic import ConfigDict

from quipu.mcp.extension import ID, METHODS, SETTINGS
from quipu.model.principal import Permission
from tests.mcp.clients import FACT, MEMORY, World
from tests.requirement import requirement


class _Params(RequestParams):
    model_config = ConfigDict(extra="allow")


class _Answer(Result):
    model_config = ConfigDict(extra="allow")


async def ask(client: Client, method: str, **given: Any) -> dict[str, Any]:
    name = f"memory/{method}"
    kind = Request[_Params, Literal[name]]  # type: ignore[valid-type]
    answer = await client.session.send_request(kind(method=name, params=_Params(**given)), _Answer)
    return {name: value for name, value in (answer.model_extra or {}).items() if name != "resultType"}


@asynccontextmanager
async def known(world: World, caller: Any = None) -> AsyncIterator[Client]:
    """A client that has declared it."""
    async with world.client(caller, shown={"has_extension": True}, extensions=[advertise(ID)]) as client:
        yield client


@pytest.fixture
def mode() -> str:
    return "2026-07-28"


@requirement("mcp:extension.methods")
async def test_the_operations_are_methods_that_answer_as_their_tools(world: World) -> None:
    async with known(world) as client:
        one = await ask(client, "remember", **FACT)
        two = await ask(client, "remember", **FACT)
        assert (await client.call_tool("recall", {"query": "bees"})).structured_content is not None
        found = await ask(client, "recall", query="bees", k=5.0)
        assert {hit["id"] for hit in found["results"]} == {one["id"], two["id"]}
        merged = await ask(client, "merge", canonical=one["id"], duplicates=[two["id"]])
        assert merged["merged_count"] == 1
        assert (await ask(client, "expire", policy={"older_than_days": 1}))["matched_count"] == 0
        assert (await ask(client, "forget", ids=[one["id"]]))["forgotten_ids"] == [one["id"]]


@requirement("mcp:extension.methods")
async def test_reviews_are_listed_read_and_decided(world: World) -> None:
    writer = world.caller(world.named(permissions=MEMORY))
    async with known(world, writer) as client:
        held = await ask(client, "remember", **FACT, approval_required=True)
        assert held["pending_approval"] is True
        with pytest.raises(MCPError, match="memory:review"):
            await ask(client, "review/list")
    async with known(world) as client:
        listed = await ask(client, "review/list", limit=1)
        (row,) = listed["reviews"]
        shown = await ask(client, "review/get", id=row["id"])
        assert shown.keys() == {*("id", "operation", "agent_id", "request", "diff", "etag", "status")}
        assert shown["diff"]["added"][0]["content"] == FACT["content"]
        with pytest.raises(MCPError) as stale:
            await ask(client, "review", id=row["id"], approved=True, etag="00-11")
        assert stale.value.data["code"] == "conflict"
        decided = await ask(client, "review", id=row["id"], approved=True, etag=shown["etag"], reason="fine")
        assert decided.keys() == {"approved", "reviewer", "reviewed_at", "reason"}
        # The reviewer is who asks, never a parameter.
        assert (decided["approved"], decided["reviewer"]) == (True, "local")
        assert (await ask(client, "review/list"))["reviews"] == []


@requirement("mcp:approval.own")
async def test_nobody_decides_on_their_own_write_by_a_method(world: World) -> None:
    mine = world.caller(world.named(permissions=MEMORY | {Permission.REVIEW}))
    async with known(world, mine) as client:
        await ask(client, "remember", **FACT, approval_required=True)
        (row,) = (await ask(client, "review/list"))["reviews"]
        with pytest.raises(MCPError) as refused:
            await ask(client, "review", id=row["id"], approved=True)
        assert refused.value.data["code"] == "forbidden"


@requirement("mcp:extension.methods")
async def test_wrong_params_are_named(world: World) -> None:
    async with known(world) as client:
        for method, params in (
            ("recall", {"qury": "x"}),
            ("remember", {"type": "semantic"}),
            ("review", {"id": "x"}),
            ("review/list", {"status": "wat"}),
        ):
            with pytest.raises(MCPError) as caught:
                await ask(client, method, **params)
            assert caught.value.code == -32602
            assert caught.value.data == {"code": "validation_error", "retryable": False}


@requirement("mcp:extension.declared")
async def test_it_is_offered_only_to_who_knows_it_and_only_where_it_is_on(world: World) -> None:
    world.mode = "auto"
    async with known(world) as client:
        assert client.server_capabilities.extensions == {ID: dict(SETTINGS)}  # type: ignore[union-attr]
    async with world.client() as client:
        assert not client.server_capabilities.extensions  # type: ignore[union-attr]
        with pytest.raises(MCPError) as caught:
            await ask(client, "recall", query="x")
        assert caught.value.code == -32601
    async with world.client(shown={"has_extension": True}) as client:
        with pytest.raises(MCPError) as caught:
            await ask(client, "recall", query="x")
        assert caught.value.code == -32021
        assert ID in str(caught.value.data)
    world.mode = "legacy"
    async with known(world) as client:
        for method in METHODS:
            with pytest.raises(MCPError) as caught:
                await ask(client, method, query="x")
            assert caught.value.code == -32601
