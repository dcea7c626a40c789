"""`quipu conformance` as a user starts it: on a file, a database, a server, and mirrors alone."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import httpx
import pytest

from quipu.testing.scenarios import SCENARIOS
from tests.conventions import command
from tests.faces.serving import Program
from tests.requirement import requirement

_PATIENCE_S = 560
EVERYTHING = [scenario.name for scenario in SCENARIOS]
#: They write much or wait. Where a ledger has played them by itself, the command need not have it do so again.
LONG = {
    "Q2_filter_before_top_k",
    "Q3_dead_and_unapproved",
    "Q4_many_users",
    "Q7_k",
    "Q10_expires_at",
    "Q34_concurrent_writers",
}
SHORT = [name for name in EVERYTHING if name not in LONG]
#: What nobody may do to a memory that is in use, and the scenarios that need it.
_FILES = "not run, the store lacks a look at the store's files"
LEFT_OUT = {
    "health_returns_status": "not run, the store lacks a way to stop the backend",
    "Q18_erasure": _FILES,
    "Q19_erasure_everywhere": _FILES,
    "Q28_approval_staging": _FILES,
}


@pytest.fixture(scope="session")
def models(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where the embedder is built once for these tests."""
    return tmp_path_factory.mktemp("models")


def _embedding(models: Path) -> dict[str, str]:
    return {"QUIPU_EMBEDDER": "onnx", "QUIPU_CACHE": str(models), "QUIPU_DOWNLOAD": "false"}


def _told(tmp_path: Path, *words: str, **settings: str) -> tuple[dict[str, Any], str]:
    """The report, and what a person reads."""
    report = tmp_path / "report.json"
    mine = {
        name: value for name, value in os.environ.items() if not name.startswith(("QUIPU_", "MEMORYWIRE_"))
    }
    done = subprocess.run(
        command("conformance", *words, "--report", str(report)),
        env={**mine, "XDG_CONFIG_HOME": str(tmp_path), "COLUMNS": "200", **settings},
        capture_output=True,
        text=True,
        check=False,
        timeout=_PATIENCE_S,
    )
    assert report.exists(), done.stderr
    return json.loads(report.read_text("utf-8")), done.stdout


def _only(names: Sequence[str]) -> list[str]:
    return [word for name in names for word in ("--only", name)]


def _holds(told: dict[str, Any], table: str, names: Sequence[str] = EVERYTHING) -> None:
    """Every scenario passed, or was left out for a reason that is stated."""
    results = {one["name"]: one for one in told["results"]}
    assert list(results) == list(names)
    assert {one["name"]: one["detail"] for one in results.values() if not one["passed"]} == LEFT_OUT
    assert all(one["assertions"] > 0 for one in results.values() if one["passed"])
    passed = len(names) - len(LEFT_OUT)
    assert told["counts"] == {"passed": passed, "failed": 0, "not_run": len(LEFT_OUT)}
    assert f"{passed} passed, 0 failed, {len(LEFT_OUT)} not run" in table
    assert all(name in table for name in results)


@pytest.mark.slow
@pytest.mark.timeout(600)
@requirement("memorywire:conformance.command")
def test_the_command_plays_everything_on_a_file(tmp_path: Path, models: Path) -> None:
    _holds(*_told(tmp_path, f"sqlite://{tmp_path / 'memory.db'}", **_embedding(models)))


@pytest.mark.slow
@pytest.mark.timeout(600)
@requirement("memorywire:conformance.command")
def test_the_command_plays_everything_on_a_server_which_can_be_asked_again_and_keeps_nothing(
    tmp_path: Path, models: Path
) -> None:
    with Program(tmp_path / "memory.db", QUIPU_RATE="0", **_embedding(models)) as server:
        _holds(*_told(tmp_path, server.url, QUIPU_TOKEN=server.token))
        _nothing_stays_behind(server)
        _holds(*_told(tmp_path, server.url, *_only(SHORT), QUIPU_TOKEN=server.token), names=SHORT)
        _nothing_stays_behind(server)


def _nothing_stays_behind(server: Program) -> None:
    with httpx.Client(base_url=server.url, headers={"Authorization": f"Bearer {server.token}"}) as client:
        assert client.get("/memorywire/v0/export").text == ""
        assert client.get("/memorywire/v0/proposals").json()["reviews"] == []
        assert [row["name"] for row in client.get("/quipu/v1/stores").json()["stores"]] == ["main"]


@pytest.mark.slow
@pytest.mark.timeout(600)
@requirement("memorywire:conformance.command")
def test_the_command_plays_what_was_chosen_on_a_database(
    tmp_path: Path, models: Path, empty_url: str
) -> None:
    """tests/conformance/test_postgres.py plays everything there."""
    assert set(EVERYTHING) > LONG
    _holds(*_told(tmp_path, empty_url, *_only(SHORT), **_embedding(models)), names=SHORT)


@pytest.mark.slow
@pytest.mark.timeout(600)
@requirement("memorywire:conformance.command")
def test_mirrors_alone_pass_without_an_embedder_too(tmp_path: Path) -> None:
    places = [f"sqlite://{tmp_path / name}.db" for name in ("ledger", "copy")]
    _holds(*_told(tmp_path, *places, "--mirrors-only", QUIPU_EMBEDDER="none"))
