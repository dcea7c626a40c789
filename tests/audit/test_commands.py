"""`quipu verify`, `quipu audit export` and their exit codes."""

import json
from collections.abc import Callable
from pathlib import Path

import apsw
import pytest

from quipu.cli.program import run

Run = Callable[..., int]


@pytest.fixture
def quipu(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Run:
    """Runs a command line on the test's own file."""
    monkeypatch.setenv("QUIPU_EMBEDDER", "none")
    return lambda *words: run([*words, "--store-url", f"sqlite:///{tmp_path}/memory.db"])


def test_a_memory_and_its_export_are_verified_by_a_person(
    quipu: Run, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert quipu("remember", "Ana lives in Lisbon") == 0
    assert quipu("tenant", "create", "acme") == 0
    capsys.readouterr()
    assert quipu("verify") == 0
    said = capsys.readouterr().out
    assert "acme: verified" in said
    assert "default: verified" in said
    assert quipu("audit", "export", str(tmp_path / "export")) == 0
    assert quipu("audit", "export", str(tmp_path / "export")) == 1, "nothing is written over"
    assert sorted(path.name for path in tmp_path.iterdir() if "export" in path.name) == ["export"]
    (tmp_path / "memory.db").rename(tmp_path / "away.db")
    capsys.readouterr()
    assert quipu("verify", str(tmp_path / "export"), "--json") == 0
    found = json.loads(capsys.readouterr().out)
    assert (found["verified"], found["tenant"], found["reasons"]) == (True, "default", [])
    assert not (tmp_path / "memory.db").exists(), "no memory is opened"


def test_what_is_not_as_it_was_written_ends_with_two(
    quipu: Run, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    quipu("remember", "Ana lives in Lisbon")
    quipu("audit", "export", str(tmp_path / "export"))
    connection = apsw.Connection(str(tmp_path / "memory.db"))
    connection.execute("UPDATE record SET content = 'forged'")
    connection.close()
    capsys.readouterr()
    assert quipu("verify") == 2
    assert "altered_record" in capsys.readouterr().out
    checkpoints = tmp_path / "export" / "checkpoints.ndjson"
    checkpoints.write_text("")
    assert quipu("verify", str(tmp_path / "export")) == 2
    said = capsys.readouterr().out
    assert "not proven" in said or "NOT as it was written" in said


def test_a_trial_of_an_erasing_undo_asks_nobody(quipu: Run, capsys: pytest.CaptureFixture[str]) -> None:
    quipu("remember", "Ana lives in Lisbon", "--source", "web")
    capsys.readouterr()
    assert quipu("undo", "--source", "web", "--hard-delete", "--json") == 0
    (found,) = json.loads(capsys.readouterr().out)["findings"]
    assert (found["step"], found["outcome"]) == ("erase", None)
    assert quipu("undo", "--source", "web", "--hard-delete", "--no-dry-run", "--json") == 1
    assert quipu("undo", "--source", "web", "--hard-delete", "--no-dry-run", "--yes") == 0
    capsys.readouterr()
    assert quipu("audit", "log", "--op", "erase", "--json") == 0
    assert len(json.loads(capsys.readouterr().out)["entries"]) == 1


def test_wrong_paths_are_told_as_such(quipu: Run, tmp_path: Path) -> None:
    (tmp_path / "other.txt").write_text("x")
    assert quipu("verify", str(tmp_path / "nothing")) == 1
    assert quipu("verify", str(tmp_path / "other.txt")) == 1
    assert quipu("verify", str(tmp_path), "--keys", str(tmp_path / "other.txt")) == 1
    assert quipu("verify", "--keys", "x") == 1
    assert quipu("audit", "export", str(tmp_path / "no" / "folder")) == 1
    assert quipu("verify") == 1, "there is no memory to verify"
