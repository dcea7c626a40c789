"""/mcp on the server: credentials, hosts, sessions, and the end of streams."""

from __future__ import annotations

import asyncio
import json
import threading
from pathlib import Path
from typing import Any

import httpx
import pytest
from mcp.shared.exceptions import MCPError

from quipu.model.principal import Permission, local
from quipu.testing.builders import FixedClock
from tests.crypto.test_oidc import Published, clock, published, statement
from tests.faces.mcp.conftest import Mint
from tests.faces.mcp.hosts import body, fault, over_http
from tests.faces.serving import Served, served
from tests.requirement import requirement

__all__ = ["clock", "published"]
FACT = {"type": "semantic", "content": "Mara is vegetarian"}
LISTING = {
    "jsonrpc": "2.0",
    "id": 1,
    "method": "tools/list",
    "params": {
        "_meta": {
            "io.modelcontextprotocol/protocolVersion": "2026-07-28",
            "io.modelcontextprotocol/clientCapabilities": {},
        }
    },
}
HEADERS = {
    "Accept": "application/json, text/event-stream",
    "MCP-Protocol-Version": "2026-07-28",
    "Mcp-Method": "tools/list",
}
INITIALIZE = {
    "jsonrpc": "2.0",
    "id": 1,
    "method": "initialize",
    "params": {
        "protocolVersion": "2025-11-25",
        "capabilities": {},
        "clientInfo": {"name": "test", "version": "1"},
    },
}
ACCEPT = {"Accept": "application/json, text/event-stream"}


def post(at: Served, token: str | None = None, path: str = "/mcp", **headers: str) -> httpx.Response:
    with at.client(token) as client:
        return client.post(path, json=LISTING, headers={**HEADERS, **headers})


@requirement("mcp:http.credentials")
def test_without_a_good_credential_a_client_is_told_where_to_get_one(at: Served) -> None:
    none, bad = post(at, ""), post(at, "qp_default_wrong")
    told = f'resource_metadata="{at.url}/.well-known/oauth-protected-resource/mcp"'
    assert (none.status_code, bad.status_code) == (401, 401)
    assert told in none.headers["www-authenticate"]
    assert "error=" not in none.headers["www-authenticate"]
    assert 'error="invalid_token"' in bad.headers["www-authenticate"]
    assert post(at).status_code == 200


@requirement("mcp:http.metadata")
def test_the_resource_describes_itself_to_everybody(at: Served) -> None:
    with at.client("") as client:
        told = client.get("/.well-known/oauth-protected-resource/mcp").json()
    assert told["resource"] == f"{at.url}/mcp"
    assert "memory:read" in told["scopes_supported"]


@requirement("mcp:http.insufficient-scope")
def test_a_token_that_cannot_read_is_refused_as_a_whole(at: Served, mint: Mint) -> None:
    refused = post(at, mint(Permission.WRITE))
    assert refused.status_code == 403
    assert 'error="insufficient_scope"' in refused.headers["www-authenticate"]


@requirement("mcp:http.hosts")
def test_a_foreign_host_or_origin_is_not_served(at: Served) -> None:
    assert post(at, Host="evil.example").status_code == 421
    assert post(at, Origin="https://evil.example").status_code == 403
    assert post(at, Origin=at.url).status_code == 200


@requirement("mcp:http.origins")
def test_a_web_page_of_a_named_origin_may_open_a_session(tmp_path: Path) -> None:
    page = {"Origin": "https://app.example"}
    asked = {"Access-Control-Request-Method": "POST", "Access-Control-Request-Headers": "mcp-session-id"}
    with served(tmp_path / "m.db", cors_origins="https://app.example") as at, at.client() as client:
        preflight = client.options("/mcp", headers={**page, **asked})
        assert preflight.status_code == 200, preflight.text
        answer = client.post("/mcp", json={}, headers=page)
        assert answer.status_code == 400, answer.text  # heard, and not understood
        assert "Mcp-Session-Id" in answer.headers["access-control-expose-headers"]
        foreign = client.options("/mcp", headers={"Origin": "https://evil.example", **asked})
        assert foreign.status_code == 400


@requirement("mcp:http.headers")
def test_headers_that_contradict_the_body_are_refused(at: Served) -> None:
    answer = post(at, **{"Mcp-Method": "tools/call"})
    assert answer.status_code == 400
    assert answer.json()["error"]["code"] == -32020


@requirement("mcp:http.sessions")
def test_a_session_belongs_to_whom_it_was_opened_by(at: Served, mint: Mint) -> None:
    mine, theirs = mint(Permission.READ), mint(Permission.READ)
    with at.client(mine) as client:
        opened = client.post("/mcp", json=INITIALIZE, headers=ACCEPT)
    session = {"Mcp-Session-Id": opened.headers["mcp-session-id"], "MCP-Protocol-Version": "2025-11-25"}
    ping = {"jsonrpc": "2.0", "id": 2, "method": "ping"}
    with at.client(theirs) as client:
        assert client.post("/mcp", json=ping, headers={**ACCEPT, **session}).status_code == 404
        assert client.delete("/mcp", headers=session).status_code == 404
    with at.client(mine) as client:
        assert client.post("/mcp", json=ping, headers={**ACCEPT, **session}).status_code == 200
        assert client.delete("/mcp", headers=session).status_code == 200
        assert client.post("/mcp", json=ping, headers={**ACCEPT, **session}).status_code == 404


