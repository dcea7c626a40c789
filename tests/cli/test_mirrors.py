"""mirror and conformance on the command line."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.cli.conftest import Cli
from tests.requirement import requirement


@requirement("memorywire:router.verify")
def test_a_mirror_is_added_filled_verified_and_removed(cli: Cli, tmp_path: Path) -> None:
    copy = tmp_path / "copy.db"
    cli.said("remember", "Mara is vegetarian")
    assert "copy" in cli.said("mirror", "add", f"sqlite://{copy}?name=copy")
    assert json.loads(cli.said("mirror", "list", "--json"))["mirrors"][0]["name"] == "copy"
    cli.said("mirror", "resync", "copy")
    (status,) = json.loads(cli.said("mirror", "status", "--json"))["mirrors"]
    assert (status["waiting"], status["complete"]) == (0, True)
    assert "0 differences" in cli.said("mirror", "verify", "copy")
    assert "sqlite" in cli.said("mirror", "list")
    cli.said("mirror", "remove", "copy")
    assert json.loads(cli.said("mirror", "list", "--json")) == {"mirrors": []}
    assert copy.exists()


@requirement("memorywire:router.urls")
@pytest.mark.parametrize(
    "url", ["nowhere://me:hunter2@host", "postgresql://me:hunter2@127.0.0.1:1/x?connect_timeout=1"]
)
def test_a_mirror_that_cannot_be_is_refused_without_its_credential(cli: Cli, url: str) -> None:
    done = cli("mirror", "add", url)
    assert done.exit_code != 0
    assert "hunter2" not in done.output
    assert json.loads(cli.said("mirror", "list", "--json")) == {"mirrors": []}


def test_conformance_plays_scenarios_and_writes_a_report(cli: Cli, tmp_path: Path) -> None:
    report = tmp_path / "report.json"
    cli.said("conformance", "--only", "basic_remember_recall", "--report", str(report))
    told = json.loads(report.read_text())
    assert told["counts"] == {"passed": 1, "failed": 0, "not_run": 0}
    assert told["results"][0]["assertions"] > 0
    assert cli("conformance", "--only", "nothing").exit_code == 1
    assert cli("conformance", "--mirrors-only").exit_code == 1
