"""A memory on a server answers exactly as one in this process: the same ledger, asked in both ways."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

import pytest

from quipu import Memory, MemoryType, RememberRequest, connect
from quipu.errors import QuipuError
from quipu.model.access import Role
from quipu.model.principal import Principal
from quipu.testing.embedders import WordEmbedder
from tests.faces.serving import Served, served

MACHINE = {
    "name": "tea",
    "states": ["cold", "hot"],
    "initial": "cold",
    "transitions": [{"trigger": "boil", "source": "cold", "dest": "hot"}],
}


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Served]:
    with served(tmp_path / "memory.db", embedder=WordEmbedder()) as running:
        yield running


@pytest.fixture
async def remote(server: Served) -> AsyncIterator[Memory]:
    async with connect(server.url, token=server.admin_token, agent_id="ana") as memory:
        yield memory


@pytest.fixture
async def here(server: Served, remote: Memory, tmp_path: Path) -> AsyncIterator[Memory]:
    """The same file in this process, as the same principal."""
    principal: Principal = await remote.whoami()
    url = f"sqlite://{tmp_path / 'memory.db'}"
    async with Memory("ana", url, embedder=WordEmbedder(), principal=principal) as memory:
        yield memory


async def filled(here: Memory, remote: Memory) -> list[str]:
    """Every kind of record, with every field that one can have."""
    first = await remote.remember("Mara drinks tea at noon", user_id="mara", tags=["tea"], source="user")
    await remote.create_store("attic", description="old things")
    answers = [
        first,
        await remote.remember(
            "tea party on Sunday",
            type="episodic",
            event_time=1_000,
            location="garden",
            participants=["Mara", "Bo"],
            session_id="s1",
            confidence=0.5,
            importance=0.9,
            metadata={"entity_name": "party", "deep": {"list": [1, 2.5, None, True, "ü"]}},
            links=[{"to": first.id, "rel": "about"}],
            privacy_intent={
                "retain": "30d",
                "share_with": ["bo"],
                "consent_id": "c",
                "sensitivity": "public",
            },
        ),
        await remote.remember("tea makes her calm", type="emotional", valence=0.5, sentiment="positive"),
        await remote.remember(MACHINE, type="procedural", metadata={"entity_name": "tea machine"}),
        await remote.remember("old tea", store="attic", expires_at=4_000_000_000_000),
        await remote.remember("the tea code is hush", privacy_intent={"sensitivity": "secret"}),
        await here.remember(
            RememberRequest(
                agent_id="ana", type=MemoryType.SEMANTIC, content="tea by a run", run_id="run_1", node_id="n"
            )
        ),
    ]
    await remote.import_records(
        [{"content": "imported tea", "id": "mem_IMPORTED", "created_at": 7, "state": "archived"}]
    )
    await remote.remember("Mara drinks tea at one", id=first.id, user_id="mara")
    await remote.expire({"confidence_below": 0.6}, action="demote")
    return [answer.id for answer in answers]


async def test_a_recall_is_equal_field_by_field(here: Memory, remote: Memory) -> None:
    await filled(here, remote)
    for words in (
        {},
        {"explain": True},
        {"hops": 2, "fusion": "weighted"},
        {"redact": "none"},
        {"as_of": 5},
        {"max_tokens": 10},
        {"filter": {"user_id": "mara"}},
        {"store": "attic", "types": ["semantic"]},
        {"min_relevance": "off", "k": 2, "fresher_than_days": 1},
    ):
        theirs = await remote.recall("tea", **{"k": 50, "min_relevance": 0, **words})  # type: ignore[arg-type]  words of every kind
        ours = await here.recall("tea", **{"k": 50, "min_relevance": 0, **words})  # type: ignore[arg-type]  words of every kind
        assert [hit.id for hit in theirs], words
        for one, other in zip(theirs, ours, strict=True):
            for field in fields(one):
                assert getattr(one, field.name) == getattr(other, field.name), (words, field.name)
        # Between the two the journal may have taken a note of the first.
        answers = [
            replace(found, latency_ms=0, extensions={**found.extensions, "seq": 0})
            for found in (theirs, ours)
        ]
        assert answers[0] == answers[1], words


async def test_a_vector_of_bytes_travels_as_numbers(here: Memory, remote: Memory) -> None:
    embedder = WordEmbedder()
    (vector,) = await embedder.embed(["zebra"])
    given = {"model": embedder.model, "vector": vector}
    kept = await remote.remember("striped animal", embedding=given)
    for memory in (here, remote):
        by_text = await memory.recall("zebra", min_relevance=0, explain=True)
        by_vector = await memory.recall("nothing of the kind", embedding=given, min_relevance=0)
        assert [hit.id for hit in by_text] == [hit.id for hit in by_vector] == [kept.id]
        assert by_text[0].why is not None
        assert by_text[0].why["cosine"] == pytest.approx(1.0, abs=1e-5)


async def test_reads_are_equal(here: Memory, remote: Memory) -> None:
    ids = await filled(here, remote)
    for name in ids:
        assert await remote.get(name) == await here.get(name)
        assert await remote.history(name) == await here.history(name)
    assert await remote.get(ids[0], as_of=3) == await here.get(ids[0], as_of=3)
    for words in (
        {},
        {"all_agents": True, "limit": 3},
        {"states": ["archived"]},
        {"filter": {"tags": "tea"}},
    ):
        assert await remote.list(**words) == await here.list(**words)  # type: ignore[arg-type]  words of every kind
    assert await remote.list_stores() == await here.list_stores()
    assert [line async for line in remote.export(all_agents=True)] == [
        line async for line in here.export(all_agents=True)
    ]


async def test_the_journal_and_its_proof_are_equal(here: Memory, remote: Memory, tmp_path: Path) -> None:
    await filled(here, remote)
    await remote.flush()
    await here.flush()
    theirs = await remote.checkpoint()
    assert list(await remote.journal(limit=1000)) == list(await here.journal(limit=1000))
    found = await remote.verify()
    assert found == await here.verify()
    assert found.holds
    assert found.last_checkpoint == theirs
    assert await remote.signing_keys() == await here.signing_keys()
    await remote.export_journal(tmp_path / "theirs")
    names = {file.name for file in (tmp_path / "theirs").iterdir()}
    assert names == {"journal.ndjson", "checkpoints.ndjson", "keys.json", "records.ndjson"}
    kept = (tmp_path / "theirs" / "records.ndjson").read_text("utf-8")
    await here.export_journal(tmp_path / "ours")
    assert kept == (tmp_path / "ours" / "records.ndjson").read_text("utf-8")


async def test_writes_answer_the_same(here: Memory, remote: Memory) -> None:
    """Ids and times are each write's own; everything else is the same."""

    def shape(answer: Any) -> Any:
        return replace(answer, id="", stored_at=0, extensions={**answer.extensions, "seq": 0})

    assert shape(await remote.remember("tea")) == shape(await here.remember("tea"))
    assert "similar" not in (await remote.remember("tea")).extensions, "nobody asked for it"
    assert shape(await remote.remember("tea", find_similar=True)).extensions.keys() == {
        "seq",
        "version",
        "outcome",
        "similar",
    }
    one, other = [(await memory.remember("cake")).id for memory in (here, remote)]
    assert (await remote.merge(one, [other], dry_run=True)) == (await here.merge(one, [other], dry_run=True))
    assert (await remote.forget(ids=[one], dry_run=True)) == (await here.forget(ids=[one], dry_run=True))
    assert await remote.expire({"type": "semantic"}, dry_run=True) == await here.expire(
        {"type": "semantic"}, dry_run=True
    )
    merged = await remote.merge(one, [other])
    assert (merged.merged_count, merged.extensions["canonical_id"]) == (1, one)
    erased = await remote.forget(ids=[one], hard_delete=True)
    assert erased.forgotten_ids == (one,)
    assert erased.extensions["receipt"]


