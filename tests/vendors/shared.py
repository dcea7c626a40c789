"""One running vendor for many cases: each case gets tenants of its own, so it meets nothing of the others'."""

from collections.abc import AsyncIterator, Sequence
from dataclasses import replace
from itertools import count
from pathlib import Path
from typing import Any

from quipu.bootstrap import other_memories
from quipu.config import Settings
from quipu.mirrors.backend import (
    Answer,
    Backend,
    Capabilities,
    Container,
    Copy,
    Erasing,
    Health,
    Kept,
    Mark,
    Place,
    Query,
    Remaining,
)
from quipu.mirrors.registry import adapter_at
from quipu.testing.embedders import WordEmbedder
from tests.vendors.audited import audited
from tests.vendors.environments import python_of

_numbers = count(1)


def vendor_at(url: str, folder: Path, *, python: str | None = None, embedder: Any = None) -> Backend:
    """The adapter for an address, with the watched interpreter of its vendor; not yet opened."""
    system = url.partition("://")[0].partition("+")[0]
    interpreter = "" if system == "letta" else f"python={python or audited(python_of(system))}"
    joint = "&" if "?" in url else "?"
    return adapter_at(
        f"{url}{joint}{interpreter}" if interpreter else url,
        folder=folder,
        open_memory=other_memories(Settings()),
        embedder=embedder or WordEmbedder(384),
    )


class SharedBackend:
    """A running backend for one case. Whatever it says of tenants is turned back."""

    def __init__(self, inner: Backend) -> None:
        self.inner = inner
        self._suffix = f"-{next(_numbers)}"

    @property
    def capabilities(self) -> Capabilities:
        return self.inner.capabilities

    def _container(self, one: Container) -> Container:
        return replace(one, tenant=one.tenant + self._suffix)

    def _copy(self, one: Copy) -> Copy:
        return replace(one, container=self._container(one.container))

    def _place(self, one: Place) -> Place:
        return replace(one, container=self._container(one.container))

    def _mark(self, mark: Mark | None) -> Mark | None:
        if mark is None:
            return None
        assert mark.tenant.endswith(self._suffix), "the tenant's mark"
        return replace(mark, tenant=mark.tenant.removesuffix(self._suffix))

    async def open(self) -> None:
        await self.inner.open()

    async def put(self, copies: Sequence[Copy]) -> Sequence[str]:
        return await self.inner.put([self._copy(one) for one in copies])

    async def get(self, places: Sequence[Place]) -> Sequence[Kept]:
        found = await self.inner.get([self._place(one) for one in places])
        return [replace(kept, mark=self._mark(kept.mark)) for kept in found]

    async def search(self, query: Query, limit: int) -> Answer:
        containers = tuple(self._container(one) for one in query.containers)
        mine = replace(query, tenant=query.tenant + self._suffix, containers=containers)
        answer = await self.inner.search(mine, limit)
        return replace(answer, hits=tuple(replace(hit, mark=self._mark(hit.mark)) for hit in answer.hits))

    async def scan(self, container: Container) -> AsyncIterator[Kept]:
        async for kept in self.inner.scan(self._container(container)):
            yield replace(kept, mark=self._mark(kept.mark))

    async def delete(self, places: Sequence[Place]) -> int:
        return await self.inner.delete([self._place(one) for one in places])

    async def erase(self, places: Sequence[Place], remaining: Remaining) -> None:
        async def mine(container: Container) -> AsyncIterator[Copy]:
            home = replace(container, tenant=container.tenant.removesuffix(self._suffix))
            async for copy in remaining(home):
                yield self._copy(copy)

        if isinstance(self.inner, Erasing):
            await self.inner.erase([self._place(one) for one in places], mine)

    async def health(self) -> Health:
        return await self.inner.health()

    async def close(self) -> None:
        """The next case needs it."""
