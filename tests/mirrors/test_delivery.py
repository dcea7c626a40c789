"""Copies: what is written reaches mirrors, and what is taken away leaves them, whatever they do meanwhile."""

import asyncio
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from quipu.config import Settings
from quipu.errors import BackendUnavailableError
from quipu.mirrors.backend import Copy, Place
from quipu.mirrors.model import CONTAINERS, COPIES
from tests.fixtures.memories import Clock
from tests.mirrors.rig import Rig, mirror, rig, until
from tests.mirrors.shelf import ShelfBackend

DAY = 86_400_000


async def states(here: Rig, name: str) -> set[str]:
    rows = await here.container.ledger.page(COPIES, "default", {"mirror": name}, limit=1000)
    return {row.state for row in rows}


# -- writes -----------------------------------------------------------------------------------------------------------


async def test_a_write_reaches_every_mirror_and_the_answer_says_so() -> None:
    one, two = ShelfBackend(), ShelfBackend()
    async with rig(mirror("one", one), mirror("two", two)) as here:
        done = await here.memory.remember("Mara is vegetarian", user_id="mara")
        assert (done.stores, done.stores_pending) == (("sqlite", "one", "two"), ())
        assert one.texts == two.texts == ["Mara is vegetarian"]
        (copy,) = one.kept.values()
        assert (copy.record_id, copy.container.user_id, copy.container.agent_id) == (done.id, "mara", "ana")
        many = await here.memory.remember_many([{"content": "tea"}, {"content": "gin"}])
        assert {one.response.stores for one in many.results} == {("sqlite", "one", "two")}


async def test_what_is_changed_forgotten_merged_or_erased_is_so_in_mirrors() -> None:
    shelf = ShelfBackend()
    async with rig(mirror("shelf", shelf)) as here:
        memory = here.memory
        first = await memory.remember("Mara likes tea", user_id="mara")
        await memory.remember("Mara likes coffee", id=first.id)
        assert shelf.texts == ["Mara likes coffee"]
        gone = await memory.forget(ids=[first.id])
        assert [(row.store, row.count, row.error) for row in gone.stores] == [
            ("sqlite", 1, None),
            ("shelf", 1, None),
        ]
        assert shelf.texts == []
        await memory.restore(first.id)
        assert shelf.texts == ["Mara likes coffee"]
        twin = await memory.remember("Mara likes coffee a lot", user_id="mara")
        await memory.merge(first.id, [twin.id])
        assert shelf.texts == ["Mara likes coffee"]
        await memory.forget(ids=[first.id, twin.id], hard_delete=True)
        assert shelf.texts == []
        assert await here.drained()
        rows = await here.container.ledger.page(COPIES, "default", {"mirror": "shelf"})
        assert {(row.state, row.agent_id, row.whose) for row in rows} == {("gone", "", "")}
        assert await here.container.ledger.page(CONTAINERS, "default") == []


async def test_expired_and_archived_records_leave_the_mirror() -> None:
    shelf, clock = ShelfBackend(), Clock()
    async with rig(mirror("shelf", shelf), clock=clock) as here:
        await here.memory.remember("tea today", expires_at=clock() + 1000)
        old = await here.memory.remember("tea long ago")
        assert len(shelf.kept) == 2
        clock.now += 2000
        await here.container.memory.expire.sweep("default", clock())
        await until(lambda: shelf.texts == ["tea long ago"])
        clock.now += 10 * DAY
        await here.memory.expire({"older_than_days": 5}, action="archive")
        assert shelf.texts == []
        assert (await here.memory.get(old.id)).content == "tea long ago"


async def test_nothing_pending_rejected_or_secret_reaches_a_mirror() -> None:
    shelf = ShelfBackend()
    async with rig(mirror("shelf", shelf)) as here:
        held = await here.memory.remember("wire the money", approval_required=True)
        assert held.stores == held.stores_pending == ()
        refused = await here.memory.remember("never mind", approval_required=True)
        await here.memory.decide(refused.proposal_id, approved=False)
        await here.memory.remember("the safe is 4711", privacy_intent={"sensitivity": "secret"})
        assert await here.drained()
        assert shelf.texts == []
        await here.memory.decide(held.proposal_id, approved=True)
        assert await here.drained()
        assert [copy.record_id for copy in shelf.kept.values()] == [held.id]


async def test_each_tenant_has_its_copies_in_containers_of_its_own() -> None:
    shelf = ShelfBackend()
    async with rig(mirror("shelf", shelf)) as here:
        done = await here.tenant("other").remember("theirs")
        assert done.stores == ("sqlite", "shelf"), "also at the first write of a tenant"
        await here.memory.remember("ours")
        homes = {copy.content: copy.container.tenant for copy in shelf.kept.values()}
        assert homes == {"theirs": "other", "ours": "default"}


