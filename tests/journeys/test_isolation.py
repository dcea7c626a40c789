"""A tenant never sees another: every route is tried with another tenant's ids, keys, cursors and positions.

What somebody learns by naming a foreign thing must equal what they learn by naming a thing that does not exist.
The table below has a row for every route of the application; a new route without a row fails the first test.
"""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx
import pytest
from starlette.routing import Route

from tests.faces.serving import Served, served

MARK = "tangerine-lighthouse"
MW = "/memorywire/v0"
Q = "/quipu/v1"

#: Stands for an id of the kind that a route takes, in paths, queries and bodies.
RECORD, PROPOSAL, TOKEN, SECRET, STORE, TENANT, CURSOR, SEQ = (
    "{record}", "{proposal}", "{token}", "{secret}", "{store}", "{tenant}", "{cursor}", "{seq}",
)  # fmt: skip
RUN, REF = "{run}", "{ref}"
AGENT = {"agent_id": "ana"}
FACT = {**AGENT, "type": "semantic", "content": "x"}


@dataclass(frozen=True)
class Try:
    """One way of asking for something foreign."""

    method: str
    path: str
    json: Any = None
    lines: tuple[Any, ...] = ()
    form: dict[str, str] = field(default_factory=dict)
    headers: dict[str, str] = field(default_factory=dict)


def mcp(method: str, path: str = "/mcp", **params: Any) -> Try:
    """One message of the newest MCP, in one request."""
    meta = {
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientCapabilities": {"extensions": {"dev.quipu/mcp.memory.v0": {}}},
    }
    headers = {
        "Accept": "application/json, text/event-stream",
        "MCP-Protocol-Version": "2026-07-28",
        "Mcp-Method": method,
    }
    if named := params.get("name", params.get("uri")):
        headers["Mcp-Name"] = named
    body = {"jsonrpc": "2.0", "id": 1, "method": method, "params": {**params, "_meta": meta}}
    return Try("POST", path, body, headers=headers)


def mcp_tries() -> list[Try]:
    """The tools of every profile, resources and methods, with another tenant's ids."""

    def tool(name: str, profile: str = "admin", /, **arguments: Any) -> Try:
        return mcp("tools/call", f"/mcp?profile={profile}", name=name, arguments=arguments)

    return [
        tool("recall", **AGENT, query=MARK, min_relevance=0, k=1000),
        tool("recall", **AGENT, query=MARK, store=STORE),
        tool("remember", **FACT, id=RECORD),
        tool("remember", **FACT, store=STORE),
        tool("forget", **AGENT, ids=[RECORD], hard_delete=True),
        tool("merge", **AGENT, canonical=RECORD, duplicates=["x"]),
        tool("expire", **AGENT, policy={"type": "semantic"}, store=STORE),
        tool("get", ids=[RECORD]),
        tool("list", **AGENT, cursor=CURSOR),
        tool("list", **AGENT, store=STORE),
        tool("history", id=RECORD),
        tool("list_stores"),
        tool("delete_store", name=STORE),
        tool("list_reviews", status="pending"),
        tool("forget_all", **AGENT, store=STORE),
        tool("review", id=PROPOSAL, approved=True),
        tool("operation_status", handle=PROPOSAL),
        tool("step", id=RECORD),
        tool("step", id=RECORD, trigger="go"),
        tool("read_graph", "graph"),
        tool("search_nodes", "graph", query=MARK),
        tool("memory", "anthropic", command="view", path="/memories"),
        tool("search", "chatgpt", query=MARK),
        tool("fetch", "chatgpt", id=RECORD),
        mcp("resources/read", uri="memory://stores"),
        mcp("resources/read", uri="memory://reviews/pending"),
        mcp("tools/list"),
        mcp("tools/list", f"/mcp/{STORE}"),
        Try("GET", "/mcp"),
        Try("GET", f"/mcp/{STORE}"),
        Try("DELETE", "/mcp"),
        Try("DELETE", f"/mcp/{STORE}"),
        Try("GET", "/.well-known/oauth-protected-resource/mcp"),
    ]


