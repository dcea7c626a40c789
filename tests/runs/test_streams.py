"""Logs as streams: what each mode shows, how a stream is resumed, and when it ends."""

import asyncio
from typing import Any

import pytest

from quipu.access.operations import REVOKE_TOKEN
from quipu.runs import streams
from tests.requirement import requirement
from tests.runs.host import MEMORY, OWN, Client, Host, frames, until

UPDATES = [
    "run.started",
    "node.completed",
    "memory.written",
    "node.failed",
    "memory.written",
    "run.completed",
]
EVERYTHING = [
    *("run.started", "node.started", "variable.changed", "node.completed", "memory.written"),
    *("node.failed", "memory.written", "run.completed"),
]


async def driven(admin: Client, *, is_ended: bool = True) -> str:
    """A run in which something of everything has happened."""
    run = await admin.run()
    place = f"{OWN}/{run}"
    await admin.post(f"{place}/nodes", {"nodeId": "a", "status": "started"})
    await admin.post(f"{place}/nodes", {"nodeId": "a", "status": "completed", "variables": {"n": 1}})
    await admin.put("agent", "Ana has a cat.", runId=run, nodeId="a")
    await admin.post(f"{place}/nodes", {"nodeId": "b", "status": "failed", "error": {"code": "broken"}})
    if is_ended:
        await admin.end(run)
    return run


def kinds(call_body: bytes) -> list[str]:
    return [name for _, name, _ in frames(call_body)]


@requirement("openwop:stream.modes")
async def test_each_mode_shows_what_the_contract_says(admin: Client) -> None:
    run = await driven(admin)
    shown = {
        "": UPDATES,
        "?streamMode=updates": UPDATES,
        "?streamMode=debug": EVERYTHING,
        "?streamMode=messages": [],
        "?streamMode=updates,messages": UPDATES,
        "?streamMode=messages,debug": EVERYTHING,
        "?streamMode=values": ["state.snapshot"] * 7,
    }
    for query, expected in shown.items():
        call = await admin.stream(run, query).done()
        assert (call.status, call.headers["content-type"]) == (200, "text/event-stream; charset=utf-8")
        assert kinds(call.body) == expected, query
        page = await admin.get(f"/v1/runs/{run}/events{query}")
        told = [event["type"] for event in page["events"]]
        assert told == (["state.snapshot"] if "values" in query else expected), query
        assert page["isComplete"] is True
    for number, name, body in frames((await admin.stream(run, "?streamMode=debug").done()).body):
        assert (body["sequence"], body["type"], body["runId"]) == (number, name, run)
        assert body.keys() <= {
            *("eventId", "runId", "type", "payload", "timestamp", "sequence", "nodeId", "causationId"),
        }
    snapshot = await admin.get(f"/v1/runs/{run}")
    for _, _, body in frames((await admin.stream(run, "?streamMode=values").done()).body):
        assert body == snapshot


@requirement("openwop:stream.modes")
@pytest.mark.parametrize("mode", ["values,updates", "value", "", "updates,", "debug,values"])
@pytest.mark.parametrize("accept", ["text/event-stream", "application/json"])
async def test_a_mode_that_is_none_is_refused_before_anything_else(
    admin: Client, mode: str, accept: str
) -> None:
    run = await admin.run()
    answer = await admin("GET", f"/v1/runs/{run}/events?streamMode={mode}", headers={"Accept": accept})
    said = answer.json()
    assert (answer.status_code, said["error"]) == (400, "unsupported_stream_mode")
    assert said["details"] == {"supported": ["values", "updates", "messages", "debug"]}


@requirement("openwop:stream.buffer")
async def test_a_buffer_gathers_events_and_an_end_is_said_at_once(admin: Client) -> None:
    run = await driven(admin)
    call = await admin.stream(run, "?bufferMs=5000&streamMode=debug").done()
    ((number, name, body),) = frames(call.body)
    assert (number, name) == (7, "batch")
    assert [event["type"] for event in body] == EVERYTHING
    live = await driven(admin, is_ended=False)
    call = admin.stream(live, "?bufferMs=5000")
    await call.said(b": open")
    await asyncio.wait_for(admin.end(live), 4)
    await call.done()  # long before the buffer's time: it would be cut off otherwise
    ((number, name, body),) = frames(call.body)
    assert (number, name, [event["type"] for event in body]) == (7, "batch", UPDATES)
    for wrong in ("5001", "-1", "soon"):
        said = await admin.get(f"/v1/runs/{run}/events?bufferMs={wrong}", 400)
        assert said["details"]["faults"][0]["pointer"] == "/bufferMs"


