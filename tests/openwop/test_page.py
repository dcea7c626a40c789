"""Runs on the page, and on the command line."""

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from quipu.cli.program import app
from quipu.faces.web.runs_pictures import timeline
from quipu.model.runs import EventType, RunEvent
from quipu.rules.runs_diffs import paired
from tests.faces.serving import served
from tests.faces.web.conftest import Person
from tests.openwop.suite import Suite, suite
from tests.requirement import requirement


def event(sequence: int, kind: EventType, node: str | None = None, **payload: Any) -> RunEvent:
    return RunEvent(
        run_id="run_1", sequence=sequence, type=kind, node_id=node, payload=payload, at=1, position=1
    )


LOG = [
    event(0, EventType.RUN_STARTED),
    event(1, EventType.NODE_STARTED, "a"),
    event(2, EventType.MEMORY_WRITTEN, "a", memoryRef="r", memoryId="m"),
    event(3, EventType.NODE_FAILED, "a"),
    event(4, EventType.RUN_FAILED),
]


@requirement("openwop:page.picture")
def test_a_picture_has_a_bar_for_the_run_and_each_node_and_a_knot_for_each_memory() -> None:
    picture = timeline(LOG)
    assert [(bar.name, bar.became) for bar in picture.bars] == [("run", "failed"), ("a", "failed")]
    run, node = picture.bars
    assert run.x < node.x
    assert run.x + run.width > node.x + node.width
    (knot,) = picture.knots
    assert node.x < knot.x < node.x + node.width
    assert node.y < knot.y < node.y + 18
    assert knot.x < picture.width
    assert timeline([]).bars == ()


@requirement("openwop:page.diff")
def test_two_logs_are_paired_by_what_they_say_and_not_by_ids() -> None:
    other = [
        *LOG[:2],
        event(2, EventType.MEMORY_WRITTEN, "a", memoryRef="r", memoryId="other"),
        event(3, EventType.RUN_COMPLETED),
    ]
    pairs = paired(LOG, other)
    assert [(pair.left and pair.left.sequence, pair.right and pair.right.sequence) for pair in pairs] == [
        (0, 0),
        (1, 1),
        (2, 2),
        (3, None),
        (4, None),
        (None, 3),
    ]
    assert all(pair.is_same for pair in paired(LOG, LOG))


@requirement("openwop:page.run")
def test_the_page_shows_a_run_what_it_saw_and_forks_it() -> None:
    with suite() as a, Person(a.at.url) as person:
        a.memory(
            "put",
            201,
            memoryRef="conformance/agent-memory-roundtrip",
            entry={"content": "seen <b>before</b>"},
        )
        run = a.run("conformance-agent-memory-roundtrip")
        person.sign_in(a.at.admin_token)
        assert run["runId"] in person.get("/runs").text
        shown = person.get(f"/runs/{run['runId']}")
        assert shown.status_code == 200
        assert '<svg class="timeline"' in shown.text
        assert "seen &lt;b&gt;before&lt;/b&gt;" in shown.text
        assert "memory-roundtrip" in shown.text
        forked = person.send(f"/runs/{run['runId']}/fork", mode="replay", from_seq="0")
        assert forked.status_code == 303
        copy = forked.headers["location"].rpartition("/")[2]
        told = person.get(f"/runs/{run['runId']}/diff?with={copy}")
        assert "the first only" not in told.text
        assert told.text.count("<td>both</td>") == 7
        branch = person.send(f"/runs/{run['runId']}/fork", mode="branch", from_seq="0")
        name = branch.headers["location"].rpartition("/")[2]
        assert name not in (copy, run["runId"])
        a.ended(name)
        assert "the first only" not in person.get(f"/runs/{run['runId']}/diff?with={name}").text
        plain = a.run("conformance-noop")["runId"]
        told = person.get(f"/runs/{run['runId']}/diff?with={plain}")
        assert told.text.count("<td>both</td>") == 3  # the beginning, the summary and the end
        assert told.text.count("the first only") == 4
        assert told.text.count("the second only") == 2
        assert person.get(f"/runs/{run['runId']}/diff?with=run_nowhere").status_code == 404
        assert person.get("/runs/run_nowhere").status_code == 404
        _forbidden_to_others(a, run["runId"])


