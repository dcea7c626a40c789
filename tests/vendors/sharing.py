"""One running vendor for many cases: each case gets tenants of its own, so it meets nothing of the others'."""

from __future__ import annotations

import asyncio
import tempfile
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from importlib import import_module
from itertools import count
from pathlib import Path
from typing import Any

import pytest

from quipu.ports.backend import (
    Answer,
    Backend,
    Capabilities,
    Container,
    Copy,
    Erasing,
    Health,
    Kept,
    Place,
    Query,
    Remaining,
    Setup,
)
from quipu.testing.embedders import WordEmbedder
from tests.vendors.audited import audited

ROOT = Path(__file__).parents[2]
_numbers = count(1)


def python_of(vendor: str) -> str:
    """The interpreter of a vendor's environment. Without it a test fails: a vendor is never left out silently."""
    python = ROOT / ".vendor-venvs" / vendor / "bin" / "python"
    if not python.exists():
        pytest.fail(f"There is no environment for {vendor}: run `make vendors`.")
    return str(python)


def setup(url: str, vendor: str, folder: Path, embedder: Any = None, **given: Any) -> Setup:
    """What the registry hands an adapter."""
    return Setup(
        name=vendor,
        url=url,
        scheme=url.partition("://")[0],
        embedder=embedder or WordEmbedder(384),
        folder=folder,
        python=audited(python_of(vendor)),
        **given,
    )


def made(given: Setup, module: str) -> Backend:
    return import_module(f"quipu.backends.{module}").make(given)


class Lent:
    """The shared backend for one case."""

    def __init__(self, inner: Backend) -> None:
        self.inner = inner
        self._mark = f"-{next(_numbers)}"

    @property
    def capabilities(self) -> Capabilities:
        return self.inner.capabilities

    def container(self, one: Container) -> Container:
        return replace(one, tenant=one.tenant + self._mark)

    def _copy(self, one: Copy) -> Copy:
        return replace(one, container=self.container(one.container))

    def _place(self, one: Place) -> Place:
        return replace(one, container=self.container(one.container))

    async def open(self) -> None:
        await self.inner.open()

    async def put(self, copies: Sequence[Copy]) -> Sequence[str]:
        return await self.inner.put([self._copy(one) for one in copies])

    async def get(self, places: Sequence[Place]) -> Sequence[Kept]:
        return await self.inner.get([self._place(one) for one in places])

    async def search(self, query: Query, limit: int) -> Answer:
        containers = tuple(self.container(one) for one in query.containers)
        mine = replace(query, tenant=query.tenant + self._mark, containers=containers)
        return await self.inner.search(mine, limit)

    def scan(self, container: Container) -> AsyncIterator[Kept]:
        return self.inner.scan(self.container(container))

    async def delete(self, places: Sequence[Place]) -> int:
        return await self.inner.delete([self._place(one) for one in places])

    async def health(self) -> Health:
        return await self.inner.health()

    async def close(self) -> None:
        """The next case needs it."""


class LentErasing(Lent):
    """The same for a backend whose `delete` leaves bytes behind."""

    async def erase(self, places: Sequence[Place], remaining: Remaining) -> None:
        async def mine(container: Container) -> AsyncIterator[Copy]:
            home = replace(container, tenant=container.tenant.removesuffix(self._mark))
            async for copy in remaining(home):
                yield self._copy(copy)

        assert isinstance(self.inner, Erasing)
        await self.inner.erase([self._place(one) for one in places], mine)


def lent(inner: Backend) -> Lent:
    return LentErasing(inner) if isinstance(inner, Erasing) else Lent(inner)


@contextmanager
def running(given: Setup, module: str) -> Iterator[Backend]:
    """A vendor for a whole module of tests: each opens it, the first really does."""
    backend = made(given, module)
    try:
        yield backend
    finally:
        asyncio.run(backend.close())


@contextmanager
def folder() -> Iterator[Path]:
    with tempfile.TemporaryDirectory(prefix="quipu-vendor-") as name:
        yield Path(name)


def files_with(place: Path, marker: str) -> list[str]:
    """The files under a folder in which the marker's bytes are found."""
    return [
        str(file.relative_to(place))
        for file in sorted(place.rglob("*"))
        if file.is_file() and marker.encode() in file.read_bytes()
    ]
