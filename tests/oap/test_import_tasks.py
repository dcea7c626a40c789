"""Files that take long to try: a task to ask about, which ends with the report (5.1, 10.3)."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import Any

import httpx
import pytest

from quipu.rules import export_tasks
from quipu.service.importing import Importing
from quipu.service.lending_tasks import Pace
from tests.oap.hosts import OWNER, Host, pair
from tests.oap.test_export_tasks import LATER, path, polled
from tests.requirement import requirement

FILE = b"- Mara likes tea\n- Mara lives in Utrecht\n"
ASKED = {"agent_id": "assistant", "format": "text"}
_UNPACED = Importing.gone_through


@pytest.fixture
def hosts(tmp_path: Any) -> Iterator[tuple[Host, Host]]:
    with pair(tmp_path) as both:
        both[0].at.service.moves.trials.pace = Pace(beat_s=0.05)
        yield both


def sent(a: Host, file: bytes = FILE, **headers: str) -> httpx.Response:
    with a.at.client() as owner:
        kind = {"Content-Type": "application/octet-stream"}
        return owner.post("/oap/memory/import", params=ASKED, content=file, headers={**kind, **headers})


def held_up(monkeypatch: pytest.MonkeyPatch, a: Host) -> asyncio.Event:
    """From now on nothing is gone through before this is set."""

    async def made() -> asyncio.Event:
        return asyncio.Event()

    go_on = a.at.do(made())

    async def later(self: Importing, *given: Any) -> Any:
        await go_on.wait()
        return await _UNPACED(self, *given)

    monkeypatch.setattr(Importing, "gone_through", later)
    return go_on


def let_go(a: Host, event: asyncio.Event) -> None:
    async def done() -> None:
        event.set()

    a.at.do(done())


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
        kept = str(
            a.at.do(a.parts.ledger.lending.task_steps(OWNER.tenant, task["task_id"].rpartition(":")[2]))
        )
        assert "Utrecht" not in kept
        done = owner.post(f"/oap/memory/import/{told['report']['import_id']}/commit")
        assert done.json()["output"]["accepted"] + done.json()["output"]["quarantined"] == 2, done.text
        assert owner.get(path(f"{task['poll_url']}/file/x")).status_code == 404, "there is no file"


@requirement("oap:import.task")
def test_one_that_takes_long_becomes_a_task(
    hosts: tuple[Host, Host], monkeypatch: pytest.MonkeyPatch
) -> None:
    a, b = hosts
    assert sent(a).status_code == 200, "a small one is answered at once"
    a.at.service.moves.trials.pace = Pace(patience_s=0.05, beat_s=0.05)
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
    a.at.service.moves.trials.pace = Pace(glance_s=10, beat_s=0.05)
    assert sent(a, torn, **LATER).status_code == 400
    a.at.service.moves.trials.pace = Pace(glance_s=0.01, beat_s=0.05)
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
    a.at.service.moves.trials.pace = Pace(glance_s=0.01, patience_s=0.05, beat_s=0.05)
    go_on = held_up(monkeypatch, a)
    tasks = [sent(a, **LATER).json()["output"] for _ in range(export_tasks.MOST_OF_ONE)]
    refused = sent(a, **LATER)
    assert (refused.status_code, refused.json()["error"]["details"]["reason"]) == (429, "imports_waiting")
    assert refused.headers["Retry-After"] == "60"
    let_go(a, go_on)
    for task in tasks:
        assert polled(a, task, "completed")["report"]["read"] == 2
    assert sent(a, **LATER).status_code == 202