def openwop_tries() -> list[Try]:
    """Runs and refs of another tenant, and the seams, which are off."""
    run, outside = f"/v1/runs/{RUN}", f"/v1/x-host-quipu-runs/{RUN}"
    entry = {"memoryRef": REF, "id": RECORD, "entry": {"content": "x"}}
    error = {"error": {"code": "x", "message": "y"}}
    return [
        Try("GET", "/.well-known/openwop"),
        Try("GET", "/v1/openapi.json"),
        Try("POST", "/v1/runs", {"workflowId": "nowhere"}),
        Try("GET", run),
        Try("GET", f"{run}/events"),
        Try("GET", f"{run}/events/poll"),
        Try("POST", f"{run}:fork", {"mode": "branch", "fromSeq": 0}),
        Try("POST", f"{run}/cancel", {}),
        Try("GET", "/v1/workflows/nowhere"),
        Try("GET", "/v1/agents"),
        Try("GET", "/v1/agents/nobody"),
        Try("GET", f"/v1/memory/{REF}"),
        Try("POST", "/v1/x-host-quipu-memory/list", {"memoryRef": REF}),
        Try("POST", "/v1/x-host-quipu-memory/list", {"memoryRef": "ana", "runId": RUN}),
        *(
            Try("POST", f"/v1/x-host-quipu-memory/{name}", entry)
            for name in ("get", "put", "delete", "compact")
        ),
        Try("POST", "/v1/x-host-quipu-memory-refs", {"agentId": "ana", "store": STORE}),
        Try("GET", "/v1/x-host-quipu-runs"),
        Try("POST", "/v1/x-host-quipu-runs", {"workflowId": "own"}),
        Try("POST", f"{outside}/nodes", {"nodeId": "n", "status": "started"}),
        Try("POST", f"{outside}/complete", {}),
        Try("POST", f"{outside}/fail", error),
        Try("POST", f"{outside}/expire", {}),
        *(Try(method, f"{outside}/notes/scratchpad") for method in ("GET", "POST", "DELETE")),
        *(Try("POST", f"/v1/test/memory/{name}", {"memoryRef": REF}) for name in ("seed", "compact")),
        *(
            Try("POST", f"/v1/host/sample/memory/{name}", {"memoryRef": REF})
            for name in ("distill", "consolidate")
        ),
        Try("POST", "/v1/host/sample/commitment/fire", {"memoryRef": REF, "condition": "time"}),
    ]


def oap_tries() -> list[Try]:
    """What is lent, and what somebody outside may ask for."""
    grant = f"/oap/memory/grant/{RUN}"
    return [
        *(
            Try("GET", f"/.well-known/{name}")
            for name in ("did.json", "oap-tool.json", "oap-memory.json", "oap-scopes.json")
        ),
        Try("GET", f"/.well-known/oap-revocation?grant_id={RUN}"),
        Try("GET", f"/owners/{TENANT}/did.json"),
        Try("GET", f"/owners/{TENANT}/oap-memory.json"),
        Try("POST", "/oap/memory/query", {"query": MARK}),
        Try("GET", f"/oap/memory/item/{RECORD}/log"),
        Try("GET", f"/oap/memory/vec/{RECORD}.bin"),
        Try(
            "POST",
            "/oap/memory/grant",
            {"grantee": "did:web:x.invalid", "purpose": "x", "filter": {"all": True}},
        ),
        Try("GET", "/oap/memory/grant"),
        Try("POST", "/oap/memory/grant/introspect", {}),
        Try("DELETE", "/oap/memory/grant"),
        Try(
            "POST",
            "/oap/memory/grant/preview",
            {"grantee": "did:web:x.invalid", "purpose": "x", "filter": {"all": True}},
        ),
        Try("GET", "/oap/memory/grant/request"),
        Try("POST", "/oap/memory/grant/request", {}),
        Try("POST", f"/oap/memory/grant/request/{RUN}/approve", {}),
        Try("DELETE", f"/oap/memory/grant/request/{RUN}"),
        Try("GET", f"/oap/tasks/{RUN}"),
        Try("GET", f"/oap/tasks/{RUN}/file/{RUN}"),
        Try("GET", grant),
        Try("DELETE", grant),
        Try("POST", f"{grant}/token", {}),
        Try("POST", "/oap/memory/export", {}),
        Try("POST", "/oap/memory/import?agent_id=x", {}),
        Try("POST", f"/oap/memory/import/{RUN}/commit", {}),
        Try("POST", f"/oap/memory/import/{RUN}/rollback", {}),
        Try("POST", "/oap/invoke", {"action": "describe_service"}),
        Try("GET", "/oap/audit"),
        Try("POST", "/oap/data/delete", {"principal_did": "did:web:x.invalid", "item_ids": [RECORD]}),
        Try("POST", "/oap/incident", {"what": "x"}),
    ]


