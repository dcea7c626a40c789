"""The vector space of a memory: settled once, never mixed, moved as a whole."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from quipu import ConflictError, Embedding, InvalidError, Memory, QuipuError, UnsupportedError
from quipu.bootstrap import start
from quipu.config import Config
from quipu.errors import ForbiddenError
from quipu.model.principal import Permission, Principal, local
from quipu.service.memory import MemoryService
from quipu.testing.embedders import WordEmbedder
from tests.service.ledgers import Watched
from tests.service.looks import found, kept, standing, verifies


async def test_another_embedder_is_refused_until_everything_is_moved_over(
    opened: Any, tmp_path: Path
) -> None:
    file = tmp_path / "memory.db"
    old: Memory = opened(file)
    record_id = await kept(old, "tea at noon")
    new: Memory = opened(file, embedder=WordEmbedder(24))
    before = await standing(new)
    for call in (new.remember("x"), new.recall("tea"), new.remember_many(["y"], atomic=True)):
        with pytest.raises(ConflictError) as refused:
            await call
        assert refused.value.reason == "embedding_mismatch"
        assert "reembed" in (refused.value.hint or "")
    assert await standing(new) == before
    assert await new.reembed() == 1
    assert await found(new, "tea noon") == [record_id]
    assert await verifies(new)
    assert (await new.statistics())["vectors"] == 1


async def test_of_two_embedders_that_open_a_new_file_at_once_one_is_refused(
    opened: Any, tmp_path: Path
) -> None:
    file = tmp_path / "memory.db"
    embedders = [WordEmbedder(24), WordEmbedder(48)]
    memories: list[Memory] = [opened(file, embedder=embedder) for embedder in embedders]
    for memory in memories:
        await memory.list()  # both are open, and no space is settled yet
    done = await asyncio.gather(
        *(memory.remember("tea at noon") for memory in memories), return_exceptions=True
    )
    (refused,) = [one for one in done if isinstance(one, BaseException)]
    assert isinstance(refused, ConflictError)
    assert refused.reason == "embedding_mismatch"
    (kept_it,) = [m for m, one in zip(memories, done, strict=True) if not isinstance(one, BaseException)]
    assert len(await found(kept_it, "tea")) == 1
    assert (await kept_it.statistics())["vectors"] == 1
    assert await verifies(kept_it)


async def test_moving_over_can_stop_and_go_on_while_recall_works(opened: Any, tmp_path: Path) -> None:
    file = tmp_path / "memory.db"
    old: Memory = opened(file)
    await old.remember_many([f"note {number} on tea" for number in range(600)])
    config = Config(store_url=f"sqlite://{file}")
    running = await start(config, embedder=WordEmbedder(24))
    moving = running.service.reembed(local())
    first = await anext(moving)
    assert 0 < first < 600
    await moving.aclose()  # type: ignore[attr-defined]  an async generator
    await running.close()
    assert len(await found(old, "note 7 on tea")) == 20
    meanwhile = await kept(old, "a new note on cake")
    assert (await found(old, "cake"))[0] == meanwhile
    told: list[int] = []
    new: Memory = opened(file, embedder=WordEmbedder(24))
    assert await new.reembed(told.append) == 601 - first
    assert told[-1] == 601 - first
    assert await new.reembed() == 0
    assert (await found(new, "cake"))[0] == meanwhile
    assert (await new.statistics())["vectors"] == 601
    assert await verifies(new)


async def test_what_is_written_while_the_space_changes_hands_is_moved_too(
    opened: Any, tmp_path: Path
) -> None:
    file = tmp_path / "memory.db"
    old: Memory = opened(file)
    await old.remember("tea at noon")
    running = await start(Config(store_url=f"sqlite://{file}"), embedder=WordEmbedder(24))

    class Late(Watched):
        """Just before the new space is adopted, somebody writes in the old one."""

        async def adopt_space(self, tenant: str, space: Any) -> None:
            await old.remember("cake at one")
            await self.ledger.adopt_space(tenant, space)

    ledger: Any = Late(running.parts.ledger)
    service = MemoryService(replace(running.parts, ledger=ledger), "0")
    assert [count async for count in service.reembed(local())] == [1, 1]
    await service.close()
    await running.close()
    new: Memory = opened(file, embedder=WordEmbedder(24))
    assert (await new.statistics())["vectors"] == 2
    assert await verifies(new)


async def test_a_memory_that_was_opened_before_the_move_does_not_mix_spaces(
    opened: Any, tmp_path: Path
) -> None:
    file = tmp_path / "memory.db"
    old: Memory = opened(file)
    await old.remember("tea at noon")
    new: Memory = opened(file, embedder=WordEmbedder(24))
    await new.reembed()
    for method, text in ((old.remember, "cake at one"), (old.recall, "tea")):
        with pytest.raises(QuipuError) as refused:
            await method(text)
        assert refused.value.reason == "embedding_mismatch"
    assert await verifies(new)
    assert (await new.statistics())["vectors"] == 1


async def test_there_is_nothing_to_embed_with_without_an_embedder(opened: Any) -> None:
    memory: Memory = opened(embedder="none")
    await memory.remember("x")
    with pytest.raises(UnsupportedError) as refused:
        await memory.reembed()
    assert refused.value.reason == "no_embedder"


async def test_moving_over_is_for_those_who_may(opened: Any) -> None:
    reader = Principal(tenant="default", name="r", permissions=frozenset({Permission.READ}))
    memory: Memory = opened(principal=reader)
    with pytest.raises(ForbiddenError):
        await memory.reembed()


async def test_records_written_by_words_alone_get_their_vectors_later(opened: Any, tmp_path: Path) -> None:
    file = tmp_path / "memory.db"
    blind: Memory = opened(file, embedder="none")
    record_id = await kept(blind, "tea at noon")
    seeing: Memory = opened(file)
    assert (await seeing.statistics())["vectors"] == 0
    assert await seeing.reembed() == 1
    assert await found(seeing, "tea") == [record_id]
    assert [hit.id for hit in await blind.recall("tea noon")] == [record_id]  # still by words


async def test_callers_may_bring_the_space_when_there_is_no_embedder(opened: Any) -> None:
    memory: Memory = opened(embedder="none")
    one = await kept(memory, "first", embedding=Embedding("mine", [3.0, 0.0, 4.0]))
    await memory.remember("second", embedding={"model": "mine", "vector": [0, 1, 0]})
    query = Embedding("mine", [0.6, 0.0, 0.8])
    hits = await memory.recall("zzz", embedding=query, min_relevance=0, explain=True)
    assert hits[0].id == one
    assert hits[0].why is not None
    assert hits[0].why["cosine"] == pytest.approx(1.0, abs=1e-3)
    assert await verifies(memory)


async def test_a_query_never_settles_the_space(opened: Any) -> None:
    memory: Memory = opened(embedder="none")
    await memory.remember("tea")
    hits = await memory.recall("tea", embedding=Embedding("mine", [1.0]), min_relevance=0)
    assert [hit.content for hit in hits] == ["tea"]
    await memory.remember("x", embedding=Embedding("another", [1.0, 2.0]))


@pytest.mark.parametrize(
    ("vector", "reason"),
    [
        ([0.0, 0.0], "bad_value"),
        ([], "bad_value"),
        ([float("nan"), 1.0], "bad_value"),
        ([float("inf"), 1.0], "bad_value"),
        ([1e300, 1.0], "bad_value"),
        (["a", "b"], "bad_value"),
    ],
)
async def test_a_vector_without_direction_settles_nothing(opened: Any, vector: Any, reason: str) -> None:
    memory: Memory = opened(embedder="none")
    await memory.open()
    before = await standing(memory)
    with pytest.raises(InvalidError) as refused:
        await memory.remember("x", embedding=Embedding("mine", vector))
    assert (refused.value.reason, refused.value.faults[0].pointer) == (reason, "/embedding")
    assert await standing(memory) == before
    await memory.remember("x", embedding=Embedding("yours", [1.0, 2.0, 3.0]))


@pytest.mark.parametrize(
    "embedding",
    [
        Embedding("words-64", [1.0] * 63),
        Embedding("other", [1.0] * 64),
        Embedding("words-64", b"\0" * 255),
        Embedding("words-64", b"\0" * 257),
    ],
)
async def test_a_vector_of_another_space_is_refused(memory: Memory, embedding: Embedding) -> None:
    await memory.remember("x")
    before = await standing(memory)
    for call in (
        memory.remember("y", embedding=embedding),
        memory.recall("y", embedding=embedding),
        memory.remember_many(
            [{"content": "y", "embedding": {"model": embedding.model, "vector": embedding.vector}}],
            atomic=True,
        ),
    ):
        with pytest.raises(InvalidError) as refused:
            await call
        assert refused.value.reason == "embedding_mismatch"
    assert await standing(memory) == before
