"""Time: slow senders, silent ones, those who leave, handlers that hang, and too many at once."""

from __future__ import annotations

import contextlib
import select
import socket
import threading
import time
from collections.abc import Iterator

import httpx
import pytest

from quipu.faces.http.connections import HEADER_BYTES, ImpatientProtocol
from tests.faces.http.rig import Rig, checked_problem, problem
from tests.faces.http.wires import head, read_all, read_until, wait_for
from tests.faces.serving import PATIENCE_S, Served, served


@pytest.fixture
def hasty(rig: Rig, monkeypatch: pytest.MonkeyPatch) -> Iterator[Served]:
    """A server with little patience."""
    monkeypatch.setattr(ImpatientProtocol, "header_s", 0.3)
    with served(more=rig.faces, body_timeout_s=1, request_timeout_s=2, most_requests=3) as at:
        yield at


JSON = "Content-Type: application/json"


def test_a_body_that_stops_coming_is_told_so_and_the_connection_is_closed(hasty: Served) -> None:
    with hasty.connect() as connection:
        connection.sendall(head(hasty, "/rig/echo", JSON, "Content-Length: 100") + b'{"a":')
        said = read_all(connection)
    assert said.startswith(b"HTTP/1.1 408")
    assert b"connection: close" in said.lower()
    assert b'"slow_body"' in said


def test_a_byte_now_and_then_does_not_outlast_the_deadline(hasty: Served) -> None:
    with hasty.connect() as connection:
        connection.sendall(head(hasty, "/rig/echo", JSON, "Content-Length: 100"))
        begun = time.monotonic()
        said = b""
        while not said:
            assert time.monotonic() - begun < PATIENCE_S
            connection.sendall(b" ")
            if select.select([connection], [], [], 0.2)[0]:
                said = connection.recv(65536)
    assert said.startswith(b"HTTP/1.1 504")
    assert time.monotonic() - begun >= 1.5


@pytest.mark.parametrize("beginning", [b"", b"G", b"GET / HTTP/1.1\r\nHost: x\r\n"])
def test_whoever_does_not_say_what_they_want_is_shown_out(hasty: Served, beginning: bytes) -> None:
    with hasty.connect() as connection:
        connection.sendall(beginning)
        assert read_all(connection) == b""


def test_headers_a_byte_at_a_time_do_not_hold_a_connection(hasty: Served) -> None:
    with hasty.connect() as connection:
        for letter in b"GET /healthz HTTP/1.1\r\nHost: x\r\nX: " + b"x" * 1000:
            if select.select([connection], [], [], 0.02)[0]:
                assert connection.recv(100) == b""
                return
            connection.sendall(bytes([letter]))
    raise AssertionError("it was never closed")


def test_a_second_request_gets_its_own_time(hasty: Served) -> None:
    ask = b"GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n"
    with hasty.connect() as connection:
        for _ in range(3):
            connection.sendall(ask)
            assert read_until(connection, b'"ok"}').startswith(b"HTTP/1.1 200")
        connection.sendall(ask[:20])
        assert read_all(connection) == b""


def test_a_long_answer_is_not_cut_off_by_the_time_for_headers(hasty: Served, rig: Rig) -> None:
    with hasty.connect() as connection:
        connection.sendall(head(hasty, "/rig/wait", "Content-Length: 0"))
        wait_for(lambda: rig.waiting)
        select.select([connection], [], [], 0.6)
        rig.is_open = True
        assert connection.recv(65536).startswith(b"HTTP/1.1 200")


def test_endless_headers_are_refused(at: Served) -> None:
    with at.connect() as connection:
        connection.settimeout(ImpatientProtocol.header_s / 2)  # their size is enough, whatever the time
        connection.sendall(b"GET /healthz HTTP/1.1\r\nHost: x\r\nX: " + b"x" * (2 * HEADER_BYTES))
        with contextlib.suppress(ConnectionResetError):  # it is closed with a part unread
            assert read_all(connection)[:10] in (b"HTTP/1.1 4", b"")


def taken_of(connection: socket.socket, most: int) -> int:
    """How many bytes the other side takes before it takes no more."""
    connection.setblocking(False)
    sent, piece = 0, b"x" * (1 << 20)
    with contextlib.suppress(ConnectionError):  # it may as well be closed
        while sent < most and select.select([], [connection], [], 1.0)[1]:
            sent += connection.send(piece)
    connection.setblocking(True)
    return sent


def test_endless_headers_behind_a_request_at_work_are_left_unread(at: Served, rig: Rig) -> None:
    with at.connect() as connection:
        connection.sendall(head(at, "/rig/wait", "Content-Length: 0"))
        wait_for(lambda: rig.waiting)
        connection.sendall(b"GET /healthz HTTP/1.1\r\nHost: x\r\nX: ")
        assert taken_of(connection, 64 << 20) < 32 << 20, "what the system holds, and no more"
        rig.is_open = True
        assert connection.recv(65536).startswith(b"HTTP/1.1 200")


