"""Notices: signed, in order, tried again, kept through a crash; and never sent where only insiders can reach."""

from __future__ import annotations

import asyncio
import hashlib
import hmac
import json
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, HTTPServer
from typing import Any

import pytest

from quipu import BackendUnavailableError, ForbiddenError, InvalidError, NotFoundError
from quipu.client.courier import HttpCourier
from quipu.model.principal import local
from quipu.rules import notices
from quipu.rules.exposure import is_public
from quipu.service.memory import MemoryService
from quipu.service.notices import Notices
from quipu.testing.builders import FixedClock
from tests.governance.office import Office, proposal_of

MARK = "tangerine-lighthouse"


class Postman:
    """A courier that writes down what it was given, and fails where it is told to."""

    def __init__(self) -> None:
        self.carried: list[tuple[str, bytes, Mapping[str, str]]] = []
        self.refuses = 0

    async def send(self, url: str, text: bytes, headers: Mapping[str, str]) -> None:
        if self.refuses:
            self.refuses -= 1
            raise BackendUnavailableError("no", reason="status_500")
        self.carried.append((url, text, headers))

    async def close(self) -> None: ...

    @property
    def bodies(self) -> list[dict[str, Any]]:
        return [json.loads(text) for _, text, _ in self.carried]


async def posted(office: Office) -> tuple[Notices, Postman]:
    """The service of the administrator, with a courier of ours."""
    service: Any = await office.admin._service()
    assert isinstance(service, MemoryService)
    postman = Postman()
    parts = replace(service._parts, courier=postman, public_url="https://memory.example")
    return Notices(parts, service._access), postman


async def test_a_held_write_and_its_decision_are_told_in_order_without_a_word_of_it(office: Office) -> None:
    desk, postman = await posted(office)
    issued = await desk.add(local(), url="https://example.org/hook")
    held = await office.agent.remember(MARK, approval_required=True, source=MARK, reasoning=MARK)
    await office.carla.decide(proposal_of(held), approved=False, reason=MARK)
    assert await desk.deliver("default") == 2
    assert [(body["event"], body["agent_id"]) for body in postman.bodies] == [
        ("proposal.held", "ana"),
        ("proposal.decided", "ana"),
    ]
    assert postman.bodies[0]["review_url"] == f"https://memory.example/review/{proposal_of(held)}"
    assert postman.bodies[0]["held_by"] == ["caller"]
    assert postman.bodies[1]["approved"] is False
    assert MARK not in str(postman.carried)
    assert await desk.deliver("default") == 0, "nothing is told twice"
    url, text, headers = postman.carried[0]
    assert url == "https://example.org/hook"
    stamp, _, digest = headers["Quipu-Signature"].partition(",")
    signed = stamp.removeprefix("t=").encode() + b"." + text
    expected = hmac.new(issued.key.encode(), signed, hashlib.sha256).hexdigest()
    assert digest == f"v1={expected}"


async def test_content_is_told_only_where_it_was_asked_for(office: Office) -> None:
    desk, postman = await posted(office)
    await desk.add(local(), url="https://example.org/hook", with_content=True)
    await office.agent.remember(MARK, approval_required=True)
    await desk.deliver("default")
    assert postman.bodies[0]["request"]["content"] == MARK


async def test_only_what_was_asked_for_is_told(office: Office, opened: Any) -> None:
    from quipu.model.notices import Event

    desk, postman = await posted(office)
    await desk.add(local(), url="https://example.org/a", events=[Event.DECIDED])
    await desk.add(local(), url="https://example.org/b", agents=["bo*"])
    held = await office.agent.remember("x", approval_required=True)
    await office.carla.decide(proposal_of(held), approved=True)
    await desk.deliver("default")
    assert [(url, json.loads(text)["event"]) for url, text, _ in postman.carried] == [
        ("https://example.org/a", "proposal.decided")
    ]