async def test_primary_only_writes_nothing_to_mirrors() -> None:
    shelf = ShelfBackend()
    async with rig(mirror("shelf", shelf), write_policy="primary_only") as here:
        done = await here.memory.remember("Mara likes tea")
        assert (done.stores, done.stores_pending, shelf.texts) == (("sqlite",), (), [])
        assert await here.container.mirrors.standings("default") == []


# -- what is older than the mirror ------------------------------------------------------------------------------------


async def test_what_was_there_before_the_mirror_is_sent_to_it(tmp_path: Path) -> None:
    path = tmp_path / "memory.db"
    async with rig(path=path) as here:
        for start in range(0, 450, 150):
            items = [{"content": f"fact number {number}"} for number in range(start, start + 150)]
            await here.memory.remember_many(items, atomic=True)
    shelf = ShelfBackend()
    async with rig(mirror("late", shelf), path=path, in_background=False) as here:
        assert await here.drained()
        assert len(shelf.kept) == 450
        assert (await here.standing("late")).row.is_filled


async def test_what_a_process_without_the_mirror_writes_is_owed_to_it_all_the_same(tmp_path: Path) -> None:
    path, shelf = tmp_path / "memory.db", ShelfBackend()
    async with rig(mirror("shelf", shelf), path=path, in_background=False) as here:
        assert await here.drained()
        async with rig(path=path) as plain:
            await plain.memory.remember("tea at noon")
        assert await here.lag("shelf") == 1
        assert await here.drained()
        assert shelf.texts == ["tea at noon"]


# -- hung, down, late -------------------------------------------------------------------------------------------------


async def test_a_hung_mirror_delays_one_write_and_not_each() -> None:
    hung, well = ShelfBackend(), ShelfBackend()
    mirrors = (mirror("hung", hung), mirror("well", well))
    async with rig(*mirrors, settings=Settings(mirror_write_deadline_ms=2_000)) as here:
        await here.memory.remember("tea at noon")
        hung.is_hung = True
        started = time.perf_counter()
        for number in range(10):
            done = await here.memory.remember(f"tea number {number}")
            assert (done.stores, done.stores_pending) == (("sqlite", "well"), ("hung",))
        assert time.perf_counter() - started < 15.0, "only the first waits: all of them would for 20 s"
        assert await here.lag("hung") == 10
        assert await here.lag("well") == 0


async def test_a_mirror_that_was_down_catches_up() -> None:
    shelf, clock = ShelfBackend(), Clock()
    async with rig(mirror("shelf", shelf, clock=clock), clock=clock) as here:
        await here.memory.remember("tea at noon")
        shelf.is_down = True
        late = [await here.memory.remember(f"tea number {n}") for n in range(3)]
        gone = await here.memory.forget(ids=[late[0].id])
        assert all(done.stores_pending == ("shelf",) for done in late)
        assert gone.stores[1].error == "queued"
        assert await here.lag("shelf") == 3, "one row for a record, however often it changed"
        shelf.is_down = False
        clock.now += 2 * DAY  # nobody gives up a mirror that was away for a weekend
        assert await here.drained()
        assert shelf.texts == ["tea at noon", "tea number 1", "tea number 2"]
        assert (await here.memory.remember("tea again")).stores == ("sqlite", "shelf")


async def test_a_mirror_catches_up_by_itself() -> None:
    shelf = ShelfBackend()
    async with rig(mirror("shelf", shelf)) as here:
        shelf.is_down = True
        await here.memory.remember("tea at noon")
        shelf.is_down = False
        await until(lambda: shelf.texts == ["tea at noon"])


# -- one record that a mirror cannot take -----------------------------------------------------------------------------


class Choosy(ShelfBackend):
    """Chokes on some texts, and then says of itself that it is not there, as vendors' adapters do."""

    refuses = ""

    async def put(self, copies: Sequence[Copy]) -> Sequence[str]:
        if self.refuses and any(self.refuses in copy.content for copy in copies):
            raise BackendUnavailableError("It failed.", reason="mirror_unreachable")
        return await super().put(copies)


async def test_one_record_that_a_mirror_cannot_take_holds_up_no_other() -> None:
    choosy, clock = Choosy(), Clock()
    choosy.refuses = "poison"
    async with rig(mirror("choosy", choosy), clock=clock) as here:
        texts = ("tea", "poison", "coffee")
        answers = [await here.memory.remember(text) for text in texts]
        assert [done.stores_pending for done in answers] == [(), ("choosy",), ()]
        assert choosy.texts == ["coffee", "tea"]
        standing = await here.standing("choosy")
        assert (standing.waiting, standing.row.error) == (1, None) or standing.row.error == "mirror_failed"
        clock.now += DAY
        await here.drained()
        clock.now += DAY
        assert await here.drained(), "it is given up, and nothing waits for it"
        assert (await here.standing("choosy")).given_up == 1
        choosy.refuses = ""
        await here.memory.update(answers[1].id, content="no poison")
        assert "no poison" in choosy.texts, "a change tries anew"
        assert (await here.standing("choosy")).given_up == 0