def test_endless_fields_behind_a_body_are_left_unread(at: Served) -> None:
    with at.connect() as connection:
        connection.sendall(head(at, "/rig/echo", JSON, "Transfer-Encoding: chunked") + b"2\r\n[]\r\n0\r\nX: ")
        assert taken_of(connection, 64 << 20) < 32 << 20, "what the system holds, and no more"
    with at.client() as client:
        assert client.get("/rig/public").status_code == 200


@pytest.mark.parametrize("at_once", [True, False])
def test_a_reader_that_has_asked_for_more_and_leaves_is_gone(at: Served, rig: Rig, at_once: bool) -> None:
    events = head(at, "/rig/events").replace(b"POST", b"GET")
    more = head(at, "/rig/whoami").replace(b"POST", b"GET")
    with at.connect() as connection:
        connection.sendall(events + more * 3 if at_once else events)
        read_until(connection, b"id: 1")
        connection.sendall(more)
    wait_for(lambda: rig.finished == rig.waiting == 1)


def test_an_upload_that_is_broken_off_harms_nobody(at: Served) -> None:
    for length in ("Content-Length: 1000000", "Transfer-Encoding: chunked"):
        with at.connect() as connection:
            connection.sendall(head(at, "/rig/echo", JSON, length) + b"5\r\n")
    with at.client() as client:
        wait_for(lambda: 'quipu_errors_total{code="cancelled"} 2.0' in client.get("/metrics").text)
        assert client.get("/rig/public").status_code == 200


def test_a_half_closed_connection_is_still_answered(at: Served) -> None:
    with at.connect() as connection:
        connection.sendall(head(at, "/rig/echo", JSON, "Content-Length: 2", "Connection: close") + b"[]")
        connection.shutdown(socket.SHUT_WR)
        said = read_all(connection)
    # Whether the answer still gets out depends on the loop; what matters is that the server goes on.
    assert said == b"" or said.startswith(b"HTTP/1.1 200")
    with at.client() as client:
        assert client.get("/rig/public").status_code == 200


def test_a_handler_that_hangs_is_answered_for(hasty: Served, rig: Rig) -> None:
    with hasty.client() as client:
        told = problem(client.get("/rig/wait"), 504, "timeout", "request")
        assert told["retryable"] is True
    assert (rig.waiting, rig.finished) == (1, 0)


def test_a_stream_outlasts_the_deadline(hasty: Served) -> None:
    begun = time.monotonic()
    with hasty.client() as client, client.stream("GET", "/rig/events") as response:
        for _ in response.iter_lines():
            if time.monotonic() - begun > 3:
                break
    assert time.monotonic() - begun > 3


def test_too_many_at_once_are_told_to_come_back(hasty: Served, rig: Rig) -> None:
    answers: list[httpx.Response] = []

    def ask() -> None:
        with hasty.client() as client:
            answers.append(client.get("/rig/wait"))

    threads = [threading.Thread(target=ask) for _ in range(3)]
    for thread in threads:
        thread.start()
    wait_for(lambda: rig.waiting == 3)
    with hasty.client() as client:
        refused = client.get("/rig/whoami")
        problem(refused, 503, "backend_unavailable", "overloaded")
        assert refused.headers["retry-after"] == "1"
        for path in ("/healthz", "/readyz", "/metrics"):
            assert client.get(path).status_code == 200, "the operator can still look"
        rig.is_open = True
        for thread in threads:
            thread.join(PATIENCE_S)
        assert [answer.status_code for answer in answers] == [200, 200, 200]
        assert client.get("/rig/whoami").status_code == 200


def test_pipelined_requests_are_answered_in_order(at: Served) -> None:
    with at.connect() as connection:
        ask = head(at, "/rig/echo", JSON, "Content-Length: 3")
        connection.sendall(
            ask + b"[1]" + ask + b"[2]" + head(at, "/nowhere", "Content-Length: 0", "Connection: close")
        )
        said = read_all(connection).decode()
    assert said.index("[1]") < said.index("[2]") < said.index('"not_found"')


def test_a_request_that_smuggles_another_is_one_request_or_none(at: Served) -> None:
    body = b"0\r\n\r\nGET /rig/whoami HTTP/1.1\r\nHost: x\r\n\r\n"
    with at.connect() as connection:
        connection.sendall(
            head(at, "/rig/echo", JSON, f"Content-Length: {len(body)}", "Transfer-Encoding: chunked") + body
        )
        connection.shutdown(socket.SHUT_WR)
        said = read_all(connection)
    assert said.count(b"HTTP/1.1 ") <= 1 or b"HTTP/1.1 200" not in said


def test_a_problem_that_is_read_by_hand_is_the_published_one(hasty: Served) -> None:
    with hasty.connect() as connection:
        connection.sendall(head(hasty, "/rig/echo", JSON, "Content-Length: 9"))
        said = read_all(connection)
    assert checked_problem(
        httpx.Response(408, content=said.partition(b"\r\n\r\n")[2]).json(), 408, "timeout", "slow_body"
    )
