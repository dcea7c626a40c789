"""What every case of the suite has at hand."""

import asyncio
from collections.abc import Sequence
from dataclasses import replace
from itertools import count
from pathlib import Path
from typing import Any, Final

import pytest

from quipu.mirrors.backend import Answer, Backend, Capability, Container, Copy, Kept, Place, Query
from quipu.search.filters import canonical

#: 2026-01-01.
START_MS: Final = 1_767_225_600_000
HOME: Final = Container(tenant="acme", store_id="ms_01", agent_id="ana", user_id="alice")


class Keeper:
    """Writes copies into a backend and asks for them, with everything that is not said filled in."""

    def __init__(self, backend: Backend) -> None:
        self.backend = backend
        self._ids = count(1)

    def copy(self, content: str = "tea at noon", container: Container = HOME, **fields: Any) -> Copy:
        """A copy of a record of its own, not yet kept."""
        known: dict[str, Any] = {
            "record_id": fields.pop("record_id", None) or f"mem_{next(self._ids):026d}",
            "version": 1,
            "type": "semantic",
            "created_at": START_MS,
        }
        return Copy(container=container, content=content, **{**known, **fields})

    async def put(self, content: str = "tea at noon", container: Container = HOME, **fields: Any) -> Copy:
        """Keep one; what is returned knows where."""
        return (await self.put_all([self.copy(content, container, **fields)]))[0]

    async def put_all(self, copies: Sequence[Copy]) -> list[Copy]:
        native = await self.backend.put(copies)
        assert len(native) == len(copies), "one native id for each"
        return [replace(copy, native_id=name) for copy, name in zip(copies, native, strict=True)]

    async def change(self, copy: Copy, content: str) -> Copy:
        """The next version, as the service sends it to this backend."""
        following = replace(copy, version=copy.version + 1, content=content)
        if "update" not in self.backend.capabilities:
            await self.backend.delete([place(copy)])
            following = replace(following, native_id=None)
        return (await self.put_all([following]))[0]

    async def asked(self, text: str, limit: int = 10, container: Container = HOME, **fields: Any) -> Answer:
        """Search in a container, or wider where a field is given as None."""
        if fields.get("filter"):
            fields["filter"] = canonical(fields["filter"], plain_names="metadata")
        query = Query(
            tenant=fields.pop("tenant", container.tenant),
            agent_id=fields.pop("agent_id", container.agent_id),
            user_id=fields.pop("user_id", container.user_id),
            store_id=fields.pop("store_id", container.store_id),
            text=text,
            containers=fields.pop("containers", (container,)),
            **fields,
        )
        return await self.backend.search(query, limit)

    async def found(
        self, text: str, limit: int = 10, container: Container = HOME, **fields: Any
    ) -> list[str]:
        """The native ids a search comes back with, best first."""
        return [hit.native_id for hit in (await self.asked(text, limit, container, **fields)).hits]

    async def held(self, container: Container = HOME) -> list[Kept]:
        """Everything in a container."""
        return [kept async for kept in self.backend.scan(container)]


def place(copy: Copy) -> Place:
    """Where a copy that was kept is."""
    assert copy.native_id is not None
    return Place(copy.container, copy.record_id, copy.native_id)


def files_with(folder: Path, marker: str) -> list[str]:
    """The files under a folder in which the marker's bytes are found."""
    return [
        str(file.relative_to(folder))
        for file in sorted(folder.rglob("*"))
        if file.is_file() and marker.encode() in file.read_bytes()
    ]


class BackendCase:
    """A backend of the subclass, open and empty for each case."""

    #: One more than the vendor's largest page.
    page = 60
    #: Where traces are looked for.
    folder: Path

    def made(self, folder: Path) -> Backend:
        """A backend that keeps its things in an empty folder, not opened."""
        raise NotImplementedError("say how the backend is made")

    def made_unreachable(self, folder: Path) -> Backend:
        """A backend, not opened, whose vendor is not there."""
        raise NotImplementedError("say how a backend is made that cannot be reached")

    @pytest.fixture
    async def backend(self, tmp_path: Path) -> Any:
        """Open, empty, closed afterwards."""
        self.folder = tmp_path
        backend = self.made(tmp_path)
        await backend.open()
        yield backend
        await backend.close()

    @pytest.fixture
    async def unreachable(self, tmp_path: Path) -> Any:
        return self.made_unreachable(tmp_path)

    async def traces(self, backend: Backend, marker: str) -> Sequence[str]:
        """Where bytes of the marker are still to be found, behind the port's back."""
        return await asyncio.to_thread(files_with, self.folder, marker)

    @pytest.fixture
    def keeper(self, backend: Backend) -> Keeper:
        return Keeper(backend)

    @staticmethod
    def needs(backend: Backend, *promises: Capability) -> None:
        """Skip, by name, where a promise is not made."""
        for promise in promises:
            if promise not in backend.capabilities:
                pytest.skip(f"not promised: {promise}")
