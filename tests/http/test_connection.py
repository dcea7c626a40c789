"""What only a real connection shows: slow headers, unread bodies, offers of other protocols, requests one behind the other."""

import contextlib
import json
import logging
import select
import socket
from collections.abc import Iterator

import pytest

from quipu.http import limits
from quipu.http.server import HEADER_BYTES, Connection
from tests.http.rig import SECRET
from tests.http.served import Served, head, read_all, read_until, served, wait_for

JSON = "Content-Type: application/json"
OFFER = (
    "Connection: Upgrade, HTTP2-Settings",
    "Upgrade: h2c",
    "HTTP2-Settings: AAEAAEAAAAIAAAABAAMAAABkAAQBAAAA",
)
ECHO = b'{"value":{"a":1}}'


@pytest.fixture(scope="module")
def at() -> Iterator[Served]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(limits, "BODY_PAUSE_S", 1.0)
        with served() as at:
            yield at


@pytest.fixture
def hasty(at: Served, monkeypatch: pytest.MonkeyPatch) -> Served:
    """The same, with little patience for headers."""
    monkeypatch.setattr(Connection, "header_s", 0.2)
    return at


# -- headers ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("beginning", [b"", b"G", b"GET / HTTP/1.1\r\nHost: x\r\n"])
def test_whoever_does_not_say_what_they_want_is_shown_out(hasty: Served, beginning: bytes) -> None:
    with hasty.connect() as connection:
        connection.sendall(beginning)
        assert read_all(connection) == b""


def test_headers_a_byte_at_a_time_do_not_hold_a_connection(hasty: Served) -> None:
    with hasty.connect() as connection:
        for letter in b"GET /healthz HTTP/1.1\r\nHost: x\r\nX: " + b"x" * 1000:
            if select.select([connection], [], [], 0.01)[0]:
                assert connection.recv(100) == b""
                return
            connection.sendall(bytes([letter]))
    raise AssertionError("it was never closed")


def test_a_second_request_gets_its_own_time_and_a_long_answer_is_not_cut_off(hasty: Served) -> None:
    ask = b"GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n"
    with hasty.connect() as connection:
        for _ in range(2):
            connection.sendall(ask)
            assert read_until(connection, b'"ok"}').startswith(b"HTTP/1.1 200")
        before = hasty.inside.rig.waiting
        connection.sendall(head("/rig/wait", JSON, "Content-Length: 2") + b"{}")
        wait_for(lambda: hasty.inside.rig.waiting > before)
        assert select.select([connection], [], [], 0.4)[0] == []
        hasty.open_gate()
        assert read_until(connection, b'"pending_approval":false}').startswith(b"HTTP/1.1 200")
        hasty.shut_gate()
        connection.sendall(ask[:20])
        assert read_all(connection) == b""


def test_endless_headers_are_refused_by_their_size(at: Served) -> None:
    with at.connect() as connection:
        connection.settimeout(Connection.header_s / 2)  # their size is enough, whatever the time
        connection.sendall(b"GET /healthz HTTP/1.1\r\nHost: x\r\nX: " + b"x" * (2 * HEADER_BYTES))
        assert read_all(connection)[:10] in (b"HTTP/1.1 4", b"")


def taken_of(connection: socket.socket, most: int) -> int:
    """How many bytes the other side takes before it takes no more."""
    connection.setblocking(False)
    sent, piece = 0, b"x" * (1 << 20)
    with contextlib.suppress(ConnectionError):  # it may as well be closed
        while sent < most and select.select([], [connection], [], 0.5)[1]:
            sent += connection.send(piece)
    connection.setblocking(True)
    return sent


def test_endless_headers_behind_a_request_at_work_are_left_unread(at: Served) -> None:
    with at.connect() as connection:
        before = at.inside.rig.waiting
        connection.sendall(head("/rig/wait", JSON, "Content-Length: 2") + b"{}")
        wait_for(lambda: at.inside.rig.waiting > before)
        connection.sendall(b"GET /healthz HTTP/1.1\r\nHost: x\r\nX: ")
        assert taken_of(connection, 64 << 20) < 32 << 20, "what the system holds, and no more"
        at.open_gate()
        assert read_until(connection, b'"pending_approval":false}').startswith(b"HTTP/1.1 200")
        at.shut_gate()


