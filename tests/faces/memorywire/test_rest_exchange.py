"""Many memories in and out: streamed both ways, whole chunks, nothing lost on the round trip."""

from __future__ import annotations

import asyncio
import gzip
import json
import socket
import tracemalloc
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import httpx
import pytest

from quipu.faces.http import deadlines
from quipu.faces.memorywire.openapi_examples import IMPORT_LINES
from quipu.testing.builders import FixedClock
from tests.faces.memorywire.shapes import problems
from tests.faces.memorywire.test_rest_operations import TEA
from tests.faces.memorywire.test_rest_records import KINDS
from tests.faces.memorywire.test_v0 import v0_problems
from tests.faces.memorywire.wired import (
    READ,
    V0,
    WRITE,
    Caller,
    Wired,
    is_problem,
    lines_of,
    served,
    wired,
)
from tests.requirement import requirement

NDJSON = {"Content-Type": "application/x-ndjson"}


def line(**fields: Any) -> bytes:
    return json.dumps(TEA | fields).encode() + b"\n"


async def imported(caller: Caller, body: Any, query: str = "", **headers: str) -> list[dict[str, Any]]:
    answer = await caller.ask("POST", f"/import{query}", content=body, headers=NDJSON | headers)
    assert (answer.status_code, answer.headers["content-type"]) == (200, "application/x-ndjson"), answer.text
    told = lines_of(answer)
    for row in told:
        assert problems("operations/import.response", row) == []
    return told


@requirement("memorywire:rest.import")
async def test_each_line_is_answered_and_the_end_sums_up(ada: Caller) -> None:
    body = (
        line(content="one")
        + b"\n"
        + b"{oops\n"
        + line(content="")
        + line(approval_required=True)
        + line()[:-1]
    )
    *rows, last = await imported(ada, body)
    assert [row["line"] for row in rows] == [1, 3, 4, 5, 6]
    assert [row.get("error", {}).get("reason") for row in rows] == [None, "bad_json", "bad_value", None, None]
    assert rows[3]["pending_approval"] is True
    counts = last["summary"]
    assert (counts["read"], counts["stored"], counts["held"], counts["failed"]) == (5, 2, 1, 2)
    record = (await ada.get(f"/records/{rows[0]['id']}")).json()
    assert record["provenance"] == {
        "written_by": "ada",
        "trust": "external",
        "import_id": counts["import_id"],
    }


@requirement("memorywire:rest.import")
async def test_nothing_is_an_import_too(ada: Caller) -> None:
    (last,) = await imported(ada, b"")
    assert last["summary"]["read"] == 0
    assert (await imported(ada, b"\n\r\n  \n"))[-1]["summary"]["read"] == 0


@requirement("memorywire:rest.import")
async def test_a_dry_run_writes_nothing(ada: Caller) -> None:
    *rows, last = await imported(ada, line() + line(content=""), "?dry_run=true")
    assert [row.get("id", "none") for row in rows] == [None, "none"]
    assert last["summary"]["dry_run"] is True
    assert await ada.recalled("tea") == []


@requirement("memorywire:rest.import")
async def test_an_import_may_stop_at_the_first_bad_line(ada: Caller) -> None:
    body = line() + line(content="") + line(content="never")
    *rows, last = await imported(ada, body, "?on_error=stop")
    assert [row["line"] for row in rows] == [1, 2]
    assert (last["summary"]["read"], last["summary"]["stored"]) == (2, 1)
    late = b"".join(line() for _ in range(500)) + line(store="attic") + b"".join(line() for _ in range(600))
    *rows, last = await imported(ada, late, "?on_error=stop")
    assert (last["summary"]["read"], last["summary"]["failed"]) == (1000, 1)


