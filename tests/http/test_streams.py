"""Answers that come piece by piece: lines, events, files; many memories in lines."""

import asyncio
import gzip
import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from quipu.errors import ConflictError
from quipu.http import streams
from quipu.http.streams import Spool
from quipu.model.record import Record
from tests.http.conftest import Server, Servers
from tests.http.rig import SECRET, Call, until

NDJSON = {"content-type": "application/x-ndjson"}


def rows(text: str | bytes) -> list[dict[str, Any]]:
    return [json.loads(row) for row in text.splitlines() if row.strip()]


# -- lines ------------------------------------------------------------------------------------------------------------


async def test_what_goes_wrong_at_once_is_the_status_and_later_it_is_the_last_line(server: Server) -> None:
    server.rig.error = ConflictError("It changed.", reason="changed")
    good = await server.post("/rig/many")
    assert good.headers["content-type"] == "application/x-ndjson"
    assert [row["seq"] for row in rows(good.text)] == [1, 2]
    at_once = await server.post("/rig/many", id="at once")
    assert (at_once.status_code, at_once.json()["reason"]) == (409, "changed")
    later = await server.post("/rig/many", id="later")
    assert later.status_code == 200
    *items, last = rows(later.text)
    assert [row["seq"] for row in items] == [1, 2]
    assert last.keys() == {"error"}
    assert (last["error"]["code"], last["error"]["request_id"]) == (
        "conflict",
        later.headers["quipu-request-id"],
    )
    server.rig.error = RuntimeError(SECRET)
    unforeseen = await server.post("/rig/many", id="later")
    assert rows(unforeseen.text)[-1]["error"]["code"] == "internal_error"
    assert SECRET not in unforeseen.text


async def test_lines_are_answered_before_the_last_has_been_sent(server: Server) -> None:
    call = server.call("POST", "/rig/lines", NDJSON)
    call.give(b"{}\n\n")
    await call.said(b'"seq":1')
    assert call.status == 200
    assert not call.is_done
    call.give(b'{"a":')
    call.give(b"1}\n{}", more=False)
    await call.done()
    assert [row["seq"] for row in rows(call.body)] == [1, 2, 3, 3]