def test_endless_fields_behind_a_body_are_left_unread(at: Served) -> None:
    with at.connect() as connection:
        body = b"%x\r\n%s\r\n0\r\nX: " % (len(ECHO), ECHO)
        connection.sendall(head("/rig/echo", JSON, "Transfer-Encoding: chunked") + body)
        assert taken_of(connection, 64 << 20) < 32 << 20, "what the system holds, and no more"
    with at.client() as client:
        assert client.get("/rig/who").status_code == 200


# -- bodies -----------------------------------------------------------------------------------------------------------


def test_an_answer_before_the_body_is_there_does_not_let_the_rest_be_taken_for_a_request(at: Served) -> None:
    smuggled = head("/rig/who", method="GET")
    with at.connect() as connection:
        told = f"Content-Length: {1_000_000 + len(smuggled)}"
        connection.sendall(head("/nowhere", JSON, told) + b"x" * 300_000)
        said = read_until(connection, b'"address"')
        assert said.startswith(b"HTTP/1.1 404")
        assert b"connection: close" in said.lower()
        connection.sendall(b"x" * 700_000 + smuggled)
        assert b"HTTP/1.1" not in read_all(connection)


def test_a_sender_of_far_too_much_still_sees_the_answer(at: Served) -> None:
    body = b'{"value":{"a":"' + b"x" * 30_000_000 + b'"}}'
    for content in (body, (body[start : start + 65536] for start in range(0, len(body), 65536))):
        with at.client() as client:
            answer = client.post("/rig/echo", content=content, headers={"Content-Type": "application/json"})
        assert (answer.status_code, answer.json()["reason"]) == (413, "too_large")
        assert answer.headers["connection"] == "close"


def test_a_request_that_smuggles_another_is_one_request_or_none(at: Served) -> None:
    body = b"0\r\n\r\n" + head("/rig/who", method="GET")
    with at.connect() as connection:
        told = (JSON, f"Content-Length: {len(body)}", "Transfer-Encoding: chunked")
        connection.sendall(head("/rig/echo", *told) + body)
        connection.shutdown(socket.SHUT_WR)
        said = read_all(connection)
    assert said.count(b"HTTP/1.1 ") <= 1 or b"HTTP/1.1 200" not in said


@pytest.mark.parametrize("is_in_pieces", [False, True])
@pytest.mark.parametrize("is_at_once", [False, True])
def test_who_offers_another_protocol_is_answered_in_this_one(
    at: Served, is_at_once: bool, is_in_pieces: bool
) -> None:
    """As Java's client does: the offer is passed over, and the body is the body, not the next request."""
    smuggled = b'{"value":{"a":"GET /rig/who HTTP/1.1"}}'
    length = "Transfer-Encoding: chunked" if is_in_pieces else f"Content-Length: {len(smuggled)}"
    body = b"%x\r\n%s\r\n0\r\n\r\n" % (len(smuggled), smuggled) if is_in_pieces else smuggled
    ask, given = head("/rig/echo", JSON, length, *OFFER), b"GET /rig/who HTTP/1.1"
    with at.connect() as connection:
        for pieces in ([ask + body] if is_at_once else [ask, body]) * 2:
            connection.sendall(pieces)
            if pieces != ask:
                said = read_until(connection, given)
                assert said.startswith(b"HTTP/1.1 200"), said
                assert said.count(b"HTTP/1.1 200") == 1, "one request, one answer"
        connection.sendall((ask + body) * 2)
        said = b""
        while said.count(given) < 2:
            said += connection.recv(65536)
        assert said.count(b"HTTP/1.1 200") == 2


@pytest.mark.parametrize("ends", ["Connection: close, Upgrade", "Connection: Upgrade\r\nConnection: close"])
def test_an_offer_with_the_last_request_of_a_connection_is_passed_over_too(at: Served, ends: str) -> None:
    lines = (JSON, f"Content-Length: {len(ECHO)}", ends, "Upgrade: h2c")
    for pieces in ([head("/rig/echo", *lines) + ECHO], [head("/rig/echo", *lines), ECHO]):
        with at.connect() as connection:
            for piece in pieces:
                connection.sendall(piece)
            assert read_until(connection, b'"a":1').startswith(b"HTTP/1.1 200")


