"""What retention has emptied still says whose it was and why it went; an erasure takes that along."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from quipu import Memory
from quipu.config import Config
from quipu.testing.builders import FixedClock
from tests.service.conftest import Opened
from tests.service.looks import kept, verifies

DAY = 86_400_000


@pytest.mark.parametrize("way", ["ids", "filter", "store"])
async def test_an_erasure_reaches_what_retention_has_emptied(
    memory: Memory, clock: FixedClock, way: str
) -> None:
    await memory.create_store("attic")
    gone = await kept(memory, "Tom lives at Birkenstrasse 7", user_id="tom", session_id="s1", store="attic")
    await memory.forget(ids=[gone], reason="Tom has moved")
    clock.move(10 * DAY)
    stays = await kept(memory, "Tom is well", user_id="tom")
    assert await memory.vacuum(keep_history_days=1) == 1
    (emptied,) = await memory.history(gone)
    assert (emptied.record.content, emptied.record.user_id, emptied.reason) == ("", "tom", "Tom has moved")

    asked: dict[str, Any] = (
        {"ids": [gone]} if way == "ids" else {"filter": {"user_id": "tom", "store": "attic"}}
    )
    if way == "store":
        assert await memory.delete_store("attic", confirm="attic", hard_delete=True) == 1
    else:
        would = await memory.forget(**asked, hard_delete=True, dry_run=True)
        assert would.extensions["ids"] == [gone]
        assert (await memory.forget(**asked)).forgotten_ids == ()
        assert (await memory.forget(**asked, hard_delete=True)).forgotten_ids == (gone,)
        assert (await memory.forget(**asked, hard_delete=True)).forgotten_ids == ()
    (erased,) = await memory.history(gone)
    assert (erased.record.user_id, erased.record.session_id, erased.reason) == (None, None, None)
    assert (await memory.get(stays)).user_id == "tom"
    assert await verifies(memory)


@pytest.mark.parametrize("strategy", ["merge", "overwrite", "append"])
async def test_a_change_that_is_kept_for_the_session_lasts_a_day_however_old_the_memory_is(
    memory: Memory, clock: FixedClock, strategy: str
) -> None:
    one = await kept(memory, "The desk is booked", session_id="s1")
    clock.move(3 * DAY)
    changed = await memory.remember(
        "Until noon", id=one, update_strategy=strategy, privacy_intent={"retain": "session"}
    )
    assert changed.extensions["outcome"] == "updated"
    assert (await memory.get(one)).expires_at == clock() + DAY
    # What was given an end of its own still ends then.
    await memory.remember(
        "Until ten",
        id=one,
        update_strategy=strategy,
        privacy_intent={"retain": "session"},
        expires_at=clock() + 1_000,
    )
    assert (await memory.get(one)).expires_at == clock() + 1_000


@pytest.mark.parametrize(
    ("asked", "days"),
    [
        ({}, 30),
        ({"privacy_intent": {"retain": "forever"}}, 30),
        ({"privacy_intent": {"retain": "P1Y"}}, 30),
        ({"privacy_intent": {"retain": "7d"}}, 7),
    ],
)
async def test_nothing_is_kept_longer_than_the_operator_says(
    opened: Opened, clock: FixedClock, asked: dict[str, Any], days: int
) -> None:
    memory = opened(config=Config(max_retain="30d"))
    one = await kept(memory, "The visitor's door code is changed weekly", **asked)
    assert (await memory.get(one)).expires_at == clock() + days * DAY
    late = await kept(memory, "Another", expires_at=clock() + 900 * DAY)
    assert (await memory.get(late)).expires_at == clock() + 30 * DAY
    clock.move(days * DAY)
    assert not [hit for hit in await memory.recall("What about the visitor's door code?") if hit.id == one]


async def test_what_is_written_anew_is_kept_anew_and_what_is_joined_is_not(
    opened: Opened, clock: FixedClock
) -> None:
    memory = opened(config=Config(max_retain="30d"))
    overwritten, joined = await kept(memory, "The desk is free"), await kept(memory, "The lamp is lit")
    first_end = clock() + 30 * DAY
    clock.move(10 * DAY)
    await memory.remember("The desk is taken", id=overwritten)
    await memory.remember("And warm", id=joined, update_strategy="append")
    assert (await memory.get(overwritten)).expires_at == clock() + 30 * DAY
    assert (await memory.get(joined)).expires_at == first_end


async def test_what_was_there_before_the_maximum_is_bound_by_it_when_it_is_written_next(
    opened: Opened, clock: FixedClock, tmp_path: Path
) -> None:
    file = tmp_path / "memory.db"
    before = opened(file)
    long, endless = await kept(before, "Long", expires_at=clock() + 900 * DAY), await kept(before, "Endless")
    await before.close()
    clock.move(100 * DAY)
    memory = opened(file, config=Config(max_retain="30d"))
    assert (await memory.get(endless)).expires_at is None
    for one in (long, endless):
        await memory.remember("and more", id=one, update_strategy="append")
        assert (await memory.get(one)).expires_at == clock() + 30 * DAY


async def test_an_old_memory_that_comes_by_import_is_kept_from_then_on(
    opened: Opened, clock: FixedClock
) -> None:
    memory = opened(config=Config(max_retain="30d"))
    line = {"content": "Mara moved to Lima", "created_at": clock() - 700 * DAY}
    done = await memory.import_records([line])
    assert done.stored == 1
    (record,) = (await memory.list()).records
    assert (record.created_at, record.expires_at) == (clock() - 700 * DAY, clock() + 30 * DAY)
