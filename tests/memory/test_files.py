"""What a memory writes beside itself, where the disk refuses: an error of ours, and nothing left behind."""

from __future__ import annotations

import asyncio
import errno
import hashlib
import os
import subprocess
import sys
from collections.abc import Awaitable, Callable
from io import BytesIO
from pathlib import Path
from typing import Any

import pytest

from quipu import BackendUnavailableError, InvalidError, Memory
from quipu.memory.files import writing
from quipu.memory.moving import _PIECE, _written
from quipu.model.moving import ExportedFile, ExportReport, Format

WORDS = "open sesame"
WRITTEN: dict[str, Callable[[Memory, Path], Awaitable[Any]]] = {
    "a bundle": lambda memory, place: memory.export_file(place),
    "a sealed bundle": lambda memory, place: memory.export_file(place, passphrase=WORDS),
    "a proof": lambda memory, place: memory.export_journal(place),
    "a backup": lambda memory, place: memory.backup(place),
}


def names(folder: Path) -> set[str]:
    return {item.name for item in folder.iterdir()}


@pytest.mark.parametrize("write", WRITTEN.values(), ids=WRITTEN)
@pytest.mark.parametrize("name", ["below-a-file/x", "x" * 300])
async def test_a_place_that_cannot_be_is_told(
    write: Callable[[Memory, Path], Awaitable[Any]], name: str, tmp_path: Path
) -> None:
    (tmp_path / "below-a-file").write_text("a file")
    async with Memory("ana", tmp_path / "memory.db", embedder="none") as memory:
        await memory.remember("Deploys happen on Tuesdays")
        with pytest.raises(BackendUnavailableError) as refused:
            await write(memory, tmp_path / name)
        assert refused.value.reason in ("cannot_open", "backup")
        assert refused.value.hint
    assert names(tmp_path) == {"below-a-file", "memory.db", "memory.db.key"}


async def test_a_proof_is_not_written_over_a_file(tmp_path: Path) -> None:
    (tmp_path / "proof").write_text("mine")
    async with Memory("ana", tmp_path / "memory.db", embedder="none") as memory:
        await memory.remember("Deploys happen on Tuesdays")
        with pytest.raises(BackendUnavailableError) as refused:
            await memory.export_journal(tmp_path / "proof")
    assert refused.value.reason == "cannot_open"
    assert (tmp_path / "proof").read_text() == "mine"


@pytest.mark.parametrize(
    ("number", "reason"),
    [
        (errno.ENOSPC, "disk_full"),
        (errno.EDQUOT, "disk_full"),
        (errno.EROFS, "read_only"),
        (errno.EACCES, "read_only"),
        (errno.ENOENT, "cannot_open"),
    ],
)
def test_why_it_was_refused_has_a_name(number: int, reason: str) -> None:
    with pytest.raises(BackendUnavailableError) as refused, writing(Path("proof")):
        raise OSError(number, "no")
    assert refused.value.reason == reason


async def test_a_memory_below_a_file_is_told(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("a file")
    memory = Memory("ana", tmp_path / "file" / "deep" / "memory.db", embedder="none")
    with pytest.raises(BackendUnavailableError) as refused:
        await memory.remember("Deploys happen on Tuesdays")
    assert refused.value.reason == "cannot_open"


async def test_a_memory_is_opened_by_a_link_as_often_as_by_its_name(tmp_path: Path) -> None:
    """What is written by one name is read by the other, and has one key beside it."""
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "link.db").symlink_to(Path("elsewhere") / "memory.db")
    (tmp_path / "other.db").symlink_to("link.db")
    for number, name in enumerate(("link.db", "other.db", "elsewhere/memory.db", "link.db"), start=1):
        async with Memory("ana", tmp_path / name, embedder="none") as memory:
            await memory.remember("tea")
            assert len(await memory.recall("tea")) == number
            assert (await memory.verify()).faults == ()
    assert names(tmp_path) == {"elsewhere", "link.db", "other.db"}
    assert names(tmp_path / "elsewhere") == {"memory.db", "memory.db.key"}


@pytest.mark.parametrize("name", ["a" * 300 + ".db", "folder/" * 1_000 + "memory.db"])
async def test_a_name_that_is_too_long_is_told(name: str, tmp_path: Path) -> None:
    with pytest.raises(BackendUnavailableError) as refused:
        async with Memory("ana", tmp_path / name):
            pass
    assert refused.value.reason == "cannot_open"
    assert names(tmp_path) == set()


async def test_a_link_that_leads_to_itself_is_told(tmp_path: Path) -> None:
    (tmp_path / "loop.db").symlink_to("loop.db")
    with pytest.raises(BackendUnavailableError) as refused:
        async with Memory("ana", tmp_path / "loop.db", embedder="none"):
            pass
    assert refused.value.reason == "cannot_open"


async def test_two_who_write_one_file_at_once_each_write_a_whole_one(tmp_path: Path) -> None:
    together, place = asyncio.Barrier(2), tmp_path / "export.zip"
    texts = [letter * 3 * _PIECE for letter in (b"a", b"b")]

    async def meet() -> None:
        async with asyncio.timeout(30):
            await together.wait()

    async def write(text: bytes) -> ExportReport:
        digest = hashlib.sha256(text).hexdigest()
        report = ExportReport(
            export_id="exp_1",
            format=Format.BUNDLE,
            file_name=place.name,
            media_type="application/zip",
            size=len(text),
            sha256=digest,
            items=1,
        )
        return await _written(ExportedFile(BytesIO(text), report, meet), place, None)

    reports = await asyncio.gather(*map(write, texts))
    assert place.read_bytes() in texts
    assert [report.size for report in reports] == [3 * _PIECE, 3 * _PIECE]
    assert names(tmp_path) == {"export.zip"}


def test_a_passing_memory_leaves_nothing_where_nobody_closes_it(tmp_path: Path) -> None:
    program = """
import asyncio, os, sys
from quipu import Memory
memory = Memory(stores="sqlite://:memory:", embedder="none")
asyncio.run(memory.remember("x"))
if os.fork() == 0:
    sys.exit()
os.wait()
assert os.listdir(os.environ["TMPDIR"])
"""
    environment = {**os.environ, "TMPDIR": str(tmp_path), "HOME": str(tmp_path / "home")}
    command = [sys.executable, "-c", program]
    done = subprocess.run(command, env=environment, capture_output=True, check=False, timeout=60)
    assert done.returncode == 0, done.stderr.decode()
    assert not [file for file in tmp_path.iterdir() if file.name.startswith("quipu-")]


async def test_a_home_of_nobody_is_told() -> None:
    memory = Memory(stores="sqlite://~nobody-is-called-so/memory.db", embedder="none")
    with pytest.raises(InvalidError) as refused:
        await memory.remember("x")
    assert refused.value.faults[0].pointer == "/stores"