def test_no_tunnel_is_dug(at: Served) -> None:
    with at.connect() as connection:
        connection.sendall(b"CONNECT inside.example:443 HTTP/1.1\r\nHost: inside.example:443\r\n\r\n")
        assert connection.recv(65536).startswith(b"HTTP/1.1 4")


def test_odd_headers_are_no_failure_of_ours(at: Served) -> None:
    for ask in (
        head("/rig/echo", JSON, f"Content-Length: {'0' * 5_000}2") + b"{}",
        b"GET /rig/who HTTP/1.1\r\nHost: 127.0.0.1\r\nX: a\rb\r\n\r\n",
    ):
        with at.connect() as connection:
            connection.sendall(ask)
            assert connection.recv(65536)[:10] in (b"HTTP/1.1 2", b"HTTP/1.1 4")


# -- one behind the other ---------------------------------------------------------------------------------------------


def test_pipelined_requests_are_answered_in_order(at: Served) -> None:
    ask = head("/rig/echo", JSON, f"Content-Length: {len(ECHO)}")
    with at.connect() as connection:
        last = head("/nowhere", "Content-Length: 0", "Connection: close")
        connection.sendall(ask + ECHO + ask + ECHO.replace(b"1", b"2") + last)
        said = read_all(connection).decode()
    assert said.index('{"a":1}') < said.index('{"a":2}') < said.index('"not_found"')


def test_a_request_that_was_sent_before_the_last_one_was_answered_does_not_begin_inside_of_it(
    at: Served,
) -> None:
    ask = head("/rig/who", method="GET")
    last = head("/rig/who", "Connection: close", method="GET")
    with at.connect() as connection:
        connection.sendall(ask * 3 + last)
        said = read_all(connection)
    assert said.count(b"HTTP/1.1 200") == 4
    assert b"an earlier request" not in said


@pytest.mark.parametrize("at_once", [True, False])
def test_a_reader_that_has_asked_for_more_and_leaves_is_gone(at: Served, at_once: bool) -> None:
    before = at.inside.rig.ended
    events, more = head("/rig/events", method="GET"), head("/rig/who", method="GET")
    with at.connect() as connection:
        connection.sendall(events + more * 3 if at_once else events)
        read_until(connection, b"id: 1")
        connection.sendall(more)

    def is_gone() -> bool:
        at.open_gate()  # nothing more is read of the connection, so that only the next event finds it broken
        return at.inside.rig.ended == before + 1

    wait_for(is_gone)
    at.shut_gate()


def test_lines_are_answered_before_the_last_has_been_sent_whatever_may_be_packed(at: Served) -> None:
    told = ("Content-Type: application/x-ndjson", "Transfer-Encoding: chunked", "Accept-Encoding: gzip")
    with at.connect() as connection:
        connection.sendall(head("/rig/lines", *told) + b"4\r\n{}\n\n\r\n")
        assert read_until(connection, b'"seq":1').startswith(b"HTTP/1.1 200")
        connection.sendall(b"3\r\n{}\n\r\n0\r\n\r\n")
        assert read_until(connection, b'"summary"')


def test_an_upload_that_is_broken_off_harms_nobody(at: Served) -> None:
    for length in ("Content-Length: 1000000", "Transfer-Encoding: chunked"):
        with at.connect() as connection:
            connection.sendall(head("/rig/echo", JSON, length) + b"5\r\n")
    with at.client() as client:
        wait_for(lambda: 'quipu_errors_total{code="cancelled"} 2.0' in client.get("/metrics").text)
        assert client.get("/rig/who").status_code == 200


def test_nothing_that_fails_in_the_middle_shows_its_text(
    at: Served, caplog: pytest.LogCaptureFixture
) -> None:
    at.inside.rig.error = RuntimeError(SECRET)
    with at.client() as client, client.stream("GET", "/rig/file?id=x") as response:
        assert json.loads(response.read())["code"] == "internal_error"
    assert SECRET not in caplog.text
    assert [record.levelno for record in caplog.records if record.name.startswith("uvicorn")] <= [
        logging.WARNING
    ]
