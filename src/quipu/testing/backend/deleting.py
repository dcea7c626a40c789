"""What is deleted is gone, and what is erased leaves no trace."""

from collections.abc import AsyncIterator
from dataclasses import replace

from quipu.mirrors.backend import Container, Copy, Erasing, Place
from quipu.testing.backend.case import HOME, BackendCase, Keeper, place

_MARKER = "zyzzyvaxylophone"


class DeletingContract(BackendCase):
    """`delete` and `erase`."""

    async def test_deleted_is_not_found(self, keeper: Keeper) -> None:
        gone, stays = await keeper.put("tea at noon"), await keeper.put("tea at four")
        assert await keeper.backend.delete([place(gone)]) == 1
        assert await keeper.found("tea at") == [stays.native_id]
        assert await keeper.backend.delete([]) == 0

    async def test_many_at_once(self, keeper: Keeper) -> None:
        kept = await keeper.put_all([keeper.copy(f"tea number {n}") for n in range(9)])
        assert await keeper.backend.delete([place(copy) for copy in kept[:7]]) == 7
        assert sorted(await keeper.found("tea number", 20)) == sorted(
            copy.native_id or "" for copy in kept[7:]
        )

    async def test_what_is_not_there_is_no_error(self, keeper: Keeper) -> None:
        copy = await keeper.put("tea at noon")
        await keeper.backend.delete([place(copy)])
        assert await keeper.backend.delete([place(copy)]) in (0, 1)
        assert await keeper.found("tea at noon") == []

    async def test_what_is_not_there_is_not_counted(self, keeper: Keeper) -> None:
        self.needs(keeper.backend, "delete_reports_absence")
        copy, gone = await keeper.put("tea at noon"), await keeper.put("coffee at four")
        await keeper.backend.delete([place(gone)])
        assert await keeper.backend.delete([place(gone)]) == 0
        assert await keeper.backend.delete([place(gone), place(copy)]) == 1

    async def test_deleted_is_not_walked_over(self, keeper: Keeper) -> None:
        self.needs(keeper.backend, "list")
        gone, stays = await keeper.put("tea at noon"), await keeper.put("tea at four")
        await keeper.backend.delete([place(gone)])
        assert [kept.mark for kept in await keeper.held()] == [stays.mark]

    async def test_what_was_deleted_may_come_back(self, keeper: Keeper) -> None:
        copy = await keeper.put("tea at noon")
        await keeper.backend.delete([place(copy)])
        (again,) = await keeper.put_all([replace(copy, native_id=None)])
        assert await keeper.found("tea at noon") == [again.native_id]

    async def test_erased_leaves_no_trace(self, keeper: Keeper) -> None:
        backend = keeper.backend
        gone = await keeper.put(f"tea with {_MARKER} at noon", metadata={"note": _MARKER}, tags=(_MARKER,))
        stays = await keeper.put("tea at four")
        changed = await keeper.change(await keeper.put(f"first {_MARKER}"), f"second {_MARKER}")
        await keeper.asked(f"tea with {_MARKER}")
        assert await self.traces(backend, _MARKER), "it is there to begin with"
        await _erase(keeper, [place(gone), place(changed)], [stays])
        assert list(await self.traces(backend, _MARKER)) == []
        assert len(await keeper.found("tea at four")) == 1

    async def test_erasing_leaves_the_others_and_can_be_repeated(self, keeper: Keeper) -> None:
        """A crash after it, before that was noted: it is done once more."""
        gone, stays = await keeper.put("tea at noon"), await keeper.put("tea at four")
        elsewhere = await keeper.put("tea at four", replace(HOME, user_id="bob"))
        for _ in range(2):
            await _erase(keeper, [place(gone)], [stays, elsewhere])
            assert len(await keeper.found("tea")) == 1, "the others of its container"
            assert len(await keeper.found("tea", container=elsewhere.container)) == 1, "other containers"


async def _erase(keeper: Keeper, places: list[Place], stays: list[Copy]) -> None:
    """As the service does it."""
    await keeper.backend.delete(places)

    async def remaining(container: Container) -> AsyncIterator[Copy]:
        for copy in stays:
            if copy.container == container:
                yield copy

    if isinstance(keeper.backend, Erasing):
        await keeper.backend.erase(places, remaining)
