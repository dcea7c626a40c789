"""/mcp on a real server: credentials, addresses, sessions, and the end of streams."""

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, closing, nullcontext
from dataclasses import dataclass
from typing import Any, Literal

import httpx
import pytest
from mcp import Client
from mcp.client.streamable_http import streamable_http_client
from mcp.shared._httpx_utils import create_mcp_http_client
from mcp.shared.exceptions import MCPError

from quipu.access.operations import CREATE_TOKEN, REVOKE_TOKEN
from quipu.bootstrap import Container, http_app, open_container
from quipu.config import Settings
from quipu.http.server import Server, address_of, bound_socket, serve
from quipu.mcp import http as mcp_http
from quipu.mcp import subscriptions
from quipu.mcp.commands import snippet
from quipu.memory.operations import CREATE_STORE, REMEMBER
from quipu.model.principal import local
from quipu.operation import AnyOperation, dispatch
from quipu.testing.embedders import WordEmbedder
from tests.mcp.clients import FACT, Person, body, fault
from tests.mcp.test_resources import STORES, Heard
from tests.requirement import requirement

pytestmark = pytest.mark.filterwarnings("ignore::mcp.MCPDeprecationWarning")
ACCEPT = {"Accept": "application/json, text/event-stream"}
META = {
    "io.modelcontextprotocol/protocolVersion": "2026-07-28",
    "io.modelcontextprotocol/clientCapabilities": {},
}
LISTING = {"jsonrpc": "2.0", "id": 1, "method": "tools/list", "params": {"_meta": META}}
MODERN = {**ACCEPT, "MCP-Protocol-Version": "2026-07-28", "Mcp-Method": "tools/list"}
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
PING = {"jsonrpc": "2.0", "id": 2, "method": "ping"}


@dataclass
class Served:
    """A server at work."""

    container: Container
    url: str
    app: Any
    server: Server
    running: asyncio.Task[None]
    _tokens: int = 0

    async def __call__(self, operation: AnyOperation, /, **fields: Any) -> Any:
        return await dispatch(self.container.context(local(agent_id="agent")), operation, fields)

    async def token(self, *permissions: str, **given: Any) -> tuple[str, str]:
        """The text of a new token, and its id."""
        self._tokens += 1
        made = await self(
            CREATE_TOKEN,
            **{
                "name": f"token-{self._tokens}",
                "permissions": list(permissions or ("memory:read", "memory:write", "memory:delete")),
                "default_agent": "agent",
                **given,
            },
        )
        return made.text, made.token.id

    async def post(
        self, token: str | None, message: dict[str, Any] = LISTING, path: str = "/mcp", **headers: str
    ) -> httpx.Response:
        given = {"Authorization": f"Bearer {token}"} if token else {}
        async with httpx.AsyncClient(base_url=self.url, headers={**MODERN, **given}) as http:
            return await http.post(path, json=message, headers=headers)

    @asynccontextmanager
    async def client(
        self, mode: str, token: str | None, path: str = "/mcp", **options: Any
    ) -> AsyncIterator[Client]:
        http = create_mcp_http_client(headers={"Authorization": f"Bearer {token}"} if token else {})
        way = streamable_http_client(self.url + path, http_client=http)
        async with http, Client(way, mode=mode, **options) as client:
            yield client


@asynccontextmanager
async def serving(
    *,
    is_open: bool = False,
    embedder: WordEmbedder | None = None,
    only: Literal["mcp"] | None = None,
    **settings: Any,
) -> AsyncIterator[Served]:
    config = Settings(agent="agent", port=0, shutdown_grace_s=1, **settings)
    container = await open_container(config, stores=[":memory:"], embedder=embedder or WordEmbedder())
    app = http_app(container, is_open=is_open, only=only)
    with closing(bound_socket(config)) as listening:
        server = Server(app, config)
        running = asyncio.create_task(serve(app, config, listening, server=server))
        try:
            yield Served(container, address_of(config, listening), app, server, running)
        finally:
            server.stop()
            await running
            await container.close()


@pytest.fixture
async def served() -> AsyncIterator[Served]:
    async with serving() as found:
        yield found


# -- who asks ---------------------------------------------------------------------------------------------------------


