"""Memories whose search terms an earlier build has made: told, renewed, and found again by every process."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any
from zlib import crc32

import apsw
import pytest

from quipu import ConflictError, Memory, UnsupportedError
from quipu.bootstrap import start
from quipu.config import Config
from quipu.model.journal import Op
from quipu.model.principal import local
from quipu.sync import connect
from quipu.testing.embedders import WordEmbedder
from tests.faces.serving import served
from tests.service.looks import found, kept, standing, verifies

#: An earlier build took a word and the emoji beside it for one word.
TEXT = "\U0001f375tea with Mara"

#: Renews until something was renewed, says how much, and waits to be killed.
HALF = """
import asyncio, sys
from quipu.bootstrap import start
from quipu.config import Config
from quipu.model.principal import local

async def main():
    running = await start(Config(store_url=f"sqlite://{sys.argv[1]}", embedder="none"))
    print(await anext(running.service.reembed(local())), flush=True)
    sys.stdin.readline()

asyncio.run(main())
"""

WHOLE = """
import sys
from quipu.sync import Memory

with Memory("ana", sys.argv[1], embedder="none") as memory:
    print(memory.reembed(), flush=True)
"""


def aged(file: Path, *texts: str) -> None:
    """As an earlier build would have left the file: these texts, or all, cut otherwise."""
    with apsw.Connection(str(file)) as connection:
        for row, content in connection.execute("SELECT row, content FROM record").fetchall():
            if not texts or content in texts:
                terms = crc32(content.encode()).to_bytes(4, "little") + b"\x01"
                connection.execute("UPDATE record SET terms = ? WHERE row = ?", (terms, row))
        connection.execute("UPDATE tenant SET terms = 0")


def program(text: str, file: Path) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-c", text, str(file)],
        cwd=Path(__file__).parents[2],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )


async def test_what_an_earlier_build_wrote_is_found_again_after_reembed(opened: Any, tmp_path: Path) -> None:
    file = tmp_path / "memory.db"
    memory: Memory = opened(file, embedder="none")
    old = await kept(memory, TEXT)
    position = (await memory.health())["seq"]
    sound = await kept(memory, "tea at noon")
    before = await memory.history(old), await memory.journal()
    aged(file, TEXT)
    assert await found(memory, "tea") == [sound]
    (fault,) = (await memory.verify()).faults
    assert (fault.kind, fault.id) == ("index_differs", old)
    assert "`quipu reembed`" in fault.detail
    told: list[int] = []
    assert await memory.reembed(told.append) == 1
    assert told == [1]
    assert set(await found(memory, "tea")) == {old, sound}
    assert await found(memory, "tea", as_of=position) == [old]
    assert await verifies(memory)
    entries = await memory.journal()
    assert (await memory.history(old), entries[: len(before[1])]) == before
    (noted,) = [entry for entry in entries if entry.op is Op.REEMBED]
    assert (noted.detail, noted.records) == ({"terms": 1}, ())


async def test_terms_are_renewed_before_vectors_are_made(opened: Any, tmp_path: Path) -> None:
    file = tmp_path / "memory.db"
    blind: Memory = opened(file, embedder="none")
    old = await kept(blind, TEXT)
    with apsw.Connection(str(file)) as connection:
        connection.execute("UPDATE record SET terms = NULL")
    seeing: Memory = opened(file)
    assert await seeing.reembed() == 2  # its terms, and its vector
    assert (await seeing.statistics())["vectors"] == 1
    assert await found(seeing, "Mara") == [old]
    assert await verifies(seeing)
    (noted,) = [entry for entry in await seeing.journal() if entry.op is Op.REEMBED]
    assert (noted.detail["terms"], noted.detail["versions"]) == (1, 1)


async def test_without_an_embedder_there_is_nothing_to_do_once_the_terms_are_right(
    opened: Any, tmp_path: Path
) -> None:
    file = tmp_path / "memory.db"
    memory: Memory = opened(file, embedder="none")
    await memory.remember("tea")
    with apsw.Connection(str(file)) as connection:
        connection.execute("UPDATE tenant SET terms = 0")
    before = await standing(memory)
    assert await memory.reembed() == 0
    assert await standing(memory) == before
    with pytest.raises(UnsupportedError):
        await memory.reembed()


async def test_a_renewal_that_is_killed_half_way_goes_on(opened: Any, tmp_path: Path) -> None:
    file = tmp_path / "memory.db"
    memory: Memory = opened(file, embedder="none")
    await memory.remember_many([f"\U0001f375tea {number}" for number in range(1_200)])
    aged(file)
    assert await found(memory, "tea") == []
    child = program(HALF, file)
    assert child.stdout is not None
    first = int(child.stdout.readline())
    child.kill()
    child.communicate(timeout=60)
    assert 0 < first < 1_200
    assert len(await found(memory, "tea", k=100)) == 100
    assert len((await memory.verify()).faults) == 1_200 - first
    meanwhile = await kept(memory, "\U0001f375tea meanwhile")
    assert await memory.reembed() == 1_200 - first
    assert await found(memory, "tea meanwhile", k=1) == [meanwhile]
    assert await verifies(memory)


async def test_another_process_renews_and_this_one_finds(opened: Any, tmp_path: Path) -> None:
    file = tmp_path / "memory.db"
    memory: Memory = opened(file, embedder="none")
    old = await kept(memory, TEXT)
    aged(file)
    assert await found(memory, "tea") == []
    child = program(WHOLE, file)
    told, _ = child.communicate(timeout=60)
    assert (child.returncode, told) == (0, "1\n")
    assert await found(memory, "tea") == [old]


def test_a_server_renews_for_whoever_may_ask(tmp_path: Path) -> None:
    file = tmp_path / "memory.db"
    with (
        served(file) as server,
        connect(server.url, token=server.admin_token, agent_id="ana") as memory,
    ):
        old = memory.remember(TEXT).id
        aged(file, TEXT)
        assert [hit.id for hit in memory.recall("tea", min_relevance=0)] == []
        assert "`quipu reembed`" in memory.verify().faults[0].detail
        told: list[int] = []
        assert memory.reembed(told.append) == 1
        assert told == [1]
        assert [hit.id for hit in memory.recall("tea", min_relevance=0)] == [old]
        assert memory.verify().holds


async def test_two_that_renew_at_once_do_no_harm(opened: Any, tmp_path: Path) -> None:
    file = tmp_path / "memory.db"
    memory: Memory = opened(file, embedder="none")
    await memory.remember_many([f"\U0001f375tea {number}" for number in range(1_200)])
    aged(file)
    children = [program(WHOLE, file) for _ in range(2)]
    late = [await kept(memory, f"\U0001f375tea late {number}") for number in range(20)]
    done = [child.communicate(timeout=120)[0] for child in children]
    # Who comes when nothing is left to do is told so: 0, or that there is no embedder.
    assert sum(int(told or 0) for told in done) >= 1_200
    assert set(late) <= set(await found(memory, "late", k=50))
    assert await verifies(memory)


@pytest.mark.parametrize("damage", ["no machine", "[" * 100_000])
async def test_a_machine_that_was_altered_is_named_and_stops_nothing(
    opened: Any, tmp_path: Path, damage: str
) -> None:
    file = tmp_path / "memory.db"
    memory: Memory = opened(file)
    machine = {"name": "brew", "states": ["cold", "hot"], "initial": "cold", "transitions": []}
    altered = await kept(memory, machine, type="procedural")
    old = await kept(memory, TEXT)
    aged(file, TEXT)
    with apsw.Connection(str(file)) as connection:
        connection.execute("UPDATE record SET content = ? WHERE id = ?", (damage, altered))
    first = (await memory.verify()).faults[0]
    assert (first.kind, first.id) == ("altered_record", altered)
    assert await memory.reembed() == 2
    assert await found(memory, "tea", types=["semantic"]) == [old]
    assert altered in await found(memory, "brew cold", min_relevance=0)
    assert {fault.kind for fault in (await memory.verify()).faults} == {"altered_record"}


async def test_two_that_move_to_different_embedders_do_not_undo_each_other_for_ever(
    opened: Any, tmp_path: Path
) -> None:
    file = tmp_path / "memory.db"
    memory: Memory = opened(file)
    await memory.remember_many([f"note {number} on tea" for number in range(600)])
    settings = Config(store_url=f"sqlite://{file}")
    both = [await start(settings, embedder=WordEmbedder(size)) for size in (24, 48)]
    one, other = (running.service.reembed(local()) for running in both)
    assert await anext(one) > 0
    assert await anext(other) > 0
    for moving in (one, other):  # each has found its first vectors gone
        with pytest.raises(ConflictError) as refused:
            await anext(moving)
        assert refused.value.reason == "embedding_mismatch"
    assert len(await found(memory, "note 7 on tea")) == 20
    for running in both:
        await running.close()
    moved: Memory = opened(file, embedder=WordEmbedder(48))
    assert await moved.reembed() == 600
    assert (await moved.statistics())["vectors"] == 600
    assert await verifies(moved)


async def test_a_vector_of_the_wrong_length_is_made_anew(opened: Any, tmp_path: Path) -> None:
    file = tmp_path / "memory.db"
    memory: Memory = opened(file)
    record_id = await kept(memory, "tea at noon")
    with apsw.Connection(str(file)) as connection:
        connection.execute("UPDATE vector SET data = x'00000000'")
    again: Memory = opened(file)
    (fault,) = (await again.verify()).faults
    assert "`quipu reembed`" in fault.detail
    assert await again.reembed() == 1
    assert await found(again, "tea") == [record_id]
    assert await verifies(again)


async def test_vectors_of_nothing_go_with_vacuum(opened: Any, tmp_path: Path) -> None:
    file = tmp_path / "memory.db"
    memory: Memory = opened(file)
    record_id = await kept(memory, "tea at noon")
    with apsw.Connection(str(file)) as connection:
        connection.execute("INSERT INTO vector SELECT slot + 200, space, data FROM vector")
    (fault,) = (await memory.verify()).faults
    assert "`quipu vacuum`" in fault.detail
    await memory.vacuum()
    assert await verifies(memory)
    assert await found(memory, "tea") == [record_id]
    assert (await memory.statistics())["vectors"] == 1
