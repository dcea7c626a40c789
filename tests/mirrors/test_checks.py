"""A mirror changed behind our back: verify finds it, resync mends it. Mirrors that are no more are dropped."""

import asyncio
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from quipu.errors import ConflictError, ForbiddenError, NotFoundError, UnsupportedError
from quipu.ledger.reader import JournalQuery
from quipu.mirrors.backend import Copy
from quipu.mirrors.model import CONTAINERS, COPIES, MIRRORS, OUTBOX
from quipu.model.principal import Permission
from tests.fixtures.memories import Clock
from tests.mirrors.rig import OWNER, Rig, eventually, mirror, rig
from tests.mirrors.shelf import ShelfBackend
from tests.mirrors.test_memory_store import at

DAY = 86_400_000


async def kinds(here: Rig, name: str) -> Counter[str]:
    report = await here.memory.call("verify_mirror", name=name)
    return Counter(fault.kind for fault in report.faults)


class Blind(ShelfBackend):
    """Tells a copy by its native id, and not what it holds."""

    capabilities = replace(ShelfBackend.capabilities, promises=ShelfBackend.capabilities.promises - {"list"})


async def test_what_was_changed_behind_our_back_is_found_and_mended() -> None:
    shelf = ShelfBackend()
    async with rig(mirror("shelf", shelf)) as here:
        for text in ("tea", "coffee", "cocoa", "milk"):
            await here.memory.remember(text)
        gone = await here.memory.remember("gin")
        ghost = next(copy for copy in shelf.kept.values() if copy.content == "gin")
        await here.memory.forget(ids=[gone.id], hard_delete=True)
        assert not await kinds(here, "shelf")
        by_text = {copy.content: name for name, copy in shelf.kept.items()}
        shelf.kept[by_text["tea"]] = replace(shelf.kept[by_text["tea"]], content="poison")
        del shelf.kept[by_text["coffee"]]
        shelf.kept[ghost.native_id or ""] = ghost
        shelf.kept["twin"] = replace(shelf.kept[by_text["cocoa"]], native_id="twin")
        shelf.add_foreign("theirs", "older than Quipu", ghost.container)
        report = await here.memory.call("verify_mirror", name="shelf")
        found = Counter(fault.kind for fault in report.faults)
        assert found == {"altered": 1, "missing": 1, "extra": 2}
        assert (report.checked, report.foreign, report.differing, report.mended) == (4, 1, 4, 0)
        tried = await here.memory.resync_mirror("shelf", dry_run=True)
        assert (tried.differing, tried.mended) == (4, 0)
        assert "poison" in shelf.texts, "a trial changes nothing"
        mended = await here.memory.resync_mirror("shelf")
        assert (mended.differing, mended.mended) == (4, 4)
        assert shelf.texts == ["cocoa", "coffee", "milk", "older than Quipu", "tea"]
        assert not await kinds(here, "shelf")


async def test_what_a_mirror_cannot_list_is_asked_for_by_its_id() -> None:
    blind = Blind()
    async with rig(mirror("blind", blind)) as here:
        for text in ("tea", "coffee"):
            await here.memory.remember(text)
        by_text = {copy.content: name for name, copy in blind.kept.items()}
        blind.kept[by_text["tea"]] = replace(blind.kept[by_text["tea"]], content="poison")
        del blind.kept[by_text["coffee"]]
        assert await kinds(here, "blind") == {"altered": 1, "missing": 1}
        assert (await here.memory.resync_mirror("blind")).mended == 2
        assert blind.texts == ["coffee", "tea"]


async def test_a_ledger_as_mirror_is_verified_and_mended_too(tmp_path: Path) -> None:
    backend = at(f"sqlite://{tmp_path}/second.db", tmp_path)
    async with rig(mirror("copy", backend)) as here:
        await here.memory.remember("tea", user_id="mara")
        await here.memory.remember("coffee")
        (copy,) = [
            row
            for row in await here.container.ledger.page(COPIES, "default", {"mirror": "copy"})
            if row.whose == "=mara"
        ]
        forged = Copy(
            container=copy.container("default"),
            record_id=copy.record_id,
            version=copy.version + 1,
            type="semantic",
            content="poison",
            created_at=0,
        )
        await backend.put([forged])
        assert await kinds(here, "copy") == {"altered": 1}
        assert (await here.memory.resync_mirror("copy")).mended == 1
        assert not await kinds(here, "copy")


