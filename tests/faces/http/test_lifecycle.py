"""The life of a server: it starts, it drains, it ends; and what it does by itself in between."""

from __future__ import annotations

import asyncio
import logging
import re
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from starlette.routing import WebSocketRoute
from starlette.websockets import WebSocket

from quipu.bootstrap.serving import WebApp, web_app
from quipu.config import Config
from quipu.errors import BackendUnavailableError, InvalidError
from quipu.faces.http.catalogue import Face
from quipu.faces.http.lifecycle import Lifecycle, Stage
from quipu.faces.http.rounds import Often, Rounds
from quipu.memory import Memory
from quipu.model.principal import Principal, local
from quipu.service.memory import MemoryService
from tests.faces.http.rig import Rig, checked_problem, problem, store_in
from tests.faces.http.wires import wait_for
from tests.faces.serving import PATIENCE_S, Served, served


def test_everything_is_signed_when_the_server_has_stopped(rig: Rig, tmp_path: Path) -> None:
    with served(store_in(tmp_path), more=rig.faces) as at, at.client() as client:
        client.post("/rig/remember", json={"content": "x"})

    async def look() -> tuple[int, int, bool]:
        async with Memory(stores=f"sqlite://{store_in(tmp_path)}", embedder="none") as memory:
            found = await memory.verify()
            assert found.last_checkpoint is not None
            return found.head_seq, found.last_checkpoint.seq, found.holds

    head, signed, holds = asyncio.run(look())
    assert head == signed
    assert holds


@pytest.fixture
def draining(rig: Rig) -> Iterator[Served]:
    """A server that was asked to stop and goes on for load balancers to notice."""
    with served(more=rig.faces, shutdown_delay_s=2) as at:
        at.ask_to_stop()
        wait_for(lambda: at.web.lifecycle.stage is Stage.DRAINING)
        yield at


def test_a_draining_server_is_alive_and_not_ready(draining: Served) -> None:
    with draining.client() as client:
        answer = client.get("/readyz")
        assert (answer.status_code, answer.json()["reason"]) == (503, "draining")
        assert client.get("/healthz").status_code == 200
        served_still = client.get("/rig/whoami")
        assert served_still.status_code == 200, "until it stops, who comes is served"
        assert served_still.headers["connection"] == "close", "and goes elsewhere with the next request"


def test_what_is_at_work_is_finished_before_the_end(rig: Rig) -> None:
    answers: list[httpx.Response] = []
    with served(more=rig.faces) as at:

        def ask() -> None:
            with at.client() as client:
                answers.append(client.get("/rig/wait"))

        asking = threading.Thread(target=ask)
        asking.start()
        wait_for(lambda: rig.waiting)
        at.ask_to_stop()
        wait_for(lambda: at.web.lifecycle.stage is Stage.DRAINING)
        wait_for(lambda: refuses(at))
        rig.is_open = True
        asking.join(PATIENCE_S)
    assert [answer.json() for answer in answers] == [{"done": True}]
    assert answers[0].headers["connection"] == "close"


def refuses(at: Served) -> bool:
    """Whether new connections are no longer accepted."""
    try:
        at.connect().close()
    except ConnectionRefusedError:
        return True
    return False


def test_an_event_stream_ends_cleanly_when_the_server_drains(rig: Rig) -> None:
    with served(more=rig.faces) as at, at.client() as client:
        with client.stream("GET", "/rig/events") as response:
            seen = 0
            for line in response.iter_lines():  # an end in the middle would raise
                seen += line.startswith("id:")
                if seen == 3:
                    at.ask_to_stop()
        assert seen >= 3
        wait_for(lambda: rig.finished == 1)


def test_a_stream_of_lines_is_let_finish(rig: Rig) -> None:
    def body(at: Served) -> Iterator[bytes]:
        yield b"{}\n"
        wait_for(lambda: rig.waiting)
        at.ask_to_stop()
        wait_for(lambda: at.web.lifecycle.stage is Stage.DRAINING)
        yield b"{}\n"

    with served(more=rig.faces) as at, at.client() as client:
        response = client.post(
            "/rig/lines", content=body(at), headers={"Content-Type": "application/x-ndjson"}
        )
        assert response.text.endswith('{"summary":2}\n')


def test_a_request_that_never_ends_does_not_keep_the_server_forever(rig: Rig) -> None:
    with served(more=rig.faces, shutdown_grace_s=1, request_timeout_s=600) as at:

        def ask() -> None:
            with pytest.raises(httpx.HTTPError), at.client() as client:
                client.get("/rig/wait").raise_for_status()

        asking = threading.Thread(target=ask)
        asking.start()
        wait_for(lambda: rig.waiting)
        at.ask_to_stop()
        asking.join(PATIENCE_S)
        assert not asking.is_alive()
    assert rig.finished == 0