@requirement("mcp:http.revoked")
async def test_a_revoked_token_ends_a_session_at_once(at: Served, mode: str, mint: Mint) -> None:
    token = mint(Permission.READ)
    async with over_http(at, mode, token) as client:
        await client.list_tools()
        name = (await asyncio.to_thread(at.do, at.service.credentials.renewed(token))).name
        tokens = await asyncio.to_thread(at.do, at.service.tokens.list(local()))
        found = next(row for row in tokens if row.name == name)
        await asyncio.to_thread(at.do, at.service.tokens.revoke(local(), found.id))
        with pytest.raises(MCPError):
            await client.call_tool("recall", {"query": "x"})


@requirement("mcp:http.store")
async def test_an_address_can_pin_one_store(at: Served, mode: str, agent: str) -> None:
    from quipu.model.operations import CreateStoreRequest

    store = f"s-{agent}"
    at.do(at.service.stores.create(local(), CreateStoreRequest(name=store)))
    async with over_http(at, mode) as client:
        elsewhere = body(await client.call_tool("remember", {**FACT, "agent_id": agent}))["id"]
    async with over_http(at, mode, path=f"/mcp/{store}") as client:
        inside = body(await client.call_tool("remember", {**FACT, "agent_id": agent}))["id"]
        found = body(await client.call_tool("recall", {"query": "Mara", "agent_id": agent}))
        refused = await client.call_tool("recall", {"query": "Mara", "agent_id": agent, "store": "main"})
        gone = body(await client.call_tool("forget", {"ids": [elsewhere], "agent_id": agent}))
        with pytest.raises(MCPError):
            await client.read_resource(f"memory://records/{elsewhere}")
    assert [hit["id"] for hit in found["results"]] == [inside]
    assert fault(refused) == "forbidden"
    assert gone["forgotten_ids"] == []
    assert post(at, path="/mcp/no-such-store").status_code == 404


@requirement("mcp:http.store")
async def test_what_lies_in_other_stores_is_not_there_for_any_tool(at: Served, mode: str, agent: str) -> None:
    from quipu.model.operations import CreateStoreRequest

    store, fact = f"s-{agent}", {**FACT, "agent_id": agent}
    at.do(at.service.stores.create(local(), CreateStoreRequest(name=store)))
    async with over_http(at, mode) as client:
        other = body(await client.call_tool("remember", fact))["id"]
        await client.call_tool("remember", {**fact, "approval_required": True})
    held = at.do(at.service.governance.proposals(local(), "pending"))
    waits = next(proposal.id for proposal in held if proposal.agent_id == agent)
    async with over_http(at, mode, path=f"/mcp/{store}?profile=admin") as client:
        mine = body(await client.call_tool("remember", fact))["id"]
        own = body(await client.call_tool("remember", {**fact, "approval_required": True}))
        got = body(await client.call_tool("get", {"ids": [other, mine]}))
        assert ([row["id"] for row in got["memories"]], got["missing"]) == ([mine], [other])
        assert len(body(await client.call_tool("history", {"id": mine}))["versions"]) == 1
        for name, arguments, code in (
            ("history", {"id": other}, "not_found"),
            ("operation_status", {"handle": waits}, "not_found"),
            ("review", {"id": waits, "approved": True}, "not_found"),
            ("delete_store", {"name": "main"}, "forbidden"),
            ("create_store", {"name": f"{store}-2"}, "forbidden"),
        ):
            assert fault(await client.call_tool(name, arguments)) == code, name
        listed = body(await client.call_tool("list_reviews", {"limit": None}))["reviews"]
        (read,) = (await client.read_resource("memory://reviews/pending")).contents
        for reviews in (listed, json.loads(read.text)["reviews"]):
            assert [review["id"] for review in reviews] == [own["approval_url"].rpartition("/")[2]]
        if mode != "legacy":
            with pytest.raises(MCPError):
                async with client.listen(resource_subscriptions=[f"memory://records/{other}"]):
                    pass
            async with client.listen(resource_subscriptions=[f"memory://records/{mine}"]):
                pass
    async with over_http(at, mode, path=f"/mcp/{store}?profile=chatgpt") as client:
        assert fault(await client.call_tool("fetch", {"id": other})) == "not_found"
        assert fault(await client.call_tool("fetch", {"id": 7})) == "validation_error"
        assert body(await client.call_tool("fetch", {"id": mine}))["id"] == mine


@requirement("mcp:http.profile")
def test_an_unknown_profile_is_refused(at: Served) -> None:
    answer = post(at, path="/mcp?profile=everything")
    assert answer.status_code == 400
    assert "chatgpt" in answer.text


@requirement("mcp:http.open")
async def test_in_open_mode_the_person_at_this_machine_asks(tmp_path: Path, mode: str) -> None:
    with served(tmp_path / "open.db", is_open=True) as at:
        async with over_http(at, mode, "") as client:
            kept = body(await client.call_tool("remember", FACT))
            found = body(await client.call_tool("recall", {"query": "Mara"}))
    assert [hit["id"] for hit in found["results"]] == [kept["id"]]


