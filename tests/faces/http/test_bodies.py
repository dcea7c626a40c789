"""Bodies: how large, how deep, how compressed, of which kind; and what becomes of those that are not wanted."""

from __future__ import annotations

import contextlib
import gzip
import json
import select
import zlib
from collections.abc import Iterator
from typing import Any

import httpx
import pytest
from hypothesis import given
from hypothesis import strategies as st

from quipu.errors import InvalidError
from quipu.faces.http import bodies
from quipu.faces.http.json_text import DEPTH, loads, refuse_deep
from tests.faces.http.rig import SECRET, Rig, problem
from tests.faces.http.wires import head, read_until
from tests.faces.serving import Served, served

JSON = {"Content-Type": "application/json"}
NDJSON = {"Content-Type": "application/x-ndjson"}
GZIP = {**JSON, "Content-Encoding": "gzip"}
MOST = 10_000


# What becomes of one body is nothing to the next, so that all of them go to the same two servers.


@pytest.fixture(scope="module")
def at() -> Iterator[Served]:
    with served(more=Rig().faces, rate_per_minute=0) as at:
        yield at


@pytest.fixture(scope="module")
def small() -> Iterator[Served]:
    with served(more=Rig().faces, limit_body_bytes=MOST, rate_per_minute=0) as at:
        yield at


def sized(count: int) -> bytes:
    """A JSON text of so many bytes."""
    return b'"' + b"x" * (count - 2) + b'"'


def in_pieces(body: bytes, size: int = 1000) -> Iterator[bytes]:
    for start in range(0, len(body), size):
        yield body[start : start + size]


def post(at: Served, path: str, body: Any, headers: dict[str, str] = JSON) -> httpx.Response:
    with at.client() as client:
        return client.post(path, content=body, headers=headers)


@pytest.mark.parametrize("streamed", [False, True], ids=["with a length", "in pieces"])
def test_a_body_may_be_as_large_as_the_limit_and_no_larger(small: Served, streamed: bool) -> None:
    def body(count: int) -> Any:
        return in_pieces(sized(count)) if streamed else sized(count)

    assert post(small, "/rig/echo", body(MOST)).json() == "x" * (MOST - 2)
    told = problem(post(small, "/rig/echo", body(MOST + 1)), 413, "validation_error", "too_large")
    assert told["errors"][0]["accepted"] == [f"at most {MOST} bytes"]


def test_a_sender_of_far_too_much_still_sees_the_answer(at: Served) -> None:
    for body in (sized(30_000_000), in_pieces(sized(30_000_000), 65536)):
        response = post(at, "/rig/echo", body)
        problem(response, 413, "validation_error", "too_large")
        assert response.headers["connection"] == "close"


def test_a_sender_that_goes_on_after_the_answer_is_heard_out_for_a_moment(small: Served) -> None:
    told = ["Content-Type: application/json", "Content-Length: 9000000"]
    with small.connect() as connection:
        connection.sendall(head(small, "/rig/echo", *told) + b"x" * 300_000)
        select.select([connection], [], [], 10)  # the answer is there
        for _ in range(20):
            connection.sendall(b"x" * 100_000)
        assert read_until(connection, b"too_large").startswith(b"HTTP/1.1 413")


def test_an_announced_length_is_refused_before_the_body_comes(small: Served) -> None:
    told = ["Content-Type: application/json", "Content-Length: 5000000000"]
    for more in ([], ["Expect: 100-continue"]):
        with small.connect() as connection:
            connection.sendall(head(small, "/rig/echo", *told, *more))
            assert read_until(connection, b"too_large").startswith(b"HTTP/1.1 413")


def test_a_small_body_nobody_reads_does_not_cost_the_connection(at: Served) -> None:
    with at.client("") as client:
        response = client.post("/rig/echo", content=sized(2000), headers=JSON)
        problem(response, 401, "unauthenticated", "no_credential")
        assert response.headers.get("connection") != "close"


