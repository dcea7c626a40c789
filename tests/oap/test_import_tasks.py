"""Files that take long to try, to carry out or to undo: a task to ask about, which ends with the report (5.1, 10.3)."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import pytest

from quipu.rules import export_tasks
from quipu.service.import_register import Imports
from quipu.service.importing import Importing
from quipu.service.lending_tasks import Pace
from tests.faces.serving import served
from tests.oap.hosts import OWNER, Host, free_port, pair
from tests.oap.test_export_tasks import LATER, path, polled
from tests.requirement import requirement

FILE = b"- Mara likes tea\n- Mara lives in Utrecht\n"
ASKED = {"agent_id": "assistant", "format": "text"}


@pytest.fixture
def hosts(tmp_path: Any) -> Iterator[tuple[Host, Host]]:
    with pair(tmp_path) as both:
        both[0].at.service.moves.incoming.pace = Pace(beat_s=0.05)
        yield both


def sent(a: Host, file: bytes = FILE, **headers: str) -> httpx.Response:
    with a.at.client() as owner:
        kind = {"Content-Type": "application/octet-stream"}
        return owner.post("/oap/memory/import", params=ASKED, content=file, headers={**kind, **headers})


def held_up(
    monkeypatch: pytest.MonkeyPatch, a: Host, of: type = Importing, step: str = "gone_through"
) -> Gate:
    """From now on nothing gets through this step before the gate is opened."""
    gate, unpaced = Gate(a.at.do(_event())), getattr(of, step)

    async def later(self: Any, *given: Any, **more: Any) -> Any:
        gate.came += 1
        await gate.go_on.wait()
        return await unpaced(self, *given, **more)

    monkeypatch.setattr(of, step, later)
    return gate


@dataclass
class Gate:
    """Where something waits, and how many have come to it."""

    go_on: asyncio.Event
    came: int = 0


async def _event() -> asyncio.Event:
    return asyncio.Event()


def let_go(a: Host, gate: Gate) -> None:
    async def done() -> None:
        gate.go_on.set()

    a.at.do(done())


def asked_to(a: Host, step: str, import_id: str, **headers: str) -> httpx.Response:
    with a.at.client() as owner:
        return owner.post(f"/oap/memory/import/{import_id}/{step}", headers=headers)


def tried(a: Host, file: bytes = FILE) -> str:
    answer = sent(a, file)
    assert answer.status_code == 200, answer.text
    return answer.json()["output"]["import_id"]


def migrations(a: Host) -> list[Any]:
    """The Migration Receipts in the owner's chain."""
    chain = a.at.do(a.sharing.grants.receipts(OWNER))
    return [one.body for one in chain if one.body.get("action_id") == "memory_import"]


def kept_of(a: Host, task: dict[str, Any]) -> str:
    """All that the ledger holds of a task."""
    return str(a.at.do(a.parts.ledger.lending.task_steps(OWNER.tenant, task["task_id"].rpartition(":")[2])))


@requirement("oap:import.task")
@pytest.mark.parametrize("is_form", [True, False])
def test_a_file_is_tried_meanwhile_and_carried_out_by_its_report(
    hosts: tuple[Host, Host], is_form: bool
) -> None:
    a, _ = hosts
    with a.at.client() as owner:
        if is_form:
            given = {"files": {"file": ("mine.txt", FILE)}, "data": ASKED}
            begun = owner.post("/oap/memory/import", headers=LATER, **given)
        else:
            begun = sent(a, **LATER)
        assert begun.status_code == 202, begun.text
        task = begun.json()["output"]
        told = polled(a, task, "completed")
        assert (told["report"]["dry_run"], told["report"]["read"]) == (True, 2)
        assert "Utrecht" not in str(told), "what is in the file is not told by the task"
        assert "download_url" not in told
        assert [one["status"] for one in told["history"]] == ["submitted", "accepted", "working", "completed"]
        assert "Utrecht" not in kept_of(a, task)
        done = owner.post(f"/oap/memory/import/{told['report']['import_id']}/commit")
        assert done.json()["output"]["accepted"] + done.json()["output"]["quarantined"] == 2, done.text
        assert owner.get(path(f"{task['poll_url']}/file/x")).status_code == 404, "there is no file"


@requirement("oap:import.task")
def test_one_that_takes_long_becomes_a_task(
    hosts: tuple[Host, Host], monkeypatch: pytest.MonkeyPatch
) -> None:
    a, b = hosts
    assert sent(a).status_code == 200, "a small one is answered at once"
    a.at.service.moves.incoming.pace = Pace(patience_s=0.05, beat_s=0.05)
    go_on = held_up(monkeypatch, a)
    begun = sent(a)
    assert begun.status_code == 202, begun.text
    task = begun.json()["output"]
    assert polled(a, task, "working")["status"] == "working"
    with b.at.client() as stranger:
        assert stranger.get(path(task["poll_url"])).status_code == 404
    let_go(a, go_on)
    assert polled(a, task, "completed")["report"]["read"] == 2


@requirement("oap:import.task")
def test_what_is_wrong_with_a_file_is_told_at_once_or_by_its_task(
    hosts: tuple[Host, Host], monkeypatch: pytest.MonkeyPatch
) -> None:
    a, _ = hosts
    torn = b"PK\x03\x04 torn"
    a.at.service.moves.incoming.pace = Pace(glance_s=10, beat_s=0.05)
    assert sent(a, torn, **LATER).status_code == 400
    a.at.service.moves.incoming.pace = Pace(glance_s=0.01, beat_s=0.05)
    go_on = held_up(monkeypatch, a)
    begun = sent(a, torn, **LATER)
    assert begun.status_code == 202
    let_go(a, go_on)
    told = polled(a, begun.json()["output"], "failed")
    assert told["reason"]
    assert "report" not in told