async def test_what_is_held_is_equal_and_its_decision_too(
    here: Memory, remote: Memory, server: Served
) -> None:
    held = await remote.remember("maybe", approval_required=True, reasoning="why not")
    assert held.approval_url == f"{server.url}/review/{held.extensions['proposal_id']}"
    assert await remote.proposals() == await here.proposals()
    token = await remote.create_token("reviewer", roles=[Role.ADMIN])
    async with connect(server.url, token=token.text, agent_id="ana") as other:
        (waiting,) = await other.proposals()
        let_in: Any = await other.decide(waiting.id, approved=True, reason="fine")
        assert (let_in.id, let_in.stores) == (held.id, ("sqlite",))
        second = await remote.forget(ids=[held.id], approval_required=True)
        assert await other.decide(str(second.extensions["proposal_id"]), approved=False) is None
    assert await remote.proposals(None) == await here.proposals(None)


REFUSED: dict[str, Any] = {
    "an unknown record": lambda m: m.get("mem_unknown"),
    "an odd id": lambda m: m.get("a/b?c#d%2F"),
    "an empty memory": lambda m: m.remember(""),
    "an unknown store": lambda m: m.remember("x", store="nowhere"),
    "no scope": lambda m: m.forget(),
    "an empty policy": lambda m: m.expire({}),
    "a bad filter": lambda m: m.recall("x", filter={"$nope": 1}),
    "too many hits": lambda m: m.recall("x", k=5_000),
    "an odd number": lambda m: m.remember("x", metadata={"n": float("nan")}),
    "a large number": lambda m: m.remember("x", metadata={"n": 1 << 70}),
    "half a character": lambda m: m.remember("x \ud800"),
    "a missing link": lambda m: m.remember("x", links=[{"to": "mem_no", "rel": "r"}]),
    "an unknown proposal": lambda m: m.decide("prp_no", approved=True),
    "main": lambda m: m.delete_store("main", confirm="main"),
    "a wrong confirmation": lambda m: m.delete_store("main", confirm="other"),
    "nothing to restore": lambda m: m.restore("mem_no"),
    "a position of the future": lambda m: m.recall("x", as_of=9_999_999),
    "a token for nothing": lambda m: m.create_token("x"),
    "an unknown token": lambda m: m.revoke_token("tok_no"),
    "a bad tenant": lambda m: m.create_tenant("No Such Name"),
    "an unknown secret": lambda m: m.remove_secret("sec_no"),
    "a name of two dots": lambda m: m.get(".."),
    "a token of two dots": lambda m: m.revoke_token(".."),
    "a store of a dot": lambda m: m.delete_store(".", confirm="."),
    "a mirror of two dots": lambda m: m.verify_mirror(".."),
    "half a character for an id": lambda m: m.history("\ud800"),
    "half a character for a moment": lambda m: m.get("x", as_of="\ud800"),
    "no token": lambda m: m.revoke_token(None),
    "no token to rotate": lambda m: m.rotate_token(5),
    "no suggestion": lambda m: m.accept_rule(None),
    "no suggestion to dismiss": lambda m: m.dismiss_rule([]),
    "no webhook": lambda m: m.remove_webhook(None),
    "no webhook to ping": lambda m: m.ping_webhook(7),
    "no mirror": lambda m: m.verify_mirror(None),
    "no mirror to resync": lambda m: m.resync_mirror({}),
    "no import": lambda m: m.decide_import(None, approved=True),
    "rules that are none": lambda m: m.test_rules("allow"),
    "no entries": lambda m: m.journal(limit=0),
    "entries without number": lambda m: m.journal(limit=None),
    "a feed of the future": lambda m: anext(aiter(m.changes(since=9_999_999))),
    "bytes for a memory": lambda m: m.remember(b"tea"),
    "bytes for a question": lambda m: m.recall(b"tea"),
    "bytes for a store's name": lambda m: m.create_store(b"attic"),
    "bytes in metadata": lambda m: m.remember("x", metadata={"n": b"tea"}),
    "an object for a question": lambda m: m.recall(object()),
    "an object for a user": lambda m: m.list(user_id=object()),
    "a number for a memory": lambda m: m.remember(7),
    "no memory": lambda m: m.remember(None),
    "a word for a filter": lambda m: m.recall("x", filter="tags=tea"),
    "a list for a filter": lambda m: m.list(filter=["tags"]),
    "a word for a filter of what goes": lambda m: m.forget(filter="tags=tea"),
    "a version that no header carries": lambda m: m.remember("x", id="mem_no", if_version="a\0b"),
    "zero for no explanation": lambda m: m.recall("x", explain=0),
    "a word for a decision": lambda m: m.decide("prp_no", approved="no"),
    "a number for a reason": lambda m: m.decide("prp_no", approved=True, reason=7),
    "a word for a decision of an import": lambda m: m.decide_import("imp_no", approved="no"),
    "a word for a trial": lambda m: m.consolidate(dry_run="no"),
    "no rules": lambda m: m.set_rules(None),
    "a user with a long name": lambda m: m.remember("x", user_id="u" * 257),
    "a long tag": lambda m: m.remember("x", tags=["t" * 129]),
    "many tags": lambda m: m.remember("x", tags=[f"t{number}" for number in range(65)]),
    "a long key": lambda m: m.forget(ids=["mem_no"], idempotency_key="k" * 129),
    "a long consent": lambda m: m.remember("x", privacy_intent={"consent_id": "c" * 257}),
    "nothing to confirm by": lambda m: m.delete_store("main", confirm=None),
}


@pytest.mark.parametrize("name", REFUSED)
async def test_a_refusal_is_the_same_error(here: Memory, remote: Memory, name: str) -> None:
    found: list[QuipuError] = []
    for memory in (here, remote):
        with pytest.raises(QuipuError) as refused:
            await REFUSED[name](memory)
        found.append(refused.value)
    ours, theirs = found
    assert type(theirs) is type(ours)
    assert (theirs.code, theirs.reason) == (ours.code, ours.reason)
    assert bool(theirs.faults) == bool(ours.faults)
