"""What a memory is made with: whatever is of a wrong kind is told at once, and nothing is made on the disk."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import quipu.sync
from quipu import InvalidError, Memory, connect
from quipu.config import Config

WRONG: dict[str, list[Any]] = {
    "agent_id": [5, b"a", ["a"], [], {}, ""],
    "stores": [5, b"memory.db", {"a": 1}, [5], [None]],
    "fusion": [5, "rff", None],
    "write_policy": [5, "some", None],
    "embedder": [5, object(), ["onnx"]],
    "config": [5, "config.toml", {"agent": "a"}],
    "principal": [5, "admin", {"tenant": "a"}],
    "clock": [5, "now", 0],
    "progress": [5, "bar"],
    "connection": [5, "https://example.org", object()],
    "telemetry": [5, "on", object()],
}
MADE: dict[str, Callable[..., Any]] = {"async": Memory, "sync": quipu.sync.Memory}


@pytest.mark.parametrize("made", MADE.values(), ids=MADE)
@pytest.mark.parametrize(
    ("name", "value"), [(name, value) for name, values in WRONG.items() for value in values]
)
def test_a_wrong_kind_is_told_with_its_place(
    made: Callable[..., Any], name: str, value: Any, tmp_path: Path
) -> None:
    given = {"agent_id": "ana", "stores": tmp_path / "memory.db", name: value}
    with pytest.raises(InvalidError) as refused:
        made(**given)
    assert refused.value.faults[0].pointer.startswith(f"/{name}")
    assert refused.value.faults[0].accepted or value == ""
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("made", [connect, quipu.sync.connect])
@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("server", 5),
        ("token", 5),
        ("timeout", "long"),
        ("retries", "many"),
        ("insecure", "no"),
        ("config", 5),
        ("agent_id", 5),
    ],
)
def test_a_way_to_a_server_tells_a_wrong_kind_too(made: Callable[..., Any], name: str, value: Any) -> None:
    with pytest.raises(InvalidError) as refused:
        made(**{"server": "https://memory.example.org", name: value})
    assert refused.value.faults[0].pointer == f"/{name}"


async def test_a_clock_that_counts_seconds_is_told_from_one_that_counts_milliseconds(tmp_path: Path) -> None:
    clock: Any = time.time
    memory = Memory("ana", tmp_path / "memory.db", embedder="none", clock=clock)
    with pytest.raises(InvalidError) as refused:
        await memory.remember("Deploys happen on Tuesdays")
    await memory.close()
    assert refused.value.faults[0].pointer == "/clock"
    async with Memory("ana", tmp_path / "memory.db", embedder="none") as whole:
        assert (await whole.list()).records == ()


async def test_a_journal_that_is_signed_all_the_time_leaves_time_for_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`checkpoint_every_s` of 0 once made a loop that never rested."""
    looks = 0

    async def looked(*_: object) -> None:
        nonlocal looks
        looks += 1

    monkeypatch.setattr("quipu.memory.embedded.EmbeddedConnection._sign_if_due", looked)
    config = Config(checkpoint_every_s=0, embedder="none")
    async with Memory("ana", tmp_path / "memory.db", config=config) as memory:
        for number in range(5):
            await memory.remember(f"fact {number}")
        assert looks == 0  # the first look is a second away