@requirement("memorywire:rest.import")
async def test_lines_without_a_store_go_where_the_query_says(server: Wired, ada: Caller) -> None:
    from quipu.model.operations import CreateStoreRequest
    from quipu.model.principal import local

    await server.running.service.stores.create(local(), CreateStoreRequest(name="attic"))
    *rows, _ = await imported(ada, line() + line(store="main"), "?store=attic")
    stores = [(await ada.get(f"/records/{row['id']}")).json()["store"] for row in rows]
    assert stores == ["attic", "main"]


@requirement("memorywire:rest.import")
async def test_ids_and_times_are_for_admins(server: Wired, ada: Caller) -> None:
    claims = [{"id": "mem_A"}, {"created_at": 5}, {"updated_at": 6}]
    body = b"".join(line(**claim) for claim in claims) + line()
    writer = await server.caller("writer", WRITE)
    *rows, last = await imported(writer, body)
    assert [row.get("error", {}).get("code") for row in rows] == ["forbidden"] * 3 + [None]
    *rows, last = await imported(ada, body + line(id="mem_A"))
    assert last["summary"]["failed"] == 0
    assert rows[0]["id"] == "mem_A"
    assert (rows[4]["other_id"], rows[4]["id"] != "mem_A") == ("mem_A", True)
    assert (await ada.get(f"/records/{rows[1]['id']}")).json()["created_at"] == 5


@requirement("memorywire:rest.import")
async def test_a_writer_brings_in_only_for_its_agents(server: Wired) -> None:
    shop = await server.caller("shop", WRITE, agents=("shop",))
    *rows, _ = await imported(shop, line() + line(agent_id="shop"))
    assert [row.get("error", {}).get("reason") for row in rows] == ["agent_not_allowed", None]


@requirement("memorywire:rest.import")
async def test_repeating_a_file_with_keys_is_harmless(ada: Caller) -> None:
    body = b"".join(line(content=f"n {number}", idempotency_key=f"k{number}") for number in range(5))
    first = await imported(ada, body)
    again = await imported(ada, body)
    assert [row["id"] for row in first[:-1]] == [row["id"] for row in again[:-1]]


@requirement("memorywire:rest.import")
@pytest.mark.parametrize("query", ["?dry_run=maybe", "?on_error=retry", "?colour=1", "?store=a&store=b"])
async def test_odd_questions_are_refused(ada: Caller, query: str) -> None:
    is_problem(await ada.ask("POST", f"/import{query}", content=b"", headers=NDJSON), 400, "validation_error")


@requirement("memorywire:rest.import")
async def test_other_media_types_are_refused(ada: Caller) -> None:
    is_problem(await ada.post("/import", {}), 415, "validation_error", "media_type")


@requirement("memorywire:rest.import")
async def test_a_line_without_end_is_one_bad_line(ada: Caller) -> None:
    async def body() -> AsyncIterator[bytes]:
        yield line() + b'{"content": "'
        for _ in range(5):
            yield b"x" * (1 << 20)
        yield b'"}\n' + line()

    *rows, last = await imported(ada, body())
    assert [row.get("error", {}).get("reason") for row in rows] == [None, "too_large", None]
    assert last["summary"]["stored"] == 2


@requirement("memorywire:rest.import")
async def test_the_example_of_the_documentation_is_taken(ada: Caller) -> None:
    assert (await imported(ada, IMPORT_LINES.encode()))[-1]["summary"]["stored"] == 2