def moving_tries() -> list[Try]:
    """Files in and out."""
    name = f"{Q}/imports/{{import}}"
    return [
        Try("GET", f"{Q}/imports"),
        Try("POST", f"{Q}/imports?agent_id=ana&store={STORE}", lines=({"results": [{"memory": "x"}]},)),
        Try("POST", f"{name}/commit"),
        Try("POST", f"{name}/decision", {"approved": True}),
        Try("POST", f"{name}/rollback", {"force": True}),
        Try("POST", f"{Q}/exports", {"as_lines": True}),
        Try("POST", f"{Q}/exports", {"as_lines": True, "agent_id": "ana", "store": STORE}),
    ]


def tries() -> list[Try]:
    record, proposal = f"{MW}/records/{RECORD}", f"{MW}/proposals/{PROPOSAL}"
    rest = f"{Q}/records/{RECORD}"
    return [
        Try("POST", f"{MW}/recall", {**AGENT, "query": MARK, "min_relevance": 0, "k": 1000}),
        Try("POST", f"{MW}/recall", {**AGENT, "query": MARK, "min_relevance": 0, "store": STORE}),
        Try("POST", f"{MW}/recall", {**AGENT, "query": MARK, "as_of": SEQ, "extensions": True}),
        Try(
            "POST", f"{MW}/recall", {**AGENT, "query": MARK, "min_relevance": 0, "filter": {"$not": {"x": 1}}}
        ),
        Try("POST", f"{MW}/remember", {**FACT, "id": RECORD}),
        Try("POST", f"{MW}/remember", {**FACT, "store": STORE}),
        Try("POST", f"{MW}/remember", {**FACT, "links": [{"to": RECORD, "rel": "r"}]}),
        Try("POST", f"{MW}/remember", {**FACT, "id": RECORD, "approval_required": True}),
        Try("POST", f"{MW}/forget", {**AGENT, "ids": [RECORD]}),
        Try("POST", f"{MW}/forget", {**AGENT, "ids": [RECORD], "hard_delete": True}),
        Try("POST", f"{MW}/forget", {**AGENT, "ids": [RECORD], "approval_required": True, "dry_run": True}),
        Try("POST", f"{MW}/forget", {**AGENT, "ids": ["x"], "store": STORE}),
        Try("POST", f"{MW}/merge", {**AGENT, "canonical": RECORD, "duplicates": ["x"]}),
        Try("POST", f"{MW}/merge", {**AGENT, "canonical": MARK, "duplicates": [RECORD]}),
        Try("POST", f"{MW}/expire", {**AGENT, "policy": {"type": "semantic"}, "store": STORE}),
        Try("POST", f"{MW}/remember/batch", {"items": [{**FACT, "id": RECORD}, {**FACT, "store": STORE}]}),
        Try("POST", f"{MW}/remember/batch", {"items": [{**FACT, "store": STORE}], "atomic": True}),
        Try(
            "POST",
            f"{MW}/import",
            lines=({**FACT, "store": STORE}, {**FACT, "links": [{"to": RECORD, "rel": "r"}]}),
        ),
        Try("GET", f"{MW}/export?agent_id=ana"),
        Try("GET", f"{MW}/export?agent_id=ana&as_of={SEQ}"),
        Try("GET", record),
        Try("GET", f"{record}?as_of=2"),
        Try("GET", f"{record}?agent_id=ana"),
        Try("GET", f"{record}/history"),
        Try("POST", f"{record}/restore", {"reason": "x"}),
        Try("POST", f"{record}/step", {"trigger": "go"}),
        Try("POST", f"{record}/step?agent_id=ana", {"replay": []}),
        Try("GET", f"{MW}/proposals?status=pending"),
        Try("GET", f"{MW}/proposals?cursor={PROPOSAL}"),
        Try("GET", proposal),
        Try("DELETE", proposal),
        Try("POST", f"{proposal}/decision", {"approved": True}),
        Try("POST", f"{proposal}/decision", {"approved": True, "edit": {"content": "x"}}),
        Try("POST", f"{proposal}/decision", {"approved": True, "supersedes": [RECORD]}),
        Try("POST", f"{proposal}/decision", {"approved": True, "merge_into": {"canonical": RECORD}}),
        Try("GET", f"{MW}/rules"),
        Try("PUT", f"{MW}/rules", {"rules": []}),
        Try("POST", f"{MW}/rules/test", {"last": 1000}),
        Try("GET", f"{MW}/rules/suggested"),
        Try("POST", f"{MW}/rules/suggested/{PROPOSAL}", {"accept": True}),
        Try("POST", f"{Q}/recover", {"agent_id": "ana", "proposal_id": PROPOSAL, "dry_run": False}),
        Try("POST", f"{Q}/recover", {"agent_id": "ana", "sources": ["*"], "dry_run": False}),
        Try("GET", f"{Q}/webhooks"),
        Try("POST", f"{Q}/webhooks", {"url": "ftp://x"}),
        Try("DELETE", f"{Q}/webhooks/{PROPOSAL}"),
        Try("POST", f"{Q}/webhooks/{PROPOSAL}/ping"),
        Try("POST", f"{proposal}/decision", {"approved": False, "reason": "x"}),
        Try("GET", f"{MW}/audit?agent_id=ana"),
        Try("GET", f"{MW}/audit?agent_id=ana&format=csv"),
        Try("GET", f"{MW}/schemas"),
        Try("GET", f"{MW}/schemas/operations/remember"),
        Try("GET", f"{MW}/health"),
        Try("GET", f"{MW}/capabilities"),
        Try("GET", f"{Q}/stores"),
        Try("POST", f"{Q}/stores", {"name": "another"}),
        Try("DELETE", f"{Q}/stores/{STORE}?confirm={STORE}"),
        Try("DELETE", f"{Q}/stores/{STORE}?confirm={STORE}&hard_delete=true"),
        Try("GET", f"{Q}/records"),
        Try("GET", f"{Q}/records?agent_id=ana&cursor={CURSOR}"),
        Try("GET", f"{Q}/records?agent_id=ana&store={STORE}"),
        Try("POST", f"{Q}/records/query", {"agent_id": "ana", "cursor": CURSOR}),
        Try("POST", f"{Q}/records/query", {"agent_id": "ana", "as_of": SEQ}),
        Try("GET", rest),
        Try("GET", f"{rest}/history"),
        Try("GET", f"{rest}/procedure"),
        Try("GET", f"{rest}/neighbours?hops=3"),
        Try("POST", f"{Q}/consolidate", {"agent_id": "ana"}),
        Try("POST", f"{Q}/consolidations/{RECORD}/undo"),
        Try("GET", f"{Q}/proposals?status=all"),
        Try("GET", f"{Q}/proposals/{PROPOSAL}"),
        Try("POST", f"{Q}/proposals/{PROPOSAL}/decision", {"approved": True}),
        Try("POST", f"{Q}/export", {"agent_id": "ana", "store": STORE}),
        Try("POST", f"{Q}/export", {}),
        Try("POST", f"{Q}/import", lines=({"request": {**FACT, "store": STORE}},)),
        *moving_tries(),
        Try("GET", f"{Q}/me"),
        Try("POST", f"{Q}/flush"),
        Try("GET", f"{Q}/journal?after=0&limit=1000"),
        Try("GET", f"{Q}/journal/head"),
        Try("GET", f"{Q}/journal/export"),
        Try("POST", f"{Q}/verify"),
        Try("GET", f"{Q}/checkpoints"),
        Try("POST", f"{Q}/checkpoints"),
        Try("GET", f"{Q}/keys"),
        Try("POST", f"{Q}/sweep"),
        Try("GET", f"{Q}/statistics"),
        Try("POST", f"{Q}/vacuum", {}),
        Try("POST", f"{Q}/vacuum", {"keep_history_days": 1}),
        Try("POST", f"{Q}/reembed"),
        Try("POST", f"{Q}/backup"),
        Try("GET", f"{Q}/mirrors"),
        Try("POST", f"{Q}/mirrors/copy/verify"),
        Try("POST", f"{Q}/mirrors/copy/resync"),
        Try("GET", f"{Q}/tokens"),
        Try("GET", f"{Q}/tokens?tenant={TENANT}"),
        Try("POST", f"{Q}/tokens", {"name": "x", "roles": ["agent"], "tenant": TENANT}),
        Try("DELETE", f"{Q}/tokens/{TOKEN}"),
        Try("DELETE", f"{Q}/tokens/{TOKEN}?tenant={TENANT}"),
        Try("POST", f"{Q}/tokens/{TOKEN}/rotate", {}),
        Try("POST", f"{Q}/tokens/{TOKEN}/rotate", {"tenant": TENANT}),
        Try("GET", f"{Q}/tenants"),
        Try("POST", f"{Q}/tenants", {"tenant": TENANT}),
        Try("POST", f"{Q}/tenants/{TENANT}/suspend"),
        Try("POST", f"{Q}/tenants/{TENANT}/resume"),
        Try("GET", f"{Q}/secrets"),
        Try("POST", f"{Q}/secrets", {"label": "mine", "value": "a value of mine"}),
        Try("DELETE", f"{Q}/secrets/{SECRET}"),
        *mcp_tries(),
        *openwop_tries(),
        Try("GET", "/healthz"),
        Try("GET", "/readyz"),
        Try("GET", "/metrics"),
        Try("GET", "/openapi.json"),
        Try("GET", "/docs"),
        *oap_tries(),
    ]


