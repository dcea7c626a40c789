"""`Memory(stores=[…])`: the first ledger is the ledger, and everything else mirrors it; the settings add to them."""

from pathlib import Path
from typing import Any

import httpx
import pytest

from quipu import InvalidError, Memory
from quipu.bootstrap import http_app, open_container
from quipu.config import Settings
from quipu.sync import Memory as BlockingMemory
from quipu.testing.backend.case import files_with
from quipu.testing.embedders import WordEmbedder
from tests.conformance.conftest import opened
from tests.router.other_package import Store

PATIENT = Settings(mirror_write_deadline_ms=10_000)


def texts(answer: Any) -> set[str]:
    return {hit.text for hit in answer}


async def test_the_first_ledger_is_the_ledger_and_the_others_mirror_it(tmp_path: Path) -> None:
    first, second = tmp_path / "first.db", f"sqlite-vec://{tmp_path}/second.db?name=copy"
    async with Memory("ana", [first, second], embedder=WordEmbedder(), config=PATIENT) as memory:
        done = await memory.remember("Mara likes tea", user_id="mara")
        assert done.stores == ("sqlite", "copy")
        (hit,) = await memory.recall("what does Mara like", min_relevance=0)
        assert set(hit.found_by) == {"sqlite", "copy"}
        gone = await memory.forget(ids=[done.id], hard_delete=True)
        assert [(one.store, one.count) for one in gone.stores] == [("sqlite", 1), ("copy", 1)]
    assert files_with(tmp_path, "likes tea") == []


async def test_an_object_that_speaks_memorywire_mirrors_and_shows_what_it_has_of_its_own(
    tmp_path: Path,
) -> None:
    async with opened(WordEmbedder(), str(tmp_path / "other.db")) as found:
        other = found.memory()
        await other.remember("Mara plays the cello", agent_id="ana")
        await other.remember("Bob plays the piano", agent_id="bob")
        async with Memory(
            "ana", [tmp_path / "a.db", other], embedder=WordEmbedder(), config=PATIENT
        ) as memory:
            assert (await memory.remember("Mara likes tea")).stores == ("sqlite", "store")
            answer = await memory.recall("what does Mara play and like", min_relevance=0)
            assert [(hit.text, hit.foreign) for hit in answer] == [
                ("Mara likes tea", False),
                ("Mara plays the cello", True),
            ]
        assert texts(await other.recall("Mara", agent_id="ana", min_relevance=0)) == {"Mara plays the cello"}


async def test_who_is_asked_as_a_mirror_counts_nothing_as_recalled(tmp_path: Path) -> None:
    """It is asked for more than is shown; what was recalled is counted where it was recalled."""
    async with opened(WordEmbedder(), str(tmp_path / "other.db")) as found:
        other, places = found.remote(), [tmp_path / "a.db"]
        async with Memory("ana", [*places, other], embedder=WordEmbedder(), config=PATIENT) as memory:
            await memory.remember("Mara likes tea")
            assert (await memory.recall("tea", min_relevance=0)).stores_queried == ("sqlite", "store")
            for asked, count in ((memory, 1), (found.memory(), 0)):
                await asked.expire({"no_recall_in_days": 36_500}, agent_id="ana", dry_run=True)
                agent = (await asked.call("list_agents")).agents[0].agent_id
                (record,) = (await asked.list(agent_id=agent)).records
                assert record.recall_count == count


async def test_an_object_alone_mirrors_the_ledger_of_the_settings(tmp_path: Path) -> None:
    settings = PATIENT.with_values(store=str(tmp_path / "set.db"))
    async with Memory("ana", [Store("other")], embedder="none", config=settings) as memory:
        assert (await memory.remember("tea at noon")).stores == ("sqlite", "store")
    async with Memory("ana", tmp_path / "set.db", embedder="none") as memory:
        assert texts(await memory.recall("tea", min_relevance=0)) == {"tea at noon"}


def test_a_blocking_memory_has_mirrors_too(tmp_path: Path) -> None:
    places = [tmp_path / "a.db", f"sqlite://{tmp_path}/b.db"]
    with BlockingMemory("ana", places, embedder="none", config=PATIENT) as memory:
        assert memory.remember("tea at noon").stores == ("sqlite", "sqlite-2")
        assert [one.name for one in memory.list_mirrors().mirrors] == ["sqlite-2"]
        assert memory.resync_mirror("sqlite-2").differing == 0


async def test_a_server_has_the_mirrors_of_its_settings(tmp_path: Path) -> None:
    settings = PATIENT.with_values(mirrors=(f"sqlite://{tmp_path}/copy.db?name=copy",))
    container = await open_container(settings, stores=[str(tmp_path / "a.db")], embedder=WordEmbedder())
    try:
        network = httpx.ASGITransport(http_app(container, is_open=True))
        async with httpx.AsyncClient(transport=network, base_url="http://127.0.0.1:8321") as http:
            kept = await http.post("/v1/memories", json={"content": "tea at noon", "agent_id": "ana"})
            assert kept.json()["stores"] == ["sqlite", "copy"]
            found = await http.post("/v1/memories/recall", json={"query": "tea", "agent_id": "ana"})
            assert found.json()["stores_queried"] == ["sqlite", "copy"]
            (status,) = (await http.get("/v1/mirrors")).json()["mirrors"]
            assert (status["name"], status["waiting"], status["error"]) == ("copy", 0, None)
            mended = await http.post("/v1/mirrors/copy/resync", json={})
            assert (mended.json()["checked"], mended.json()["differing"]) == (1, 0)
            v0 = await http.post("/memorywire/v0/recall", json={"query": "tea", "agent_id": "ana"})
            assert v0.json()["stores_queried"] == ["sqlite", "copy"]
    finally:
        await container.close()


async def test_mirrors_are_searched_and_not_written_where_only_the_ledger_is(tmp_path: Path) -> None:
    places, words = [tmp_path / "a.db", f"sqlite://{tmp_path}/b.db?name=b"], WordEmbedder()
    async with Memory("ana", places, embedder=words, config=PATIENT) as memory:
        await memory.remember("tea at noon")
    async with Memory("ana", places, embedder=words, config=PATIENT, write_policy="primary_only") as memory:
        assert (await memory.remember("tea at four")).stores == ("sqlite",)
        answer = await memory.recall("tea", min_relevance=0)
        by_text = {hit.text: set(hit.found_by) for hit in answer}
        assert by_text == {"tea at noon": {"sqlite", "b"}, "tea at four": {"sqlite"}}


@pytest.mark.parametrize(
    "mirror", ["sqlite://{0}/a.db", "{0}/a.db", "sqlite-vec:///{0}/./a.db", "nothing://hunter2"]
)
async def test_what_cannot_be_a_mirror_stops_the_start(mirror: str, tmp_path: Path) -> None:
    places = [str(tmp_path / "a.db"), mirror.format(tmp_path)]
    with pytest.raises(InvalidError) as refused:
        await open_container(Settings(), stores=places, embedder="none")
    assert "hunter2" not in f"{refused.value} {refused.value.faults}"
