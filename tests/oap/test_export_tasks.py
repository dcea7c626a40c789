"""Exports that take long: a task to ask about, a file to fetch once, and what happens to both meanwhile (10.2, F13)."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from quipu.model.access import Role
from quipu.model.grants import TaskState, TaskStep
from quipu.model.principal import local
from quipu.rules import export_tasks
from quipu.service.exporting import Exporting
from quipu.service.lending_tasks import Pace
from quipu.testing.builders import FixedClock
from tests.faces.serving import served
from tests.oap.hosts import OWNER, Host, free_port, pair
from tests.oap.test_moves import SCOPES, bundle, filled
from tests.requirement import requirement

LATER = {"Prefer": "respond-async"}


@pytest.fixture
def hosts(tmp_path: Any) -> Iterator[tuple[Host, Host]]:
    with pair(tmp_path) as both:
        for host in both:
            host.at.service.moves.tasks.pace = Pace(beat_s=0.05)
        yield both


def begun(a: Host, **body: Any) -> dict[str, Any]:
    with a.at.client() as owner:
        answer = owner.post("/oap/memory/export", json=body, headers=LATER)
    assert answer.status_code == 202, answer.text
    assert answer.json()["status"] == "accepted"
    return answer.json()["output"]


def path(url: str) -> str:
    """The same at whatever host is asked."""
    return httpx.URL(url).raw_path.decode("ascii")


def polled(a: Host, task: dict[str, Any], *until: str) -> dict[str, Any]:
    """How it stands, once it stands so."""
    end = time.monotonic() + 60
    with a.at.client() as owner:
        while True:
            answer = owner.get(path(task["poll_url"]))
            assert answer.status_code == 200, answer.text
            told = answer.json()["output"]
            if told["status"] in until:
                return told
            assert time.monotonic() < end, told
            time.sleep(0.02)


def fetched(a: Host, url: str, token: str | None = None) -> httpx.Response:
    with a.at.client(token) as owner:
        return owner.get(path(url))


def lent_headers(b: Host, method: str, url: str, token: str) -> dict[str, str]:
    return {"Authorization": f"DPoP {token}", "DPoP": b.proof(method, url, token)}


@requirement("oap:export.task")
def test_a_file_is_made_meanwhile_and_fetched_once(hosts: tuple[Host, Host]) -> None:
    a, _ = hosts
    names = filled(a)
    task = begun(a)
    assert task["task_id"].startswith("urn:oap:task:")
    assert task["poll_url"] == f"{a.url}/oap/tasks/{task['task_id']}"
    assert {"callback_url_supported", "estimated_completion"} <= task.keys()
    done = polled(a, task, "completed")
    assert [one["status"] for one in done["history"]] == ["submitted", "accepted", "working", "completed"]
    assert done["items"] == 3
    file = fetched(a, done["download_url"])
    assert file.status_code == 200, file.text
    assert [item["item_id"] for item in bundle(file.content)[1]] == sorted(names)
    assert len(file.content) == done["size"]
    assert fetched(a, done["download_url"]).status_code == 404, "only once"
    after = polled(a, task, "completed")
    assert "download_url" not in after
    assert [one["status"] for one in after["history"]] == [one["status"] for one in done["history"]]


@requirement("oap:export.task")
def test_two_who_fetch_at_once_do_not_both_get_it(hosts: tuple[Host, Host]) -> None:
    a, _ = hosts
    filled(a)
    url = polled(a, begun(a), "completed")["download_url"]

    async def both() -> list[int]:
        async with a.at.async_client() as owner:
            answers = await asyncio.gather(*(owner.get(url) for _ in range(5)))
        return sorted(answer.status_code for answer in answers)

    assert asyncio.run(both()) == [200, 404, 404, 404, 404]


@requirement("oap:export.task")
def test_what_can_be_refused_is_refused_at_once(hosts: tuple[Host, Host]) -> None:
    a, _ = hosts
    with a.at.client() as owner:
        for body in ({"format": "pam-1.0", "since": "1"}, {"format": "nonsense"}):
            assert owner.post("/oap/memory/export", json=body, headers=LATER).status_code == 400
        assert owner.post("/oap/memory/export", headers={"Prefer": "wait=5"}).status_code == 200


@requirement("oap:export.task")
def test_only_who_asked_sees_a_task_or_gets_its_file(hosts: tuple[Host, Host]) -> None:
    a, b = hosts
    filled(a)
    task = begun(a)
    done = polled(a, task, "completed")
    a.at.do(a.at.service.tenancy.create(OWNER, "other"))
    other = a.at.do(a.at.service.tokens.issue(local("other"), name="theirs", roles=(Role.ADMIN,)))
    reader = a.at.do(a.at.service.tokens.issue(OWNER, name="reader", roles=(Role.AGENT,)))
    token = b.token(a, a.grant(b.owner, scopes=SCOPES))
    for url in (task["poll_url"], done["download_url"]):
        assert fetched(a, url, "").status_code == 401
        assert fetched(a, url, other.text).status_code == 404, "another tenant learns nothing"
        assert fetched(a, url, reader.text).status_code == 403
        assert httpx.get(url, headers=lent_headers(b, "GET", url, token)).status_code == 404
    for wrong in ("x", "é", done["download_url"].rpartition("/")[2][:-1]):
        assert fetched(a, f"{task['poll_url']}/file/{wrong}").status_code == 404
    assert fetched(a, done["download_url"]).status_code == 200, "none of them has used it up"


@requirement("oap:export.task")
@requirement("oap:revocation.running-export")
def test_under_a_grant_the_grantee_alone_fetches_it_and_not_after_a_revocation(
    hosts: tuple[Host, Host],
) -> None:
    a, b = hosts
    filled(a)
    grant = a.grant(b.owner, scopes=SCOPES, trust_level=4)
    token, url = b.token(a, grant), f"{a.url}/oap/memory/export"

    def ask() -> dict[str, Any]:
        asked = httpx.post(url, json={}, headers={**lent_headers(b, "POST", url, token), **LATER})
        assert asked.status_code == 202, asked.text
        poll = asked.json()["output"]["poll_url"]
        while True:
            told = httpx.get(poll, headers=lent_headers(b, "GET", poll, token)).json()["output"]
            if told["status"] == "completed":
                return told
            assert told["status"] == "working", told

    first = ask()
    assert fetched(a, first["poll_url"]).status_code == 404, "it is the grantee's, and nobody else's"
    where = first["download_url"]
    assert httpx.get(where).status_code == 401
    got = httpx.get(where, headers=lent_headers(b, "GET", where, token))
    assert len(bundle(got.content)[1]) == 3
    again = httpx.get(where, headers=lent_headers(b, "GET", where, token))
    assert again.status_code == 404
    second = ask()
    a.at.do(a.sharing.grants.revoke(OWNER, grant))
    where = second["download_url"]
    assert httpx.get(where, headers=lent_headers(b, "GET", where, token)).status_code == 401
    _emptied(a)
    steps = a.at.do(a.parts.ledger.lending.task_steps(OWNER.tenant, second["task_id"].rpartition(":")[2]))
    assert (steps[-1].state, steps[-1].detail["reason"]) == (TaskState.EXPIRED, "grant_revoked")


def _emptied(a: Host) -> None:
    """Until this server keeps no file any more."""
    end = time.monotonic() + 60
    while a.at.service.moves.tasks._tasks:
        assert time.monotonic() < end
        time.sleep(0.02)


@requirement("oap:export.task")
@requirement("oap:export.erased")
def test_a_slow_export_becomes_a_task_and_holds_nothing_that_was_erased_meanwhile(
    hosts: tuple[Host, Host], monkeypatch: pytest.MonkeyPatch
) -> None:
    a, _ = hosts
    names = filled(a)
    a.at.service.moves.tasks.pace = Pace(patience_s=0.05, beat_s=0.05)
    finished, gate = Exporting.finished, asyncio.Event()

    async def slow(self: Exporting, *given: Any) -> Any:
        made = await finished(self, *given)
        await gate.wait()
        return made

    monkeypatch.setattr(Exporting, "finished", slow)
    with a.at.client() as owner:
        answer = owner.post("/oap/memory/export")
    assert answer.status_code == 202, answer.text
    task = answer.json()["output"]
    assert polled(a, task, "working")["status"] == "working"
    request = {"principal_did": a.owner, "item_ids": [names[0]], "cascade": False}
    a.at.do(a.sharing.erasing.erase(OWNER, request))

    async def opened() -> None:
        gate.set()

    a.at.do(opened())
    done = polled(a, task, "completed")
    assert [item["item_id"] for item in bundle(fetched(a, done["download_url"]).content)[1]] == sorted(
        names[1:]
    )


@requirement("oap:export.task")
@requirement("oap:export.erased")
def test_a_file_that_waits_goes_when_something_of_it_is_erased(hosts: tuple[Host, Host]) -> None:
    a, _ = hosts
    names = filled(a)
    task = begun(a)
    done = polled(a, task, "completed")
    request = {"principal_did": a.owner, "item_ids": [names[0]], "cascade": False}
    a.at.do(a.sharing.erasing.erase(OWNER, request))
    assert fetched(a, done["download_url"]).status_code in (404, 409)
    assert polled(a, task, "expired")["reason"] == "erased_meanwhile"
    _emptied(a)


@requirement("oap:export.task")
def test_a_file_that_nobody_fetches_goes_and_so_does_the_task(tmp_path: Path) -> None:
    clock = FixedClock()
    with served(tmp_path / "a.db", port=free_port(), clock=clock) as at:
        a = Host(at)
        at.service.moves.tasks.pace = Pace(beat_s=0.05)
        task = begun(a)
        told = polled(a, task, "completed")
        clock.now += export_tasks.LIFE_MS
        _emptied(a)
        late = polled(a, task, "expired")
        assert (late["reason"], "download_url" in late) == ("not_fetched", False)
        assert fetched(a, told["download_url"]).status_code == 404
        clock.now += export_tasks.TOLD_MS
        at.do(at.service.sweep(OWNER))
        assert fetched(a, task["poll_url"]).status_code == 404


@requirement("oap:export.task")
def test_there_is_an_end_to_how_many_wait(hosts: tuple[Host, Host]) -> None:
    a, _ = hosts
    for _ in range(export_tasks.MOST_OF_ONE):
        begun(a)
    with a.at.client() as owner:
        refused = owner.post("/oap/memory/export", headers=LATER)
        assert (refused.status_code, refused.json()["error"]["details"]["reason"]) == (429, "exports_waiting")
        assert owner.post("/oap/memory/export").status_code == 200, "the file itself still comes"


@requirement("oap:export.task")
def test_another_server_of_the_same_database_tells_the_same_and_outlives_the_first(tmp_path: Path) -> None:
    with served(tmp_path / "a.db", port=free_port(), is_open=True) as second:
        with served(tmp_path / "a.db", port=free_port(), is_open=True) as first:
            a, other = Host(first), Host(second)
            first.service.moves.tasks.pace = Pace(beat_s=0.05)
            filled(a)
            task, waits = begun(a), begun(a)
            here, there = polled(a, task, "completed"), polled(other, task, "completed")
            assert path(here["download_url"]) == path(there["download_url"])
            assert here["history"] == there["history"]
            url = polled(a, task, "completed")["download_url"]
            elsewhere = fetched(other, url)
            assert (elsewhere.status_code, elsewhere.headers["retry-after"]) == (503, "1")
            assert elsewhere.json()["error"]["details"]["reason"] == "kept_elsewhere"
            assert fetched(a, url).status_code == 200, "asking at the wrong place has not used it up"
            polled(other, waits, "completed")
        ended = polled(other, waits, "expired")
        assert ended["reason"] == "server_stopped"


@requirement("oap:export.task")
@pytest.mark.parametrize("state", [TaskState.SUBMITTED, TaskState.WORKING, TaskState.COMPLETED])
def test_a_task_whose_server_was_killed_ends_and_never_hangs(tmp_path: Path, state: TaskState) -> None:
    clock = FixedClock()
    with served(tmp_path / "a.db", port=free_port(), clock=clock) as at:
        a, lending = Host(at), at.web.running.parts.ledger.lending
        detail: dict[str, Any] = {"secret": "x", "until": clock.now + 10**9, "grant_id": None}
        detail |= dict.fromkeys(("export_id", "file_name", "media_type"), "x")
        detail |= {"size": 1, "items": 1, "sha256": "0" * 64}
        left = TaskStep(
            tenant=OWNER.tenant, task_id="0" * 26, number=1, state=state, at=clock.now, detail=detail
        )
        at.do(lending.add_task_step(left))
        task = {"poll_url": f"{at.url}/oap/tasks/urn:oap:task:{'0' * 26}"}
        clock.now += export_tasks.LOST_MS - 1
        assert polled(a, task, state.value)
        clock.now += 1
        told = polled(a, task, "failed", "expired")
        assert told["reason"] == "server_lost"
        assert told["status"] == ("expired" if state is TaskState.COMPLETED else "failed")
        assert fetched(a, f"{task['poll_url']}/file/x").status_code == 404