#: Followed to its end elsewhere: it never ends by itself.
STREAMS = {("GET", f"{MW}/changes")}
#: Pages are for people who signed in; they are tried with a session below.
PAGES = [
    Try("GET", "/runs"), Try("GET", f"/runs/{RUN}"), Try("GET", f"/runs/{RUN}/diff?with={RUN}"), Try("POST", f"/runs/{RUN}/fork"),
    Try("GET", "/"), Try("GET", "/memories"), Try("GET", f"/memories?q={MARK}&agent=ana&all=1"),
    Try("GET", f"/memories/{RECORD}"), Try("GET", f"/memories/{RECORD}/forget"), Try("GET", f"/memories/{RECORD}/procedure"),
    Try("GET", f"/memories/{RECORD}/graph?hops=3"), Try("POST", f"/memories/{RECORD}/step"), Try("GET", "/stores"),
    Try("GET", "/journal"), Try("GET", "/journal/proof"), Try("GET", "/review"), Try("GET", f"/review/{PROPOSAL}"),
    Try("GET", "/review/next"), Try("GET", "/rules"), Try("GET", "/patterns"), Try("GET", "/candidates"), Try("POST", "/candidates"), Try("GET", "/dashboard"),
    Try("GET", "/recover?agent=ana&source=*&since=0"), Try("GET", f"/recover?agent=ana&proposal={PROPOSAL}"),
    Try("GET", "/health"), Try("GET", "/traces"), Try("GET", "/signin"), Try("GET", "/static/{name}"),
    Try("POST", f"/memories/{RECORD}/forget"), Try("POST", f"/memories/{RECORD}/restore"),
    Try("POST", "/journal/verify"), Try("POST", "/journal/download"), Try("POST", f"/review/{PROPOSAL}"),
    Try("POST", "/review"), Try("POST", "/undo"), Try("POST", "/rules"), Try("POST", "/patterns"),
    Try("POST", "/recover"), Try("GET", "/grants"), Try("GET", f"/grants/{RUN}"), Try("GET", "/erasures"),
    Try("GET", f"/grants/requests/{RUN}"), Try("POST", f"/grants/requests/{RUN}"),
    Try("POST", "/grants"), Try("POST", f"/grants/{RUN}/revoke"), Try("POST", "/erasures"),
    Try("GET", "/imports"), Try("GET", "/imports/{import}"), Try("GET", "/export"), Try("POST", "/imports"), Try("POST", "/imports/{import}"),
    Try("POST", "/export"),
    Try("POST", "/signin"), Try("POST", "/signout"),
]  # fmt: skip


