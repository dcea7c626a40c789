"""The smallest backend there is: copies on a shelf in memory, found by the words that they share with a query.

It mints native ids of its own and changes nothing in place, as the plainest vendors do; so whoever uses it has to do all
the work. Tests make it hang, fail and lie.
"""

import asyncio
import itertools
import re
from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import replace

from quipu.errors import BackendUnavailableError
from quipu.mirrors import adapter
from quipu.mirrors.backend import (
    Answer,
    Capabilities,
    Container,
    Copy,
    Health,
    Kept,
    Place,
    Query,
)


class ShelfBackend:
    """Honest, unless somebody says otherwise."""

    capabilities = Capabilities(
        promises=frozenset(
            {
                "get_by_id",
                "list",
                "nested_metadata",
                "keyword",
                "delete_reports_absence",
                "hard_delete",
                "verbatim",
            }
        ),
        score_kind="similarity",
    )

    def __init__(self) -> None:
        self.kept: dict[str, Copy] = {}
        self.is_hung = self.is_down = False
        #: Records that it chokes on.
        self.poison: set[str] = set()
        #: How many calls came in, by name.
        self.calls: dict[str, int] = {}
        self._numbers = itertools.count(1)

    async def _touch(self, call: str) -> None:
        self.calls[call] = self.calls.get(call, 0) + 1
        if self.is_hung:
            await asyncio.Event().wait()
        if self.is_down:
            raise BackendUnavailableError(
                "The shelf is down.", reason="mirror_unreachable"
            ) from ConnectionError("refused by 10.0.0.9 with password hunter2")

    async def open(self) -> None:
        await self._touch("open")

    async def put(self, copies: Sequence[Copy]) -> Sequence[str]:
        await self._touch("put")
        if any(copy.record_id in self.poison for copy in copies):
            raise adapter.unavailable("The shelf failed.")
        return [self._put(copy) for copy in copies]

    def _put(self, copy: Copy) -> str:
        for native_id, known in self.kept.items():
            if (known.container, known.mark) == (copy.container, copy.mark):
                return native_id
        native_id = f"shelf-{next(self._numbers)}"
        self.kept[native_id] = replace(copy, native_id=native_id)
        return native_id

    async def get(self, places: Sequence[Place]) -> Sequence[Kept]:
        await self._touch("get")
        return [_kept(self.kept[place.native_id]) for place in places if place.native_id in self.kept]

    async def search(self, query: Query, limit: int) -> Answer:
        await self._touch("search")
        wanted = _words(query.text)
        found: list[Kept] = []
        for _, copy in sorted(self.kept.items()):
            words = _words(copy.content)
            if adapter.reaches(query, copy.container) and wanted & words:
                found.append(replace(_kept(copy), score=len(wanted & words) / len(wanted | words)))
        return adapter.answered(query, limit, adapter.best_first(found))

    async def scan(self, container: Container) -> AsyncIterator[Kept]:
        await self._touch("scan")
        for copy in list(self.kept.values()):
            if copy.container == container:
                yield _kept(copy)

    async def delete(self, places: Sequence[Place]) -> int:
        await self._touch("delete")
        return sum(self.kept.pop(place.native_id, None) is not None for place in places)

    async def health(self) -> Health:
        try:
            await self._touch("health")
        except BackendUnavailableError:
            return Health(is_up=False)
        return Health(is_up=True)

    async def close(self) -> None:
        """Nothing was taken."""

    # -- for tests ----------------------------------------------------------------------------------------------------

    @property
    def texts(self) -> list[str]:
        return sorted(copy.content for copy in self.kept.values())

    def add_foreign(self, native_id: str, text: str, container: Container) -> None:
        """What somebody else has written into it."""
        self.kept[native_id] = Copy(
            container=container,
            record_id="",
            version=0,
            type="semantic",
            content=text,
            created_at=0,
            native_id=native_id,
        )


def _kept(copy: Copy) -> Kept:
    metadata: Mapping[str, object] = adapter.mark(copy) if copy.record_id else {}
    return adapter.kept(copy.native_id or "", copy.content, metadata)


def _words(text: str) -> frozenset[str]:
    return frozenset(re.findall(r"\w+", text.lower()))
