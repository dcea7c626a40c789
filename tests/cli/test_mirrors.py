"""mirror and conformance on the command line."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from quipu.model.principal import local
from quipu.ports.backend import Container, Place
from quipu.service.memory import MemoryService
from tests.cli.conftest import Cli
from tests.faces.serving import Served, served
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


# -- on a server ------------------------------------------------------------------------------------------------------


@pytest.fixture
def server(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Served]:
    """A server with a mirror, which the command line is told of by `--server` alone."""
    url = f"sqlite://{tmp_path / 'copy.db'}?name=copy"
    with served(tmp_path / "served.db", mirrors=url, mirror_write_deadline_ms=5000) as running:
        monkeypatch.setenv("QUIPU_TOKEN", running.admin_token)
        monkeypatch.delenv("QUIPU_STORE")
        yield running


async def _lose_one(service: MemoryService) -> None:
    """Behind our back a copy goes."""
    (line,) = service.mirrors.lines
    backend = line.mirror.backend
    (store,) = await service.stores.list(local())
    home = Container(tenant="default", store_id=store.id, agent_id="ana")
    kept = [one async for one in backend.scan(home)]
    assert await backend.delete([Place(home, str(kept[0].record_id), kept[0].native_id)]) == 1


@requirement("memorywire:router.operated")
def test_a_servers_mirrors_are_looked_at_verified_and_mended(cli: Cli, server: Served) -> None:
    at = ("--server", server.url)
    for text in ("Mara is vegetarian", "Jonas plays the cello"):
        cli.remember(text, *at, "--agent", "ana")
    (status,) = json.loads(cli.said(*at, "mirror", "status", "--json"))["mirrors"]
    assert (status["name"], status["waiting"], status["complete"]) == ("copy", 0, True)
    assert "copy" in cli.said(*at, "mirror", "status")
    assert "0 differences" in cli.said(*at, "mirror", "verify", "copy")

    server.do(_lose_one(server.service))
    found = cli(*at, "mirror", "verify", "copy", "--json")
    assert found.exit_code == 1
    assert [fault["kind"] for fault in json.loads(found.stdout)["faults"]] == ["missing"]
    mended = json.loads(cli.said(*at, "mirror", "resync", "copy", "--json"))
    assert mended["mended"] == 1
    assert "0 differences" in cli.said(*at, "mirror", "verify", "copy")
    assert cli.problem(*at, "mirror", "verify", "nobody")["code"] == "not_found"


@requirement("memorywire:router.operated")
def test_only_an_operator_of_the_server_may(
    cli: Cli, server: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    at = ("--server", server.url)
    boss = json.loads(cli.said(*at, "token", "create", "boss", "--role", "admin", "--json"))["text"]
    monkeypatch.setenv("QUIPU_TOKEN", boss)
    for words in (["status"], ["verify", "copy"], ["resync", "copy"]):
        assert cli.problem(*at, "mirror", *words)["code"] == "forbidden"
    for words in (["list"], ["add", "sqlite:///elsewhere.db"], ["remove", "copy"]):
        assert cli.problem(*at, "mirror", *words)["reason"] == "usage", "these are about this machine"