@requirement("mcp:identity.http")
async def test_without_a_good_credential_a_client_is_told_where_to_get_one(served: Served) -> None:
    where = f'resource_metadata="{served.url}/.well-known/oauth-protected-resource/mcp"'
    none, bad = await served.post(None), await served.post("qp_default_wrong")
    assert (none.status_code, bad.status_code) == (401, 401)
    for answer in (none, bad):
        assert answer.headers["www-authenticate"].startswith("Bearer ")
        assert where in answer.headers["www-authenticate"]
    assert 'error="invalid_token"' in bad.headers["www-authenticate"]
    writer, _ = await served.token("memory:write")
    refused = await served.post(writer)
    assert refused.status_code == 403
    assert 'error="insufficient_scope"' in refused.headers["www-authenticate"]
    async with httpx.AsyncClient(base_url=served.url) as http:
        told = (await http.get("/.well-known/oauth-protected-resource/mcp")).json()
    assert told["resource"] == f"{served.url}/mcp"
    assert "memory:read" in told["scopes_supported"]


@requirement("mcp:identity.agent")
async def test_the_seven_tools_are_served_and_say_whose_token_it_is(served: Served, mode: str) -> None:
    token, _ = await served.token(agents=["agent"])
    async with served.client(mode, token) as client:
        found = (await client.list_tools()).tools
        assert [tool.name for tool in found] == [
            *("remember", "recall", "forget", "merge", "expire", "get", "list")
        ]
        assert all((tool.description or "").endswith("Agent: agent.") for tool in found)
        kept = body(await client.call_tool("remember", FACT))
        full = await client.call_tool("recall", {"query": "bees", "detail": "full"})
        (hit,) = body(full)["results"]
    assert (hit["id"], hit["agent_id"], hit["provenance"]["written_by"]) == (kept["id"], "agent", "token-1")


@requirement("mcp:identity.http")
async def test_without_tokens_the_person_at_this_machine_asks(mode: str) -> None:
    async with serving(is_open=True) as served, served.client(mode, None) as client:
        body(await client.call_tool("remember", FACT))
        assert len(body(await client.call_tool("recall", {"query": "bees"}))["results"]) == 1


@requirement("mcp:identity.http")
async def test_a_revoked_token_ends_everything_at_once(served: Served, mode: str) -> None:
    token, token_id = await served.token()
    async with served.client(mode, token) as client:
        await client.list_tools()
        await served(REVOKE_TOKEN, id=token_id)
        with pytest.raises(MCPError):
            await client.call_tool("recall", {"query": "x"})


# -- addresses --------------------------------------------------------------------------------------------------------


@requirement("mcp:running.addresses")
async def test_profiles_and_stores_are_chosen_by_address(served: Served, mode: str) -> None:
    token, _ = await served.token("memory:admin", "memory:read", "memory:write", "memory:delete")
    unknown = await served.post(token, path="/mcp?profile=everything")
    assert unknown.status_code == 400
    assert "chatgpt" in unknown.text
    assert (await served.post(token, path="/mcp/nowhere")).status_code == 404
    await served(CREATE_STORE, name="s*")
    await served(CREATE_STORE, name="sx")
    outside = (await served(REMEMBER, content="Mara keeps bees outside", store="sx")).id
    async with served.client(mode, token, "/mcp/s*?profile=admin") as client:
        inside = body(await client.call_tool("remember", FACT))["id"]
        found = body(await client.call_tool("recall", {"query": "bees", "min_relevance": "off"}))
        assert [hit["id"] for hit in found["results"]] == [inside]
        other = await client.call_tool("recall", {"query": "bees", "store": "sx"})
        assert fault(other) == "not_found"
        assert fault(await client.call_tool("get", {"id": outside})) == "not_found"
        assert fault(await client.call_tool("history", {"id": outside})) == "not_found"
        gone = body(await client.call_tool("forget", {"ids": [outside]}))
        assert gone["forgotten_ids"] == []
        names = [one["name"] for one in body(await client.call_tool("list_stores", {}))["stores"]]
        assert names == ["s*"]
        assert fault(await client.call_tool("create_store", {"name": "more"})) == "not_found"
    async with served.client(mode, token, "/mcp/s*?profile=chatgpt") as client:
        (row,) = body(await client.call_tool("search", {"query": "bees"}))["results"]
        assert row == {
            "id": inside,
            "title": "Mara keeps bees",
            "url": f"{served.url}/memories/{inside}",
        }
        whole = await client.call_tool("fetch", {"id": inside})
        assert body(whole) == {**row, "text": "Mara keeps bees", "metadata": {}}
        assert json.loads(whole.content[0].text) == body(whole)  # type: ignore[union-attr]
        assert fault(await client.call_tool("fetch", {"id": outside})) == "not_found"
        assert fault(await client.call_tool("fetch", {"id": 7})) == "validation_error"


