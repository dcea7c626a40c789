"""How much of the server one caller may have: places, time, bodies, and what becomes of bodies nobody wants."""

import asyncio
import gzip
import json
import zlib
from typing import Any

import httpx
import pytest
from hypothesis import given
from hypothesis import strategies as st

from quipu.errors import BackendUnavailableError, QuipuError
from quipu.http import limits, streams
from quipu.http.limits import MOST_KNOWN, Place, Places, network_of
from quipu.model.principal import Principal
from tests.http.conftest import Server, Servers
from tests.http.rig import Call, until

JSON = {"content-type": "application/json"}
NDJSON = {"content-type": "application/x-ndjson"}
GZIP = {**JSON, "content-encoding": "gzip"}
MOST = 10_000


def entered(places: Places, credential: bytes, network: str) -> Place:
    place = places.beside(credential, network)
    places.enter(place)
    return place


def somebody(name: str) -> Principal:
    return Principal(tenant="default", name=name, permissions=frozenset())


# -- places -----------------------------------------------------------------------------------------------------------


def test_of_two_hundred_places_each_credential_has_fifty_and_who_is_not_signed_in_has_its_own() -> None:
    places = Places(200)
    assert (places.most, places.share, places.anonymous) == (200, 50, 32)
    for number in range(4):
        for _ in range(50):
            entered(places, b"", f"net {number}").sign_in(somebody(f"agent {number}"))
        waiting = entered(places, b"", "net")
        with pytest.raises(BackendUnavailableError) as raised:
            waiting.sign_in(somebody(f"agent {number}"))
        assert (raised.value.reason, raised.value.retry_after_s) == ("overloaded", 1)
        waiting.leave()
    assert (places.at_work, places.waiting) == (200, 0)
    another = entered(places, b"", "net")
    with pytest.raises(BackendUnavailableError):
        another.sign_in(somebody("agent 9"))


def test_who_is_not_signed_in_shuts_nobody_out_who_is_known() -> None:
    places = Places(200)
    known = entered(places, b"token", "home")
    known.sign_in(somebody("ada"))
    known.leave()
    unknown = [entered(places, b"", f"net {number % 2}") for number in range(32)]
    with pytest.raises(BackendUnavailableError):
        entered(places, b"guess", "elsewhere")
    again = entered(places, b"token", "home")
    assert (again.is_known, places.at_work, places.waiting) == (True, 1, 32)
    again.refuse()
    with pytest.raises(BackendUnavailableError):
        entered(places, b"token", "home")
    for place in unknown:
        place.leave()
    assert entered(places, b"", "net")


@given(st.lists(st.tuples(st.integers(0, 3), st.booleans(), st.booleans()), max_size=60))
def test_whoever_leaves_gives_back_what_they_had(visits: list[tuple[int, bool, bool]]) -> None:
    places, inside = Places(16), []
    for who, signs_in, leaves in visits:
        try:
            place = entered(places, f"token {who}".encode() if who else b"", f"net {who}")
            inside.append(place)
            if signs_in:
                place.sign_in(somebody(str(who)))
        except QuipuError:
            pass
        if leaves and inside:
            inside.pop(0).leave()
        assert places.at_work <= places.most
        assert places.waiting <= places.anonymous
    for place in inside:
        place.leave()
        place.leave()
    assert (places.at_work, places.waiting) == (0, 0)
    for _ in range(places.anonymous):
        entered(places, b"", "net 0")


def test_memory_of_credentials_is_bounded() -> None:
    places = Places(10)
    for number in range(MOST_KNOWN + 10):
        place = entered(places, b"%d" % number, "net")
        place.sign_in(somebody("ada"))
        place.leave()
    assert not entered(places, b"1", "net").is_known
    assert entered(places, b"%d" % (MOST_KNOWN + 9), "net").is_known


def test_addresses_of_one_network_are_one() -> None:
    assert network_of("2001:db8::1") == network_of("2001:db8::ffff:1%eth0") != network_of("2001:db8:0:1::1")
    assert network_of("10.0.0.1") != network_of("10.0.0.2")
    assert network_of("unix") == "unix"


async def test_too_many_at_once_are_told_to_come_back_and_the_operator_can_still_look(
    servers: Servers,
) -> None:
    server = await servers(most_requests=8)
    assert (await server.http.get("/rig/who")).status_code == 200
    calls = [server.call("POST", "/rig/wait", JSON) for _ in range(2)]
    for call in calls:
        call.give(b"{}", more=False)
    await until(lambda: server.rig.waiting == 2)
    refused = await server.http.get("/rig/who")
    assert (refused.status_code, refused.json()["reason"]) == (503, "overloaded")
    assert refused.headers["retry-after"] == "1"
    other = await server.http.get("/rig/who", headers={"Authorization": "Bearer other"})
    assert other.status_code == 200, "a share of its own"
    for path in ("/healthz", "/readyz", "/metrics"):
        assert (await server.http.get(path)).status_code == 200
    server.rig.gate.set()
    for call in calls:
        assert (await call.done()).status == 200
    assert (await server.http.get("/rig/who")).status_code == 200


