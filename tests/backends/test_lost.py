"""A copy whose answer was lost, and whose record is erased before anybody looks again."""

from __future__ import annotations

from collections.abc import Sequence

from quipu.errors import BackendUnavailableError
from quipu.ports.backend import Copy
from quipu.testing.backend.shelf import ShelfBackend
from tests.backends.rig import mirror, rig


class Mute(ShelfBackend):
    """Does what it is told, and is not always heard."""

    is_mute = False

    async def put(self, copies: Sequence[Copy]) -> Sequence[str]:
        native = await super().put(copies)
        if self.is_mute:
            self.is_mute = False
            raise BackendUnavailableError("The line broke.", reason="mirror_late")
        return native


async def test_a_copy_that_came_back_unheard_goes_with_its_record() -> None:
    mute = Mute()
    async with rig(mirror("mute", mute), is_started=False) as rigged:
        tea = await rigged.memory.remember("tea at noon")
        await rigged.drained()
        await rigged.memory.forget(ids=[tea.id])
        await rigged.drained()
        mute.is_mute = True
        await rigged.memory.restore(tea.id)
        await rigged.drained()
        assert [copy.content for copy in mute.kept.values()] == ["tea at noon"], "it has arrived"
        await rigged.memory.forget(ids=[tea.id], hard_delete=True)
        await rigged.drained()
        assert mute.kept == {}


async def test_a_new_version_that_came_unheard_goes_with_its_record() -> None:
    mute = Mute()
    async with rig(mirror("mute", mute), is_started=False) as rigged:
        tea = await rigged.memory.remember("tea at noon")
        await rigged.drained()
        mute.is_mute = True
        await rigged.memory.remember("tea at four", id=tea.id)
        await rigged.drained()
        assert [copy.content for copy in mute.kept.values()] == ["tea at four"], "it has arrived"
        await rigged.memory.forget(ids=[tea.id], hard_delete=True)
        await rigged.drained()
        assert mute.kept == {}
