"""Backends that break one promise each: the suite of the port tells every one of them."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from dataclasses import replace
from typing import ClassVar

import pytest

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
)
from quipu.testing.backend import BackendContract
from quipu.testing.backend.case import Keeper
from quipu.testing.backend.shelf import ShelfBackend

SAID = "test_filters_that_are_said_to_hold_hold_before_the_cut"
TAGGED = "test_tags_that_are_said_to_be_filtered_are"
VERSION = "test_the_version_is_the_one_that_was_put_last"
WALK = "test_a_walk_tells_everything"


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
        return Answer(hits=tuple(hits[:limit]), is_filtered=True, has_more=len(hits) > limit)

    def _holds(self, hit: NativeHit, query: Query) -> bool:
        copy = self.kept[hit.native_id]
        holds = {
            "types": not query.types or copy.type in query.types,
            "session_id": query.session_id in (None, copy.session_id),
            "created_from": query.created_from is None or copy.created_at >= query.created_from,
            "tags": self._is_tagged(copy, query),
            "filter": all(
                copy.metadata.get(name) == value
                for name, value in (query.filter or {}).items()
                if name != "tags" and not name.startswith("$")
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
    ],
)
async def test_a_backend_that_breaks_a_promise_is_told(backend: type[FilteringShelf], case: str) -> None:
    with pytest.raises(AssertionError):
        await getattr(BackendContract(), case)(Keeper(backend()))


@pytest.mark.parametrize("case", [SAID, TAGGED, VERSION, WALK])
async def test_the_same_backend_passes_when_it_keeps_them(case: str) -> None:
    await getattr(BackendContract(), case)(Keeper(FilteringShelf()))
