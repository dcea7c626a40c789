"""What a memory writes beside itself, where the disk refuses: an error of ours, and nothing left behind."""

from __future__ import annotations

import errno
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from quipu import BackendUnavailableError, Memory
from quipu.memory.files import writing

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