async def test_a_sender_that_reads_nothing_before_it_has_sent_everything_is_not_waited_for(
    server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(streams, "Spool", lambda: Spool(in_memory=1000))
    reads = asyncio.Event()

    class Unread(Call):
        async def _take(self, message: Any) -> None:
            if message["type"] == "http.response.body":
                await reads.wait()
            await super()._take(message)

    call = Unread(server.app, "POST", "/rig/lines", NDJSON)
    for _ in range(500):
        call.give(b"{}\n")
    await until(lambda: call.is_read)
    call.give(b"", more=False)
    reads.set()
    await call.done()
    assert len(rows(call.body)) == 501


async def test_who_hangs_up_while_sending_lines_ends_the_work(server: Server) -> None:
    call = server.call("POST", "/rig/lines", NDJSON)
    call.give(b"{}\n")
    await call.said(b'"seq":1')
    call.hang_up()
    await call.done()
    assert b"summary" not in call.body


@given(st.lists(st.binary(min_size=1, max_size=60), max_size=30), st.integers(0, 200))
def test_a_spool_gives_back_what_it_was_given(pieces: list[bytes], in_memory: int) -> None:
    async def through() -> bytes:
        spool = Spool(in_memory)
        for piece in pieces[::2]:
            await spool.put(piece)
        found = b""
        reading = spool.pieces()
        if pieces:
            found += await anext(reading)
        for piece in pieces[1::2]:
            await spool.put(piece)
        spool.end()
        async for piece in reading:
            found += piece
        await spool.close()
        return found

    assert asyncio.run(through()) == b"".join([*pieces[::2], *pieces[1::2]])


# -- events -----------------------------------------------------------------------------------------------------------


async def test_events_have_ids_and_kinds_and_show_that_the_stream_is_alive(
    server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(streams, "HEARTBEAT_S", 0.02)
    stream = server.call("GET", "/rig/events")
    await stream.said(b": alive\n\n")
    assert stream.headers["content-type"].startswith("text/event-stream")
    first = stream.body.split(b"\n\n")[0].decode()
    assert first.startswith("id: 1\nevent: told\ndata: {")
    stream.hang_up()
    await stream.done()


async def test_a_stream_ends_with_the_credential_that_opened_it(
    server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(streams, "HEARTBEAT_S", 0.02)
    stream = server.call("GET", "/rig/events")
    await stream.said(b": alive\n\n")
    del server.tokens["good"]
    await stream.done()
    assert stream.is_done
    assert server.rig.ended == 1


async def test_event_streams_end_when_the_server_drains_and_other_streams_finish(server: Server) -> None:
    events = server.call("GET", "/rig/events")
    await events.said(b"id: 3")
    lines = server.call("POST", "/rig/lines", NDJSON)
    lines.give(b"{}\n")
    await lines.said(b'"seq":1')
    waiting = server.call("POST", "/rig/wait", {"content-type": "application/json"})
    waiting.give(b"{}", more=False)
    await until(lambda: server.rig.waiting == 2)
    server.app.lifecycle.drain()
    await events.done()
    assert (events.is_done, server.rig.ended) == (True, 1)
    lines.give(b"{}\n", more=False)
    await lines.done()
    assert rows(lines.body)[-1] | {"value": {}} == {
        **rows(lines.body)[-1],
        "type": "summary",
        "seq": 2,
        "value": {},
    }
    server.rig.gate.set()
    await waiting.done()
    assert (waiting.status, waiting.headers["connection"]) == (200, "close")
    late = server.call("GET", "/rig/events")
    await late.done()
    assert late.is_done, "a stream that begins while the server drains ends at once"
    ready = await server.http.get("/readyz")
    assert (ready.status_code, ready.json()["reason"]) == (503, "draining")
    assert (await server.http.get("/healthz")).status_code == 200


# -- files ------------------------------------------------------------------------------------------------------------


async def test_a_file_comes_with_its_name_and_length(server: Server) -> None:
    answer = await server.http.get("/rig/file")
    assert answer.content == b"first second"
    assert answer.headers["content-type"] == "application/zip"
    assert answer.headers["content-length"] == "12"
    assert answer.headers["content-disposition"] == 'attachment; filename="a__b__?.zip"'
    server.rig.error = ConflictError()
    assert (await server.http.get("/rig/file", params={"id": "x"})).status_code == 409
    assert (await server.http.head("/rig/file")).headers["content-length"] == "12"


# -- many memories ----------------------------------------------------------------------------------------------------


async def kept(server: Server) -> list[Record]:
    return [record async for record in server.memory.ledger.every_version("default")]


async def test_many_come_as_an_object_as_a_list_and_as_lines(server: Server) -> None:
    items = [{"content": f"fact {number}"} for number in range(3)]
    for path in ("/v1/memories/batch", "/memorywire/v0/remember/batch"):
        whole = await server.http.post(path, json={"items": items})
        listed = await server.http.post(path, json=items)
        lined = await server.http.post(
            path, content=b"".join(json.dumps(item).encode() + b"\n" for item in items), headers=NDJSON
        )
        for results in (whole.json()["results"], listed.json()["results"], rows(lined.text)):
            assert [row["index"] for row in results] == [0, 1, 2]
            assert all(row["response"]["id"].startswith("mem_") for row in results)
        shapes = {frozenset(row["response"]) for row in (*listed.json()["results"], *rows(lined.text))}
        assert len(shapes) == 1, "lines have the form of the list"
    assert len(await kept(server)) == 18


async def test_each_line_is_judged_by_itself_and_answered_in_order(server: Server) -> None:
    body = b'{"content":"one"}\n\n{oops\n{"content":""}\n[1]\n{"content":"two","mood":1}\n{"content":"three"}'
    answer = await server.http.post("/v1/memories/batch?agent_id=ana", content=body, headers=NDJSON)
    found = rows(answer.text)
    assert [row["index"] for row in found] == [0, 1, 2, 3, 4, 5]
    reasons = [None if row["error"] is None else row["error"]["reason"] for row in found]
    assert reasons == [None, "bad_json", "bad_value", "bad_json", "unknown_field", None]
    assert {record.agent_id for record in await kept(server)} == {"ana"}


async def test_a_memory_is_kept_and_answered_before_the_next_is_sent(server: Server) -> None:
    call = server.call("POST", "/memorywire/v0/remember/batch", NDJSON)
    for number in range(3):
        call.give(b'{"agent_id":"a","type":"semantic","content":"fact %d"}\n' % number)
        await call.said(b'"index":%d' % number)
        assert len(await kept(server)) == number + 1
    call.give(b"", more=False)
    await call.done()
    assert set(rows(call.body)[0]["response"]) == {
        "id",
        "stored_at",
        "stores",
        "pending_approval",
        "approval_url",
    }


async def test_a_key_makes_every_line_happen_once(server: Server) -> None:
    body = b'{"content":"one"}\n{"content":"two"}\n'
    headers = {**NDJSON, "idempotency-key": "k"}
    first, again = [
        rows((await server.http.post("/v1/memories/batch", content=body, headers=headers)).text)
        for _ in range(2)
    ]
    assert [row["response"]["id"] for row in first] == [row["response"]["id"] for row in again]
    assert len(await kept(server)) == 2


async def test_lines_are_refused_where_nobody_may_write_or_all_or_none_is_wanted(servers: Servers) -> None:
    server = await servers()
    server.tokens["reader"] = server.memory.named(name="reader", permissions=frozenset())
    refused = await server.http.post(
        "/v1/memories/batch",
        content=b'{"content":"x"}\n',
        headers={**NDJSON, "authorization": "Bearer reader"},
    )
    assert refused.status_code == 403
    atomic = await server.http.post(
        "/v1/memories/batch?atomic=true", content=b'{"content":"x"}\n', headers=NDJSON
    )
    assert (atomic.status_code, atomic.json()["errors"][0]["pointer"]) == (400, "/atomic")
    misspelt = await server.http.post("/v1/memories/batch?atomc=true", content=b"{}\n", headers=NDJSON)
    assert (misspelt.status_code, misspelt.json()["errors"][-1]["pointer"]) == (400, "/atomc")
    assert (await server.http.post("/v1/memories/batch", content=b"", headers=NDJSON)).text == ""
    packed = await server.http.post(
        "/v1/memories/batch",
        content=gzip.compress(b'{"content":"x"}\n' * 300),
        headers={**NDJSON, "content-encoding": "gzip"},
    )
    assert [row["index"] for row in rows(packed.text)] == list(range(300))
    assert len(await kept(server)) == 300