@dataclass
class World:
    """Two tenants on one server: one who has something, and one who would like to know."""

    server: Served
    owner: httpx.Client
    stranger: httpx.Client
    stranger_token: str
    theirs: dict[str, str]
    nothing: dict[str, str]

    def ask(self, attempt: Try, names: dict[str, str]) -> httpx.Response:
        return self.stranger.send(self.request(attempt, names))

    def request(self, attempt: Try, names: dict[str, str]) -> httpx.Request:
        return request_of(self.stranger, attempt, names)


def request_of(client: httpx.Client, attempt: Try, names: dict[str, str]) -> httpx.Request:
    """The request, with names in place of what stands for them."""

    def named(value: str) -> str:
        for kind, name in names.items():
            value = value.replace("{" + kind + "}", name)
        return value

    content, headers = None, {name: named(value) for name, value in attempt.headers.items()}
    if attempt.lines:
        content = named("\n".join(json.dumps(line) for line in attempt.lines))
        headers["Content-Type"] = "application/x-ndjson"
    elif attempt.json is not None:
        content = named(json.dumps(attempt.json))
        headers["Content-Type"] = "application/json"
    return client.build_request(attempt.method, named(attempt.path), content=content, headers=headers)


def token_for(server: Served, tenant: str, name: str, **given: Any) -> dict[str, Any]:
    body = {"name": name, "roles": ["admin"], "tenant": tenant, **given}
    with server.client() as admin:
        answer = admin.post(f"{Q}/tokens", json=body)
        assert answer.status_code == 201, answer.text
        return answer.json()