# -- starting -------------------------------------------------------------------------------------------------------


async def asked(app: WebApp, path: str, method: str = "GET", **headers: str) -> httpx.Response:
    """A request to the application itself, without a server."""
    transport = httpx.ASGITransport(app.asgi)
    async with httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1") as client:
        return await client.request(method, path, headers=headers)


async def slow_to_open(folder: Path) -> tuple[WebApp, asyncio.Event]:
    """An application that goes on starting until the event is set."""
    config = Config(store_url=f"sqlite://{store_in(folder)}", embedder="none")
    app = await web_app(config, more=Rig().faces)
    ledger = app.running.parts.ledger
    gate = asyncio.Event()
    opened = ledger.open

    async def slowly(tenant: str) -> None:
        await gate.wait()
        await opened(tenant)

    object.__setattr__(ledger, "open", slowly)
    return app, gate


async def test_a_starting_server_is_alive_not_ready_and_says_when_to_come_back(tmp_path: Path) -> None:
    app, gate = await slow_to_open(tmp_path)
    async with app.asgi.router.lifespan_context(app.asgi):
        assert (await asked(app, "/healthz")).status_code == 200
        ready = await asked(app, "/readyz")
        assert (ready.status_code, ready.json()["reason"]) == (503, "starting")
        early = await asked(app, "/rig/public")
        problem(early, 503, "backend_unavailable", "starting")
        assert early.headers["retry-after"] == "1"
        gate.set()
        await app.lifecycle.settled()
        assert (await asked(app, "/readyz")).status_code == 200
        assert (await asked(app, "/rig/public")).status_code == 200
    assert app.lifecycle.stage is Stage.DRAINING
    assert (await asked(app, "/readyz")).status_code == 503


async def test_a_browser_sees_that_the_server_is_starting_and_asks_again_by_itself(tmp_path: Path) -> None:
    app, gate = await slow_to_open(tmp_path)
    async with app.asgi.router.lifespan_context(app.asgi):
        page = await asked(app, "/", accept="text/html,*/*")
        assert (page.status_code, page.headers["retry-after"]) == (503, "1")
        assert page.headers["cache-control"] == "no-store"
        assert "Quipu is starting" in page.text
        assert '<meta http-equiv="refresh" content="2">' in page.text
        for address in re.findall(r'href="(/static/[^"]+)"', page.text):
            assert (await asked(app, address.replace("&amp;", "&"))).status_code == 200, (
                "it looks like a page"
            )
        form = await asked(app, "/signin", "POST", accept="text/html")
        assert form.status_code == 503
        assert "refresh" not in form.text, "what a form holds is not sent twice unasked"
        assert "send it again" in form.text
        problem(await asked(app, "/"), 503, "backend_unavailable", "starting")
        gate.set()
        await app.lifecycle.settled()
        assert (await asked(app, "/", accept="text/html")).status_code == 303


def test_a_ledger_that_cannot_be_opened_ends_the_server(tmp_path: Path) -> None:
    store_in(tmp_path).write_text("this is no database, whatever its name says", "utf-8")
    with pytest.raises(BackendUnavailableError, match="database"), served(store_in(tmp_path)):
        raise AssertionError("it must not start")


@pytest.mark.parametrize("name", ["limit_body_bytes", "request_timeout_s", "body_timeout_s", "most_requests"])
async def test_a_setting_that_would_shut_everybody_out_is_refused(name: str) -> None:
    with pytest.raises(InvalidError) as refusal:
        await web_app(Config(store_url="sqlite://:memory:", embedder="none", **{name: 0}))
    assert refusal.value.reason == "bad_setting"


async def test_a_web_socket_is_shut_at_once() -> None:
    async def welcome(socket: WebSocket) -> None:
        await socket.accept()
        await socket.close()

    def faces(_service: MemoryService) -> list[Face]:
        return [Face(name="own", routes=[WebSocketRoute("/own", welcome)])]

    app = await web_app(Config(store_url="sqlite://:memory:", embedder="none"), more=faces)
    said: list[Any] = []

    async def receive() -> Any:
        return {"type": "websocket.connect"}

    async def send(message: Any) -> None:
        said.append(message["type"])

    await app.asgi(
        {"type": "websocket", "path": "/own", "root_path": "", "headers": [], "state": {}}, receive, send
    )
    await app.running.close()
    assert said == ["websocket.close"]


