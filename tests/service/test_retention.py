"""What retention has emptied still says whose it was and why it went; an erasure takes that along."""

from __future__ import annotations

from typing import Any

import pytest

from quipu import Memory
from quipu.testing.builders import FixedClock
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
