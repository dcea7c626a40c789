"""Another Quipu as a mirror, over HTTP, on a real server."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from dataclasses import replace
from pathlib import Path

import httpx
import pytest

from quipu.backends.remote import make
from quipu.errors import BackendUnavailableError, InvalidError
from quipu.model.record import MemoryType
from quipu.ports.backend import Backend, Sent, Setup
from quipu.testing.backend import BackendContract
from quipu.testing.backend.case import Keeper, place
from quipu.testing.embedders import WordEmbedder
from quipu.testing.scenarios_v0 import MACHINE
from tests.faces.serving import served


def setup(url: str) -> Setup:
    return Setup(name="other", url=url, scheme=url.partition("://")[0], folder=Path("unused"))


class TestRemote(BackendContract):
    @pytest.fixture
    async def backend(self, tmp_path: Path) -> AsyncIterator[Backend]:
        self.place = tmp_path
        with served(tmp_path / "other.db", embedder=WordEmbedder(), rate_per_minute=0) as server:
            backend = make(setup(server.url.replace("http://", f"quipu+http://:{server.admin_token}@")))
            await backend.open()
            yield backend
            await backend.close()

    @pytest.fixture
    async def unreachable(self) -> Backend:
        return make(setup("quipu+http://127.0.0.1:9"))

    async def traces(self, backend: Backend, marker: str) -> Sequence[str]:
        return await asyncio.to_thread(
            lambda: [
                file.name for file in self.place.glob("other.db*") if marker.encode() in file.read_bytes()
            ]
        )

    @pytest.mark.parametrize(
        ("sent", "asked"), [(Sent.NEVER, 0), (Sent.UNKNOWN, 1), (Sent.BEGUN, 4)], ids=lambda one: str(one)
    )
    async def test_a_fill_looks_for_marks_only_where_there_may_be_some(
        self, keeper: Keeper, sent: Sent, asked: int
    ) -> None:
        """To look for them takes the longer the more is there: a fill that always did would never end."""
        looks = watched(keeper)
        for turn in range(4):
            await keeper.put_all([keeper.copy(f"tea {turn} {place}", sent=sent) for place in range(3)])
        assert len(looks) == asked
        assert len(await keeper.held()) == 12

    async def test_what_is_there_from_before_is_found_though_nothing_is_noted_of_it(
        self, keeper: Keeper
    ) -> None:
        copy = keeper.copy("tea at noon", sent=Sent.UNKNOWN)
        (first,) = await keeper.put_all([copy])
        keeper.backend._was_empty.clear()  # as in another process
        (again,) = await keeper.put_all([copy])
        assert again.native_id == first.native_id
        assert len(await keeper.held()) == 1


def watched(keeper: Keeper) -> list[str]:
    """The questions that are asked of the other side from now on."""
    asked: list[str] = []

    async def note(request: httpx.Request) -> None:
        if request.url.path.endswith("/export"):
            asked.append(str(request.url))

    keeper.backend._client.event_hooks["request"].append(note)
    return asked


class TestWithoutAnEmbedder(TestRemote):
    """What finds by words alone must know its own mark without any."""

    @pytest.fixture
    async def backend(self, tmp_path: Path) -> AsyncIterator[Backend]:
        self.place = tmp_path
        with served(tmp_path / "other.db", rate_per_minute=0) as server:
            backend = make(setup(server.url.replace("http://", f"quipu+http://:{server.admin_token}@")))
            await backend.open()
            yield backend
            await backend.close()

    async def test_a_text_without_words_is_there_once(self, keeper: Keeper) -> None:
        copies = [keeper.copy(text) for text in ("🧵", "-", "...")]
        first, again = await keeper.put_all(copies), await keeper.put_all(copies)
        assert [copy.native_id for copy in again] == [copy.native_id for copy in first]
        assert len(await keeper.held()) == 3

    async def test_a_procedure_on_its_way_is_found_or_made_up_for(self, keeper: Keeper) -> None:
        lost = await keeper.put(MACHINE, type=MemoryType.PROCEDURAL)
        never = keeper.copy("-", type=MemoryType.PROCEDURAL)
        found, made = await keeper.put_all([replace(lost, content="-", native_id=None), never])
        assert found.native_id == lost.native_id
        assert await keeper.backend.delete([place(found), place(made)]) == 2
        assert await keeper.held() == []


async def test_another_address_on_a_server_is_no_mirror(tmp_path: Path) -> None:
    with served(tmp_path / "other.db") as server:
        url = server.url.replace("http://", f"quipu+http://:{server.admin_token}@")
        with pytest.raises(BackendUnavailableError):
            await make(setup(f"{url}/elsewhere")).open()


async def test_a_wrong_token_is_unavailable(tmp_path: Path) -> None:
    with served(tmp_path / "other.db") as server:
        backend = make(setup(server.url.replace("http://", "quipu+http://:wrong@")))
        assert not (await backend.health()).is_up


def test_beyond_this_machine_tls_is_wanted() -> None:
    with pytest.raises(InvalidError):
        make(setup("quipu+http://memory.example.org"))
    make(setup("quipu+https://memory.example.org"))
