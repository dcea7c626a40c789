"""Work that takes long, on a database that several servers share: each tells how it stands, whichever does it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from quipu.service.importing import Importing
from quipu.service.lending_tasks import Pace
from tests.faces.serving import served
from tests.oap.hosts import OWNER, Host, free_port
from tests.oap.test_export_tasks import LATER, begun, fetched, path, polled
from tests.oap.test_import_tasks import asked_to, held_up, let_go, migrations, sent
from tests.oap.test_moves import bundle
from tests.requirement import requirement

#: More than one transaction of an import.
FILE = "".join(f"- Mara keeps {number} bees in Utrecht\n" for number in range(600)).encode()


@pytest.fixture
def hosts(fresh_url: str) -> Iterator[tuple[Host, Host]]:
    with (
        served(store_url=fresh_url, port=free_port(), is_open=True) as one,
        served(store_url=fresh_url, port=free_port(), is_open=True) as two,
    ):
        for at in (one, two):
            at.service.moves.incoming.pace = Pace(beat_s=0.05)
            at.service.moves.tasks.pace = Pace(beat_s=0.05)
        yield Host(one), Host(two)


def kept(a: Host) -> set[str]:
    """The texts of a whole memory."""
    with a.at.client() as owner:
        answer = owner.post("/oap/memory/export")
    assert answer.status_code == 200, answer.text
    return {item["content"]["text"] for item in bundle(answer.content)[1]}


@requirement("oap:import.task")
@requirement("oap:import.commit-task")
def test_an_import_is_tried_carried_out_and_undone_by_tasks_on_a_database(
    hosts: tuple[Host, Host], monkeypatch: pytest.MonkeyPatch
) -> None:
    a, other = hosts

    def told(answer: Any, *until: str) -> dict[str, Any]:
        """The end of a task, which both servers tell alike."""
        assert answer.status_code == 202, answer.text
        task = answer.json()["output"]
        there = polled(other, task, *until)
        here = polled(a, task, *until)
        assert {**here, "poll_url": path(here["poll_url"])} == {**there, "poll_url": path(there["poll_url"])}
        return here

    report = told(sent(a, FILE, **LATER), "completed")["report"]
    assert (report["dry_run"], report["read"], kept(other)) == (True, 600, set())
    name = report["import_id"]
    gate = held_up(monkeypatch, a, Importing, "_receipt")
    begun = asked_to(a, "commit", name, **LATER)
    assert polled(other, begun.json()["output"], "working")["status"] == "working"
    let_go(a, gate)
    done = told(begun, "completed")["report"]
    assert (done["dry_run"], done["accepted"]) == (False, 600)
    assert kept(other) == {line[2:] for line in FILE.decode().splitlines()}
    (receipt,) = migrations(other)
    assert receipt["provenance_tags_out"] == [f"import:{name}"]
    again = sent(other, FILE, **LATER).json()["output"]
    assert polled(a, again, "completed")["report"]["duplicate"] == 600, (
        "nothing comes twice, wherever it is sent"
    )
    undone = told(asked_to(other, "rollback", name, **LATER), "completed")["report"]
    assert (undone["forgotten"], kept(a)) == (600, set())
    assert a.at.do(a.sharing.grants.verify(OWNER)) == []


@requirement("oap:export.task")
def test_a_file_is_made_by_a_task_on_a_database(hosts: tuple[Host, Host]) -> None:
    a, other = hosts
    names = {a.remember(f"Deadline {number} is in May.") for number in range(3)}
    task = begun(a)
    done = polled(other, task, "completed")
    file = fetched(a, done["download_url"])
    assert {item["item_id"] for item in bundle(file.content)[1]} == names
    assert fetched(a, done["download_url"]).status_code == 404, "only once"
    assert "download_url" not in polled(other, task, "completed")