@pytest.mark.parametrize(
    ("headers", "accepted"),
    [
        ({"Content-Type": "text/plain"}, ["application/json"]),
        ({"Content-Type": "application/x-www-form-urlencoded"}, ["application/json"]),
        ({"Content-Type": "multipart/form-data; boundary=x"}, ["application/json"]),
        ({"Content-Type": ""}, ["application/json"]),
        ({}, ["application/json"]),
        ({**JSON, "Content-Encoding": "br"}, ["gzip"]),
        ({**JSON, "Content-Encoding": "gzip, gzip"}, ["gzip"]),
    ],
)
def test_another_kind_of_body_is_refused_with_what_is_accepted(
    at: Served, headers: dict[str, str], accepted: list[str]
) -> None:
    told = problem(post(at, "/rig/echo", b"{}", headers), 415, "validation_error", "media_type")
    assert told["errors"] == [{"pointer": "", "reason": "media_type", "accepted": accepted}]


def test_the_kind_of_a_body_is_read_as_people_write_it(at: Served) -> None:
    for kind in ("application/json; charset=utf-8", "APPLICATION/JSON", "application/json ;x=y"):
        assert post(at, "/rig/echo", b"[1]", {"Content-Type": kind}).json() == [1]


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        (b"", "bad_json"),
        (b"{", "bad_json"),
        (b'{"a":1}x', "bad_json"),
        (b'{"a":1,"a":2}', "bad_json"),
        (b"NaN", "bad_json"),
        (b"\xff\xfe", "bad_json"),
        (b'"\\u0000"', "bad_value"),
        (b"[" * 100_000, "too_deep"),
        (b"[" * 100_000 + b"]" * 100_000, "too_deep"),
        (b'{"a":' * 70 + b"1" + b"}" * 70, "too_deep"),
    ],
)
def test_bad_json_is_refused_and_not_repeated(at: Served, body: bytes, reason: str) -> None:
    problem(post(at, "/rig/echo", body), 400, "validation_error", reason)
    response = post(at, "/rig/echo", body + SECRET.encode())
    assert response.status_code == 400
    assert SECRET not in response.text


def test_a_body_that_must_be_an_object_is_one(at: Served) -> None:
    assert post(at, "/rig/object", b'{"a": 1}').json() == {"a": 1}
    assert post(at, "/rig/object", b"", {}).json() == {}
    problem(post(at, "/rig/object", b"[]"), 400, "validation_error", "bad_json")


def test_a_deep_body_is_refused_before_it_is_parsed(at: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    def never(_text: bytes) -> object:
        raise AssertionError("it was parsed")

    monkeypatch.setattr(bodies, "loads", never)
    for body in (b"[" * 1000, b'{"a":' * 1000 + b"1" + b"}" * 1000):
        problem(post(at, "/rig/echo", body), 400, "validation_error", "too_deep")


# -- nesting, without a server --------------------------------------------------------------------------------------

TREES = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(-9, 9), st.text('[]{}"\\,x', max_size=9)),
    lambda inner: st.one_of(
        st.lists(inner, max_size=4), st.dictionaries(st.text('[]{}"\\', max_size=4), inner, max_size=4)
    ),
    max_leaves=40,
)


@given(tree=TREES, around=st.integers(0, DEPTH - 20))
def test_no_body_within_the_bound_is_taken_for_a_deep_one(tree: object, around: int) -> None:
    text = b"[" * around + json.dumps(tree).encode() + b"]" * around
    refuse_deep(text)
    loads(text)


@given(tree=TREES, around=st.integers(2 * DEPTH + 1, 5 * DEPTH), is_cut=st.booleans())
def test_a_deep_body_never_reaches_the_parser(tree: object, around: int, is_cut: bool) -> None:
    text = b'{"a":[' * around + json.dumps(tree).encode() + (b"" if is_cut else b"]}" * around)
    with pytest.raises(InvalidError, match="nested deeper"):
        refuse_deep(text)