@requirement("mcp:running.addresses")
async def test_a_server_may_serve_nothing_else() -> None:
    async with serving(only="mcp") as served:
        token, _ = await served.token()
        assert (await served.post(token)).status_code == 200
        async with httpx.AsyncClient(base_url=served.url) as http:
            bearer = {"Authorization": f"Bearer {token}"}
            assert (await http.get("/healthz")).status_code == 200
            assert (await http.get("/v1/memories", headers=bearer)).status_code == 404


@requirement("mcp:running.wire")
async def test_what_is_wrong_on_the_wire_is_refused_and_the_server_goes_on(served: Served) -> None:
    token, _ = await served.token()
    crossed = await served.post(token, **{"Mcp-Method": "tools/call"})
    assert (crossed.status_code, crossed.json()["error"]["code"]) == (400, -32020)
    # As a proxy may pass it on (RFC 9110 section 5.5).
    given = {
        **MODERN,
        "Mcp-Method": " tools/list \t",
        "Last-Event-ID": "9",
        "Authorization": f"Bearer {token}",
    }
    past = httpx.ASGITransport(served.app)
    async with httpx.AsyncClient(transport=past, base_url=served.url, headers=given) as http:
        assert (await http.post("/mcp", json=LISTING)).status_code == 200
    large = {**LISTING, "params": {"_meta": META, "more": "x" * (5 << 20)}}
    refused = await served.post(token, large)
    assert refused.status_code == 413
    assert "xxx" not in refused.text
    answer = await served.post(token)
    assert answer.status_code == 200
    assert "mcp-session-id" not in answer.headers


# -- sessions and streams ---------------------------------------------------------------------------------------------


@requirement("mcp:running.sessions")
async def test_a_session_belongs_to_whom_it_was_opened_by(served: Served) -> None:
    mine, _ = await served.token()
    theirs, _ = await served.token()
    old = {"MCP-Protocol-Version": "2025-11-25"}
    opened = await served.post(mine, INITIALIZE, **old)
    session = {**old, "Mcp-Session-Id": opened.headers["mcp-session-id"]}
    assert (await served.post(theirs, PING, **session)).status_code == 404
    assert (await served.post(mine, PING, **session)).status_code == 200
    async with httpx.AsyncClient(base_url=served.url) as http:

        async def delete(token: str) -> int:
            headers = {**ACCEPT, **session, "Authorization": f"Bearer {token}"}
            return (await http.delete("/mcp", headers=headers)).status_code

        assert await delete(theirs) == 404
        assert await delete(mine) == 200
    assert (await served.post(mine, PING, **session)).status_code == 404


@requirement("mcp:running.sessions")
async def test_several_servers_keep_no_sessions(monkeypatch: pytest.MonkeyPatch) -> None:
    """On PostgreSQL any server may answer: the older generation is served without questions and notices."""
    from quipu.ledger.ledger import Ledger

    monkeypatch.setattr(Ledger, "name", "postgresql")
    async with serving() as served:
        token, _ = await served.token("memory:read", "memory:write", "memory:review")
        old = {"MCP-Protocol-Version": "2025-11-25"}
        assert "mcp-session-id" not in (await served.post(token, INITIALIZE, **old)).headers
        person = Person()
        for mode in ("legacy", "2026-07-28"):
            async with served.client(mode, token, elicitation_callback=person) as client:
                held = body(await client.call_tool("remember", {**FACT, "approval_required": True}))
                assert held["pending_approval"] is (mode == "legacy")
        assert len(person.asked) == 1


@requirement("mcp:notices.heard")
async def test_notices_and_questions_reach_a_client_over_http(served: Served, mode: str) -> None:
    token, _ = await served.token("memory:read", "memory:write", "memory:review")
    heard, person = Heard(), Person()
    async with served.client(mode, token, elicitation_callback=person, message_handler=heard) as client:
        if mode == "legacy":
            await client.subscribe_resource(STORES)
            kept = body(await client.call_tool("remember", {**FACT, "approval_required": True}))
            await heard.all(STORES)
        else:
            async with client.listen(resource_subscriptions=[STORES]) as subscription:
                kept = body(await client.call_tool("remember", {**FACT, "approval_required": True}))
                async with asyncio.timeout(20):
                    await anext(aiter(subscription))
    assert (kept["pending_approval"], len(person.asked)) == (False, 1)