async def test_a_mirror_that_tells_nothing_is_not_verified() -> None:
    class Mute(ShelfBackend):
        capabilities = replace(
            ShelfBackend.capabilities,
            promises=ShelfBackend.capabilities.promises - {"list", "get_by_id"},
        )

    async with rig(mirror("mute", Mute())) as here:
        with pytest.raises(UnsupportedError) as refused:
            await here.memory.call("verify_mirror", name="mute")
        assert refused.value.reason == "no_scan"


async def test_resync_brings_back_what_was_given_up() -> None:
    class Choking(ShelfBackend):
        is_choking = True

        async def put(self, copies: Sequence[Copy]) -> Sequence[str]:
            return [] if self.is_choking else await super().put(copies)

    shelf, clock = Choking(), Clock()
    async with rig(mirror("shelf", shelf, clock=clock), clock=clock) as here:
        await here.memory.remember("tea")
        clock.now += 2 * DAY
        await here.drained()
        (status,) = (await here.memory.list_mirrors()).mirrors
        assert (status.waiting, status.given_up, status.error) == (0, 1, "mirror_failed")
        clock.now += 60_000
        shelf.is_choking = False
        await here.memory.resync_mirror("shelf")
        assert shelf.texts == ["tea"]
        (status,) = (await here.memory.list_mirrors()).mirrors
        assert (status.waiting, status.given_up, status.error) == (0, 0, None)
        assert (status.filled, status.writes, status.breaker, status.place) == (
            *(True, True, "closed"),
            "shelf://here",
        )


async def test_what_is_on_its_way_is_no_difference() -> None:
    shelf = ShelfBackend()
    async with rig(mirror("shelf", shelf), in_background=False) as here:
        await here.memory.remember("tea")
        assert not await kinds(here, "shelf"), "it is owed"
        status = (await here.memory.list_mirrors()).mirrors[0]
        assert status.waiting == 1
        assert status.oldest_ms is not None


async def test_only_an_operator_may_and_only_what_there_is() -> None:
    reader = replace(OWNER, permissions=frozenset({Permission.READ, Permission.WRITE, Permission.ADMIN}))
    async with rig(mirror("shelf", ShelfBackend())) as here:
        for name in ("verify_mirror", "resync_mirror", "drop_mirror"):
            with pytest.raises(ForbiddenError):
                await here.of(reader).call(name, name="shelf")
            with pytest.raises(NotFoundError):
                await here.memory.call(name, name="none")
        with pytest.raises(ForbiddenError):
            await here.of(reader).list_mirrors()


async def test_what_is_erased_while_a_mirror_is_mended_does_not_come_back() -> None:
    class Slow(ShelfBackend):
        def __init__(self) -> None:
            super().__init__()
            self.is_slow = False
            self.began, self.may_end = asyncio.Event(), asyncio.Event()

        async def put(self, copies: Sequence[Copy]) -> Sequence[str]:
            if self.is_slow:
                self.began.set()
                await self.may_end.wait()
            return await super().put(copies)

    slow = Slow()
    async with rig(mirror("slow", slow)) as here:
        tea = await here.memory.remember("tea at noon")
        await here.memory.remember("gin at noon")
        slow.kept.clear()
        slow.is_slow = True
        mending = asyncio.create_task(here.memory.resync_mirror("slow"))
        await slow.began.wait()
        erasing = asyncio.create_task(here.memory.forget(ids=[tea.id], hard_delete=True))
        await eventually(lambda: here.container.ledger.count(OUTBOX, "default", {"record_id": tea.id}))
        slow.may_end.set()
        await asyncio.gather(mending, erasing)
        assert await here.drained()
        assert slow.texts == ["gin at noon"]


async def test_a_mirror_that_is_no_more_is_dropped_and_owed_nothing(tmp_path: Path) -> None:
    path = tmp_path / "memory.db"
    async with rig(mirror("old", ShelfBackend()), path=path) as here:
        await here.memory.remember("tea")
        with pytest.raises(ConflictError) as refused:
            await here.memory.call("drop_mirror", name="old")
        assert refused.value.reason == "mirror_in_use"
    async with rig(path=path) as here:
        await here.memory.remember("coffee")
        (status,) = (await here.memory.list_mirrors()).mirrors
        assert (status.name, status.place, status.breaker, status.waiting) == ("old", None, None, 1)
        dropped = await here.memory.call("drop_mirror", name="old")
        assert dropped.copies == 1
        ledger = here.container.ledger
        for table in (MIRRORS, OUTBOX, COPIES, CONTAINERS):
            assert not await ledger.page(table, "default")
        await here.memory.remember("milk")
        assert (await here.memory.list_mirrors()).mirrors == ()
        entries = await ledger.entries("default", JournalQuery())
        assert [entry.op for entry in entries].count("drop_mirror") == 1