@pytest.mark.parametrize("agent", ["a\x00b", "a\ud800"])
async def test_an_agent_that_no_ledger_can_name_is_refused(office: Office, agent: str) -> None:
    desk, _ = await posted(office)
    with pytest.raises(InvalidError) as refused:
        await desk.add(local(), url="https://example.org/b", agents=["bo", agent])
    assert [fault.pointer for fault in refused.value.faults] == ["/agents/1"]


async def test_what_does_not_arrive_is_tried_again_later_and_nothing_overtakes_it(
    office: Office, clock: FixedClock
) -> None:
    desk, postman = await posted(office)
    await desk.add(local(), url="https://example.org/hook")
    for text in ("one", "two"):
        await office.agent.remember(text, approval_required=True)
    postman.refuses = 2
    assert await desk.deliver("default") == 0
    (standing,) = await desk.list(local())
    assert (standing.attempts, standing.error) == (1, "status_500")
    assert await desk.deliver("default") == 0, "not before it is due"
    assert postman.refuses == 1
    clock.move(10_000)
    assert await desk.deliver("default") == 0
    clock.move(10_000)
    assert await desk.deliver("default") == 0, "the second time it waits twice as long"
    clock.move(10_000)
    assert await desk.deliver("default") == 2
    assert [body["seq"] for body in postman.bodies] == sorted(body["seq"] for body in postman.bodies)
    (standing,) = await desk.list(local())
    assert (standing.attempts, standing.error, standing.dropped) == (0, None, 0)


async def test_a_notice_nobody_takes_is_given_up_and_the_next_one_goes_out(
    office: Office, clock: FixedClock
) -> None:
    desk, postman = await posted(office)
    await desk.add(local(), url="https://example.org/hook")
    for text in ("one", "two"):
        await office.agent.remember(text, approval_required=True)
    postman.refuses = notices.MOST_ATTEMPTS
    for _ in range(notices.MOST_ATTEMPTS):
        assert await desk.deliver("default") == 0
        clock.move(3_600_000)
    assert await desk.deliver("default") == 1
    (standing,) = await desk.list(local())
    assert standing.dropped == 1


async def test_two_processes_do_not_send_the_same_notice(office: Office) -> None:
    desk, postman = await posted(office)
    await desk.add(local(), url="https://example.org/hook")
    await office.agent.remember("x", approval_required=True)
    other, second = await posted(office)

    class Slow(Postman):
        async def send(self, url: str, text: bytes, headers: Mapping[str, str]) -> None:
            assert await other.deliver("default") == 0
            await super().send(url, text, headers)

    slow = Slow()
    desk._parts = replace(desk._parts, courier=slow)
    assert await desk.deliver("default") == 1
    assert (len(slow.carried), len(second.carried), len(postman.carried)) == (1, 0, 0)


async def test_a_server_that_stops_while_it_sends_keeps_no_other_from_sending(office: Office) -> None:
    desk, _ = await posted(office)
    await desk.add(local(), url="https://example.org/hook")
    await office.agent.remember("x", approval_required=True)
    other, second = await posted(office)
    is_sending = asyncio.Event()

    class Never(Postman):
        async def send(self, url: str, text: bytes, headers: Mapping[str, str]) -> None:
            is_sending.set()
            await asyncio.Event().wait()

    desk._parts = replace(desk._parts, courier=Never())
    sending = asyncio.create_task(desk.deliver("default"))
    await is_sending.wait()
    sending.cancel()
    with suppress(asyncio.CancelledError):
        await sending
    assert await other.deliver("default") == 1
    assert len(second.carried) == 1


async def test_who_is_slow_keeps_no_other_waiting(office: Office) -> None:
    desk, _ = await posted(office)
    arrived = asyncio.Event()

    class Patient(Postman):
        async def send(self, url: str, text: bytes, headers: Mapping[str, str]) -> None:
            if url.endswith("/slow"):
                await arrived.wait()
            await super().send(url, text, headers)
            arrived.set()

    desk._parts = replace(desk._parts, courier=Patient())
    await desk.add(local(), url="https://example.org/slow")
    await desk.add(local(), url="https://example.org/quick")
    await office.agent.remember("one", approval_required=True)
    async with asyncio.timeout(10):
        assert await desk.deliver("default") == 2


