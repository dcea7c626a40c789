"""Backends that break one promise each: the suite of the port tells every one of them."""

from __future__ import annotations

import json
import math
import subprocess
import sys
import unicodedata
from collections.abc import AsyncIterator, Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, ClassVar

import pytest
from _pytest.outcomes import Failed

from quipu.errors import BackendUnavailableError
from quipu.model.record import MemoryType
from quipu.ports.backend import (
    Answer,
    Capabilities,
    Capability,
    Container,
    Copy,
    Kept,
    NativeHit,
    Place,
    Query,
    Remaining,
)
from quipu.testing.backend import BackendContract
from quipu.testing.backend.case import Keeper
from quipu.testing.backend.shelf import ShelfBackend

SAID = "test_filters_that_are_said_to_hold_hold_before_the_cut"
TAGGED = "test_tags_that_are_said_to_be_filtered_are"
VERSION = "test_the_version_is_the_one_that_was_put_last"
WALK = "test_a_walk_tells_everything"
EQUAL = "test_metadata_comes_back_equal"
VERBATIM = "test_text_comes_back_as_it_was_given"
SCORED = "test_scores_are_of_the_kind_that_was_promised"
UNKNOWN = "test_a_filter_it_does_not_know_is_left_to_the_ledger"
TYPED = "test_values_of_another_type_are_other_values"
LIKE = "test_a_copy_on_its_way_is_found_by_its_like"
KINDS = "test_every_type_it_is_sent_is_kept"
WALKED = "test_deleted_is_not_walked_over"
AGAIN = "test_erasing_leaves_the_others_and_can_be_repeated"
NAMED = "test_each_copy_has_a_native_id_of_its_own"
USERS = "test_odd_names_of_users_are_kept_apart"
DONE = "test_what_a_vendor_did_not_do_is_not_told_as_done"


class FilteringShelf(ShelfBackend):
    """A shelf that applies every restriction itself, and says so; rightly, unless `deaf_to` names one."""

    deaf_to: ClassVar[str | None] = None
    capabilities = Capabilities(
        flags=ShelfBackend.capabilities.flags | {Capability.TAGS},
        score_kind=ShelfBackend.capabilities.score_kind,
        filter_operators=frozenset({"$eq"}),
    )

    async def search(self, query: Query, limit: int) -> Answer:
        plain = replace(query, types=frozenset(), session_id=None, created_from=None, filter=None)
        found = await super().search(plain, len(self.kept))
        hits = [hit for hit in found.hits if self._holds(hit, query)]
        is_known = all(
            name[:1] != "$" and not isinstance(one, dict) for name, one in (query.filter or {}).items()
        )
        return Answer(hits=tuple(hits[:limit]), is_filtered=is_known, has_more=len(hits) > limit)

    @staticmethod
    def is_equal(one: object, other: object) -> bool:
        return json.dumps(one) == json.dumps(other)

    def _holds(self, hit: NativeHit, query: Query) -> bool:
        copy = self.kept[hit.native_id]
        holds = {
            "types": not query.types or copy.type in query.types,
            "session_id": query.session_id in (None, copy.session_id),
            "created_from": query.created_from is None or copy.created_at >= query.created_from,
            "tags": self._is_tagged(copy, query),
            "filter": all(
                self.is_equal(copy.metadata.get(name), value)
                for name, value in (query.filter or {}).items()
                if name != "tags" and not name.startswith("$") and not isinstance(value, dict)
            ),
        }
        return all(is_held for name, is_held in holds.items() if name != self.deaf_to)

    def _is_tagged(self, copy: Copy, query: Query) -> bool:
        wanted = (query.filter or {}).get("tags", [])
        names = [wanted] if isinstance(wanted, str) else wanted
        assert isinstance(names, list)
        return set(copy.tags) >= set(names)


class DeafToSessions(FilteringShelf):
    deaf_to = "session_id"


class DeafToTags(FilteringShelf):
    deaf_to = "tags"


class DeafToTypes(FilteringShelf):
    deaf_to = "types"


class TagsLeftToOthers(FilteringShelf):
    """Promises tags, and has the ledger filter them."""

    async def search(self, query: Query, limit: int) -> Answer:
        return replace(await super().search(query, limit), is_filtered=False)


class AlwaysTheFirstVersion(FilteringShelf):
    async def get(self, places: Sequence[Place]) -> Sequence[Kept]:
        return [replace(kept, version=1) for kept in await super().get(places)]


