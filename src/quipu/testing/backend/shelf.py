"""The smallest backend there is: copies on a shelf in memory, found by the words they share with a query.

It mints native ids of its own and changes nothing in place, as the plainest vendors do; so the service has to do all
the work. Tests and benchmarks make it hang, fail and lie.
"""

from __future__ import annotations

import asyncio
import itertools
import re
from collections.abc import AsyncIterator, Sequence
from dataclasses import replace

from quipu.errors import BackendUnavailableError
from quipu.ports.backend import (
    Answer,
    Capabilities,
    Capability,
    Container,
    Copy,
    Health,
    Kept,
    NativeHit,
    Place,
    Query,
    ScoreKind,
)


class ShelfBackend:
    """Honest, as long as nobody says otherwise."""

    capabilities = Capabilities(
        flags=frozenset(
            {
                Capability.GET_BY_ID,
                Capability.LIST,
                Capability.NESTED_METADATA,
                Capability.KEYWORD,
                Capability.DELETE_REPORTS_ABSENCE,
                Capability.HARD_DELETE,
                Capability.VERBATIM,
            }
        ),
        score_kind=ScoreKind.SIMILARITY,
    )

    def __init__(self) -> None:
        self.kept: dict[str, Copy] = {}
        self.is_hung = self.is_down = False
        #: How many calls came in, by name.
        self.calls: dict[str, int] = {}
        self._counted = itertools.count(1)

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
        return [self._put(copy) for copy in copies]

    def _put(self, copy: Copy) -> str:
        for native_id, known in self.kept.items():
            if (known.container, known.record_id, known.version) == (
                copy.container,
                copy.record_id,
                copy.version,
            ):
                return native_id
        native_id = f"shelf-{next(self._counted)}"
        self.kept[native_id] = replace(copy, native_id=native_id)
        return native_id

    async def get(self, places: Sequence[Place]) -> Sequence[Kept]:
        await self._touch("get")
        return [_kept(self.kept[place.native_id]) for place in places if place.native_id in self.kept]

    async def search(self, query: Query, limit: int) -> Answer:
        await self._touch("search")
        wanted = _words(query.text)
        scored = [
            (len(wanted & _words(copy.content)) / len(wanted | _words(copy.content)), native_id)
            for native_id, copy in self.kept.items()
            if _is_asked(copy.container, query)
        ]
        best = sorted(((score, name) for score, name in scored if score), key=lambda one: (-one[0], one[1]))
        hits = [
            NativeHit(native_id=name, score=score, text=self.kept[name].content)
            for score, name in best[:limit]
        ]
        is_plain = not (query.types or query.filter or query.session_id or query.created_from)
        return Answer(hits=tuple(hits), is_filtered=is_plain, has_more=len(best) > limit)

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


def _kept(copy: Copy) -> Kept:
    return Kept(
        native_id=copy.native_id or "",
        text=copy.content,
        record_id=copy.record_id,
        version=copy.version,
        metadata=copy.metadata,
    )


def _is_asked(home: Container, query: Query) -> bool:
    return (
        home.tenant == query.tenant
        and query.agent_id in (None, home.agent_id)
        and query.user_id in (None, home.user_id)
        and query.store_id in (None, home.store_id)
    )


def _words(text: str) -> frozenset[str]:
    return frozenset(re.findall(r"\w+", text.lower()))