async def test_who_takes_long_for_each_gets_the_rest_in_the_next_round(
    office: Office, clock: FixedClock
) -> None:
    desk, _ = await posted(office)

    class Slow(Postman):
        async def send(self, url: str, text: bytes, headers: Mapping[str, str]) -> None:
            clock.move(4_000)
            await super().send(url, text, headers)

    desk._parts = replace(desk._parts, courier=Slow())
    await desk.add(local(), url="https://example.org/hook")
    for number in range(5):
        await office.agent.remember(f"note {number}", approval_required=True)
    assert [await desk.deliver("default") for _ in range(3)] == [3, 2, 0]


async def test_who_may_and_what_is_refused(office: Office) -> None:
    for somebody in (office.agent, office.carla):
        with pytest.raises(ForbiddenError):
            await somebody.add_webhook("https://example.org/x")
    narrow = office.joined_by("narrow", local().permissions, agents=("ana",))
    with pytest.raises(ForbiddenError):
        await narrow.list_webhooks()
    for url in (
        "ftp://x/y", "https://", "https://u:p@example.org/", "https://example.org/#f", "x", "https://a b/", "",
        "https://example.org:99999/", "https://" + "a" * 2_100, "javascript:alert(1)",
        "https://a..b/", "https://.example/", "https://" + "a" * 64 + ".example/",
    ):  # fmt: skip
        with pytest.raises(InvalidError):
            await office.admin.add_webhook(url)
    with pytest.raises(InvalidError):
        await office.admin.add_webhook("https://example.org", events=["everything"])
    with pytest.raises(NotFoundError):
        await office.admin.remove_webhook("whk_unknown")
    issued = await office.admin.add_webhook("https://example.org/x")
    assert issued.key not in repr(await office.admin.list_webhooks())
    await office.admin.remove_webhook(issued.webhook.id)
    assert await office.admin.list_webhooks() == ()
    assert [e.op for e in await office.admin.journal(limit=100)][-2:] == ["add_webhook", "drop_webhook"]


# -- where a notice may go --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("address", "expected"),
    [
        ("93.184.216.34", True), ("2606:2800:220:1::1", True),
        ("127.0.0.1", False), ("10.0.0.1", False), ("192.168.1.1", False), ("172.16.0.1", False),
        ("169.254.169.254", False), ("100.64.0.1", False), ("0.0.0.0", False), ("224.0.0.1", False),  # noqa: S104  an address, no binding
        ("255.255.255.255", False), ("::1", False), ("fe80::1%eth0", False), ("fc00::1", False),
        ("::ffff:127.0.0.1", False), ("::ffff:10.1.2.3", False), ("64:ff9b::7f00:1", False),
        ("2002:7f00:1::", False), ("not an address", False), ("", False),
        ("64:ff9b::8.8.8.8", True), ("64:ff9b:1::7f00:1", False), ("::127.0.0.1", False),
        ("::ffff:0:127.0.0.1", False), ("fec0::1", False),
    ],
)  # fmt: skip
def test_only_addresses_that_everybody_can_reach_are_public(address: str, expected: bool) -> None:
    assert is_public(address) is expected


async def sent(url: str, found: list[str], allowed: tuple[str, ...] = ()) -> None:
    async def resolve(host: str, port: int) -> list[str]:
        if not found:
            raise OSError("no such host")
        return found

    courier = HttpCourier(allowed, resolve)
    try:
        await courier.send(url, b"{}", {})
    finally:
        await courier.close()


@pytest.mark.parametrize(
    ("url", "found", "reason"),
    [
        ("https://inside.example/", ["10.0.0.7"], "forbidden_address"),
        ("https://mixed.example/", ["93.184.216.34", "127.0.0.1"], "forbidden_address"),
        ("https://metadata.example/", ["169.254.169.254"], "forbidden_address"),
        ("https://127.0.0.1/", ["127.0.0.1"], "forbidden_address"),
        ("http://example.org/", ["93.184.216.34"], "insecure_address"),
        ("https://nowhere.example/", [], "unknown_host"),
    ],
)
async def test_a_notice_does_not_go_inside(url: str, found: list[str], reason: str) -> None:
    with pytest.raises(BackendUnavailableError) as refused:
        await sent(url, found)
    assert refused.value.reason == reason


