"""Many remembers at once, all or none: new ones, changes, links and keys together."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from quipu import ConflictError, InvalidError, Memory
from quipu.testing.builders import FixedClock
from tests.service.looks import ids, kept, standing, verifies


async def test_an_atomic_batch_changes_links_and_adds_in_one_transaction(memory: Memory) -> None:
    one, two = await kept(memory, "one"), await kept(memory, "two")
    answers: Any = await memory.remember_many(
        [
            {"content": "new"},
            {"content": "one, changed", "id": one},
            {"content": "linked", "links": [{"to": two, "rel": "about"}]},
            {"content": "more", "id": two, "update_strategy": "append"},
        ],
        atomic=True,
    )
    assert [answer.extensions["outcome"] for answer in answers] == [
        "created",
        "updated",
        "created",
        "updated",
    ]
    assert (await memory.get(one)).content == "one, changed"
    assert (await memory.get(two)).content == "two\nmore"
    assert (await memory.get(answers[2].id)).links[0].to == two
    assert await verifies(memory)


async def test_an_atomic_batch_changes_a_record_once(memory: Memory) -> None:
    one = await kept(memory, "one")
    before = await standing(memory)
    with pytest.raises(InvalidError) as refused:
        await memory.remember_many([{"content": "a", "id": one}, {"content": "b", "id": one}], atomic=True)
    assert refused.value.faults[0].pointer == "/items/1/id"
    assert await standing(memory) == before


async def test_an_atomic_batch_with_keys_is_answered_as_the_first_time(
    memory: Memory, clock: FixedClock
) -> None:
    one = await kept(memory, "one")
    items = [
        {"content": "new", "idempotency_key": "a"},
        {"content": "one, changed", "id": one, "idempotency_key": "b"},
    ]
    first: Any = await memory.remember_many(items, atomic=True)
    await memory.forget(ids=[one])
    clock.move(5)
    again: Any = await memory.remember_many(items, atomic=True)
    assert again == first
    assert [answer.is_replayed for answer in again] == [True, True]
    with pytest.raises(ConflictError) as other:
        await memory.remember_many([{"content": "x"}, {**items[0], "content": "another"}], atomic=True)
    assert other.value.reason == "idempotency_key_mismatch"
    assert other.value.faults[0].pointer == "/items/1"
    assert len(await ids(memory)) == 1


async def test_atomic_batches_that_contend_for_a_record_all_get_through(memory: Memory) -> None:
    one = await kept(memory, "one")
    await asyncio.gather(
        *(
            memory.remember_many(
                [{"content": f"turn {turn}"}, {"content": "more", "id": one, "update_strategy": "append"}],
                atomic=True,
            )
            for turn in range(8)
        )
    )
    assert (await memory.get(one)).content == "one" + 8 * "\nmore"
    assert len(await ids(memory)) == 9


async def test_linked_memories_of_a_batch_are_written_together_and_refused_one_by_one(memory: Memory) -> None:
    one = await kept(memory, "one")
    before = (await memory.journal())[-1].seq
    answers: Any = await memory.remember_many(
        [
            {"content": "about one", "links": [{"to": one, "rel": "about"}]},
            {
                "content": "about nothing",
                "links": [{"to": one, "rel": "about"}, {"to": "mem_none", "rel": "about"}],
            },
            {"content": "plain"},
        ]
    )
    assert (await memory.get(answers[0].id)).links[0].to == one
    assert isinstance(answers[1], InvalidError)
    assert answers[1].faults[0].pointer == "/links/1/to"
    assert (await memory.get(answers[2].id)).content == "plain"
    assert (await memory.journal())[-1].seq == before + 1
    assert await verifies(memory)
