"""The graph around a memory: links, subjects, sessions, what takes another's place, and when things are so."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import httpx
import pytest

from quipu import Memory, connect
from quipu.errors import InvalidError, NotFoundError
from quipu.model.graph import EdgeKind, Graph, GraphRequest
from quipu.model.principal import Permission, Principal
from quipu.model.record import State
from quipu.testing.builders import FixedClock
from quipu.testing.embedders import WordEmbedder
from tests.faces.serving import served
from tests.faces.web.conftest import Person
from tests.requirement import requirement


@pytest.fixture
def clock() -> FixedClock:
    return FixedClock()


@pytest.fixture
async def memory(clock: FixedClock, ledger_url: str) -> AsyncIterator[Memory]:
    async with Memory("ana", ledger_url, embedder=WordEmbedder(), clock=clock) as opened:
        yield opened


async def said(memory: Memory, text: str, *links: tuple[str, str], **given: Any) -> str:
    wanted = [{"to": to, "rel": rel} for to, rel in links]
    return (await memory.remember(text, links=wanted or None, **given)).id


def edges(graph: Graph) -> set[tuple[str, str, str, str]]:
    return {(edge.source, edge.target, edge.kind.value, edge.rel) for edge in graph.edges}


@requirement("memorywire:graph.neighbours")
async def test_explicit_links_are_walked_both_ways_ring_by_ring(memory: Memory) -> None:
    a = await said(memory, "a")
    b = await said(memory, "b", (a, "about"))
    c = await said(memory, "c", (b, "cites"))
    await said(memory, "alone")
    near = await memory.neighbours(a)
    assert [(node.id, node.distance) for node in near.nodes] == [(a, 0), (b, 1)]
    far = await memory.neighbours(a, hops=3)
    assert {node.id: node.distance for node in far.nodes} == {a: 0, b: 1, c: 2}
    assert edges(far) == {(b, a, "link", "about"), (c, b, "link", "cites")}
    assert [node.id for node in (await memory.neighbours(a, hops=0)).nodes] == [a]
    assert {node.id for node in (await memory.neighbours(c, hops=2)).nodes} == {a, b, c}


async def test_a_subject_and_a_session_hold_memories_together(memory: Memory, clock: FixedClock) -> None:
    one = await said(memory, "Mara eats rice", metadata={"subject": "Mara"})
    two = await said(memory, "Mara has a dog", metadata={"subject": "Mara"})
    first = await said(memory, "good morning", session_id="s", type="episodic")
    clock.move(1)
    second = await said(memory, "how are you", session_id="s", type="episodic")
    assert edges(await memory.neighbours(one)) == {(one, two, "subject", "Mara")}
    assert edges(await memory.neighbours(second)) == {(first, second, "session", "next in the session")}


async def test_what_supersedes_ends_what_it_leads_to(memory: Memory, clock: FixedClock) -> None:
    old = await said(memory, "Mara lives in Ulm", metadata={"valid_from": 1_000})
    clock.move(10)
    moved = clock()
    new = await said(memory, "Mara lives in Bonn", (old, "supersedes"))
    graph = await memory.neighbours(new)
    by_id = {node.id: node for node in graph.nodes}
    assert (by_id[old].valid_from, by_id[old].valid_to) == (1_000, moved)
    assert (by_id[new].valid_from, by_id[new].valid_to) == (moved, None)
    assert [edge.kind for edge in graph.edges] == [EdgeKind.SUPERSESSION]
    now = await memory.neighbours(new, valid_at=moved)
    assert [node.id for node in now.nodes] == [new]
    before = await memory.neighbours(old, valid_at=moved - 1)
    assert [node.id for node in before.nodes] == [old]


async def test_a_record_says_itself_until_when_it_is_so(memory: Memory, clock: FixedClock) -> None:
    root = await said(memory, "root")
    times = {"valid_from": 5, "valid_to": 9}
    fact = await said(memory, "a fact", (root, "about"), metadata=times, expires_at=clock() + 100)
    event = await said(memory, "an event", (root, "about"), type="episodic", event_time=7)
    odd = await said(memory, "odd", (root, "about"), metadata={"valid_from": "soon", "valid_to": True})
    by_id = {node.id: node for node in (await memory.neighbours(root)).nodes}
    assert (by_id[fact].valid_from, by_id[fact].valid_to) == (5, 9)
    assert (by_id[event].valid_from, by_id[event].valid_to) == (7, None)
    assert by_id[odd].valid_from == clock()
    for moment, seen in ((4, False), (5, True), (8, True), (9, False)):
        found = await memory.neighbours(root, valid_at=moment)
        assert (fact in [node.id for node in found.nodes]) is seen


async def test_contradictions_are_linked_or_guessed(memory: Memory) -> None:
    one = await said(memory, "Mara eats meat on Sundays", metadata={"subject": "Mara"})
    other = await said(memory, "Mara never eats meat on Sundays", metadata={"subject": "Mara"})
    linked = await said(memory, "something else entirely", (one, "contradicts"))
    kinds = {
        frozenset((edge.source, edge.target)): edge.kind
        for edge in (await memory.neighbours(one)).edges
        if edge.kind is EdgeKind.CONTRADICTION
    }
    assert set(kinds) == {frozenset((one, other)), frozenset((one, linked))}


async def test_a_promotion_can_be_followed_to_its_forgotten_source(memory: Memory) -> None:
    await memory.create_store("window", tier="short_term")
    source = await said(memory, "Mara has a cat", store="window", importance=1.0)
    done = await memory.consolidate()
    into = done.settled[0].into or ""
    by_id = {node.id: node.state for node in (await memory.neighbours(into)).nodes}
    assert by_id == {into: State.LIVE, source: State.FORGOTTEN}


async def test_secrets_are_shown_without_their_text(memory: Memory) -> None:
    root = await said(memory, "root")
    hidden = await said(memory, "the code is 1234", (root, "about"), privacy_intent={"sensitivity": "secret"})
    graph = await memory.neighbours(root)
    assert next(node for node in graph.nodes if node.id == hidden).text == ""
    assert "1234" not in repr(graph)


async def test_the_graph_of_an_earlier_moment(memory: Memory) -> None:
    a = await said(memory, "a")
    b = await said(memory, "b", (a, "about"))
    entries = await memory.journal(limit=100)
    before = max(entry.seq for entry in entries)
    await memory.forget(ids=[b])
    assert [node.id for node in (await memory.neighbours(a)).nodes] == [a]
    assert {node.id for node in (await memory.neighbours(a, as_of=before)).nodes} == {a, b}


async def test_bounds_are_kept_and_told(memory: Memory) -> None:
    root = await said(memory, "root")
    for number in range(10):
        await said(memory, f"leaf {number}", (root, "about"))
    cut = await memory.neighbours(root, limit=4)
    assert (len(cut.nodes), cut.is_cut) == (4, True)
    assert not (await memory.neighbours(root)).is_cut
    for bad in ({"hops": 4}, {"hops": -1}, {"limit": 0}, {"limit": 501}):
        with pytest.raises(InvalidError):
            await memory.neighbours(root, **bad)
    for name in ("mem_none", "\ud800", ""):
        with pytest.raises(NotFoundError):
            await memory.neighbours(name)


async def test_nobody_sees_past_their_reach(memory: Memory) -> None:
    mara = await said(memory, "mara's", user_id="mara")
    jon = await said(memory, "jon's", (mara, "about"), user_id="jon")
    onward = await said(memory, "also mara's", (jon, "about"), user_id="mara")
    host: Any = await memory._service()
    bound = Principal(
        tenant="default", name="m", permissions=frozenset({Permission.READ}), agents=("ana",), user_id="mara"
    )
    graph = await host.graphs.around(bound, GraphRequest(id=mara, hops=3))
    assert [node.id for node in graph.nodes] == [mara]
    graph = await host.graphs.around(bound, GraphRequest(id=onward, hops=3))
    assert [node.id for node in graph.nodes] == [onward], (
        "a link of one's own leads no further than one may see"
    )
    stranger = Principal(tenant="default", name="s", permissions=frozenset({Permission.READ}), agents=("bo",))
    with pytest.raises(NotFoundError):
        await host.graphs.around(stranger, GraphRequest(id=mara))
    # Who looked is journaled.
    await memory.flush()
    seen = [entry for entry in await memory.journal(limit=1000) if entry.actor == "m"]
    assert [mention.id for entry in seen for mention in entry.records] == [mara, onward]


@requirement("memorywire:recall.hops")
async def test_hops_boost_as_the_contract_says(memory: Memory) -> None:
    """1.05, 1.0333, 1.025 by distance, once for each hit; a way may lead through what was not found (5.5, Q27)."""
    found = {"metadata": {"kind": "animal"}}
    root = await said(memory, "zebra one", **found)
    one = await said(memory, "between", (root, "about"))
    two = await said(memory, "zebra two", (one, "about"), **found)
    three = await said(memory, "between again", (two, "about"))
    four = await said(memory, "and again", (three, "about"))
    far = await said(memory, "zebra far", (four, "about"), **found)
    alone = await said(memory, "zebra alone", **found)
    near = await said(memory, "zebra near", (alone, "about"), **found)

    async def scores(hops: int) -> dict[str, float]:
        hits = await memory.recall("zebra", k=10, min_relevance=0, hops=hops, filter={"kind": "animal"})
        return {hit.id: hit.score for hit in hits}

    plain = await scores(0)
    assert set(plain) == {root, two, far, alone, near}
    expected = {
        1: {alone: 1.05, near: 1.05},
        2: {alone: 1.05, near: 1.05, root: 1 + 0.1 / 3, two: 1 + 0.1 / 3},
        3: {alone: 1.05, near: 1.05, root: 1 + 0.1 / 3, two: 1 + 0.1 / 3, far: 1.025},
    }
    for hops, factors in expected.items():
        boosted = await scores(hops)
        assert set(boosted) == set(plain), "nothing new is introduced"
        for name, score in boosted.items():
            assert score == pytest.approx(plain[name] * factors.get(name, 1.0)), (hops, name)


async def test_the_server_answers_as_the_memory_here_does() -> None:
    with served(embedder=WordEmbedder()) as server:
        async with connect(server.url, token=server.admin_token, agent_id="ana") as remote:
            a = await said(remote, "a")
            b = await said(remote, "b", (a, "about"), metadata={"valid_to": 4_000_000_000_000})
            graph = await remote.neighbours(a, hops=2)
            assert edges(graph) == {(b, a, "link", "about")}
            assert [node.valid_to for node in graph.nodes] == [None, 4_000_000_000_000]
            with pytest.raises(InvalidError):
                await remote.neighbours(a, hops=4)
            with pytest.raises(NotFoundError):
                await remote.neighbours("mem_none")
        _the_page_shows_it(server.url, server.admin_token, a, b)


def _the_page_shows_it(url: str, token: str, a: str, b: str) -> None:
    with Person(url) as person, httpx.Client(base_url=url) as stranger:
        assert person.sign_in(token).status_code == 303
        assert f"/memories/{a}/graph" in person.get(f"/memories/{a}").text
        shown = person.get(f"/memories/{a}/graph?hops=2").text
        assert '<svg class="drawing"' in shown
        assert f'<a href="/memories/{b}/graph?hops=2">' in shown
        assert f'<a href="/memories/{b}">' in shown
        for odd in ("9", "x", "-1"):
            assert person.get(f"/memories/{a}/graph?hops={odd}").status_code == 200
        assert person.get("/memories/mem_none/graph").status_code == 404
        assert stranger.get(f"/memories/{a}/graph").status_code == 401
        headers = {"Authorization": f"Bearer {token}"}
        bad = stranger.get(f"/quipu/v1/records/{a}/neighbours?hop=1", headers=headers)
        assert bad.json()["reason"] == "unknown_field"