@requirement("mcp:http.drain")
async def test_a_stream_that_is_open_does_not_keep_the_server_from_stopping(tmp_path: Path) -> None:
    async def ended(subscription: Any) -> None:
        async for _ in subscription:
            pass
        raise EOFError  # the stream may also end without an error

    uris = ["memory://stores"]
    with served(tmp_path / "drain.db") as at:
        async with over_http(at) as client, client.listen(resource_subscriptions=uris) as subscription:
            at.ask_to_stop()
            async with asyncio.timeout(20):
                with pytest.raises(Exception):  # noqa: B017, PT011  however the client tells that the stream ended
                    await ended(subscription)


class Slow:
    """An embedder that takes its time, and tells whether it was let finish."""

    name = "slow"
    model = "slow"
    dimensions = 4

    def __init__(self) -> None:
        self.started, self.cancelled = threading.Event(), threading.Event()

    async def embed(self, texts: Any) -> Any:
        if list(texts) == ["ready"]:
            return [[1.0, 0.0, 0.0, 0.0]]
        self.started.set()
        try:
            await asyncio.sleep(60)
        except asyncio.CancelledError:
            self.cancelled.set()
            raise

    async def close(self) -> None:
        return None


@requirement("mcp:cancellation")
async def test_a_call_that_is_cancelled_is_not_carried_on(tmp_path: Path, mode: str) -> None:
    embedder: Any = Slow()
    with served(tmp_path / "slow.db", embedder=embedder) as at:
        async with over_http(at, mode) as client:
            calling = asyncio.create_task(client.call_tool("remember", FACT))
            async with asyncio.timeout(20):
                assert await asyncio.to_thread(embedder.started.wait, 20)
                calling.cancel()
                await asyncio.gather(calling, return_exceptions=True)
                assert await asyncio.to_thread(embedder.cancelled.wait, 20)
            assert len((await client.list_tools()).tools) == 5


@requirement("mcp:parity")
async def test_a_tool_does_what_rest_does(at: Served, mode: str, agent: str) -> None:
    with at.client() as rest:
        asked = {**FACT, "agent_id": agent, "metadata": {"by": "rest"}}
        by_rest = rest.post("/memorywire/v0/remember", json=asked).json()
        async with over_http(at, mode) as client:
            by_tool = body(await client.call_tool("remember", {**asked, "metadata": {"by": "mcp"}}))
            query = {"query": "Mara", "agent_id": agent}
            found = body(await client.call_tool("recall", query))
            wrong = await client.call_tool("remember", {**asked, "confidence": 2})
        same = rest.post("/memorywire/v0/recall", json=query).json()
        problem = rest.post("/memorywire/v0/remember", json={**asked, "confidence": 2}).json()
        journal = rest.get("/memorywire/v0/audit", params={"agent_id": agent}).json()["entries"]
    assert set(by_rest) == set(by_tool)
    for answer in (found, same):
        answer.pop("latency_ms")
    assert found == same
    assert fault(wrong) == problem["code"]
    shapes = [
        json.dumps({**row, "seq": 0, "at": 0, "hash": "", "prev": "", "records": []}) for row in journal
    ]
    written = [shape for shape in shapes if '"remember"' in shape]
    assert len(written) == 2
    assert written[0] == written[1]


@requirement("mcp:http.too-large")
def test_a_body_above_the_limit_is_refused_and_the_server_goes_on(at: Served) -> None:
    def call(content: str) -> httpx.Response:
        arguments = {**FACT, "content": content}
        asked = {**LISTING["params"], "name": "remember", "arguments": arguments}
        headers = {**HEADERS, "Mcp-Method": "tools/call", "Mcp-Name": "remember"}
        with at.client() as client:
            return client.post(
                "/mcp", json={**LISTING, "method": "tools/call", "params": asked}, headers=headers
            )

    refused = call("x" * (4 << 20))
    assert refused.status_code == 413
    assert refused.json()["code"] == "validation_error"
    assert "xxx" not in refused.text
    assert post(at).status_code == 200


@requirement("mcp:http.audience")
async def test_a_token_for_somebody_else_or_past_its_time_is_refused(
    tmp_path: Path, mode: str, published: Published, clock: FixedClock
) -> None:
    given = {"oidc_issuer": published.issuer, "oidc_audience": "quipu", "oidc_tenant": "default"}
    ours = statement(published, clock, roles=["agent"])
    theirs = statement(published, clock, roles=["agent"], aud="somebody else")
    with served(tmp_path / "oidc.db", clock=clock, **given) as at:
        assert (await asyncio.to_thread(post, at, theirs)).status_code == 401
        async with over_http(at, mode, ours) as client:
            assert not (await client.call_tool("recall", {"query": "x"})).is_error
            clock.move(11 * 60_000)
            with pytest.raises(MCPError):
                await client.call_tool("recall", {"query": "x"})
        assert (await asyncio.to_thread(post, at, ours)).status_code == 401