def filled(client: httpx.Client) -> dict[str, str]:
    """Something of every kind, all of it with the mark."""
    posted: Callable[..., dict[str, Any]] = lambda path, body: _good(client.post(path, json=body))  # noqa: E731  short enough to read in place
    store = posted(f"{Q}/stores", {"name": f"store-{MARK}", "description": MARK})
    fact = {**FACT, "content": f"the {MARK} is ours", "metadata": {"note": MARK, "entity_name": MARK}}
    record = posted(f"{MW}/remember", {**fact, "idempotency_key": "shared-key"})
    posted(f"{MW}/remember", {**fact, "id": record["id"], "content": f"the {MARK} is still ours"})
    for number in range(5):
        posted(f"{MW}/remember", {**fact, "content": f"{MARK} number {number}", "store": store["name"]})
    held = posted(f"{MW}/remember", {**fact, "approval_required": True, "extensions": True})
    secret = posted(f"{Q}/secrets", {"label": f"label-{MARK}", "value": "a value that is theirs"})
    posted(f"{Q}/checkpoints", {})
    page = _good(client.get(f"{Q}/records", params={"agent_id": "ana", "limit": 2}))
    return {
        "record": record["id"],
        "import": _brought_in(client),
        "run": posted("/v1/x-host-quipu-runs", {"workflowId": f"boss {MARK}"})["runId"],
        "ref": posted("/v1/x-host-quipu-memory-refs", {"agentId": "ana"})["memoryRef"],
        "proposal": held["extensions"]["quipu"]["proposal_id"],
        "secret": secret["id"],
        "store": store["name"],
        "cursor": page["next_cursor"],
        "seq": str(_good(client.get(f"{Q}/journal/head"))["seq"]),
    }


def _brought_in(client: httpx.Client) -> str:
    """A file that is in, and waits to be brought in once more."""
    answer = client.post(f"{Q}/imports?agent_id=ana", content=f"- the {MARK} is brought in".encode())
    name = str(json.loads(answer.text.strip().splitlines()[-1])["result"]["import_id"])
    client.post(f"{Q}/imports/{name}/commit")
    client.post(f"{Q}/imports?agent_id=ana", content=f"- the {MARK} is brought in".encode())
    return name


def _good(answer: httpx.Response) -> dict[str, Any]:
    assert answer.is_success, answer.text
    body: dict[str, Any] = answer.json()
    return body


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    folder: Path = tmp_path_factory.mktemp("isolation")
    with served(folder / "memory.db", rate_per_minute=0, recall_budget=0) as server:
        with server.client() as admin:
            for tenant in (f"owner-{MARK}", "stranger"):
                assert admin.post(f"{Q}/tenants", json={"tenant": tenant}).status_code == 201
        theirs = token_for(server, f"owner-{MARK}", f"boss {MARK}")
        mine = token_for(server, "stranger", "me")
        with server.client(theirs["text"]) as owner, server.client(mine["text"]) as stranger:
            names = filled(owner)
            names |= {"token": theirs["token"]["id"], "tenant": f"owner-{MARK}"}
            nothing = {
                **{kind: _other(name) for kind, name in names.items()},
                "tenant": "owner-of-nothing-at-all",
                "store": "store-of-nothing-at-all",
                "cursor": base64.urlsafe_b64encode(_other(names["record"]).encode()).decode().rstrip("="),
            }
            yield World(server, owner, stranger, mine["text"], names, nothing)


def _other(name: str) -> str:
    """Of the same shape, and nobody's."""
    return name[:-4] + ("0000" if not name.endswith("0000") else "1111")


def written_in(text: str) -> list[str]:
    """What of the owner's own words stands in a text."""
    words = (f"the {MARK} is", f"{MARK} number", f"boss {MARK}", f"label-{MARK}")
    return [word for word in words if word in text]


def comparable(answer: httpx.Response, names: dict[str, str]) -> tuple[int, str]:
    """The answer without what is the asker's own, new every time, or an echo of what was asked."""
    text = answer.text
    for kind, name in names.items():
        text = text.replace(name, "{" + kind + "}") if len(name) > 6 else text
    masks = (
        (r"\b(req|run|imp|prp|tok|sec|mem|ms|pass)_[0-9A-Z]{26}", r"\1_ID"),
        (r"[0-9a-f]{64}", "HASH"),
        (r"\d{4}-\d\d-\d\dT[\d:.]+Z", "TIME"),
        (r"\b[0-9A-HJKMNP-TV-Z]{26}\b", "ULID"),
        (r"eyJ[\w-]+\.\.[\w-]+|\"[\w-]{86}\"", "SIGNATURE"),
        (r"qp_stranger_[A-Za-z0-9_-]+", "TOKEN"),
        (r"\b\d+(\.\d+)?(e[-+]\d+)?\b", "N"),
    )
    for pattern, mask in masks:
        text = re.sub(pattern, mask, text)
    return answer.status_code, text


