"""A vendor that is not there is reported as such, in the adapter's words."""

from collections.abc import AsyncIterator
from contextlib import suppress

import pytest

from quipu.errors import BackendUnavailableError
from quipu.mirrors.backend import Backend, Container, Copy, Erasing
from quipu.testing.backend.case import BackendCase, Keeper, place


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

    async def test_what_a_vendor_did_not_do_is_not_told_as_done(self, unreachable: Backend) -> None:
        """Who hears that there was nothing to delete, or nothing there, does not come back for it."""
        with suppress(BackendUnavailableError):
            await unreachable.open()
        promised, keeper = unreachable.capabilities, Keeper(unreachable)
        somewhere = place(keeper.copy(native_id="00000000-0000-4000-8000-000000000001"))
        with pytest.raises(BackendUnavailableError):
            await unreachable.delete([somewhere])
        if "get_by_id" in promised:
            with pytest.raises(BackendUnavailableError):
                await unreachable.get([somewhere])
        if "list" in promised:
            with pytest.raises(BackendUnavailableError):
                await keeper.held()
        if "hard_delete" not in promised and isinstance(unreachable, Erasing):
            with pytest.raises(BackendUnavailableError):
                await unreachable.erase([somewhere], _nothing)
        await unreachable.close()

    async def test_closing_twice_changes_nothing(self, backend: Backend) -> None:
        await backend.close()
        await backend.close()


async def _nothing(container: Container) -> AsyncIterator[Copy]:
    """No container holds anything."""
    copies: tuple[Copy, ...] = ()
    for copy in copies:
        yield copy
