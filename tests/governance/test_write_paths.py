"""One rule, every way in: REST, batches, imports, MCP, the command line, the page, the remote client, restore, procedures.

The server is a real one. A rule that holds or denies a word must do so whatever path the word comes by, and nothing of it
may be seen by anybody before a person has said yes.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
import re
import subprocess
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx
import pytest

import quipu
from quipu.model.access import Role
from quipu.model.principal import local
from tests.conventions import command
from tests.faces.serving import Served, served
from tests.journeys.test_isolation import Q, mcp
from tests.requirement import requirement

MW = "/memorywire/v0"
MARK = "tangerine-lighthouse"
FACT = {"agent_id": "ana", "type": "semantic"}
MACHINE = {
    "name": "door",
    "states": ["shut", MARK],
    "initial": "shut",
    "transitions": [{"trigger": "pull", "source": "shut", "dest": MARK}],
}
NDJSON = {"Content-Type": "application/x-ndjson"}
_SECRET = re.compile(r'name="csrf" value="([^"]+)"')


@dataclass
class World:
    """A server, an agent's token and a reviewer's, and records that were there before there was a rule."""

    server: Served
    agent: str
    reviewer: str
    plain: str
    forgotten: str
    machine: str
    log: list[str] = field(default_factory=list)

    def client(self, token: str | None = None) -> httpx.Client:
        return self.server.client(self.agent if token is None else token)

    def contents(self) -> str:
        """All that anybody can read, by every path that reads."""
        with self.server.client() as admin:
            recalled = admin.post(
                f"{MW}/recall", json={"agent_id": "ana", "query": MARK, "min_relevance": 0, "k": 1000}
            )
            parts = [
                recalled.text,
                admin.get(f"{Q}/records?limit=1000").text,
                admin.get(f"{MW}/export?agent_id=ana").text,
                admin.get(f"{MW}/audit?agent_id=ana").text,
                admin.get("/metrics").text,
            ]
        return "\n".join(parts)


@pytest.fixture
def world(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> Iterator[World]:
    caplog.set_level(logging.DEBUG)
    with served(tmp_path / "memory.db") as server:
        do, service = server.do, server.service

        def token(name: str, *roles: Role) -> str:
            return do(service.tokens.issue(local(), name=name, roles=roles)).text

        with server.client() as admin:

            def wrote(**body: Any) -> str:
                return str(admin.post(f"{MW}/remember", json={**FACT, **body}).json()["id"])

            plain, gone = wrote(content="tea"), wrote(content=f"old {MARK}")
            machine = wrote(type="procedural", content={**MACHINE, "states": ["shut", "open"], "transitions": [
                {"trigger": "pull", "source": "shut", "dest": "open"}]})  # fmt: skip
            admin.post(f"{MW}/forget", json={"agent_id": "ana", "ids": [gone]})
        yield World(server, token("agent", Role.AGENT), token("carla", Role.REVIEWER), plain, gone, machine)


# -- the ways in ------------------------------------------------------------------------------------------------


def remembered(world: World) -> None:
    with world.client() as client:
        client.post(f"{MW}/remember", json={**FACT, "content": MARK})


def changed(world: World) -> None:
    with world.client() as client:
        client.post(f"{MW}/remember", json={**FACT, "content": MARK, "id": world.plain})


def in_metadata(world: World) -> None:
    with world.client() as client:
        client.post(f"{MW}/remember", json={**FACT, "content": "x", "metadata": {"k": MARK}, "source": MARK})


def batched(world: World) -> None:
    with world.client() as client:
        client.post(f"{MW}/remember/batch", json={"items": [{**FACT, "content": MARK}]})


def batched_whole(world: World) -> None:
    items = [{**FACT, "content": "fine"}, {**FACT, "content": MARK}]
    with world.client() as client:
        client.post(f"{MW}/remember/batch", json={"items": items, "atomic": True})


def imported(world: World) -> None:
    with world.client() as client:
        line = json.dumps({**FACT, "content": MARK})
        client.post(f"{MW}/import", content=line, headers=NDJSON)


def imported_as_a_file(world: World) -> None:
    """Tried first, which writes nothing, then carried out."""
    with world.client() as client:
        tried = client.post(f"{Q}/imports?agent_id=ana&format=text", content=f"{MARK}\n".encode())
        assert tried.status_code == 200, tried.text
        report = json.loads(tried.text.strip().splitlines()[-1])["result"]
        client.post(f"{Q}/imports/{report['import_id']}/commit", json={})


def imported_by_us(world: World) -> None:
    async def work() -> None:
        async with quipu.connect(world.server.url, token=world.agent, agent_id="ana") as memory:
            await memory.import_records([{**FACT, "content": MARK}])

    asyncio.run(work())


def by_tool(world: World) -> None:
    one = mcp("tools/call", "/mcp?profile=default", name="remember", arguments={**FACT, "content": MARK})
    with world.client() as client:
        client.post(one.path, json=one.json, headers=one.headers)


def by_file_tool(world: World) -> None:
    arguments = {"command": "create", "path": "/memories/x.txt", "file_text": MARK}
    one = mcp("tools/call", "/mcp?profile=anthropic", name="memory", arguments=arguments)
    with world.client() as client:
        client.post(one.path, json=one.json, headers=one.headers)


def by_graph_tool(world: World) -> None:
    entity = {"name": "Mara", "entityType": "person", "observations": [MARK]}
    one = mcp("tools/call", "/mcp?profile=graph", name="create_entities", arguments={"entities": [entity]})
    with world.client() as client:
        client.post(one.path, json=one.json, headers=one.headers)


def by_command(world: World) -> None:
    line = command("remember", MARK, "--agent", "ana", "--server", world.server.url)
    done = subprocess.run(
        line,
        env={"QUIPU_TOKEN": world.agent, "PATH": "/usr/bin:/bin"},
        capture_output=True,
        timeout=60,
        check=False,
    )
    assert done.returncode in (1, 3), done.stderr


def by_remote_client(world: World) -> None:
    async def work() -> None:
        async with quipu.connect(world.server.url, token=world.agent, agent_id="ana") as memory:
            await memory.remember(MARK)

    with_errors(lambda: asyncio.run(work()))


def restored(world: World) -> None:
    with world.client() as client:
        client.post(f"{MW}/records/{world.forgotten}/restore?agent_id=ana", json={})


def restored_on_the_page(world: World) -> None:
    with httpx.Client(base_url=world.server.url, headers={"Accept": "text/html"}, timeout=30) as person:

        def secret(path: str) -> str:
            found = _SECRET.search(person.get(path).text)
            assert found is not None
            return found.group(1)

        person.post("/signin", data={"csrf": secret("/signin"), "token": world.agent})
        page = f"/memories/{world.forgotten}"
        person.post(f"{page}/restore", data={"csrf": secret(page)})


def made_another_machine(world: World) -> None:
    with world.client() as client:
        body = {**FACT, "type": "procedural", "content": MACHINE, "id": world.machine}
        client.post(f"{MW}/remember", json=body)


def with_errors(work: Callable[[], None]) -> None:
    with contextlib.suppress(quipu.QuipuError):
        work()


WAYS = [
    remembered, changed, in_metadata, batched, batched_whole, imported, imported_as_a_file,
    imported_by_us, by_tool, by_file_tool, by_graph_tool, by_command, by_remote_client, restored,
    restored_on_the_page, made_another_machine,
]  # fmt: skip


@requirement("memorywire:rest.rules")
@pytest.mark.parametrize("effect", ["hold", "deny"])
@pytest.mark.parametrize("way", WAYS, ids=lambda way: way.__name__)
def test_every_way_in_obeys_the_same_rule(
    world: World, way: Callable[[World], None], effect: str, caplog: pytest.LogCaptureFixture
) -> None:
    whole = {"$or": [{"source": MARK}, {"metadata.k": MARK}]}
    rules = [
        {"id": "words", "when": {"content_any": [MARK]}, "effect": effect, "reason": "because"},
        {"id": "fields", "when": {"filter": whole}, "effect": effect, "reason": "because"},
    ]
    with world.server.client() as admin:
        assert admin.put(f"{MW}/rules", json={"rules": rules}).status_code == 200
        before = world.contents()
        assert MARK not in before
        with_errors(lambda: way(world))
        after = world.contents()
        assert MARK not in after, "what waits or was refused is seen"
        assert f"{MARK}" not in admin.get(f"{Q}/records/{world.plain}?agent_id=ana").text
        told = admin.get(f"{MW}/proposals?limit=100").json()["reviews"]
        entries = admin.get(f"{Q}/journal?limit=1000").json()["entries"]
        assert MARK not in json.dumps(entries), "the journal holds no content"
        if effect == "hold":
            assert told, "it waits for a person"
            assert set(told[-1]["held_by"]) <= {"words", "fields", "shipped-import"}
            with world.client(world.reviewer) as carla:
                decision = {"approved": True}
                answer = carla.post(f"{MW}/proposals/{told[-1]['id']}/decision", json=decision)
                assert answer.status_code == 200, answer.text
            assert MARK in world.contents() or way in (in_metadata, made_another_machine)
        else:
            assert told == []
            assert [entry["detail"]["rule"] for entry in entries if entry["op"] == "deny"]
    logged = [record.getMessage() for record in caplog.records if record.name.startswith("quipu")]
    assert not [line for line in logged if MARK in line], "logs hold no content"


# -- what memory makes of itself: a rule is about the new version, whoever and whatever writes it ---------------


@dataclass
class Growth:
    """How memory changes by itself, and how one tells whether it has."""

    before: Callable[[World], str]
    act: Callable[[World, str], httpx.Response]
    has_happened: Callable[[World, str], bool]


def _a_machine(world: World) -> str:
    with world.server.client() as admin:
        body = {**FACT, "type": "procedural", "content": MACHINE}
        return str(admin.post(f"{MW}/remember", json=body).json()["id"])


def _stepped(world: World, machine: str) -> httpx.Response:
    with world.client() as client:
        return client.post(f"{MW}/records/{machine}/step?agent_id=ana", json={"trigger": "pull"})


def _is_open(world: World, machine: str) -> bool:
    with world.server.client() as admin:
        kept = admin.get(f"{Q}/records/{machine}?agent_id=ana").json()["content"]
    return bool((json.loads(kept) if isinstance(kept, str) else kept).get("current") == MARK)


def _something_short_term(world: World) -> str:
    with world.server.client() as admin:
        assert admin.post(f"{Q}/stores", json={"name": "window", "tier": "short_term"}).status_code < 300
        body = {**FACT, "content": f"heavy {MARK}", "store": "window", "importance": 1.0}
        return str(admin.post(f"{MW}/remember", json=body).json()["id"])


def _consolidated(world: World, _: str) -> httpx.Response:
    with world.client() as client:
        return client.post(f"{Q}/consolidate", json={"agent_id": "ana"})


def _is_long_term(world: World, source: str) -> bool:
    with world.server.client() as admin:
        records = admin.get(f"{Q}/records?agent_id=ana&limit=1000").json()["records"]
    return any(MARK in str(one["content"]) and one["id"] != source for one in records)


GROWTHS = {
    "step": Growth(_a_machine, _stepped, _is_open),
    "consolidation": Growth(_something_short_term, _consolidated, _is_long_term),
}


@requirement("memorywire:rest.rules")
@pytest.mark.parametrize("effect", ["allow", "hold", "deny"])
@pytest.mark.parametrize("name", GROWTHS)
def test_what_memory_makes_of_itself_obeys_the_same_rule(world: World, name: str, effect: str) -> None:
    growth = GROWTHS[name]
    source = growth.before(world)
    rule = {"id": "words", "when": {"content_any": [MARK], "operations": ["remember"]}, "effect": effect}
    with world.server.client() as admin:
        assert admin.put(f"{MW}/rules", json={"rules": [rule]}).status_code == 200
        answer = growth.act(world, source)
        told = admin.get(f"{MW}/proposals?limit=100").json()["reviews"]
        entries = admin.get(f"{Q}/journal?limit=1000").json()["entries"]
        assert growth.has_happened(world, source) is (effect == "allow"), answer.text
        if effect == "hold":
            assert [one["held_by"] for one in told] == [["words"]]
            with world.client(world.reviewer) as carla:
                decided = carla.post(f"{MW}/proposals/{told[0]['id']}/decision", json={"approved": True})
            assert decided.status_code == 200, decided.text
            assert growth.has_happened(world, source)
        else:
            assert told == []
            denied = [entry["detail"]["rule"] for entry in entries if entry["op"] == "deny"]
            assert denied == (["words"] if effect == "deny" else [])


@pytest.mark.parametrize("status", ["pending", "rejected"])
def test_what_waits_or_was_rejected_is_on_no_read_path_and_starves_nobody(world: World, status: str) -> None:
    with world.server.client() as admin:
        start = admin.get(f"{Q}/journal/head").json()["seq"]
        with world.client() as client:
            for number in range(60):
                body = {**FACT, "content": f"{MARK} {number}", "approval_required": True}
                held = client.post(f"{MW}/remember", json=body).json()
                assert held["pending_approval"]
        record_id = held["id"]
        if status == "rejected":
            for one in admin.get(f"{MW}/proposals?limit=100").json()["reviews"]:
                answer = admin.post(f"{MW}/proposals/{one['id']}/decision", json={"approved": False})
                assert answer.status_code == 200
            assert MARK not in admin.get(f"{MW}/proposals?status=rejected&limit=100").text
        assert MARK not in world.contents()
        assert admin.get(f"{Q}/records/{record_id}?agent_id=ana").status_code == 404
        assert admin.get(f"{MW}/records/{record_id}/history").status_code == 404
        head = admin.get(f"{Q}/journal/head").json()["seq"]
        past = {"agent_id": "ana", "query": MARK, "min_relevance": 0, "as_of": str(head)}
        assert MARK not in admin.post(f"{MW}/recall", json=past).text
        with admin.stream("GET", f"{MW}/changes?since={start}&agent_id=ana", timeout=10) as feed:
            seen = ""
            for piece in feed.iter_text():
                seen += piece
                if seen.count("\n\n") > 60 or len(seen) > 200_000:
                    break
        assert MARK not in seen
        found = admin.post(f"{MW}/recall", json={"agent_id": "ana", "query": "tea", "k": 1}).json()
        assert [hit["id"] for hit in found["results"]] == [world.plain], "a live memory is still found"