@requirement("memorywire:rest.import-stream")
async def test_gzip_is_accepted_and_damage_is_told_behind_what_was_written(ada: Caller) -> None:
    lines = b"".join(line(content=f"n {number}") for number in range(1_200))
    packed = gzip.compress(lines)
    assert (await imported(ada, packed, **{"Content-Encoding": "gzip"}))[-1]["summary"]["stored"] == 1_200
    # Random text, so that half of the packed bytes are about half of the lines.
    noisy = b"".join(line(content=hashlib_text(number)) for number in range(1_200))
    cut = gzip.compress(noisy)
    told = await imported(ada, cut[: len(cut) * 3 // 4], **{"Content-Encoding": "gzip"})
    assert told[-2]["error"]["reason"] == "bad_file"
    assert told[-1]["summary"]["stored"] in (500, 1_000)
    assert len(told) == told[-1]["summary"]["read"] + 2


def hashlib_text(number: int) -> str:
    import hashlib

    return hashlib.sha512(str(number).encode()).hexdigest() * 2


async def _answers(reader: asyncio.StreamReader) -> AsyncIterator[dict[str, Any]]:
    """Lines of a chunked answer, as they come."""
    waiting = b""
    while True:
        size = int((await reader.readline()).strip() or b"0", 16)
        if not size:
            return
        waiting += await reader.readexactly(size)
        await reader.readline()
        *whole, waiting = waiting.split(b"\n")
        for text in whole:
            yield json.loads(text)


async def _opened(server: Wired, caller: Caller) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    host, _, port = server.url.removeprefix("http://").partition(":")
    reader, writer = await asyncio.open_connection(host, int(port))
    head = (
        f"POST {V0}/import HTTP/1.1\r\nHost: quipu\r\nAuthorization: Bearer {caller.token}\r\n"
        "Content-Type: application/x-ndjson\r\nTransfer-Encoding: chunked\r\n\r\n"
    )
    writer.write(head.encode())
    return reader, writer


def _chunk(data: bytes) -> bytes:
    return b"%x\r\n%s\r\n" % (len(data), data)


@requirement("memorywire:rest.import-stream")
async def test_answers_come_while_the_body_is_still_being_sent() -> None:
    async with served() as server:
        ada = await server.caller("ada")
        reader, writer = await _opened(server, ada)
        writer.write(_chunk(b"".join(line(content=f"n {number}") for number in range(1_050))))
        head = await reader.readuntil(b"\r\n\r\n")
        assert head.startswith(b"HTTP/1.1 200")
        answers = _answers(reader)
        first = [await anext(answers) for _ in range(500)]
        assert [row["line"] for row in first] == list(range(1, 501))
        assert (await ada.get(f"/records/{first[0]['id']}")).status_code == 200
        writer.write(_chunk(line(content="last")) + b"0\r\n\r\n")
        rest = [row async for row in answers]
        assert rest[-1]["summary"]["stored"] == 1_051
        writer.close()


@requirement("memorywire:rest.import-stream")
async def test_an_upload_that_breaks_off_leaves_whole_chunks() -> None:
    async with served() as server:
        ada = await server.caller("ada")
        _, writer = await _opened(server, ada)
        writer.write(_chunk(b"".join(line(content=f"n {number}") for number in range(1_300))))
        await writer.drain()
        for _ in range(500):
            count = (await server.running.parts.ledger.statistics("default"))["live"]
            if count >= 1_000:
                break
            await asyncio.sleep(0.01)
        writer.transport.abort()
        await asyncio.sleep(0.3)
        assert (await server.running.parts.ledger.statistics("default"))["live"] == 1_000
        assert (await ada.get("/capabilities")).status_code == 200


@requirement("memorywire:rest.import-stream")
@pytest.mark.slow
async def test_ten_thousand_lines_take_no_more_memory_than_a_thousand(tmp_path: Path) -> None:
    """The body is made as it is read, and the client reads nothing before it has sent everything."""

    def made(count: int, number: int) -> bytes:
        return line(content=f"fact {number} " + "x" * 500, idempotency_key=f"{count}-{number}")

    async def body(count: int) -> AsyncIterator[bytes]:
        for start in range(0, count, 20):  # sent one by one, half of the work would be sending
            yield b"".join(made(count, number) for number in range(start, start + 20))

    async with served(FixedClock(), tmp_path / "memory.db") as server:
        ada = await server.caller("ada")
        peaks: list[int] = []
        for count in (1_000, 10_000):
            tracemalloc.start()
            try:
                answer = await ada.ask("POST", "/import?dry_run=true", content=body(count), headers=NDJSON)
                peaks.append(tracemalloc.get_traced_memory()[1])
            finally:
                tracemalloc.stop()  # left on, it would slow down every test that follows
            assert lines_of(answer)[-1]["summary"]["stored"] == count
        # The client keeps the answer, some 30 bytes a line; the server keeps two chunks.
        assert peaks[1] < peaks[0] + 10_000 * 300, peaks
        real = await ada.ask("POST", "/import", content=body(10_000), headers=NDJSON)
        assert lines_of(real)[-1]["summary"]["stored"] == 10_000


async def _sent_before_read(body: AsyncIterator[bytes]) -> list[dict[str, Any]]:
    """The answer to a client with narrow buffers that reads nothing before it has sent everything."""
    narrow = httpx.AsyncHTTPTransport(socket_options=[(socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 16)])
    async with (
        served(send_buffer=1 << 16) as server,
        httpx.AsyncClient(transport=narrow, base_url=server.url, timeout=20) as client,
    ):
        ada = Caller(client, (await server.caller("ada")).token)
        plain = NDJSON | {"Accept-Encoding": "identity"}
        answer = await ada.ask("POST", "/import", content=body, headers=plain)
        assert len(answer.content) > 2 << 20
        return lines_of(answer)


async def _nonsense(count: int, length: int) -> AsyncIterator[bytes]:
    """So much that it fills every buffer on the way, in both directions."""
    for _ in range(count // 100):
        yield (b"{" + b"x" * length + b"\n") * 100


@requirement("memorywire:rest.import-stream")
async def test_a_client_that_reads_nothing_before_it_has_sent_all_does_not_wait_for_ever() -> None:
    told = await _sent_before_read(_nonsense(12_000, 2_000))
    assert (len(told), told[-1]["summary"]["failed"]) == (12_001, 12_000)


@requirement("memorywire:rest.import-stream")
async def test_who_still_writes_need_not_read_yet(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(deadlines, "_STALL_S", 2.5)

    async def body() -> AsyncIterator[bytes]:
        async for piece in _nonsense(10_000, 100):
            yield piece
        for _ in range(12):
            await asyncio.sleep(0.4)
            yield line()

    assert (await _sent_before_read(body()))[-1]["summary"]["stored"] == 12


# -- out --------------------------------------------------------------------------------------------------------


async def exported(caller: Caller, **query: Any) -> list[dict[str, Any]]:
    answer = await caller.get("/export", params=query)
    assert (answer.status_code, answer.headers["content-type"]) == (200, "application/x-ndjson"), answer.text
    return lines_of(answer)


@requirement("memorywire:rest.export")
async def test_every_record_is_valid_against_its_type(ada: Caller) -> None:
    for kind, fields in KINDS.items():
        await ada.post("/remember", {"agent_id": "ana", "type": kind, **fields})
    rows = await exported(ada)
    assert {row["type"] for row in rows} == set(KINDS)
    for row in rows:
        assert problems(f"types/{row['type']}", row) == []
        assert v0_problems(f"types/{row['type']}", row) == []


@requirement("memorywire:rest.export")
async def test_an_export_is_narrowed_by_its_query(ada: Caller) -> None:
    one = await ada.kept("one", tags=["a"], user_id="mara")
    two = await ada.kept("two", agent_id="bo")
    three = await ada.kept("three")
    position = (await ada.post("/forget", {"agent_id": "ana", "ids": [three]})).headers["quipu-seq"]
    await ada.post("/expire", {"agent_id": "bo", "policy": {"type": "semantic"}, "action": "archive"})

    async def ids(**query: Any) -> set[str]:
        return {row["id"] for row in await exported(ada, **query)}

    assert await ids() == {one, two}
    assert await ids(agent_id="ana") == {one}
    assert await ids(user_id="mara") == {one}
    assert await ids(filter='{"tags": "a"}') == {one}
    assert await ids(state="archived") == {two}
    assert await ids(state="live,forgotten") == {one, three}
    assert await ids(types="episodic") == set()
    assert await ids(as_of=int(position) - 1, state="live") == {one, two, three}
    (gone,) = await exported(ada, state="forgotten")
    assert gone["state"] == "forgotten"


@requirement("memorywire:rest.export")
@pytest.mark.parametrize(
    ("query", "reason"),
    [
        ("filter=x", "bad_json"),
        ("filter=[]", "bad_filter"),
        ('filter={"a":{"$like":1}}', "unknown_operator"),
        ("state=dead", "bad_value"),
        ("as_of=soon", "bad_value"),
        ("colour=1", "unknown_field"),
    ],
)
async def test_what_is_wrong_is_told_before_the_answer_begins(ada: Caller, query: str, reason: str) -> None:
    is_problem(await ada.get(f"/export?{query}"), 400, "validation_error", reason)


@requirement("memorywire:rest.export")
@pytest.mark.parametrize(
    ("given", "pointer", "detail"),
    [
        ("{", "/filter", "The filter is not valid JSON: line 1, column 2."),
        (
            '{"n": 9223372036854775808}',
            "/filter/n",
            "The filter holds what cannot be kept: an integer beyond 64 bits.",
        ),
        ("[" * 200 + "]" * 200, "/filter", "The filter is nested deeper than 64."),
    ],
    ids=["no JSON", "a large number", "too deep"],
)
async def test_a_filter_that_cannot_be_read_is_told_as_the_filter(
    ada: Caller, given: str, pointer: str, detail: str
) -> None:
    body = (await ada.get(f"/export?{urlencode({'filter': given})}")).json()
    assert (body["errors"][0]["pointer"], body["detail"]) == (pointer, detail)


@requirement("memorywire:rest.export")
async def test_an_export_is_noted_also_when_it_is_broken_off(server: Wired, ada: Caller) -> None:
    from quipu.model.operations import ListRequest
    from quipu.model.principal import local

    for number in range(3):
        await ada.kept(f"n {number}")
    await exported(ada)
    broken = server.running.service.exchange.export(local(), ListRequest())
    await anext(broken)
    await broken.aclose()
    noted = (await ada.get("/audit?operation=export")).json()["entries"]
    assert [entry["detail"]["records"] for entry in noted] == [3, 1]


@requirement("memorywire:rest.round-trip")
async def test_an_export_brought_into_an_empty_tenant_gives_back_equal_records(
    ada: Caller, server: Wired
) -> None:
    first = None
    for kind, fields in KINDS.items():
        links = [{"to": first, "rel": "about"}] if first and kind == "episodic" else []
        body = {"agent_id": "ana", "type": kind, "user_id": "mara", "links": links, **fields}
        first = (await ada.post("/remember", body)).json()["id"]
    changed = {
        "agent_id": "ana",
        "type": "procedural",
        "id": first,
        "confidence": 0.25,
        **KINDS["procedural"],
    }
    assert (await ada.post("/remember", changed)).headers["etag"] == '"2"'
    await ada.post("/expire", {"agent_id": "ana", "policy": {"type": "emotional"}, "action": "archive"})
    answer = await ada.get("/export")
    async with wired(server.clock) as other:
        bo = await other.caller("bo")
        told = await imported(bo, answer.content)
        assert told[-1]["summary"]["failed"] == 0
        back = {row["id"]: row for row in await exported(bo)}
    for row in lines_of(answer):
        same = back[row["id"]]
        for name in ("provenance", "version"):
            row.pop(name), same.pop(name)
        assert row == same


@requirement("memorywire:rest.export")
async def test_exports_are_for_admins(server: Wired) -> None:
    reader = await server.caller("reader", READ)
    is_problem(await reader.get("/export"), 403, "forbidden", "missing_scope")