def test_a_stage_is_never_gone_back_to() -> None:
    lifecycle = Lifecycle()
    lifecycle.drain()
    lifecycle.ready()
    assert lifecycle.stage is Stage.DRAINING


# -- rounds ---------------------------------------------------------------------------------------------------------


class Chores:
    """Notes what it is asked to do; fails where it is told to."""

    def __init__(self, *failures: Exception) -> None:
        self.done: list[tuple[str, str, str]] = []
        self.failures = list(failures)
        self.twice = asyncio.Event()

    async def tenants(self) -> list[str]:
        if self.failures:
            raise self.failures.pop()
        return ["a", "b"]

    async def sign(self, principal: Principal, *, is_last: bool) -> None:
        self.done.append(("last" if is_last else "sign", principal.tenant, principal.name))
        if principal.tenant == "broken":
            raise BackendUnavailableError
        if principal.tenant == "odd":
            raise RuntimeError

    async def sweep(self, principal: Principal) -> None:
        self.done.append(("sweep", principal.tenant, principal.name))
        if all(self.done.count(chore) >= 2 for chore in (("sweep", "b", "system"), ("sign", "c", "system"))):
            self.twice.set()


async def test_the_rounds_are_made_again_and_again_and_once_more_at_the_end() -> None:
    chores = Chores(RuntimeError("once"))
    rounds = Rounds(chores, Often(sign_s=0.01, sweep_s=0.01))
    rounds.touched("a")
    rounds.touched("broken")
    rounds.touched("c")
    rounds.touched("odd")
    rounds.touched("z")
    rounds.start()
    async with asyncio.timeout(PATIENCE_S):
        await chores.twice.wait()
    await rounds.stop()
    assert chores.done[-5:] == [("last", name, "system") for name in ("a", "broken", "c", "odd", "z")]
    before = len(chores.done)
    await asyncio.sleep(0.05)
    assert len(chores.done) == before


async def test_a_tenant_that_is_slow_to_be_told_keeps_no_other_waiting() -> None:
    told = asyncio.Event()

    class Telling(Chores):
        async def notify(self, principal: Principal) -> None:
            if principal.tenant == "a":
                await told.wait()
            told.set()
            self.done.append(("notify", principal.tenant, principal.name))

    chores = Telling()
    async with asyncio.timeout(PATIENCE_S):
        await Rounds(chores, Often()).notify()
    assert [tenant for _, tenant, _ in chores.done] == ["b", "a"]


async def test_a_round_of_nothing_is_never_made() -> None:
    chores = Chores()
    rounds = Rounds(chores, Often(sign_s=0, sweep_s=0))
    rounds.start()
    await asyncio.sleep(0.02)
    await rounds.stop()
    assert chores.done == []


def test_expired_memories_are_swept_and_journals_signed_while_the_server_runs(
    rig: Rig, caplog: pytest.LogCaptureFixture
) -> None:
    from quipu.model.operations import RememberRequest
    from quipu.model.record import MemoryType

    with (
        caplog.at_level(logging.WARNING, "quipu"),
        served(more=rig.faces, sweep_every_s=1, checkpoint_every_s=1) as at,
        at.client() as client,
    ):
        wanted = RememberRequest(agent_id="a", type=MemoryType.SEMANTIC, content="x", expires_at=1)
        answer = at.do(at.service.remember(local(), wanted))
        assert client.get("/rig/whoami").status_code == 200, "the tenant is at work here"
        ledger = at.web.running.parts.ledger

        def closed() -> Any:
            found = at.do(ledger.read("default", [answer.id]))
            return found[answer.id].died is not None or found[answer.id].state.value != "live"

        wait_for(closed)
        wait_for(lambda: at.do(ledger.checkpoints("default")))
        assert client.get("/rig/whoami").status_code == 200
    assert not [record for record in caplog.records if record.name == "quipu.rounds"]


async def test_the_first_token_is_shown_in_no_representation(tmp_path: Path) -> None:
    config = Config(store_url=f"sqlite://{store_in(tmp_path)}", embedder="none")
    app = await web_app(config, makes_first_token=True)
    async with app.asgi.router.lifespan_context(app.asgi):
        await app.lifecycle.settled()
        assert app.first_token is not None
        assert app.first_token.text not in repr(app)
        refused = await asked(app, "/quipu/v1/me")
        checked_problem(refused.json(), 401, "unauthenticated", "no_credential")