@requirement("openwop:stream.buffer")
async def test_without_an_end_a_batch_is_sent_when_its_time_is_over(admin: Client) -> None:
    run = await driven(admin, is_ended=False)
    call = admin.stream(run, "?bufferMs=50&streamMode=debug")
    await call.said(b"event: batch")
    ((number, _, body),) = frames(call.body)
    assert (number, len(body)) == (5, 6)
    call.hang_up()
    await call.done()


@requirement("openwop:stream.resume")
@pytest.mark.parametrize("mode", ["updates", "debug", "values", "messages", "messages,updates"])
async def test_a_stream_goes_on_behind_the_event_that_was_seen_last(admin: Client, mode: str) -> None:
    run = await driven(admin)
    whole = frames((await admin.stream(run, f"?streamMode={mode}").done()).body)
    for last in range(8):
        resumed = {"last-event-id": str(last)}
        for buffer in ("", "&bufferMs=5000"):
            call = await admin.stream(run, f"?streamMode={mode}{buffer}", **resumed).done()
            numbers = [number for number, _, _ in frames(call.body)]
            # `values` begins with the run as it stands; a batch has the number of its last event.
            begins = [last] if mode == "values" else []
            behind = [number for number, _, _ in whole if number > last]
            assert numbers == [*begins, *(behind[-1:] if buffer else behind)], (last, buffer)


@requirement("openwop:stream.resume")
async def test_what_is_no_number_of_an_event_is_refused(admin: Client) -> None:
    run = await admin.run()
    for wrong in ("-1", "x", "9" * 30):
        answer = await admin("GET", f"/v1/runs/{run}/events", headers={"Last-Event-ID": wrong})
        assert answer.status_code == 400


@requirement("openwop:stream.live")
async def test_a_stream_follows_a_run_to_its_end(admin: Client) -> None:
    run = await admin.run()
    call = admin.stream(run)
    await call.said(b"run.started")
    await admin.put("agent", "Ana has a cat.", runId=run)
    await call.said(b"memory.written")
    assert not call.is_done
    await admin.end(run)
    await call.done()
    assert kinds(call.body) == ["run.started", "memory.written", "memory.written", "run.completed"]


