"""Sentences of the contract that stand by themselves: what is journaled, hidden, asked first, told apart, and kept to oneself."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from mcp import Client
from mcp.shared.exceptions import MCPError
from mcp.types import ElicitResult

from quipu.model.principal import local
from quipu.rules.containers import joined
from quipu.testing.builders import FixedClock
from tests.embed.server import Reply, Server, serving
from tests.faces.mcp.hosts import Person, body, over_http
from tests.faces.mcp.test_alone import Alone, seen
from tests.faces.mcp.test_http import ACCEPT, INITIALIZE
from tests.faces.serving import Served, served
from tests.requirement import requirement

FACT = {"type": "semantic", "content": "Mara keeps bees", "source": "user"}
_DAY_MS = 86_400_000


def proposals(at: Served, agent: str) -> list[Any]:
    return [one for one in at.do(at.service.governance.proposals(local())) if one.agent_id == agent]


def journal(at: Served, agent: str) -> list[dict[str, Any]]:
    """What an auditor is shown, without what differs between any two entries."""
    with at.client() as client:
        answer = client.get("/memorywire/v0/audit", params={"agent_id": agent}).raise_for_status()
    apart = ("seq", "at", "hash", "prev")
    return [{k: v for k, v in row.items() if k not in apart} for row in answer.json()["entries"]]


async def recalled(client: Client, agent: str, query: str = "Mara bees", **more: Any) -> list[dict[str, Any]]:
    given = {"query": query, "agent_id": agent, "k": 50, "min_relevance": 0, **more}
    return body(await client.call_tool("recall", given))["results"]


# -- calls and questions ---------------------------------------------------------------------------------------------


@requirement("mcp:http.streams")
def test_a_call_is_answered_in_a_stream(at: Served) -> None:
    listing = {"jsonrpc": "2.0", "id": 2, "method": "tools/list"}
    with at.client() as client:
        opened = client.post("/mcp", json=INITIALIZE, headers=ACCEPT)
        session = {"Mcp-Session-Id": opened.headers["mcp-session-id"], "MCP-Protocol-Version": "2025-11-25"}
        listed = client.post("/mcp", json=listing, headers={**ACCEPT, **session})
        client.delete("/mcp", headers=session)
    for answer in (opened, listed):
        assert answer.headers["content-type"].partition(";")[0] == "text/event-stream"
        assert '"result"' in answer.text


class Looking(Person):
    """Somebody who, before they answer, sees what the server has done so far."""

    def __init__(self, at: Served, agent: str) -> None:
        super().__init__()
        self._at, self._agent = at, agent
        self.seen: list[tuple[int, int]] = []

    async def __call__(self, context: Any, params: Any) -> ElicitResult:
        self.seen.append((len(proposals(self._at, self._agent)), len(journal(self._at, self._agent))))
        return await super().__call__(context, params)


@requirement("mcp:approval.nothing-before")
async def test_nothing_is_staged_while_the_person_is_asked(at: Served, mode: str, agent: str) -> None:
    person = Looking(at, agent)
    async with over_http(at, mode, elicitation_callback=person) as client:
        body(await client.call_tool("remember", {**FACT, "agent_id": agent, "approval_required": True}))
    assert person.seen == [(0, 0)]
    assert [one.status for one in proposals(at, agent)] == ["approved"]


@requirement("mcp:approval.nothing-before")
async def test_nothing_is_staged_for_a_question_that_is_never_answered(at: Served, agent: str) -> None:
    given = {**FACT, "agent_id": agent, "approval_required": True}
    async with over_http(at, elicitation_callback=Person()) as client:
        for _ in range(2):
            asked = await client.session.call_tool("remember", given, allow_input_required=True)
            assert asked.input_requests
    assert (proposals(at, agent), journal(at, agent)) == ([], [])


@requirement("mcp:approval.expire-is-forget")
async def test_expire_is_no_way_around_a_rule_for_forget(at: Served, mode: str, agent: str) -> None:
    when = {"agents": [agent], "operations": ["forget"]}
    policy = {"type": "semantic"}
    async with over_http(at, mode) as client:
        ids = [body(await client.call_tool("remember", {**FACT, "agent_id": agent}))["id"] for _ in range(2)]
        at.do(at.service.policies.set(local(), {"rules": [{"id": agent, "when": when, "effect": "hold"}]}))
        try:
            held = body(await client.call_tool("expire", {"policy": policy, "agent_id": agent}))
            assert held["pending_approval"] is True
            for action in ("demote", "archive"):
                given = {"policy": policy, "agent_id": agent, "action": action}
                assert body(await client.call_tool("expire", given))["pending_approval"] is False
                if action == "demote":
                    assert {hit["id"] for hit in await recalled(client, agent)} == set(ids)
        finally:
            at.do(at.service.policies.set(local(), {"rules": []}))
    (waiting,) = proposals(at, agent)
    assert (waiting.operation, waiting.status) == ("forget", "pending")
    assert sorted(waiting.request["ids"]) == sorted(ids)


# -- what is returned ------------------------------------------------------------------------------------------------


@pytest.fixture
def clock() -> FixedClock:
    return FixedClock()


@pytest.fixture
def still(tmp_path: Path, clock: FixedClock) -> Iterator[Served]:
    """A server whose time stands still."""
    with served(tmp_path / "still.db", clock=clock) as at:
        yield at


@requirement("mcp:tools.demote")
async def test_demoting_again_changes_nothing_more(still: Served, mode: str) -> None:
    async with over_http(still, mode) as client:
        body(await client.call_tool("remember", {**FACT, "confidence": 0.1, "agent_id": "a"}))
        scores = [[hit["score"] for hit in await recalled(client, "a")]]
        for _ in range(3):
            given = {"policy": {"confidence_below": 0.5}, "action": "demote", "agent_id": "a"}
            body(await client.call_tool("expire", given))
            scores.append([hit["score"] for hit in await recalled(client, "a")])
    [first], [once], [twice], [thrice] = scores
    assert 0 < once < first
    assert once == twice == thrice


@requirement("mcp:tools.hidden")
async def test_what_waits_is_gone_or_has_had_its_time_appears_nowhere(
    still: Served, clock: FixedClock, mode: str
) -> None:
    async with over_http(still, mode, path="/mcp?profile=admin") as client:

        async def kept(what: str, **more: Any) -> str:
            given = {**FACT, "content": f"Mara keeps {what} bees", "agent_id": "default", **more}
            return body(await client.call_tool("remember", given))["id"]

        shown, gone = await kept("open"), await kept("gone")
        old = await kept("old", expires_at=clock() + 1000)
        pending = await kept("pending", approval_required=True)
        body(await client.call_tool("forget", {"ids": [gone], "agent_id": "default"}))
        clock.move(2000)
        assert [hit["id"] for hit in await recalled(client, "default")] == [shown]
        prompt = await client.get_prompt("recall", {"query": "Mara bees"})
        told = [prompt.messages[0].content.text]
        for uri in ("memory://default/recall?query=Mara%20bees&k=50", "memory://reviews/pending"):
            told.append((await client.read_resource(uri, cache_mode="bypass")).contents[0].text)
        listed = await client.call_tool("list", {})
        got = body(await client.call_tool("get", {"ids": [shown, gone, old, pending]}))
        for hidden in (gone, old, pending):
            with pytest.raises(MCPError):
                await client.read_resource(f"memory://records/{hidden}", cache_mode="bypass")
    assert [row["id"] for row in body(listed)["memories"]] == [shown]
    assert ([row["id"] for row in got["memories"]], len(got["missing"])) == ([shown], 3)
    assert "Mara keeps open bees" in told[0]
    assert "Mara keeps open bees" in told[1]
    for word in ("gone", "old", "pending"):
        assert not any(f"Mara keeps {word}" in text for text in told), word


@requirement("mcp:resources.audited")
async def test_what_is_read_by_its_address_is_in_the_journal_as_by_tool(
    at: Served, mode: str, agent: str
) -> None:
    async with over_http(at, mode, path="/mcp?profile=admin") as client:
        kept = body(await client.call_tool("remember", {**FACT, "agent_id": agent}))["id"]
        for _ in range(2):  # a client that keeps answers to itself would hide the second
            await client.read_resource(f"memory://{agent}/recall?query=Mara&k=3", cache_mode="bypass")
        body(await client.call_tool("recall", {"query": "Mara", "k": 3, "agent_id": agent}))
        await client.read_resource(f"memory://records/{kept}", cache_mode="bypass")
        body(await client.call_tool("get", {"ids": [kept]}))
    at.do(at.service.flush())
    entries = journal(at, agent)
    for op, count in (("recall", 3), ("read", 2)):
        rows = [row for row in entries if row["op"] == op]
        assert len(rows) == count, (op, entries)
        assert all(row == rows[0] for row in rows), rows
        assert kept in json.dumps(rows[0])


# -- other services --------------------------------------------------------------------------------------------------


@requirement("mcp:provenance.foreign")
async def test_a_hit_that_only_a_mirror_knows_says_so(tmp_path: Path, mode: str) -> None:
    with served(tmp_path / "other.db") as other:
        mirror = f"quipu+http://:{other.admin_token}@127.0.0.1:{other.port}?name=other"
        settings = {"mirrors": mirror, "mirror_write_deadline_ms": 10_000, "recall_foreign": "last"}
        with served(tmp_path / "memory.db", **settings) as at:
            async with over_http(at, mode) as client:
                kept = body(await client.call_tool("remember", {**FACT, "agent_id": "a"}))["id"]
                (store,) = [row for row in at.do(at.service.stores.list(local())) if row.name == "main"]
                theirs = {**FACT, "content": "Mara keeps bees and ants"}
                theirs["agent_id"] = joined(["default", store.id, "a"], longest=200)
                with other.client() as there:
                    native = (
                        there.post("/memorywire/v0/remember", json=theirs).raise_for_status().json()["id"]
                    )
                found = {hit["id"]: hit for hit in await recalled(client, "a")}
    assert found.keys() == {kept, f"other:{native}"}
    foreign = found[f"other:{native}"]
    assert foreign["provenance"] == {"written_by": "other", "trust": "external"}
    assert found[kept]["provenance"]["trust"] == "user"


def _answer(path: str, body: bytes) -> Reply:
    if path.endswith("/embeddings"):
        texts = json.loads(body)["input"]
        told: Any = {"data": [{"index": n, "embedding": [1.0, 2.0, 3.0]} for n, _ in enumerate(texts)]}
    elif path.endswith("/recall"):
        told = {"results": []}
    else:
        told = {}
    return 200, {"Content-Type": "application/json"}, json.dumps(told).encode()


@pytest.fixture
def elsewhere() -> Iterator[Server]:
    """An embedding model and a mirror in one, which keeps what it was sent."""
    with serving() as state:
        state.replies = [_answer]
        yield state


@requirement("mcp:http.token-stays")
async def test_a_clients_token_is_passed_on_to_nobody(tmp_path: Path, mode: str, elsewhere: Server) -> None:
    place = elsewhere.url.removeprefix("http://").removesuffix("/v1")
    settings = {
        "QUIPU_EMBEDDER": "openai",
        "QUIPU_EMBEDDER_URL": elsewhere.url,
        "QUIPU_EMBEDDER_MODEL": "tiny",
        "QUIPU_EMBEDDER_KEY": "the-models-own",
        "QUIPU_MIRRORS": f"quipu+http://:the-mirrors-own@{place}?name=other",
    }
    with Alone(tmp_path / "memory.db", **settings) as program:
        async with over_http(seen(program), mode) as client:
            body(await client.call_tool("remember", {**FACT, "agent_id": "a"}))
            body(await client.call_tool("recall", {"query": "Which bees?", "agent_id": "a"}))
            await client.read_resource("memory://a/recall?query=ants")
        given = program.token
    shown = {headers.get("Authorization") for headers in elsewhere.headers}
    assert shown == {"Bearer the-models-own", "Bearer the-mirrors-own"}
    assert given not in json.dumps([elsewhere.headers, elsewhere.bodies])