class WithoutVersions(FilteringShelf):
    async def scan(self, container: Container) -> AsyncIterator[Kept]:
        async for kept in super().scan(container):
            yield replace(kept, version=None)


class Loose(FilteringShelf):
    @staticmethod
    def is_equal(one: object, other: object) -> bool:
        return one == other


class SaysItFiltered(FilteringShelf):
    async def search(self, query: Query, limit: int) -> Answer:
        return replace(await super().search(query, limit), is_filtered=True)


class FromThereOn(FilteringShelf):
    """Takes `created_from` for the moment before the first."""

    def _holds(self, hit: NativeHit, query: Query) -> bool:
        is_later = query.created_from is None or self.kept[hit.native_id].created_at > query.created_from
        return is_later and super()._holds(hit, query)


def _changed(value: Any, change: Callable[[Any], Any]) -> Any:
    if isinstance(value, dict):
        return {name: _changed(one, change) for name, one in value.items()}
    return [_changed(one, change) for one in value] if isinstance(value, list) else change(value)


class TruthsAreNumbers(FilteringShelf):
    async def get(self, places: Sequence[Place]) -> Sequence[Kept]:
        found = await super().get(places)
        numbers = [_changed(kept.metadata, lambda one: int(one) if one is True else one) for kept in found]
        return [replace(kept, metadata=told) for kept, told in zip(found, numbers, strict=True)]


class WholesAreBroken(FilteringShelf):
    async def get(self, places: Sequence[Place]) -> Sequence[Kept]:
        found = await super().get(places)
        numbers = [
            _changed(kept.metadata, lambda one: float(one) if type(one) is int else one) for kept in found
        ]
        return [replace(kept, metadata=told) for kept, told in zip(found, numbers, strict=True)]


class EmptyIsDropped(FilteringShelf):
    async def get(self, places: Sequence[Place]) -> Sequence[Kept]:
        return [
            replace(
                kept, metadata={name: one for name, one in kept.metadata.items() if one not in ("", None)}
            )
            for kept in await super().get(places)
        ]


class LinesEndAlike(FilteringShelf):
    def _put(self, copy: Copy) -> str:
        return super()._put(replace(copy, content=copy.content.replace("\r\n", "\n").replace("\r", "\n")))


class CutTexts(FilteringShelf):
    def _put(self, copy: Copy) -> str:
        return super()._put(replace(copy, content=copy.content[:8192]))


class WithoutNumbers(FilteringShelf):
    async def search(self, query: Query, limit: int) -> Answer:
        answer = await super().search(query, limit)
        return replace(answer, hits=tuple(replace(hit, score=math.nan) for hit in answer.hits))


class AlwaysOne(FilteringShelf):
    async def search(self, query: Query, limit: int) -> Answer:
        answer = await super().search(query, limit)
        return replace(answer, hits=tuple(replace(hit, score=1.0) for hit in answer.hits))


class KnownByItsText(FilteringShelf):
    """Looks for what it has by the text, which may be no more."""

    def _put(self, copy: Copy) -> str:
        known = [name for name, one in self.kept.items() if one.content == copy.content]
        return super()._put(replace(copy, record_id=f"{copy.record_id}-{len(known)}-{copy.content[:1]}"))


class WithoutProcedures(FilteringShelf):
    def _put(self, copy: Copy) -> str:
        name = super()._put(copy)
        if copy.type is MemoryType.PROCEDURAL:
            del self.kept[name]
        return name


class WalksOverTheDead(FilteringShelf):
    def __init__(self) -> None:
        super().__init__()
        self.dead: list[Kept] = []

    async def delete(self, places: Sequence[Place]) -> int:
        self.dead += await self.get(places)
        return await super().delete(places)

    async def scan(self, container: Container) -> AsyncIterator[Kept]:
        async for kept in super().scan(container):
            yield kept
        for kept in self.dead:
            yield kept


class ErasesTooMuch(FilteringShelf):
    async def erase(self, places: Sequence[Place], remaining: Remaining) -> None:
        self.kept.clear()
        for place in places[:1]:
            await self.put([copy async for copy in remaining(place.container)])


class ErasesOnce(FilteringShelf):
    def __init__(self) -> None:
        super().__init__()
        self.erased: set[str] = set()

    async def erase(self, places: Sequence[Place], remaining: Remaining) -> None:
        if self.erased & {place.native_id for place in places}:
            raise BackendUnavailableError("It is erased already.")
        self.erased |= {place.native_id for place in places}