def _forbidden_to_others(a: Suite, run_id: str) -> None:
    other = a.tenant_named("elsewhere")
    with Person(a.at.url) as stranger:
        stranger.sign_in(other.client.headers["authorization"].removeprefix("Bearer "))
        assert stranger.get(f"/runs/{run_id}").status_code == 404
        assert run_id not in stranger.get("/runs").text


@pytest.fixture(params=["here", "server"])
def quipu(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Callable[..., Any]]:
    """`quipu run …` on a file, or on a server."""
    settings = {"QUIPU_STORE": f"sqlite://{tmp_path}/memory.db", "XDG_CONFIG_HOME": str(tmp_path)}

    def asked(*words: str, code: int = 0) -> Any:
        done = CliRunner().invoke(app, ["run", *words, "--json"], env=settings)
        assert done.exit_code == code, done.output
        return json.loads(done.stdout if code == 0 else done.stderr)

    if request.param == "here":
        yield asked
        return
    with served(rate_per_minute=0) as at:
        settings |= {"QUIPU_SERVER": at.url, "QUIPU_TOKEN": at.admin_token}
        yield asked
        assert not (tmp_path / "memory.db").exists()


@requirement("openwop:cli.run")
def test_the_command_line_drives_looks_at_forks_and_compares_runs(quipu: Callable[..., Any]) -> None:
    run = quipu("open", "nightly")["id"]
    entry = quipu("put", run, "team/notes", "The report is done", "--node", "writer")["id"]
    assert quipu("see", run, "team/notes") == {"entries": []}
    assert quipu("complete", run)["status"] == "completed"
    events = quipu("events", run)["events"]
    assert [one["type"] for one in events] == [
        "run.started",
        "memory.written",
        "memory.written",
        "run.completed",
    ]
    assert events[1]["payload"]["memoryId"] == entry
    copy = quipu("fork", run)
    assert (copy["driver"], copy["forked_from"]) == ("replay", run)
    assert {one["in"] for one in quipu("diff", run, copy["id"])["events"]} == {"both"}
    branch = quipu("fork", run, "--mode", "branch")["id"]
    assert quipu("see", branch, "team/notes") == {"entries": []}
    assert quipu("fail", branch, "--because", "down")["status"] == "failed"
    assert quipu("cancel", quipu("open", "other")["id"])["status"] == "cancelled"
    assert [one["id"] for one in quipu("list", "--workflow", "nightly")["runs"]] == [branch, copy["id"], run]
    assert quipu("show", run)["vendor.quipu"]["memorySnapshot"]["seq"] == copy["snapshot"]
    quipu("put", quipu("open", "more")["id"], "team/notes", "Another one")
    assert quipu("compact", "team/notes")["compacted"]["sourceCount"] == 2
    assert quipu("compact", "team/notes") == {"compacted": None}
    quipu("expire", run)
    assert quipu("events", run) == {"events": []}
    gone = quipu("fork", run, code=1)
    assert (gone["code"], gone["reason"]) == ("conflict", "event_log_unavailable")
    assert quipu("show", "run_nobody", code=1)["code"] == "not_found"
    assert quipu("complete", run, code=1)["code"] in ("conflict", "validation_error")


@requirement("openwop:cli.run")
def test_the_command_line_takes_the_server_as_an_option(tmp_path: Path) -> None:
    with served(rate_per_minute=0) as at:
        settings = {"QUIPU_TOKEN": at.admin_token, "XDG_CONFIG_HOME": str(tmp_path)}

        def asked(*words: str) -> Any:
            done = CliRunner().invoke(app, ["--server", at.url, "run", *words, "--json"], env=settings)
            assert done.exit_code == 0, done.output
            return json.loads(done.stdout)

        run = asked("open", "nightly")["id"]
        entry = asked("put", run, "team/notes", "The report is done", "--node", "writer")["id"]
        assert asked("complete", run)["status"] == "completed"
        copy, branch = asked("fork", run), asked("fork", run, "--mode", "branch")
        assert {one["in"] for one in asked("diff", run, copy["id"])["events"]} == {"both"}
        assert {one["in"] for one in asked("diff", run, branch["id"])["events"]} == {"both", "first"}
        with at.client() as client:
            listed = client.get("/v1/memory/team%2Fnotes").json()["entries"]
        assert [one["id"] for one in listed] == [entry]