async def test_what_a_new_mirror_could_not_take_at_first_is_sent_later(tmp_path: Path) -> None:
    path, clock = tmp_path / "memory.db", Clock()
    async with rig(path=path, clock=clock) as here:
        for text in ("tea", "poison", "coffee"):
            await here.memory.remember(text)
    choosy = Choosy()
    choosy.refuses = "poison"
    async with rig(mirror("choosy", choosy), path=path, clock=clock, in_background=False) as here:
        assert not await here.drained()
        assert choosy.texts == ["coffee", "tea"]
    async with rig(mirror("choosy", choosy), path=path, clock=clock, in_background=False) as here:
        choosy.refuses = ""
        clock.now += 60_000
        assert await here.drained()
        assert choosy.texts == ["coffee", "poison", "tea"]


async def test_a_mirror_that_answers_nonsense_is_tried_again() -> None:
    class Muddled(ShelfBackend):
        is_muddled = True

        async def put(self, copies: Sequence[Copy]) -> Any:
            return None if self.is_muddled else await super().put(copies)

    shelf, clock = Muddled(), Clock()
    async with rig(mirror("shelf", shelf), clock=clock) as here:
        kept = await here.memory.remember("tea at noon")
        assert (kept.stores, kept.stores_pending) == (("sqlite",), ("shelf",))
        assert (await here.standing("shelf")).row.error == "mirror_failed"
        shelf.is_muddled = False
        clock.now += 60_000
        assert await here.drained()
        assert shelf.texts == ["tea at noon"]


# -- answers that are lost --------------------------------------------------------------------------------------------


class Mute(ShelfBackend):
    """Does what it is told, and is not always heard."""

    is_mute = False

    async def put(self, copies: Sequence[Copy]) -> Sequence[str]:
        native = await super().put(copies)
        if self.is_mute:
            self.is_mute = False
            raise BackendUnavailableError("The line broke.", reason="mirror_unreachable")
        return native


async def test_a_copy_that_came_unheard_goes_with_its_record() -> None:
    mute, clock = Mute(), Clock()
    async with rig(mirror("mute", mute), clock=clock, in_background=False) as here:
        tea = await here.memory.remember("tea at noon")
        gin = await here.memory.remember("gin at noon")
        await here.drained()
        mute.is_mute = True
        await here.memory.update(tea.id, content="tea at four")
        await here.drained()
        assert "tea at four" in mute.texts, "it has arrived"
        await here.memory.forget(ids=[tea.id], hard_delete=True)
        clock.now += 60_000
        assert await here.drained()
        assert mute.texts == ["gin at noon"]
        await here.memory.forget(ids=[gin.id])
        await here.drained()
        mute.is_mute = True
        await here.memory.restore(gin.id)
        await here.drained()
        assert mute.texts == ["gin at noon"], "it has arrived"
        await here.memory.forget(ids=[gin.id], hard_delete=True)
        clock.now += 60_000
        assert await here.drained()
        assert mute.kept == {}


@pytest.mark.parametrize("promise", ["get_by_id", "delete_reports_absence"])
async def test_a_mirror_that_keeps_what_was_erased_is_told_until_it_does_not(promise: Any) -> None:
    class Keeping(ShelfBackend):
        """Says that it has deleted, and has not."""

        is_honest = False
        both = frozenset({"get_by_id", "delete_reports_absence"})
        capabilities = replace(
            ShelfBackend.capabilities, promises=(ShelfBackend.capabilities.promises - both) | {promise}
        )

        async def delete(self, places: Sequence[Place]) -> int:
            return await super().delete(places) if self.is_honest else len(places)

    shelf, clock = Keeping(), Clock()
    async with rig(mirror("shelf", shelf), clock=clock) as here:
        kept = await here.memory.remember("tea at noon")
        gone = await here.memory.forget(ids=[kept.id], hard_delete=True)
        assert [(row.store, row.count, row.error) for row in gone.stores] == [
            ("sqlite", 1, None),
            ("shelf", 0, "queued"),
        ]
        standing = await here.standing("shelf")
        assert (standing.waiting, standing.row.error) == (1, "mirror_failed")
        assert shelf.texts == ["tea at noon"]
        shelf.is_honest = True
        clock.now += 3_600_000
        assert await here.drained()
        assert (shelf.texts, await states(here, "shelf")) == ([], {"gone"})


async def test_what_changes_while_it_is_sent_is_sent_again() -> None:
    class Slow(ShelfBackend):
        def __init__(self) -> None:
            super().__init__()
            self.began, self.may_end = asyncio.Event(), asyncio.Event()

        async def put(self, copies: Sequence[Copy]) -> Sequence[str]:
            self.began.set()
            await self.may_end.wait()
            return await super().put(copies)

    slow = Slow()
    async with rig(mirror("slow", slow), in_background=False) as here:
        tea = await here.memory.remember("tea at noon")
        draining = asyncio.create_task(here.drained())
        await slow.began.wait()
        await here.memory.update(tea.id, content="tea at four")
        slow.may_end.set()
        assert await draining
        assert slow.texts == ["tea at four"]