@requirement("oap:import.task")
def test_no_owner_has_more_tasks_than_there_is_room_for(
    hosts: tuple[Host, Host], monkeypatch: pytest.MonkeyPatch
) -> None:
    a, _ = hosts
    a.at.service.moves.incoming.pace = Pace(glance_s=0.01, patience_s=0.05, beat_s=0.05)
    go_on = held_up(monkeypatch, a)
    tasks = [sent(a, **LATER).json()["output"] for _ in range(export_tasks.MOST_OF_ONE)]
    refused = sent(a, **LATER)
    assert (refused.status_code, refused.json()["error"]["details"]["reason"]) == (429, "imports_waiting")
    assert refused.headers["Retry-After"] == "60"
    let_go(a, go_on)
    for task in tasks:
        assert polled(a, task, "completed")["report"]["read"] == 2
    assert sent(a, **LATER).status_code == 202


# -- carrying out and undoing -----------------------------------------------------------------------------------


@requirement("oap:import.commit-task")
def test_an_import_is_carried_out_and_undone_by_tasks(hosts: tuple[Host, Host]) -> None:
    a, b = hosts
    name = tried(a)
    begun = asked_to(a, "commit", name, **LATER)
    assert begun.status_code == 202, begun.text
    task = begun.json()["output"]
    told = polled(a, task, "completed")
    assert told["report"]["dry_run"] is False
    assert told["report"]["accepted"] + told["report"]["quarantined"] == 2
    assert "Utrecht" not in str(told) + kept_of(a, task), "a task tells counts, not texts"
    (receipt,) = migrations(a)
    assert receipt["policy_decisions"][0]["old_head"] != receipt["policy_decisions"][0]["new_head"]
    with b.at.client() as stranger:
        assert stranger.get(path(task["poll_url"])).status_code == 404
    undone = polled(a, asked_to(a, "rollback", name, **LATER).json()["output"], "completed")["report"]
    assert undone == {
        "import_id": name,
        "forgotten": told["report"]["accepted"],
        "withdrawn": told["report"]["quarantined"],
        "restored": 0,
        "kept": [],
    }
    assert a.at.do(a.sharing.grants.verify(OWNER)) == []
    assert tried(a) == name
    anew = polled(a, asked_to(a, "commit", name, **LATER).json()["output"], "completed")["report"]
    assert anew["accepted"] == told["report"]["accepted"], "what was undone can come again (F10)"
    assert len(migrations(a)) == 2


@requirement("oap:import.commit-task")
@pytest.mark.parametrize(
    ("step", "of", "held"), [("commit", Importing, "committed"), ("rollback", Imports, "roll_back")]
)
def test_what_takes_long_becomes_a_task_and_who_asks_again_looks_on(
    hosts: tuple[Host, Host], monkeypatch: pytest.MonkeyPatch, step: str, of: type, held: str
) -> None:
    a, _ = hosts
    name = tried(a)
    if step == "rollback":
        assert asked_to(a, "commit", name).status_code == 200, "a small one is answered at once"
    a.at.service.moves.incoming.pace = Pace(patience_s=0.05, glance_s=0.05, beat_s=0.05)
    gate = held_up(monkeypatch, a, of, held)
    answers = [asked_to(a, step, name) for _ in range(3)]
    assert [one.status_code for one in answers] == [202] * 3, answers[0].text
    tasks = [one.json()["output"] for one in answers]
    assert polled(a, tasks[0], "working")["status"] == "working"
    let_go(a, gate)
    first, *others = [polled(a, task, "completed")["report"] for task in tasks]
    assert others == [first, first]
    assert gate.came == 1, "it is done once, however many look on"
    assert len(migrations(a)) == 1


@requirement("oap:import.commit-task")
def test_a_key_names_the_same_task_again_and_what_is_refused_is_refused_at_once(
    hosts: tuple[Host, Host],
) -> None:
    a, _ = hosts
    a.at.service.moves.incoming.pace = Pace(glance_s=10, beat_s=0.05)
    for step in ("commit", "rollback"):
        unknown = asked_to(a, step, "imp_01HX2QF8GZRP9V3K5YXJW0AQ7M", **LATER)
        assert (unknown.status_code, unknown.json()["error"]["details"]["reason"]) == (404, "import")
    name, key = tried(a), {"OAP-Idempotency-Key": "once", **LATER}
    first = asked_to(a, "commit", name, **key).json()["output"]
    assert polled(a, first, "completed")["report"]["read"] == 2
    again = asked_to(a, "commit", name, **key)
    assert (again.status_code, again.headers["oap-idempotency-replayed"]) == (202, "true")
    assert again.json()["output"]["task_id"] == first["task_id"]
    assert len(migrations(a)) == 1


@requirement("oap:import.commit-task")
def test_one_that_a_server_was_stopped_in_is_gone_on_with_by_sending_it_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with served(tmp_path / "a.db", port=free_port(), is_open=True) as second:
        other = Host(second)
        with served(tmp_path / "a.db", port=free_port(), is_open=True) as first:
            a = Host(first)
            name = tried(a)
            held_up(monkeypatch, a, Importing, "_receipt")
            task = asked_to(a, "commit", name, **LATER).json()["output"]
            assert polled(other, task, "working")["status"] == "working", "another server tells the same"
        assert polled(other, task, "failed")["reason"] == "server_stopped"
        assert migrations(other) == []
        monkeypatch.undo()
        assert tried(other) == name
        done = asked_to(other, "commit", name).json()["output"]
        assert (done["read"], done["duplicate"]) == (2, 2), "nothing comes twice"
        assert len(migrations(other)) == 1
        assert asked_to(other, "rollback", name).json()["output"]["forgotten"] == 2