#: What stands in a route's path → what is asked for.
OPENWOP = {
    "run_id": "{id}",
    "ref:path": "{id}",
    "operation": "list",
    "agent_id": "nobody",
    "workflow_id": "nowhere",
}
OPENWOP["backend"] = "scratchpad"


def test_every_route_is_tried(world: World) -> None:
    asked = {(attempt.method, attempt.path.partition("?")[0]) for attempt in (*tries(), *PAGES)}
    kinds = "record|proposal|token|secret|store|tenant|run|ref|import"
    shapes = {(method, re.sub(rf"\{{({kinds})\}}", "{id}", path)) for method, path in asked} | STREAMS
    for route in world.server.web.asgi.routes:
        assert isinstance(route, Route)
        path = re.sub(r"^(.*/stores)/\{name(?::path)?\}$", r"\1/{id}", route.path)
        path = path.replace("/schemas/{name:path}", "/schemas/operations/remember")
        path = path.replace("/mirrors/{name:path}", "/mirrors/copy").replace("/file/{secret}", "/file/{id}")
        path = path.replace("/mcp/{store}", "/mcp/{id}").replace("{id:path}", "{id}")
        for name, given in OPENWOP.items():
            path = path.replace("{" + name + "}", given)
        for method in (route.methods or set()) - {"HEAD"}:
            assert (method, path) in shapes, f"give {method} {route.path} a row"


# What only reads or makes the asker's own things differs from call to call, and a position is the asker's own: it must
# hold no mark.
OWN = re.compile(
    r"/(owners|journal|checkpoints|verify|statistics|audit|metrics|tokens$|keys|proposals\?|export|stores$|records$)|seq"
)


@pytest.mark.parametrize("attempt", tries(), ids=lambda attempt: f"{attempt.method} {attempt.path}")
def test_a_foreign_thing_is_like_no_thing(world: World, attempt: Try) -> None:
    unknown = world.ask(attempt, world.nothing)
    foreign = world.ask(attempt, world.theirs)
    echoed = foreign.text
    for name in world.theirs.values():
        echoed = echoed.replace(name, "") if name in str(attempt) or len(name) > 6 else echoed
    # A request that says the mark may hear it again; what the owner wrote around it, nobody says.
    assert written_in(echoed) == []
    assert MARK in str(attempt) or MARK not in echoed
    assert foreign.status_code < 500 or foreign.status_code == 501
    if not OWN.search(attempt.path) and SEQ not in str(attempt.json):
        assert comparable(foreign, world.theirs) == comparable(unknown, world.nothing)


def test_the_owner_still_has_everything(world: World) -> None:
    """After all that was tried above: the same things, unharmed."""
    record = _good(world.owner.get(f"{MW}/records/{world.theirs['record']}"))
    assert record["content"] == f"the {MARK} is still ours"
    assert [s["id"] for s in _good(world.owner.get(f"{Q}/secrets"))["secrets"]] == [world.theirs["secret"]]
    assert _good(world.owner.get(f"{MW}/proposals/{world.theirs['proposal']}"))["status"] == "pending"
    names = {store["name"] for store in _good(world.owner.get(f"{Q}/stores"))["stores"]}
    assert world.theirs["store"] in names
    assert _good(world.owner.get(f"{Q}/records", params={"agent_id": "ana"}))["records"]
    report = world.owner.post(f"{Q}/verify").text
    assert '"faults":[]' in report.replace(" ", "")


def test_the_check_would_see_what_the_owner_wrote(world: World) -> None:
    body = {**AGENT, "query": MARK, "min_relevance": 0, "k": 1000}
    told = world.owner.post(f"{MW}/recall", json=body).text
    assert {f"the {MARK} is", f"{MARK} number"} <= set(written_in(told))
    assert f"label-{MARK}" in written_in(world.owner.get(f"{Q}/secrets").text)


def test_the_owner_can_do_what_the_stranger_cannot(world: World) -> None:
    """The table asks for things that are there: with the right credential most of it is answered otherwise."""
    for path in (f"{MW}/records/{RECORD}", f"{MW}/records/{RECORD}/history", f"{MW}/proposals/{PROPOSAL}"):
        request = world.request(Try("GET", path), world.theirs)
        request.headers["Authorization"] = world.owner.headers["Authorization"]
        assert world.owner.send(request).status_code == 200


def test_the_same_idempotency_key_is_another_in_another_tenant(world: World) -> None:
    answer = world.stranger.post(f"{MW}/remember", json={**FACT, "idempotency_key": "shared-key"})
    assert answer.status_code == 200
    assert "Idempotency-Replayed" not in answer.headers
    assert answer.json()["id"] != world.theirs["record"]


