"""A tenant never sees another: every address of the server is asked for another tenant's things, by an admin.

What somebody learns by naming a foreign thing equals what they learn by naming one that does not exist. An operation is
asked here by itself; a route that is no operation's needs a line in `OTHERS`, or the first test fails.
"""

import json
import re
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import httpx
import pytest

from quipu.access.operations import CREATE_TENANT, CREATE_TOKEN
from quipu.audit.page import Checks
from quipu.bootstrap import OPERATIONS, http_app
from quipu.client.remote import rendered
from quipu.errors import QuipuError
from quipu.http.v0 import v0_operations
from quipu.memory.operations import EXPIRE, FORGET, LIST, RECALL, REMEMBER, REMEMBER_MANY
from quipu.model.ids import now
from quipu.model.principal import Permission, local
from quipu.operation import AnyOperation
from quipu.web.pages import pages
from tests.architecture.test_limits import of_nothing, state
from tests.architecture.world import FILE_SENT as FILE
from tests.architecture.world import GRANTEE, PRIVATE, REFUSED, World, file_of, makes_names, open_world

#: OAP's addresses of grants, and what is sent there.
GRANT_ADDRESSES: tuple[tuple[str, str, Any], ...] = (
    ("GET", "/oap/memory/grant", None),
    ("GET", "/oap/memory/grant/{id}", None),
    ("POST", "/oap/memory/grant/{id}/token", None),
    ("DELETE", "/oap/memory/grant/{id}", None),
    ("POST", "/oap/memory/grant/preview", {"grantee": GRANTEE, "filter": {"all": True}}),
    ("POST", "/oap/memory/query", {"query": PRIVATE}),
    ("POST", "/oap/data/delete", {"principal_did": GRANTEE}),
)
#: Routes that are no operations, and why nothing of a tenant is there; `mcp` is asked for its tools below.
OTHERS = {
    **dict.fromkeys(("/healthz", "/readyz"), "of the server"),
    "/metrics": "needs who runs the server",
    **dict.fromkeys(("/openapi.json", "/v1/openapi.json", "/docs", "/docs/{name}"), "the same for everybody"),
    **dict.fromkeys(("/memorywire/v0/schemas", "/memorywire/v0/schemas/{name}"), "the same for everybody"),
    "/.well-known/oauth-protected-resource/mcp": "of the server",
    **dict.fromkeys(
        ("/.well-known/did.json", "/.well-known/oap-memory.json", "/.well-known/oap-tool.json"),
        "of the server",
    ),
    **dict.fromkeys(
        ("/owners/{path}/did.json", "/owners/{path}/oap-memory.json"), "public keys; no owner, no answer"
    ),
    "/oap-conformance-receipt.json": "the same for everybody",
    "/.well-known/oap-revocation": "whether a grant counts: for whoever knows its id, which is no secret",
    **{path: "asked for the owner's grant below" for _, path, _ in GRANT_ADDRESSES},
    "/oap/memory/item/{id:path}/log": "the operation read_item_log, asked by itself; under a grant, the grant's",
    **dict.fromkeys(
        ("/oap/memory/vec/{id:path}.bin", "/oap/incident"), "under a grant, the grant's; the own"
    ),
    "/oap/audit": "the own receipts; under a grant, those that name the grantee; calls that anybody made",
    "/oap/invoke": "the same for everybody",
    **dict.fromkeys(("/oap/memory/export", "/oap/memory/import"), "asked for below, and what one sends"),
    **dict.fromkeys(
        ("/oap/memory/import/{id}/commit", "/oap/memory/import/{id}/undo"),
        "asked as the operations that they call",
    ),
    **dict.fromkeys(("/mcp", "/mcp/{store}"), "mcp"),
    **dict.fromkeys(("/signin", "/signout", "/static/{name}"), "of the server"),
    **{page.path: "a page, which asks operations only" for page in pages(Checks(now))},
}
MINE = "strangers"