@pytest.mark.parametrize(
    "text",
    [
        b'"' + b'\\"' * 2_000_000,
        b'"' * 4_000_001,
        b"[]" * 2_000_000,
        b"[" + b"{},{}," * 700_000,
        b"]" * 4_000_000,
        b"[}" * 2_000_000,
        b"\\" * 4_000_000 + b"[" * 65,
    ],
    ids=["a text without end", "quotes", "flat lists", "flat objects", "closing", "crossed", "backslashes"],
)
@pytest.mark.timeout(10)
def test_looking_for_depth_takes_no_time(text: bytes) -> None:
    with contextlib.suppress(InvalidError):
        refuse_deep(b"[]" * (DEPTH + 1) + text)


# -- gzip -----------------------------------------------------------------------------------------------------------


OFFER = (
    "Connection: Upgrade, HTTP2-Settings",
    "Upgrade: h2c",
    "HTTP2-Settings: AAEAAEAAAAIAAAABAAMAAABkAAQBAAAA",
)


@pytest.mark.parametrize("is_in_pieces", [False, True])
@pytest.mark.parametrize("is_at_once", [False, True])
def test_who_offers_another_protocol_is_answered_in_this_one(
    at: Served, is_at_once: bool, is_in_pieces: bool
) -> None:
    """As Java's client does: the offer is passed over, and the body is the body, not the next request."""
    kind, smuggled = "Content-Type: application/json", b'["GET /rig/whoami HTTP/1.1"]'
    length = "Transfer-Encoding: chunked" if is_in_pieces else f"Content-Length: {len(smuggled)}"
    body = b"%x\r\n%s\r\n0\r\n\r\n" % (len(smuggled), smuggled) if is_in_pieces else smuggled
    ask = head(at, "/rig/echo", kind, length, *OFFER)
    with at.connect() as connection:
        for pieces in ([ask + body] if is_at_once else [ask, body]) * 2:
            connection.sendall(pieces)
            if pieces != ask:
                said = read_until(connection, smuggled)
                assert said.startswith(b"HTTP/1.1 200"), said
                assert said.count(b"HTTP/1.1 ") == 1, "one request, one answer"
        connection.sendall((ask + body) * 2)
        said = b""
        while said.count(smuggled) < 2:
            said += connection.recv(65536)
        assert said.count(b"HTTP/1.1 200") == 2


@pytest.mark.timeout(20)
@pytest.mark.parametrize("ends", ["Connection: close, Upgrade", "Connection: Upgrade\r\nConnection: close"])
def test_an_offer_with_the_last_request_of_a_connection_is_passed_over_too(at: Served, ends: str) -> None:
    body = b'["the whole body"]'
    lines = ("Content-Type: application/json", f"Content-Length: {len(body)}", ends, "Upgrade: h2c")
    for pieces in ([head(at, "/rig/echo", *lines) + body], [head(at, "/rig/echo", *lines), body]):
        with at.connect() as connection:
            connection.settimeout(5)
            for piece in pieces:
                connection.sendall(piece)
            assert read_until(connection, body).startswith(b"HTTP/1.1 200")


def test_a_length_behind_endless_zeros_is_no_failure_of_ours(at: Served) -> None:
    kind, length = "Content-Type: application/json", f"Content-Length: {'0' * 5_000}2"
    with at.connect() as connection:
        connection.sendall(head(at, "/quipu/v1/imports?agent_id=ana", kind, length) + b"{}")
        assert connection.recv(65536).startswith(b"HTTP/1.1 4")


def test_no_tunnel_is_dug(at: Served) -> None:
    with at.connect() as connection:
        connection.sendall(b"CONNECT inside.example:443 HTTP/1.1\r\nHost: inside.example:443\r\n\r\n")
        assert connection.recv(65536).startswith(b"HTTP/1.1 4")


def test_a_packed_body_is_unpacked(at: Served) -> None:
    value = {"text": "ä" * 100_000, "list": list(range(1000))}
    body = gzip.compress(json.dumps(value).encode())
    assert post(at, "/rig/echo", body, GZIP).json() == value
    assert post(at, "/rig/echo", in_pieces(body, 7), GZIP).json() == value
    two = gzip.compress(b'{"a":') + gzip.compress(b"1}")
    assert post(at, "/rig/echo", two, {**JSON, "Content-Encoding": "x-gzip"}).json() == {"a": 1}