class LongNames(FilteringShelf):
    def _put(self, copy: Copy) -> str:
        name = super()._put(copy)
        long = name * 400
        self.kept[long] = replace(self.kept.pop(name), native_id=long)
        return long


class NamesThatLookAlike(FilteringShelf):
    async def search(self, query: Query, limit: int) -> Answer:
        answer = await super().search(replace(query, user_id=None), len(self.kept))
        mine = unicodedata.normalize("NFC", query.user_id or "")
        hits = [
            hit
            for hit in answer.hits
            if unicodedata.normalize("NFC", self.kept[hit.native_id].container.user_id or "") == mine
        ]
        return replace(answer, hits=tuple(hits[:limit]))


@pytest.mark.parametrize(
    ("backend", "case"),
    [
        (DeafToSessions, SAID),
        (DeafToTags, SAID),
        (DeafToTags, TAGGED),
        (DeafToTypes, SAID),
        (TagsLeftToOthers, TAGGED),
        (AlwaysTheFirstVersion, VERSION),
        (WithoutVersions, WALK),
        (Loose, TYPED),
        (SaysItFiltered, UNKNOWN),
        (FromThereOn, SAID),
        (TruthsAreNumbers, EQUAL),
        (WholesAreBroken, EQUAL),
        (EmptyIsDropped, EQUAL),
        (LinesEndAlike, VERBATIM),
        (CutTexts, VERBATIM),
        (WithoutNumbers, SCORED),
        (AlwaysOne, SCORED),
        (KnownByItsText, LIKE),
        (WithoutProcedures, KINDS),
        (WalksOverTheDead, WALKED),
        (ErasesTooMuch, AGAIN),
        (ErasesOnce, AGAIN),
        (LongNames, NAMED),
        (NamesThatLookAlike, USERS),
    ],
)
async def test_a_backend_that_breaks_a_promise_is_told(backend: type[FilteringShelf], case: str) -> None:
    with pytest.raises((AssertionError, BackendUnavailableError)):
        await getattr(BackendContract(), case)(Keeper(backend()))


@pytest.mark.parametrize(
    "case",
    [
        SAID,
        TAGGED,
        VERSION,
        WALK,
        EQUAL,
        VERBATIM,
        SCORED,
        UNKNOWN,
        TYPED,
        LIKE,
        KINDS,
        WALKED,
        AGAIN,
        NAMED,
        USERS,
    ],
)
async def test_the_same_backend_passes_when_it_keeps_them(case: str) -> None:
    await getattr(BackendContract(), case)(Keeper(FilteringShelf()))


class Silent(FilteringShelf):
    """Its vendor is not there; what was asked of it is told as done."""

    silent_about: ClassVar[str] = ""

    def __init__(self) -> None:
        super().__init__()
        self.is_down = True

    async def _touch(self, call: str) -> None:
        if call != self.silent_about:
            await super()._touch(call)


@pytest.mark.parametrize("call", ["delete", "get", "scan"])
async def test_who_is_silent_about_a_vendor_that_is_not_there_is_told(call: str) -> None:
    backend = type("Silent", (Silent,), {"silent_about": call})()
    with pytest.raises(Failed):
        await getattr(BackendContract(), DONE)(backend)


async def test_who_says_that_a_vendor_is_not_there_passes() -> None:
    await getattr(BackendContract(), DONE)(Silent())


def test_what_does_not_hold_is_told_with_both_of_its_sides(tmp_path: Path) -> None:
    """As whoever wrote the adapter reads it, whichever way the suite was imported."""
    for place in ("quipu.testing.backend", "quipu.testing"):
        suite = tmp_path / "test_mine.py"
        suite.write_text(
            "import pytest\n"
            f"from {place} import BackendContract\n"
            "from quipu.testing.backend.shelf import ShelfBackend\n"
            "class More(ShelfBackend):\n"
            "    async def search(self, query, limit):\n"
            "        return await super().search(query, limit + 1)\n"
            "class TestMine(BackendContract):\n"
            "    @pytest.fixture\n"
            "    async def backend(self):\n"
            "        return More()\n",
            "utf-8",
        )
        words = ["-q", "-o", "asyncio_mode=auto", "-p", "no:cacheprovider", "-k", "limit_is_kept", str(suite)]
        done = subprocess.run(
            [sys.executable, "-m", "pytest", *words],
            cwd=tmp_path,
            capture_output=True,
            text=True,
            check=False,
            timeout=120,
        )
        assert "assert 4 == 3" in done.stdout, done.stdout
