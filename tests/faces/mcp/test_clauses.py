"""Single sentences of the contract that no other test is about."""

from __future__ import annotations

import asyncio
from typing import Any

import httpx
import pytest
from mcp.shared.exceptions import MCPError

from quipu.faces.mcp import routes
from quipu.model.principal import Permission, local
from tests.faces.mcp.conftest import Mint
from tests.faces.mcp.hosts import body, fault, over_http, text
from tests.faces.mcp.test_http import HEADERS, LISTING
from tests.faces.serving import Served
from tests.requirement import requirement

FACT = {"type": "semantic", "content": "Mara is vegetarian"}


@requirement("mcp:modern.meta")
@pytest.mark.parametrize("key", ["protocolVersion", "clientCapabilities"])
def test_a_modern_request_says_what_it_speaks(at: Served, key: str) -> None:
    params: Any = LISTING["params"]
    meta = {name: value for name, value in params["_meta"].items() if not name.endswith(f"/{key}")}
    with at.client() as client:
        answer = client.post("/mcp", json={**LISTING, "params": {"_meta": meta}}, headers=HEADERS)
    assert answer.status_code == 400
    assert answer.json()["error"]["code"] == -32602


@requirement("mcp:modern.results")
def test_a_modern_result_is_complete_and_its_own_callers(at: Served) -> None:
    with at.client() as client:
        asked = {**LISTING, "method": "server/discover"}
        answer = client.post("/mcp", json=asked, headers={**HEADERS, "Mcp-Method": "server/discover"})
    found = _result(answer)
    assert found["resultType"] == "complete"
    assert found["cacheScope"] == "private"
    assert "mcp-session-id" not in answer.headers


def _result(answer: httpx.Response) -> dict[str, Any]:
    assert answer.status_code == 200, answer.text
    return answer.json()["result"]


@requirement("mcp:tools.refused")
async def test_what_a_call_lacks_is_an_error_that_the_model_can_repair(
    at: Served, mode: str, agent: str
) -> None:
    async with over_http(at, mode) as client:

        async def code(name: str, **given: Any) -> str:
            answer = await client.call_tool(name, {"agent_id": agent, **given})
            assert text(answer).startswith(f"{fault(answer)}: ")
            return fault(answer)

        assert await code("forget") == "validation_error"
        assert await code("expire", policy={}) == "validation_error"
        assert await code("remember", **FACT, id="mem_nowhere") == "not_found"
        assert await code("merge", canonical="x", duplicates=[]) == "validation_error"


@requirement("mcp:tools.held")
async def test_a_held_write_is_no_error_and_the_model_is_told_not_to_repeat_it(
    at: Served, mode: str, agent: str
) -> None:
    async with over_http(at, mode) as client:
        answer = await client.call_tool("remember", {**FACT, "agent_id": agent, "approval_required": True})
        held = body(answer)
        found = body(await client.call_tool("recall", {"query": "Mara", "agent_id": agent}))
    assert (held["pending_approval"], held["stores"]) == (True, [])
    assert held["approval_url"].startswith(at.url)
    assert "not repeat" in text(answer, 1)
    assert found["results"] == []


@requirement("mcp:tools.order")
async def test_the_order_is_fixed_and_only_scopes_cut_the_list(at: Served, mint: Mint) -> None:
    narrow = mint(Permission.READ, Permission.DELETE)
    seen = []
    for mode in ("2026-07-28", "legacy"):
        for token in (None, narrow):
            async with over_http(at, mode, token) as client:
                seen.append([tool.name for tool in (await client.list_tools()).tools])
    assert seen[0] == seen[2] == ["remember", "recall", "forget", "merge", "expire"]
    assert seen[1] == seen[3]
    assert seen[1] == [name for name in seen[0] if name in seen[1]]
    assert {"recall", "forget"} <= set(seen[1])
    assert "remember" not in seen[1]


@requirement("mcp:resources.reserved")
async def test_no_agent_is_called_as_the_other_addresses_begin(at: Served, mode: str) -> None:
    async with over_http(at, mode) as client:
        for name in ("records", "stores", "reviews"):
            with pytest.raises(MCPError) as refused:
                await client.read_resource(f"memory://{name}/recall?query=Mara")
            assert refused.value.error.code == -32602


@requirement("mcp:notices.expiry")
async def test_a_stream_ends_with_the_token_that_opened_it(
    at: Served, mint: Mint, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(routes, "_LOOK_S", 0.2)
    token = mint(Permission.READ)
    found = await asyncio.to_thread(at.do, at.service.credentials.renewed(token))
    rows = await asyncio.to_thread(at.do, at.service.tokens.list(local()))
    asked = {**LISTING, "method": "subscriptions/listen"}
    params: Any = LISTING["params"]
    asked["params"] = {**params, "notifications": {"resourceSubscriptions": ["memory://stores"]}}
    headers = {**HEADERS, **at.headers(token), "Mcp-Method": "subscriptions/listen"}
    async with (
        asyncio.timeout(40),
        httpx.AsyncClient(base_url=at.url, headers=headers, timeout=20) as http,
        http.stream("POST", "/mcp", json=asked) as stream,
    ):
        assert stream.status_code == 200
        chunks = stream.aiter_bytes()
        first = await anext(chunks)
        assert b"error" not in first, first
        more = asyncio.ensure_future(anext(chunks, None))
        await asyncio.wait({more}, timeout=1)
        assert not more.done()
        (row,) = (row for row in rows if row.name == found.name)
        await asyncio.to_thread(at.do, at.service.tokens.revoke(local(), row.id))
        async with asyncio.timeout(8):  # the feed behind it looks too, but less often
            await more
            async for _ in chunks:
                pass


@requirement("mcp:admin.annotations")
async def test_tools_that_only_read_say_so(at: Served, mode: str) -> None:
    async with over_http(at, mode, path="/mcp?profile=admin") as client:
        tools = {tool.name: tool.annotations for tool in (await client.list_tools()).tools}
    reads = {name for name, told in tools.items() if told is not None and told.read_only_hint}
    assert reads >= {"recall", "get", "list", "history", "list_stores", "list_reviews"}
    assert not reads & {"remember", "forget", "merge", "expire", "create_store", "delete_store", "forget_all"}
    assert all(told is not None and told.open_world_hint is False for told in tools.values())


@requirement("mcp:tools.refused")
async def test_a_tool_that_is_not_there_is_told_like_one_that_is_not_seen(at: Served, mode: str) -> None:
    async with over_http(at, mode) as client:
        unknown, unseen = [await client.call_tool(name, {}) for name in ("zzz", "get")]
    assert (text(unknown), text(unseen)) == (
        "not_found: There is no tool zzz.",
        "not_found: There is no tool get.",
    )
    assert fault(unknown) == fault(unseen) == "not_found"


@requirement("mcp:prompt")
@pytest.mark.parametrize(
    ("name", "arguments"),
    [("zzz", {}), ("recall", None), ("recall", {}), ("recall", {"query": "x", "user": "y"})],
)
async def test_a_prompt_that_cannot_be_made_is_a_wrong_request(
    at: Served, mode: str, name: str, arguments: dict[str, str] | None, caplog: pytest.LogCaptureFixture
) -> None:
    async with over_http(at, mode) as client:
        with pytest.raises(MCPError) as caught:
            await client.get_prompt(name, arguments)
    assert caught.value.error.code == -32602
    assert "Traceback" not in caplog.text
