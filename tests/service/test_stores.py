"""Memory stores: made, listed, shared, taken away."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from quipu import ConflictError, InvalidError, Memory, NotFoundError
from quipu.model.record import Tier
from quipu.model.store import StoreScope
from quipu.testing.embedders import WordEmbedder
from tests.service.looks import found, ids, kept, standing, verifies


async def test_there_is_always_a_store_main(memory: Memory) -> None:
    (main,) = await memory.list_stores()
    assert (main.name, main.scope, main.tier) == ("main", StoreScope.AGENT, Tier.LONG_TERM)


async def test_a_store_is_made_as_it_was_asked_for(memory: Memory, clock: Any) -> None:
    made = await memory.create_store(
        "window", scope="session", tier="short_term", namespace="chat", description="the last turns"
    )
    assert made in await memory.list_stores()
    assert (made.id[:3], made.name, made.scope, made.tier) == (
        "ms_",
        "window",
        StoreScope.SESSION,
        Tier.SHORT_TERM,
    )
    assert (made.namespace, made.description, made.created_at) == ("chat", "the last turns", clock())
    record = await memory.get(await kept(memory, "x", store="window"))
    assert (record.store_id, record.tier) == (made.id, Tier.SHORT_TERM)
    by_id = await memory.get(await kept(memory, "x", store=made.id))
    assert by_id.store_id == made.id


async def test_a_name_is_taken_once(memory: Memory) -> None:
    await memory.create_store("attic")
    for name in ("attic", "main"):
        with pytest.raises(ConflictError) as refused:
            await memory.create_store(name)
        assert refused.value.reason == "name_taken"


async def test_an_unknown_store_is_not_found_on_every_operation(memory: Memory) -> None:
    for call in (
        memory.remember("x", store="attic"),
        memory.remember("x", store="attic", approval_required=True),
        memory.recall("x", store="attic"),
        memory.forget(filter={"a": 1}, store="attic"),
        memory.merge("a", ["b"], store="attic"),
        memory.expire({"type": "semantic"}, store="attic"),
        memory.list(store="attic"),
        memory.delete_store("attic", confirm="attic"),
    ):
        with pytest.raises(NotFoundError) as refused:
            await call
        assert refused.value.reason == "store"
    assert await memory.proposals() == ()


async def test_deleting_a_store_needs_its_name_twice(memory: Memory) -> None:
    await memory.create_store("attic")
    record_id = await kept(memory, "x", store="attic")
    before = await standing(memory)
    with pytest.raises(InvalidError) as refused:
        await memory.delete_store("attic", confirm="main")
    assert refused.value.faults[0].pointer == "/confirm"
    with pytest.raises(ConflictError) as main:
        await memory.delete_store("main", confirm="main")
    assert main.value.reason == "store_in_use"
    assert await standing(memory) == before
    assert await ids(memory) == {record_id}


@pytest.mark.parametrize("hard_delete", [False, True])
async def test_a_deleted_store_takes_its_records_along(memory: Memory, hard_delete: bool) -> None:
    await memory.create_store("attic")
    stays = await kept(memory, "harbour main")
    gone = [await kept(memory, f"harbour {number}", store="attic") for number in range(3)]
    await memory.forget(ids=gone[:1])
    removed = await memory.delete_store("attic", confirm="attic", hard_delete=hard_delete)
    assert removed == (3 if hard_delete else 2)
    assert await found(memory, "harbour") == [stays]
    assert [store.name for store in await memory.list_stores()] == ["main"]
    if hard_delete:
        assert (await memory.history(gone[1]))[0].record.content == ""
    else:
        with pytest.raises(NotFoundError) as nowhere:
            await memory.restore(gone[1])
        assert nowhere.value.reason == "store"
    assert await verifies(memory)


async def test_a_store_that_is_deleted_for_good_takes_along_what_was_made_of_it_and_what_waits_for_it(
    opened: Any, tmp_path: Path
) -> None:
    embedder = Kept()
    memory: Memory = opened(tmp_path / "memory.db", embedder=embedder)
    await memory.create_store("attic")
    source = await kept(memory, "Xylophonquark in the attic", store="attic")
    summary = await kept(memory, "in short: Xylophonquark", links=[{"to": source, "rel": "compacted_from"}])
    await memory.remember("a waiting Xylophonquark", store="attic", approval_required=True)
    batch = [{"content": "one", "store": "main"}, {"content": "two Xylophonquark", "store": "attic"}]
    await memory.remember_many([{**item, "approval_required": True} for item in batch], atomic=True)
    other = await memory.remember("held elsewhere", approval_required=True)
    assert await memory.delete_store("attic", confirm="attic", hard_delete=True) == 2
    assert (await memory.history(summary))[0].record.content == ""
    assert [one.id for one in await memory.proposals("pending")] == [other.extensions["proposal_id"]]
    assert not embedder.seen
    assert await verifies(memory)
    await memory.close()
    assert not _files_with(tmp_path, b"Xylophonquark")


def _files_with(folder: Path, needle: bytes) -> list[str]:
    return [file.name for file in folder.iterdir() if needle in file.read_bytes()]


class Kept(WordEmbedder):
    """Remembers what it has embedded, until it is told to forget."""

    def __init__(self) -> None:
        super().__init__()
        self.seen: list[str] = []

    async def embed(self, texts: Sequence[str]) -> Sequence[bytes]:
        self.seen += texts
        return await super().embed(texts)

    def clear(self) -> None:
        self.seen.clear()


async def test_an_empty_store_can_be_deleted_for_good(memory: Memory) -> None:
    await memory.create_store("attic")
    assert await memory.delete_store("attic", confirm="attic", hard_delete=True) == 0
    assert (await memory.journal())[-1].op == "delete_store"


async def test_a_shared_store_is_read_as_far_as_its_writers_allow(opened: Any, tmp_path: Path) -> None:
    file = tmp_path / "memory.db"
    ana, bo = opened(file), opened(file, agent_id="bo")
    await ana.create_store("team", scope="team")
    shared = {
        "everybody": await kept(ana, "harbour for everybody", store="team"),
        "star": await kept(ana, "harbour star", store="team", privacy_intent={"share_with": ["*"]}),
        "bo": await kept(ana, "harbour for bo", store="team", privacy_intent={"share_with": ["bo"]}),
    }
    private = {
        "nobody": await kept(ana, "harbour for nobody", store="team", privacy_intent={"share_with": []}),
        "cy": await kept(ana, "harbour for cy", store="team", privacy_intent={"share_with": ["cy"]}),
    }
    own = await kept(bo, "harbour of bo", store="team", privacy_intent={"share_with": []})
    assert set(await found(bo, "harbour", store="team")) == {*shared.values(), own}
    assert await found(bo, "harbour") == [own]  # without its name only the agent's own
    assert await ids(bo, store="team") == {*shared.values(), own}
    assert set(await found(ana, "harbour", store="team")) == {*shared.values(), *private.values()}
    unreachable = list(private.values())
    assert (await bo.forget(ids=unreachable, store="team")).forgotten_ids == ()
    assert (await bo.forget(filter={"source": None}, store="team", dry_run=True)).extensions["ids"] == (
        (await bo.forget(ids=[*shared.values(), own], store="team", dry_run=True)).extensions["ids"][::-1]
    )
    assert (await bo.forget(ids=[shared["star"]])).forgotten_ids == ()
    assert (await bo.forget(ids=[shared["star"]], store="team")).forgotten_ids == (shared["star"],)


async def test_a_store_made_and_deleted_by_another_process_is_seen_at_once(
    opened: Any, tmp_path: Path
) -> None:
    file = tmp_path / "memory.db"
    one, other = opened(file), opened(file)
    await one.create_store("attic")
    record_id = await kept(other, "harbour", store="attic")
    (hit,) = await one.recall("harbour", min_relevance=0)
    assert (hit.id, hit.store) == (record_id, "attic")
    await one.delete_store("attic", confirm="attic")
    with pytest.raises(NotFoundError):
        await other.recall("harbour", store="attic")
    await one.create_store("attic")
    again = await kept(other, "harbour again", store="attic")
    assert await found(one, "harbour", store="attic") == [again]
    await other.create_store("cellar")
    await kept(other, "harbour below", store="cellar")
    hits = await one.recall("harbour", min_relevance=0)
    assert {hit.store for hit in hits} == {"attic", "cellar"}
    assert set((await one.list()).store_names.values()) >= {"attic", "cellar"}
