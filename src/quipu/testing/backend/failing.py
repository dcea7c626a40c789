"""A vendor that is not there is told as such, in the adapter's words."""

from __future__ import annotations

import pytest

from quipu.errors import BackendUnavailableError
from quipu.ports.backend import Backend
from quipu.testing.backend.case import BackendCase, Keeper


class FailingContract(BackendCase):
    """`open`, `health`, `close`."""

    async def test_health_touches_the_vendor(self, keeper: Keeper) -> None:
        assert (await keeper.backend.health()).is_up

    async def test_a_vendor_that_is_not_there_is_unavailable(self, unreachable: Backend) -> None:
        with pytest.raises(BackendUnavailableError) as failed:
            await unreachable.open()
        assert failed.value.__cause__ is not None, "the cause is kept"
        assert str(failed.value.__cause__) not in failed.value.message
        assert not (await unreachable.health()).is_up
        with pytest.raises(BackendUnavailableError):
            await Keeper(unreachable).put("tea at noon")
        with pytest.raises(BackendUnavailableError):
            await Keeper(unreachable).asked("tea at noon")
        await unreachable.close()

    async def test_closing_twice_changes_nothing(self, backend: Backend) -> None:
        await backend.close()
        await backend.close()
