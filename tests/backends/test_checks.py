"""A mirror changed behind our back: verify finds it, resync mends it."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from quipu.backends.guarded import Patience
from quipu.errors import ForbiddenError, NotFoundError
from quipu.model.mirrors import Difference
from quipu.model.principal import Permission, local
from quipu.model.record import MemoryType
from quipu.ports.backend import Backend, Container, Copy
from quipu.testing.backend.shelf import ShelfBackend
from tests.backends.rig import Rig, mirror, rig
from tests.backends.test_ledgers import ledger_backend
from tests.requirement import requirement


def texts(shelf: ShelfBackend) -> list[str]:
    return sorted(copy.content for copy in shelf.kept.values())


async def kinds(rigged: Rig, name: str) -> list[str]:
    report = await rigged.service.mirror_checks.verify(local(), name)
    return sorted(fault.kind.value for fault in report.faults)


@requirement("memorywire:router.verify")
async def test_what_was_changed_behind_our_back_is_found_and_mended() -> None:
    shelf = ShelfBackend()
    async with rig(mirror("shelf", shelf)) as rigged:
        for text in ("tea", "coffee", "cocoa", "milk"):
            await rigged.memory.remember(text)
        gone = await rigged.memory.remember("gin")
        ghost = next(copy for copy in shelf.kept.values() if copy.content == "gin")
        await rigged.memory.forget(ids=[gone.id])
        assert await kinds(rigged, "shelf") == []
        by_text = {copy.content: name for name, copy in shelf.kept.items()}
        shelf.kept[by_text["tea"]] = replace(shelf.kept[by_text["tea"]], content="poison")
        del shelf.kept[by_text["coffee"]]
        shelf.kept[ghost.native_id or ""] = ghost
        shelf.kept["twin"] = replace(shelf.kept[by_text["cocoa"]], native_id="twin")
        home = ghost.container
        shelf.kept["theirs"] = Copy(
            container=home,
            record_id="",
            version=1,
            type=ghost.type,
            content="older than Quipu",
            created_at=0,
            updated_at=0,
            native_id="theirs",
        )
        report = await rigged.service.mirror_checks.verify(local(), "shelf")
        assert sorted(fault.kind for fault in report.faults) == [
            Difference.ALTERED,
            Difference.EXTRA,
            Difference.EXTRA,
            Difference.EXTRA,
            Difference.MISSING,
        ]
        assert report.checked == 4
        del shelf.kept["theirs"]
        mended = await rigged.service.mirror_checks.resync(local(), "shelf")
        assert (len(mended.faults), mended.mended) == (4, 4)
        assert texts(shelf) == ["cocoa", "coffee", "milk", "tea"]
        assert await kinds(rigged, "shelf") == []


@requirement("memorywire:router.verify")
async def test_a_ledger_as_mirror_is_verified_and_mended_too(tmp_path: Path) -> None:
    backend = ledger_backend(tmp_path / "mirror.db")
    async with rig(mirror("copy", backend)) as rigged:
        first = await rigged.memory.remember("tea", user_id="mara")
        await rigged.memory.remember("coffee")
        home = Container(
            tenant="default",
            store_id=(await rigged.memory.list_stores())[0].id,
            agent_id="ana",
            user_id="mara",
        )
        await _altered(backend, home, first.id)
        assert await kinds(rigged, "copy") == ["altered"]
        await rigged.service.mirror_checks.resync(local(), "copy")
        assert await kinds(rigged, "copy") == []


async def _altered(backend: Backend, home: Container, record_id: str) -> None:
    (kept,) = [one async for one in backend.scan(home)]
    forged = Copy(
        container=home,
        record_id=record_id,
        version=kept.version or 1,
        type=MemoryType.SEMANTIC,
        content="poison",
        created_at=0,
        updated_at=0,
    )
    await backend.put([forged])


@requirement("memorywire:router.verify")
async def test_resync_brings_back_what_was_given_up() -> None:
    shelf = ShelfBackend()
    async with rig(mirror("shelf", shelf)) as rigged:
        shelf.is_down = True
        await rigged.memory.remember("tea")
        shelf.is_down = False
        await rigged.service.mirror_checks.resync(local(), "shelf")
        assert texts(shelf) == ["tea"]
        (status,) = await rigged.service.mirror_checks.status(local())
        assert (status.waiting, status.dead, status.error) == (0, 0, None)


async def test_only_an_operator_may_and_only_what_there_is() -> None:
    shelf = ShelfBackend()
    reader = replace(local(), permissions=frozenset({Permission.READ}))
    async with rig(mirror("shelf", shelf)) as rigged:
        checks = rigged.service.mirror_checks
        for refused in (
            checks.verify(reader, "shelf"),
            checks.resync(reader, "shelf"),
            checks.drop(reader, "shelf"),
        ):
            with pytest.raises(ForbiddenError):
                await refused
        for unknown in (checks.verify(local(), "none"), checks.drop(local(), "none")):
            with pytest.raises(NotFoundError):
                await unknown


async def test_what_is_erased_while_a_mirror_is_mended_does_not_come_back() -> None:
    class Slow(ShelfBackend):
        """Takes its time over whatever comes after a moment."""

        is_slow = False

        async def put(self, copies: Sequence[Copy]) -> Sequence[str]:
            if self.is_slow:
                await asyncio.sleep(0.5)
            return await super().put(copies)

    slow = Slow()
    async with rig(mirror("slow", slow, patience=Patience(effect_s=5.0))) as rigged:
        tea = await rigged.memory.remember("tea at noon")
        slow.kept.clear()
        slow.is_slow = True
        mending = asyncio.create_task(rigged.service.mirror_checks.resync(local(), "slow"))
        await asyncio.sleep(0.25)
        await rigged.memory.forget(ids=[tea.id], hard_delete=True)
        await mending
        await rigged.drained()
        assert slow.kept == {}