@requirement("openwop:stream.live")
async def test_a_stream_that_has_nothing_to_say_shows_that_it_is_alive(
    admin: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert streams.HEARTBEAT_S <= 25
    monkeypatch.setattr(streams, "HEARTBEAT_S", 0.01)
    run = await admin.run()
    call = admin.stream(run)
    await call.said(b": alive")
    call.hang_up()
    await call.done()


@requirement("openwop:stream.credential")
async def test_a_stream_ends_with_the_credential_that_opened_it(
    host: Host, admin: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(streams, "_RENEW_S", 0.01)
    run = await admin.run()
    follower = await host.client("follower", "agent")
    quiet, busy = follower.stream(run), follower.stream(run)
    await quiet.said(b"run.started")
    await busy.said(b"run.started")
    await host.office(REVOKE_TOKEN, id=follower.id)
    await admin.put("agent", "Ana has a cat.", runId=run)
    for call in (quiet, busy):
        await call.done()
        assert kinds(call.body) == ["run.started"]
    assert not (await admin.get(f"/v1/runs/{run}/events"))["isComplete"]


@requirement("openwop:stream.credential")
async def test_before_each_batch_it_is_asked_again_who_reads(
    host: Host, admin: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What is written in the very moment that a credential ends is not shown to it."""
    monkeypatch.setattr(streams, "_RENEW_S", 60)
    run = await admin.run()
    follower = await host.client("follower", "agent")
    call = follower.stream(run)
    await call.said(b"run.started")
    await host.office(REVOKE_TOKEN, id=follower.id)
    await admin.put("agent", "Ana has a cat.", runId=run)
    await call.done()
    assert kinds(call.body) == ["run.started"]


@requirement("openwop:stream.expired")
async def test_whoever_follows_a_run_whose_history_is_dropped_comes_to_an_end(
    host: Host, admin: Client
) -> None:
    run = await driven(admin)
    runs = host.office.container.runs
    object.__setattr__(runs, "history_ms", 1)
    host.office.clock.now += 10
    assert await runs.drop_histories(host.office.context()) == 1
    assert await runs.drop_histories(host.office.context()) == 0
    call = await admin.stream(run).done()
    assert kinds(call.body) == []
    page = await admin.get(f"/v1/runs/{run}/events/poll")
    assert page == {"events": [], "isComplete": True}


@requirement("openwop:stream.drain")
async def test_a_stream_ends_when_the_server_drains(host: Host, admin: Client) -> None:
    run = await admin.run()
    call = admin.stream(run)
    await call.said(b"run.started")
    host.app.lifecycle.drain()
    await call.done()
    assert call.is_done


@requirement("openwop:poll")
async def test_a_poll_has_all_events_and_waits_for_more(admin: Client) -> None:
    run = await driven(admin, is_ended=False)
    place = f"/v1/runs/{run}/events/poll"
    page = await admin.get(place)
    assert [event["type"] for event in page["events"]] == EVERYTHING[:-2]
    assert page["isComplete"] is False
    assert page == await admin.get(f"{place}?lastSequence=-1")
    assert (await admin.get(f"{place}?lastSequence=5"))["events"] == []
    assert await admin.get(f"{place}?lastSequence=900") == {"events": [], "isComplete": False}
    waiting = asyncio.ensure_future(admin.get(f"{place}?lastSequence=5&timeout=20"))
    await asyncio.sleep(0)
    await admin.end(run)
    first: Any = (await asyncio.wait_for(waiting, 60))["events"][0]
    assert (first["sequence"], first["type"]) == (6, "memory.written")
    assert await admin.get(f"{place}?lastSequence=7&timeout=20") == {"events": [], "isComplete": True}
    for wrong in ("lastSequence=x", "lastSequence=-2", "timeout=-1", "lastSequence=1_0"):
        assert (await admin.get(f"{place}?{wrong}", 400))["error"] == "validation_error"


@requirement("openwop:poll")
async def test_a_long_log_comes_whole(admin: Client) -> None:
    run = await admin.run()
    for start in range(0, 600, 200):
        body = {
            "nodeId": "n",
            "status": "started",
            "variables": {f"v{number}": 1 for number in range(start, start + 200)},
        }
        await admin.post(f"{OWN}/{run}/nodes", body)
    await admin.end(run)
    for path in ("events/poll", "events?streamMode=debug"):
        page = await admin.get(f"/v1/runs/{run}/{path}")
        assert [event["sequence"] for event in page["events"]] == list(range(606))
        assert page["isComplete"] is True
    call = await admin.stream(run, "?streamMode=debug").done()
    assert [number for number, _, _ in frames(call.body)] == list(range(606))


@requirement("openwop:attribution.payload")
async def test_an_event_names_what_was_written_and_never_what_it_says(admin: Client) -> None:
    run = await admin.run(agent={"agentId": "agent"})
    kept = (await admin.put("team/ana", "Ana has a cat.", entry={"tags": ["pets"]}, runId=run, nodeId="n1"))[
        "entry"
    ]
    call = admin.stream(run)
    await call.said(b"memory.written")
    assert b"cat" not in call.body
    (event,) = [body for _, name, body in frames(call.body) if name == "memory.written"]
    assert event["payload"] == {
        "memoryRef": "team/ana",
        "memoryId": kept["id"],
        "nodeId": "n1",
        "agentId": "agent",
        "tags": ["pets"],
    }
    assert event["nodeId"] == "n1"
    ask = {"memoryRef": event["payload"]["memoryRef"], "id": event["payload"]["memoryId"]}
    assert (await admin.post(f"{MEMORY}/get", ask))["entry"] == kept
    started = frames(call.body)[0][2]
    assert started["payload"]["vendor.quipu"]["memorySnapshot"].keys() == {"seq", "at"}
    call.hang_up()
    await until(lambda: call.task.done())