@dataclass
class Server:
    world: World
    http: httpx.AsyncClient
    owner: str
    stranger: str

    async def asked(self, token: str, operation: AnyOperation, body: Mapping[str, Any]) -> tuple[int, str]:
        """Status and text of an answer, without what differs from one request to the next."""
        takes_file = operation.http is not None and operation.http.body != "json"
        call = rendered(operation, body, upload=file_of(FILE) if takes_file else None)
        query = "" if not call.query else "?" + urlencode(call.query, doseq=True)
        answer = await self.http.request(
            call.method,
            call.path + query,
            json=call.body if call.method not in ("GET", "DELETE") else None,
            content=call.upload,
            headers={"Authorization": f"Bearer {token}"},
        )
        return answer.status_code, plain(answer.text)

    async def tool(self, token: str, operation: AnyOperation, body: Mapping[str, Any]) -> tuple[int, str]:
        """The same through MCP."""
        meta = {
            "io.modelcontextprotocol/protocolVersion": "2026-07-28",
            "io.modelcontextprotocol/clientCapabilities": {},
        }
        params = {"name": operation.name, "arguments": body, "_meta": meta}
        answer = await self.http.post(
            "/mcp?profile=admin",
            json={"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params},
            headers={
                "Authorization": f"Bearer {token}",
                "Accept": "application/json, text/event-stream",
                "MCP-Protocol-Version": "2026-07-28",
                "Mcp-Method": "tools/call",
                "Mcp-Name": operation.name,
            },
        )
        return answer.status_code, plain(answer.text)


def plain(text: str) -> str:
    text = re.sub(r"\b([a-z]+)_[0-9A-Za-z]{26}\b", r"\1_…", text)
    text = re.sub(r"fresh-[a-z-]+-\d+", "fresh-…", text)
    text = re.sub(r"(qp|ql)_[a-z-]+_[A-Za-z0-9_-]{43}", "…", text)
    text = re.sub(r'(\\?"(?:hash|digest|prefix|key|etag|request_id)\\?": ?)\\?"[^"\\]*\\?"', r"\1…", text)
    text = re.sub(r"\b\d{13}\b", "…", text)
    return re.sub(r'(\\?"(?:latency_ms|seq|entry|head|entries|position|born)\\?": ?)\d+', r"\1…", text)


def of_nobody(body: Any) -> Any:
    """The same request about things that do not exist, in no tenant."""
    text = re.sub(r"fresh-[a-z-]+-\d+", "fresh-nobody-0", json.dumps(of_nothing(body)))
    return json.loads(text)


@pytest.fixture
async def server(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Server]:
    monkeypatch.chdir(tmp_path)
    world = await open_world(tmp_path, tenant="owners", user="them")
    for tenant in ("owners", MINE):
        await world(CREATE_TENANT, tenant=tenant)
    roles = ["admin"]
    stranger = await world(CREATE_TOKEN, local(MINE), name="mallory", roles=roles, default_agent="theirs")
    owner = await world(CREATE_TOKEN, name="olga", roles=[*roles, "operator"], default_agent="theirs")
    world.sender = await world.container.access.credentials.principal(owner.text)
    app = http_app(world.container)
    transport = httpx.ASGITransport(app, raise_app_exceptions=False)
    async with httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1") as http:
        yield Server(world, http, owner.text, stranger.text)
    await world.container.close()


def offered() -> list[AnyOperation]:
    """Operations over HTTP that end; those that stream are asked through `dispatch`."""
    return [one for one in OPERATIONS if one.http is not None and not one.is_stream]


async def further(world: World) -> list[tuple[AnyOperation, dict[str, Any]]]:
    """Foreign things in other places than where an operation expects its own."""
    record, proposal, store = (
        await world.thing("record"),
        await world.thing("proposal"),
        await world.thing("store"),
    )
    head = (await world.container.ledger.head("owners")).seq
    by_name = {operation.name: operation for operation in OPERATIONS}
    words = {"content": "mine"}
    return [
        (REMEMBER, {**words, "id": record}),
        (REMEMBER, {**words, "id": record, "approval_required": True}),
        (REMEMBER, {**words, "store": store}),
        (REMEMBER, {**words, "links": [{"to": record, "rel": "about"}]}),
        (REMEMBER_MANY, {"items": [{**words, "id": record}, {**words, "store": store}]}),
        (REMEMBER_MANY, {"items": [{**words, "store": store}], "atomic": True}),
        (RECALL, {"query": PRIVATE, "min_relevance": 0, "store": store}),
        (RECALL, {"query": PRIVATE, "min_relevance": 0, "k": 1000, "redact": "none"}),
        (LIST, {"store": store}),
        (LIST, {"all_agents": True}),
        (FORGET, {"ids": [record], "hard_delete": True}),
        (FORGET, {"filter": {"id": record}}),
        (EXPIRE, {"policy": {"type": "semantic"}, "store": store}),
        (by_name["decide"], {"id": proposal, "approved": True, "supersedes": [record]}),
        (by_name["undo"], {"proposal_id": proposal, "dry_run": False}),
        (by_name["journal"], {"record": record, "limit": 1000}),
        (by_name["journal"], {"cursor": str(head)}),
        (by_name["list_tokens"], {"tenant": "owners"}),
        (by_name["create_token"], {"tenant": "owners", "name": "x", "roles": ["agent"]}),
        (by_name["verify"], {"tenant": "owners"}),
    ]


async def test_every_address_is_an_operations_or_has_a_line_here(server: Server) -> None:
    routes = http_app(server.world.container).routes
    assert {getattr(route, "path", None) for route in routes} == set(OTHERS)


async def test_the_owner_can_do_over_http_what_the_stranger_is_refused(server: Server) -> None:
    for operation in offered():
        body = await server.world.request(operation)
        status, said = await server.asked(server.owner, operation, body)
        assert status < 300 or REFUSED.get(operation.name, "nothing") in said, (operation.name, said)


async def test_a_foreign_thing_is_like_no_thing(server: Server) -> None:
    world = server.world
    attempts = [(one, await world.request(one)) for one in offered()] + await further(world)
    v0 = v0_operations(OPERATIONS)
    for operation, body in attempts:
        before = await state(world)
        assert operation.http is not None
        wires = [operation, *([v0[operation.http.v0]] if operation.http.v0 else [])]
        for wire in wires:
            real = await server.asked(server.stranger, wire, body)
            assert PRIVATE not in real[1], (operation.name, body)
            assert await state(world) == before, (operation.name, body)
            if of_nobody(body) != body and not makes_names(operation):
                assert real == await server.asked(server.stranger, wire, of_nobody(body)), (
                    operation.name,
                    body,
                )


async def test_a_foreign_grant_is_like_no_grant_at_the_addresses_of_oap(server: Server) -> None:
    grant = await server.world.thing("grant")

    async def asked(method: str, path: str, body: Any, name: str) -> tuple[int, str]:
        answer = await server.http.request(
            method,
            path.format(id=name),
            json=body,
            headers={"Authorization": f"Bearer {server.stranger}", "OAP-Request-Id": "0" * 26},
        )
        said = answer.json()
        return answer.status_code, json.dumps({**said, "response_id": "", "timestamp": "", "signature": ""})

    before = await state(server.world)
    for method, path, body in GRANT_ADDRESSES:
        real = await asked(method, path, body, grant)
        assert PRIVATE not in real[1], path
        assert grant not in real[1], path
        assert real == await asked(method, path, body, "mgr_nobody"), path
    assert await state(server.world) == before


async def test_an_export_holds_the_own_memories_alone(server: Server) -> None:
    await server.world.thing("record")
    for token, is_theirs in ((server.owner, True), (server.stranger, False)):
        answer = await server.http.post(
            "/oap/memory/export", json={"format": "mem0"}, headers={"Authorization": f"Bearer {token}"}
        )
        assert answer.status_code == 200
        assert (PRIVATE in answer.text) is is_theirs


async def test_a_stream_tells_the_own_changes_alone(server: Server) -> None:
    stranger = await server.world.container.access.credentials.principal(server.stranger)
    await server.world.thing("record")
    for operation in OPERATIONS:
        if operation.is_stream:
            body = await server.world.request(operation)
            try:
                said = repr(await server.world.answers(operation, body, stranger))
            except QuipuError as error:
                said = str(error)
            assert PRIVATE not in said, operation.name
            assert "theirs" not in said, operation.name


async def test_tools_show_nothing_foreign(server: Server) -> None:
    tools = [one for one in OPERATIONS if one.mcp is not None and not one.is_stream]
    was_done = 0
    for operation in tools:
        assert operation.mcp is not None
        body = await server.world.request(operation)
        shown = operation.mcp.shows or tuple(operation.request.model_fields)
        given = {name: value for name, value in body.items() if name in shown}
        before = await state(server.world)
        real = await server.tool(server.stranger, operation, given)
        assert PRIVATE not in real[1], operation.name
        assert await state(server.world) == before, operation.name
        if of_nobody(given) != given and not makes_names(operation):
            assert real == await server.tool(server.stranger, operation, of_nobody(given)), operation.name
        done = await server.tool(server.owner, operation, given)
        was_done += done[0] == 200 and '"isError":true' not in done[1].replace(" ", "")
    assert was_done >= len(tools) - 3, "the owner can do most of it, or this shows nothing"


async def test_the_same_idempotency_key_is_another_in_another_tenant(server: Server) -> None:
    body = {"content": PRIVATE, "idempotency_key": "once"}
    first = await server.asked(server.owner, REMEMBER, body)
    second = await server.asked(server.stranger, REMEMBER, body)
    assert first[0] == second[0] == 200 or first[0] == second[0] == 201
    assert '"replayed":false' in second[1].replace(" ", "")


async def test_a_token_carries_its_tenant_and_is_none_elsewhere(server: Server) -> None:
    me = next(one for one in OPERATIONS if one.name == "whoami")
    swapped = server.stranger.replace(f"qp_{MINE}_", "qp_owners_")
    unknown = server.stranger.replace(f"qp_{MINE}_", "qp_nobody_")
    assert (await server.asked(server.stranger, me, {}))[0] == 200
    refused = await server.asked(swapped, me, {})
    assert refused[0] == 401
    assert refused == await server.asked(unknown, me, {}), "whether the tenant exists is not said"
    assert (
        Permission.OPERATE
        not in (await server.world.container.access.credentials.principal(server.stranger)).permissions
    )