@requirement("mcp:notices.end")
async def test_streams_end_with_their_credential(
    served: Served, mode: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(mcp_http, "_LOOK_S", 0.1)
    monkeypatch.setattr(subscriptions, "_LOOK_S", 0.1)
    token, token_id = await served.token()
    bearer = {**ACCEPT, "Authorization": f"Bearer {token}"}
    async with httpx.AsyncClient(base_url=served.url, headers=bearer, timeout=20) as http:
        if mode == "legacy":
            old = {"MCP-Protocol-Version": "2025-11-25"}
            opened = await http.post("/mcp", json=INITIALIZE, headers=old)
            # A stream that broke off is not taken up again: a new one begins.
            headers = {**old, "Mcp-Session-Id": opened.headers["mcp-session-id"], "Last-Event-ID": "9"}
            stream = http.stream("GET", "/mcp", headers=headers)
        else:
            wanted = {"_meta": META, "notifications": {"resourceSubscriptions": [STORES]}}
            asked = {**LISTING, "method": "subscriptions/listen", "params": wanted}
            headers = {**MODERN, "Mcp-Method": "subscriptions/listen"}
            stream = http.stream("POST", "/mcp", json=asked, headers=headers)
        async with asyncio.timeout(20), stream as answer:
            assert answer.status_code == 200
            reading = asyncio.ensure_future(answer.aread())
            await asyncio.wait({reading}, timeout=0.3)
            assert not reading.done()
            await served(REVOKE_TOKEN, id=token_id)
            await reading


class Slow(WordEmbedder):
    """Never comes to an end by itself."""

    def __init__(self) -> None:
        super().__init__()
        self.started, self.cancelled = asyncio.Event(), asyncio.Event()

    async def embed(self, texts: Any, role: Any = "document") -> Any:
        self.started.set()
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            self.cancelled.set()
            raise


@requirement("mcp:errors.cancelled")
async def test_a_cancelled_call_is_not_carried_on(mode: str) -> None:
    embedder = Slow()
    async with serving(embedder=embedder) as served, asyncio.timeout(20):
        token, _ = await served.token()
        async with served.client(mode, token) as client:
            calling = asyncio.create_task(client.call_tool("remember", FACT))
            await embedder.started.wait()
            calling.cancel()
            await asyncio.gather(calling, return_exceptions=True)
            await embedder.cancelled.wait()
            assert body(await client.call_tool("list", {}))["records"] == []


@requirement("mcp:notices.end")
async def test_an_open_stream_does_not_keep_the_server_from_stopping(mode: str) -> None:
    async with serving() as served:
        token, _ = await served.token()
        async with served.client(mode, token) as client:
            stream = nullcontext() if mode == "legacy" else client.listen(resource_subscriptions=[STORES])
            async with stream, asyncio.timeout(30):
                await client.list_tools()
                served.server.stop()
                await served.running


@requirement("mcp:running.loading")
async def test_the_app_is_imported_without_the_sdk() -> None:
    """It takes most of a second to load: only who serves MCP pays for it."""
    import subprocess
    import sys

    code = (
        "import sys, asyncio\n"
        "from quipu.bootstrap import http_app, open_container\n"
        "from quipu.config import Settings\n"
        "async def main():\n"
        "    container = await open_container(Settings(), stores=[':memory:'], embedder='none')\n"
        "    http_app(container)\n"
        "    await container.close()\n"
        "asyncio.run(main())\n"
        "assert 'mcp' not in sys.modules\n"
        "import quipu.cli.program\n"
        "assert quipu.cli.program.run(['mcp', '--help']) == 0\n"
        "assert 'mcp' not in sys.modules\n"
    )
    done = await asyncio.to_thread(
        subprocess.run, [sys.executable, "-c", code], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr


@requirement("mcp:running.install")
async def test_the_lines_for_a_python_program_reach_a_server_with_a_token(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async with serving() as served:
        token, _ = await served.token()
        monkeypatch.setenv("QUIPU_TOKEN", token)
        names: dict[str, Any] = {}
        exec(snippet("python", words=[], url=f"{served.url}/mcp").text, names)  # noqa: S102  our own lines
        async with names["http"], names["client"] as client:
            assert "remember" in [tool.name for tool in (await client.list_tools()).tools]
