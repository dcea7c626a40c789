"""What was given is kept, once, as it was given; what is deleted is gone; a vendor that is not there is told as such."""

import asyncio
import json
from collections.abc import AsyncIterator, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import Any

import pytest

from quipu.errors import BackendUnavailableError
from quipu.mirrors.backend import Backend, Container, Copy, Erasing, Kept, Place, Remaining
from quipu.testing.backend.case import HOME, BackendCase, Keeper, place

_MACHINE = (
    '{"current":"asked","initial":"asked","name":"return-parcel","states":["asked","labelled"],'
    '"transitions":[{"dest":"labelled","source":"asked","trigger":"label"}]}'
)
_TEXTS = (
    "  spaces around, and\n\nlines \t within  ",
    "naïve café — 日本語 🧵 \U0001f9f6 e\u0301",
    "https://example.org/a?b=c",
    "/etc/hostname",
    '{"json": ["like", null]}',
    "100% _sure_ 'quoted' \"twice\" \\ back",
    "one line\r\nanother\rand a third",
    "zero\u200bwidth, \ufeffmarked, \u202edenrut\u202c, a ligature: \ufb01",
    "tea at noon by the river. " * 800 + "The end.",
)
#: Each differs from some other value in its type alone, or is easily taken for nothing.
_DETAILS: dict[str, Any] = {
    "a": {"b": [1, 2.5, None, True, False, "1", "true"]},
    "large": 2**62 + 1,
    "nothing": None,
    "empty": "",
    "no items": [],
    "no members": {},
    "": "an empty name",
    "with.a.dot": "dotted",
    "id": "mine",
    "user_id": "x",
    "data": "y",
    "text": "z",
}
#: The longest native id that is noted.
_LONGEST_ID = 1024
_MARKER = "zyzzyvaxylophone"