def test_a_change_feed_tells_the_own_changes_alone(world: World) -> None:
    stored = _good(world.stranger.post(f"{MW}/remember", json=FACT))
    with world.stranger.stream("GET", f"{MW}/changes", params={"since": "0"}) as feed:
        told = ""
        for line in feed.iter_lines():
            told += line + "\n"
            if stored["id"] in line:
                break
    assert MARK not in told
    assert world.theirs["record"] not in told
    beyond = world.stranger.get(f"{MW}/changes", params={"since": "999999"})
    assert beyond.status_code == 400


def test_a_token_cannot_be_carried_into_another_tenant(world: World) -> None:
    forged = world.stranger_token.replace("qp_stranger_", f"qp_owner-{MARK}_")
    with world.server.client(forged) as client:
        refused = client.get(f"{Q}/me")
    with world.server.client("qp_nobody_" + "x" * 43) as client:
        unknown = client.get(f"{Q}/me")
    assert refused.status_code == unknown.status_code == 401
    assert comparable(refused, {}) == comparable(unknown, {})


def test_pages_show_nothing_foreign(world: World) -> None:
    with httpx.Client(base_url=world.server.url, follow_redirects=True, timeout=30) as browser:
        token = re.search(r'name="csrf" value="([^"]+)"', browser.get("/signin").text)
        assert token is not None
        form = {"csrf": token.group(1), "token": world.stranger_token}
        entered = browser.post("/signin", data=form, headers={"Origin": world.server.url})
        assert entered.status_code == 200
        assert "me" in entered.text
        for attempt in PAGES:
            if attempt.method != "GET" or attempt.path == "/static/{name}":
                continue
            shown = browser.send(_page(browser, attempt, world.theirs))
            text = shown.text
            for name in world.theirs.values():
                text = text.replace(name, "")
            assert f"the {MARK}" not in text, attempt.path
            assert f"{MARK} number" not in text, attempt.path
            assert f"boss {MARK}" not in text, attempt.path
            if RECORD in attempt.path or PROPOSAL in attempt.path:
                missing = browser.send(_page(browser, attempt, world.nothing))
                assert shown.status_code == missing.status_code == 404


def _page(browser: httpx.Client, attempt: Try, names: dict[str, str]) -> httpx.Request:
    path = attempt.path
    for kind, name in names.items():
        path = path.replace("{" + kind + "}", name)
    return browser.build_request(attempt.method, path)


# -- agents and users within one tenant -----------------------------------------------------------------------------


BOUND = [
    Try("POST", f"{MW}/recall", {"agent_id": "bo", "query": MARK, "min_relevance": 0}),
    Try("GET", f"{MW}/records/{RECORD}"),
    Try("GET", f"{MW}/records/{RECORD}/history"),
    Try("GET", f"{Q}/records/{RECORD}"),
    Try("POST", f"{MW}/forget", {"agent_id": "bo", "ids": [RECORD]}),
    Try("POST", f"{MW}/remember", {**FACT, "agent_id": "bo", "id": RECORD}),
    Try("GET", f"{MW}/proposals/{PROPOSAL}"),
    Try("DELETE", f"{MW}/proposals/{PROPOSAL}"),
    Try("POST", f"{MW}/records/{RECORD}/restore", {}),
]


@pytest.mark.parametrize(
    "bound", [{"agents": ["bo"]}, {"agents": ["*"], "user_id": "bo"}], ids=["agent", "user"]
)
def test_a_token_for_some_reaches_no_others(world: World, bound: dict[str, Any]) -> None:
    name = f"bound to {'-'.join(sorted(bound))}"
    issued = token_for(world.server, f"owner-{MARK}", name, roles=["agent", "reviewer"], **bound)
    with world.server.client(issued["text"]) as client:
        for attempt in BOUND:
            answers = []
            for names in (world.theirs, world.nothing):
                request = world.request(attempt, names)
                request.headers["Authorization"] = client.headers["Authorization"]
                answers.append(comparable(client.send(request), names))
            assert answers[0] == answers[1], attempt
            assert f"the {MARK}" not in answers[0][1]
        asked = client.post(f"{MW}/recall", json={**AGENT, "query": MARK, "min_relevance": 0})
        assert asked.status_code == 403 or asked.json()["results"] == []
        listed = client.get(f"{Q}/records", params={"agent_id": "ana"})
        assert listed.status_code == 403 or listed.json()["records"] == []