@pytest.mark.parametrize(
    "url",
    ["https://\N{SNOWMAN}.net/", "https://xn--a/", "https://[v1.a]/", "https://a..b/", "https://[1::2]x/"],
)
async def test_a_name_that_nobody_can_have_is_a_host_that_is_not_there(url: str) -> None:
    courier = HttpCourier()
    with pytest.raises(BackendUnavailableError) as refused:
        await courier.send(url, b"{}", {})
    await courier.close()
    assert refused.value.reason == "unknown_host"


async def test_an_answer_a_byte_at_a_time_is_not_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("quipu.client.courier._PATIENCE_S", 0.3)

    left = asyncio.Event()

    async def dribble(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"HTTP/1.1 204 No Content\r\nX: ")
        with suppress(ConnectionError):
            while not writer.is_closing():
                writer.write(b"x")
                await writer.drain()
                await asyncio.sleep(0.05)
        writer.close()
        left.set()

    server = await asyncio.start_server(dribble, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    async with server, asyncio.timeout(10):
        with pytest.raises(BackendUnavailableError) as refused:
            await sent(f"http://hooks.internal:{port}/x", ["127.0.0.1"], ("hooks.internal",))
        assert refused.value.reason == "notice_timeout"
        await left.wait()


class Listener(BaseHTTPRequestHandler):
    """Takes what it is sent, and answers as it is told."""

    got: list[tuple[str, bytes]] = []  # noqa: RUF012  one server at a time
    status = 204
    location = ""

    def do_POST(self) -> None:
        text = self.rfile.read(int(self.headers["Content-Length"]))
        self.got.append((self.headers["Host"], text))
        self.send_response(self.status)
        if self.location:
            self.send_header("Location", self.location)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, format: str, *args: Any) -> None:
        """Nobody reads it."""


@contextmanager
def listening(status: int = 204, location: str = "") -> Iterator[int]:
    Listener.got.clear()
    Listener.status, Listener.location = status, location
    server = HTTPServer(("127.0.0.1", 0), Listener)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)
    thread.start()
    try:
        yield server.server_port
    finally:
        server.shutdown()
        server.server_close()
        thread.join(5)


async def test_a_host_that_the_operator_named_is_told_at_the_address_that_was_looked_at() -> None:
    with listening() as port:
        await sent(f"http://hooks.internal:{port}/x", ["127.0.0.1"], ("hooks.internal",))
        assert Listener.got == [(f"hooks.internal:{port}", b"{}")]


@pytest.mark.parametrize(("status", "location"), [(302, "http://127.0.0.1:9/"), (500, ""), (404, "")])
async def test_an_answer_that_is_not_yes_is_a_no_and_redirects_lead_nowhere(
    status: int, location: str
) -> None:
    with listening(status, location) as port:
        with pytest.raises(BackendUnavailableError) as refused:
            await sent(f"http://hooks.internal:{port}/x", ["127.0.0.1"], ("hooks.internal",))
        assert refused.value.reason == "notice_refused"
        assert str(status) in refused.value.message
        assert len(Listener.got) == 1


def test_waits_grow_and_end() -> None:
    waits = [notices.wait_ms(attempt) for attempt in range(1, 20)]
    assert waits[:3] == [10_000, 20_000, 40_000]
    assert waits == sorted(waits)
    assert waits[-1] == 3_600_000


async def test_a_clock_that_was_wrong_for_a_while_holds_no_notice_up(
    office: Office, clock: FixedClock
) -> None:
    desk, postman = await posted(office)
    await desk.add(local(), url="https://example.org/hook")
    await office.agent.remember("one", approval_required=True)
    clock.move(24 * 3_600_000)
    postman.refuses = 1
    assert await desk.deliver("default") == 0
    clock.move(-24 * 3_600_000)
    assert await desk.deliver("default") == 1