def test_a_bomb_is_refused_by_what_it_unpacks_to(small: Served) -> None:
    bomb = gzip.compress(sized(50_000_000))
    assert len(bomb) > MOST, "packed it is over the limit too, but is not judged by that"
    problem(post(small, "/rig/echo", bomb, GZIP), 413, "validation_error", "too_large")
    little = gzip.compress(sized(MOST + 1))
    problem(post(small, "/rig/echo", little, GZIP), 413, "validation_error", "too_large")
    assert post(small, "/rig/echo", gzip.compress(sized(MOST)), GZIP).status_code == 200


@pytest.mark.parametrize(
    "body",
    [
        b"not packed at all",
        gzip.compress(b"{}")[:-3],
        gzip.compress(b'{"a": 1}')[:5],
        gzip.compress(b"{}") + b"rest",
        zlib.compress(b"{}"),
    ],
    ids=["plain", "cut at the end", "cut in the head", "more behind it", "zlib"],
)
def test_a_damaged_packed_body_is_refused(at: Served, body: bytes) -> None:
    problem(post(at, "/rig/echo", body, GZIP), 400, "validation_error", "bad_file")


def test_an_empty_packed_body_is_an_empty_body(at: Served) -> None:
    problem(post(at, "/rig/echo", b"", GZIP), 400, "validation_error", "bad_json")
    assert post(at, "/rig/object", gzip.compress(b""), GZIP).json() == {}


# -- lines ----------------------------------------------------------------------------------------------------------


def test_an_endless_body_has_no_total_limit_and_is_answered_as_it_comes(small: Served) -> None:
    count = 3 * MOST

    def body() -> Iterator[bytes]:
        yield from (b'{"a": 1}\r\n' for _ in range(count))

    response = post(small, "/rig/lines", body(), NDJSON)
    told = response.text.splitlines()
    assert json.loads(told[-1]) == {"summary": count}
    assert len(told) == count + 1


def test_lines_are_answered_before_the_last_has_been_sent(small: Served) -> None:
    told = ["Content-Type: application/x-ndjson", "Transfer-Encoding: chunked"]
    with small.connect() as connection:
        connection.sendall(head(small, "/rig/lines", *told) + b"4\r\n{}\n\n\r\n")
        assert read_until(connection, b'{"line":1}').startswith(b"HTTP/1.1 200")
        connection.sendall(b"3\r\n{}\n\r\n0\r\n\r\n")
        assert read_until(connection, b'{"summary":2}')


def test_a_line_that_never_ends_is_refused(small: Served) -> None:
    problem(post(small, "/rig/lines", b"x" * 1001, NDJSON), 413, "validation_error", "too_large")
    problem(post(small, "/rig/lines", b"x" * 1001 + b"\n{}", NDJSON), 413, "validation_error", "too_large")
    assert '{"summary":2}' in post(small, "/rig/lines", b"x" * 1000 + b"\n\n  \n{}", NDJSON).text
    assert post(small, "/rig/lines", b"", NDJSON).text == '{"summary":0}\n'


def test_packed_lines_are_taken_and_a_bomb_of_lines_is_not(small: Served) -> None:
    packed = {**NDJSON, "Content-Encoding": "gzip"}
    text = b"".join(b'{"n": %d}\n' % n for n in range(20_000))
    assert '{"summary":20000}' in post(small, "/rig/lines", gzip.compress(text), packed).text
    bomb = gzip.compress(b"\n" * 50_000_000)
    problem(post(small, "/rig/lines", bomb, packed), 413, "validation_error", "too_large")


# -- answers --------------------------------------------------------------------------------------------------------


def test_large_answers_are_packed_where_that_is_safe(at: Served) -> None:
    with at.client() as client:
        assert client.get("/rig/large").headers["content-encoding"] == "gzip"
        assert (
            "content-encoding"
            not in client.get("/rig/large", headers={"Accept-Encoding": "identity"}).headers
        )
        assert "content-encoding" not in client.get("/rig/public").headers
        assert "content-encoding" not in client.get("/rig/page").headers
        with client.stream("GET", "/rig/events") as response:
            assert "content-encoding" not in response.headers
            assert next(response.iter_text()).startswith("id: 1")