class KeepingContract(BackendCase):
    """`open`, `put`, `get`, `scan`, `delete`, `erase`, `health`, `close`."""

    async def test_its_promises_hang_together(self, backend: Backend) -> None:
        promised = backend.capabilities
        assert "hard_delete" in promised or isinstance(backend, Erasing)
        assert "vector" in promised or "keyword" in promised

    async def test_opening_twice_changes_nothing(self, keeper: Keeper) -> None:
        kept = await keeper.put("tea at noon")
        await keeper.backend.open()
        assert await keeper.found("tea at noon") == [kept.native_id]

    async def test_each_copy_has_a_native_id_of_its_own(self, keeper: Keeper) -> None:
        kept = await keeper.put_all([keeper.copy(f"tea number {n}") for n in range(12)])
        assert len({copy.native_id for copy in kept}) == 12
        assert all(0 < len(copy.native_id or "") <= _LONGEST_ID for copy in kept), "an id that can be noted"
        assert await keeper.put_all([]) == []

    async def test_what_is_put_twice_is_there_once(self, keeper: Keeper) -> None:
        first = await keeper.put("tea at noon")
        (again,) = await keeper.put_all([first])
        _same_place(keeper, again, first)
        assert await keeper.found("tea at noon") == [again.native_id]

    async def test_a_put_whose_answer_was_lost_is_found_again(self, keeper: Keeper) -> None:
        """A crash after the effect and before the note of it: the same copy comes again without its native id."""
        copy = keeper.copy("tea at noon")
        (first,) = await keeper.put_all([copy])
        (again,) = await keeper.put_all([copy])
        _same_place(keeper, again, first)
        assert await keeper.found("tea at noon") == [again.native_id]

    async def test_a_copy_on_its_way_is_found_by_its_like(self, keeper: Keeper) -> None:
        """After a crash the record may be gone as well: then nothing is known but which record and version it was."""
        lost = await keeper.put("green elephants swim", metadata={"n": 1}, tags=("leaf",), session_id="s-1")
        like = Copy(
            container=HOME,
            record_id=lost.record_id,
            version=lost.version,
            type=lost.type,
            content="-",
            created_at=lost.created_at,
        )
        (found,) = await keeper.put_all([like])
        _same_place(keeper, found, lost)
        await keeper.backend.delete([place(found)])
        assert await keeper.found("green elephants swim") == []

    async def test_the_same_copies_at_once_are_there_once(self, keeper: Keeper) -> None:
        copies = [keeper.copy(f"tea number {n}") for n in range(4)]
        await asyncio.gather(*(keeper.put_all([copy]) for copy in copies))
        await keeper.put_all(copies)
        assert len(await keeper.found("tea number", 20)) == 4

    async def test_equal_texts_of_two_records_stay_apart(self, keeper: Keeper) -> None:
        one, other = await keeper.put("tea at noon"), await keeper.put("tea at noon")
        assert sorted(await keeper.found("tea at noon")) == sorted(
            [one.native_id or "", other.native_id or ""]
        )
        await keeper.backend.delete([place(one)])
        assert await keeper.found("tea at noon") == [other.native_id]

    async def test_a_new_version_takes_the_place_of_the_old(self, keeper: Keeper) -> None:
        first = await keeper.put("green elephants swim")
        second = await keeper.change(first, "violins are made of maple")
        answer = await keeper.asked("violins maple")
        assert [hit.native_id for hit in answer.hits] == [second.native_id]
        assert all("elephants" not in hit.text for hit in (await keeper.asked("green elephants")).hits)

    async def test_updating_in_place(self, keeper: Keeper) -> None:
        self.needs(keeper.backend, "update")
        first = await keeper.put("green elephants swim")
        lost = replace(first, version=2, content="violins are made of maple", native_id=None)
        (second,) = await keeper.put_all([lost])
        assert await keeper.found("violins maple") == [second.native_id]

    async def test_an_older_version_is_taken_as_well(self, keeper: Keeper) -> None:
        """The caller sends versions in their order; one that comes later is what the record is now."""
        self.needs(keeper.backend, "update")
        first = await keeper.put("green elephants swim", version=2)
        (second,) = await keeper.put_all([replace(first, version=1, content="violins are made of maple")])
        assert await keeper.found("violins maple") == [second.native_id]
        assert all("elephants" not in hit.text for hit in (await keeper.asked("green elephants")).hits)

    async def test_every_type_it_is_sent_is_kept(self, keeper: Keeper) -> None:
        kinds = sorted(keeper.backend.capabilities.types)
        texts = {kind: _MACHINE if kind == "procedural" else "return the parcel" for kind in kinds}
        kept = [await keeper.put(texts[kind], type=kind) for kind in kinds]
        assert sorted(await keeper.found("return parcel")) == sorted(copy.native_id or "" for copy in kept)

    async def test_the_native_id_is_the_records(self, keeper: Keeper) -> None:
        self.needs(keeper.backend, "client_ids")
        copy = await keeper.put("tea at noon")
        await keeper.backend.delete([place(copy)])
        (again,) = await keeper.put_all([replace(copy, native_id=None)])
        assert again.native_id == copy.native_id

    async def test_text_comes_back_as_it_was_given(self, keeper: Keeper) -> None:
        self.needs(keeper.backend, "verbatim", "get_by_id")
        kept = await keeper.put_all([keeper.copy(text) for text in _TEXTS])
        read = {one.native_id: one for one in await keeper.backend.get([place(copy) for copy in kept])}
        assert [read[copy.native_id or ""].text for copy in kept] == list(_TEXTS)
        assert [read[copy.native_id or ""].mark for copy in kept] == [copy.mark for copy in kept]

    async def test_the_version_is_the_one_that_was_put_last(self, keeper: Keeper) -> None:
        self.needs(keeper.backend, "get_by_id")
        first = await keeper.put("green elephants swim", metadata={"n": 1})
        second = await keeper.change(first, "violins are made of maple")
        (read,) = await keeper.backend.get([place(second)])
        assert read.mark == second.mark
        assert "elephants" not in read.text

    async def test_metadata_comes_back_equal(self, keeper: Keeper) -> None:
        self.needs(keeper.backend, "nested_metadata", "get_by_id")
        copy = await keeper.put("tea at noon", metadata=_DETAILS)
        (read,) = await keeper.backend.get([place(copy)])
        assert _as_json(read.metadata) == _as_json(_DETAILS)

    async def test_a_new_version_brings_its_own_metadata(self, keeper: Keeper) -> None:
        self.needs(keeper.backend, "nested_metadata", "get_by_id")
        first = await keeper.put("tea at noon", metadata={"old": 1, "n": 1})
        second = await keeper.change(replace(first, metadata={"n": 2}), "tea at four")
        (read,) = await keeper.backend.get([place(second)])
        assert _as_json(read.metadata) == _as_json({"n": 2})

    async def test_only_what_is_there_is_read(self, keeper: Keeper) -> None:
        self.needs(keeper.backend, "get_by_id")
        copy, gone = await keeper.put("tea at noon"), await keeper.put("coffee at four")
        await keeper.backend.delete([place(gone)])
        read = await keeper.backend.get([place(gone), place(copy)])
        assert [one.native_id for one in read] == [copy.native_id]
        assert list(await keeper.backend.get([])) == []

    async def test_a_walk_tells_everything(self, keeper: Keeper) -> None:
        self.needs(keeper.backend, "list")
        kept = await keeper.put_all([keeper.copy(f"tea number {n}") for n in range(self.page)])
        held = await keeper.held()
        assert {_record_id(one) for one in held} == {copy.record_id for copy in kept}
        assert len(held) == self.page
        assert {one.native_id for one in held} == {copy.native_id for copy in kept}
        assert {one.mark.version for one in held if one.mark is not None} == {1}

    # -- taking away --------------------------------------------------------------------------------------------------

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

    # -- being there --------------------------------------------------------------------------------------------------

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
                await unreachable.erase([somewhere], _among([]))
        await unreachable.close()

    async def test_closing_twice_changes_nothing(self, backend: Backend) -> None:
        await backend.close()
        await backend.close()


def _same_place(keeper: Keeper, again: Copy, first: Copy) -> None:
    """What is there is not written again; where it can neither be read nor walked over, it makes way for its like."""
    if {"get_by_id", "list"} & keeper.backend.capabilities.promises:
        assert again.native_id == first.native_id, "what was there already is not put beside itself"


def _record_id(kept: Kept) -> str:
    return "" if kept.mark is None else kept.mark.record_id


def _as_json(details: Any) -> str:
    """As text, where 1 is neither 1.0 nor true."""
    return json.dumps(details, sort_keys=True)


async def _erase(keeper: Keeper, places: list[Place], stays: list[Copy]) -> None:
    """As the service does it."""
    await keeper.backend.delete(places)
    if isinstance(keeper.backend, Erasing):
        await keeper.backend.erase(places, _among(stays))


def _among(stays: Sequence[Copy]) -> Remaining:
    """Those that should stay, by container."""

    async def remaining(container: Container) -> AsyncIterator[Copy]:
        for copy in stays:
            if copy.container == container:
                yield copy

    return remaining