async def test_a_client_that_begins_with_many_requests_at_once_waits_for_its_turn(server: Server) -> None:
    answers = await asyncio.gather(*(server.http.get("/rig/who") for _ in range(50)))
    assert [answer.status_code for answer in answers] == [200] * 50
    limits_layer = server.app.asgi._app  # type: ignore[attr-defined]
    assert (limits_layer.places.at_work, limits_layer.places.waiting) == (0, 0)


async def test_who_is_not_signed_in_waits_a_moment_and_no_longer(
    server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(limits, "_TURN_S", 0.05)
    places = server.app.asgi._app.places  # type: ignore[attr-defined]
    unknown = [entered(places, b"", "net") for _ in range(places.anonymous)]
    refused = await server.http.get("/rig/who")
    assert (refused.status_code, refused.json()["reason"]) == (503, "overloaded")
    monkeypatch.setattr(limits, "_TURN_S", 1000)
    waiting = asyncio.ensure_future(server.http.get("/rig/who"))
    await until(lambda: len(places._line) == 1)
    unknown.pop().leave()
    async with asyncio.timeout(20):  # it is told, and does not find out by itself
        assert (await waiting).status_code == 200


async def test_an_event_stream_takes_no_place(servers: Servers) -> None:
    server = await servers(most_requests=4)
    streams: list[Call] = []
    for _ in range(3):
        streams.append(server.call("GET", "/rig/events"))
        await streams[-1].said(b"id: 3")
    assert (await server.http.get("/rig/who")).status_code == 200
    for stream in streams:
        stream.hang_up()
        await stream.done()
    assert server.rig.ended == 3


# -- time -------------------------------------------------------------------------------------------------------------


async def test_a_handler_that_hangs_is_answered_for(servers: Servers) -> None:
    server = await servers(request_timeout_s=0.5)
    answer = await server.post("/rig/wait")
    assert (answer.status_code, answer.json()["code"], answer.json()["retryable"]) == (504, "timeout", True)
    assert (server.rig.ended, server.rig.finished) == (server.rig.waiting, 0)


async def test_a_body_that_pauses_is_refused_and_one_byte_now_and_then_does_not_outlast_the_deadline(
    servers: Servers, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(limits, "_LINGER_S", 0.05)
    monkeypatch.setattr(limits, "BODY_PAUSE_S", 0.05)
    server = await servers()
    slow = server.call("POST", "/rig/echo", {**JSON, "content-length": "100"})
    slow.give(b'{"a":')
    await slow.done()
    assert (slow.status, slow.headers["connection"]) == (408, "close")
    assert json.loads(slow.body)["reason"] == "slow_body"
    monkeypatch.undo()
    server = await servers(request_timeout_s=0.05)
    drip = server.call("POST", "/rig/echo", {**JSON, "content-length": "100"})
    while not drip.is_done:
        drip.give(b" ")
        await asyncio.sleep(0)
    assert drip.status == 504


async def test_a_stream_outlasts_the_deadline_and_ends_when_its_reader_leaves(servers: Servers) -> None:
    server = await servers(request_timeout_s=1)
    stream = server.call("GET", "/rig/events")
    await stream.said(b"id: 3")
    began = asyncio.get_running_loop().time()
    await until(lambda: asyncio.get_running_loop().time() > began + 1.1)
    server.rig.gate.set()
    await stream.said(b"id: 4")
    assert not stream.is_done
    stream.hang_up()
    await stream.done()
    assert server.rig.ended == 1


async def test_a_reader_that_takes_nothing_is_gone_after_a_while(
    server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(limits, "_STALL_S", 0.05)

    class Stalled(Call):
        async def _take(self, message: Any) -> None:
            await super()._take(message)
            if b"id: 2" in self.body:
                await asyncio.Event().wait()

    stalled = Stalled(server.app, "GET", "/rig/events")
    await until(lambda: server.rig.ended == 1)
    await stalled.done()


# -- bodies -----------------------------------------------------------------------------------------------------------


def sized(count: int) -> bytes:
    """A JSON object of so many bytes."""
    return b'{"value":{"a":"' + b"x" * (count - 18) + b'"}}'


async def in_pieces(body: bytes, size: int = 1000) -> Any:
    for start in range(0, len(body), size):
        yield body[start : start + size]


async def post(server: Server, body: Any, headers: dict[str, str] = JSON) -> httpx.Response:
    return await server.http.post("/rig/echo", content=body, headers=headers)


@pytest.fixture
async def small(servers: Servers, monkeypatch: pytest.MonkeyPatch) -> Server:
    """A server that takes small bodies only."""
    monkeypatch.setattr(limits, "BODY_BYTES", MOST)
    monkeypatch.setattr(streams, "_GLANCE_S", 60.0)  # an error is the status, however long it takes
    return await servers()


async def test_a_body_may_be_as_large_as_the_limit_and_no_larger(small: Server) -> None:
    for wrap in (lambda body: body, in_pieces):
        assert (await post(small, wrap(sized(MOST)))).status_code == 200
        told = await post(small, wrap(sized(MOST + 1)))
        assert (told.status_code, told.json()["reason"]) == (413, "too_large")
        assert told.json()["errors"][0]["accepted"] == "a body of at most 10,000 bytes"


async def test_an_announced_length_is_refused_before_the_body_comes(small: Server) -> None:
    for length in ("5000000000", "9" * 4000):
        call = small.call("POST", "/rig/echo", {**JSON, "content-length": length, "expect": "100-continue"})
        await call.done()
        assert (call.status, call.headers["connection"]) == (413, "close")


async def test_the_rest_of_a_body_nobody_wants_is_read_for_a_moment_and_then_the_connection_ends(
    server: Server,
) -> None:
    call = server.call("POST", "/rig/echo", {**JSON, "content-length": "9000000"})
    call.give(b"x" * 300_000)
    await until(lambda: call.status is not None and b"too_large" in call.body)
    assert not call.is_done, "the sender goes on, and is heard out"
    for _ in range(20):
        call.give(b"x" * 100_000)
    call.give(b"", more=False)
    await call.done()
    assert (call.status, call.headers["connection"], call.is_done) == (413, "close", True)


async def test_a_small_body_nobody_reads_does_not_cost_the_connection(server: Server) -> None:
    call = server.call("POST", "/rig/echo", {**JSON, "content-length": "2", "authorization": "Bearer bad"})
    call.give(b"{}", more=False)
    await call.done()
    assert call.status == 401
    assert "connection" not in call.headers


async def test_a_packed_body_is_unpacked(server: Server) -> None:
    value = {"text": "ä" * 100_000, "list": list(range(1000))}
    body = gzip.compress(json.dumps({"value": value}).encode())
    assert (await post(server, body, GZIP)).json()["value"] == value
    assert (await post(server, in_pieces(body, 7), GZIP)).json()["value"] == value
    two = gzip.compress(b'{"value":') + gzip.compress(b'{"a":1}}')
    assert (await post(server, two, {**JSON, "content-encoding": "x-gzip"})).json()["value"] == {"a": 1}


async def test_a_bomb_is_refused_by_what_it_unpacks_to(small: Server) -> None:
    bomb = gzip.compress(sized(20_000_000))
    assert len(bomb) > MOST, "packed it is over the limit too, but is not judged by that"
    assert (await post(small, bomb, GZIP)).status_code == 413
    assert (await post(small, gzip.compress(sized(MOST + 1)), GZIP)).status_code == 413
    assert (await post(small, gzip.compress(sized(MOST)), GZIP)).status_code == 200
    packed = {**NDJSON, "content-encoding": "gzip"}
    endless = await small.http.post("/rig/lines", content=gzip.compress(b"\n" * 5_000_000), headers=packed)
    assert (endless.status_code, endless.json()["reason"]) == (413, "too_large")


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
async def test_a_damaged_packed_body_is_refused(server: Server, body: bytes) -> None:
    answer = await post(server, body, GZIP)
    assert (answer.status_code, answer.json()["reason"]) == (400, "bad_file")


async def test_another_packing_or_kind_of_body_is_refused_with_what_is_accepted(server: Server) -> None:
    for headers in (
        {"content-type": "text/plain"},
        {"content-type": ""},
        {"content-type": "application/x-www-form-urlencoded"},
        {"content-type": "multipart/form-data; boundary=x"},
        {**JSON, "content-encoding": "br"},
        {**JSON, "content-encoding": "gzip, gzip"},
    ):
        answer = await post(server, b"{}", headers)
        assert (answer.status_code, answer.json()["reason"]) == (415, "bad_content_type"), headers
    for kind in ("application/json; charset=utf-8", "APPLICATION/JSON", "application/json ;x=y"):
        assert (await post(server, b"{}", {"content-type": kind})).status_code == 200
    assert (await server.http.post("/rig/lines", content=b"{}", headers=JSON)).status_code == 415


async def test_a_file_that_is_sent_has_no_limit_and_lines_have_one_each(small: Server) -> None:
    sent = await small.http.post("/rig/upload", content=in_pieces(b"x" * 3 * MOST))
    assert sent.json()["seq"] == 3 * MOST
    told = await small.http.post("/rig/lines", content=in_pieces(b'{"a": 1}\r\n\n' * 5000), headers=NDJSON)
    rows = [json.loads(row) for row in told.text.splitlines()]
    assert (len(rows), rows[-1]["seq"]) == (5001, 5000)
    long = await small.http.post("/rig/lines", content=b"x" * (4 << 20) + b"x\n{}", headers=NDJSON)
    assert (long.status_code, long.json()["reason"]) == (413, "too_large")
