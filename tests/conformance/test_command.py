"""`quipu conformance` as a person starts it: on a throw-away memory, on a server of another make, and on our own."""

import asyncio
import json
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Literal

import httpx
import pytest
import uvicorn

from quipu.bootstrap import http_app, open_container
from quipu.cli.program import run
from quipu.client.transport import Call
from quipu.config import Settings
from quipu.errors import QuipuError
from quipu.model import ids
from quipu.model.principal import local
from quipu.testing.embedders import WordEmbedder
from quipu.testing.scenarios.subject import MovedClock
from tests.conformance.other_make import OtherMake

ANY = ("basic_remember_recall", "merge_keep_canonical", "idempotency")


def only(*names: str) -> list[str]:
    return [word for name in names for word in ("--only", name)]


def told(capsys: pytest.CaptureFixture[str], *words: str) -> tuple[int, dict[str, Any]]:
    """The exit code, and what a program reads."""
    code = run(["--json", "conformance", *words])
    return code, json.loads(capsys.readouterr().out)


@contextmanager
def served(app: Any, lifespan: Literal["on", "off"] = "off") -> Iterator[str]:
    """An application behind a socket, in a thread of its own."""
    server = uvicorn.Server(uvicorn.Config(app, log_level="error", lifespan=lifespan))
    with socket.create_server(("127.0.0.1", 0)) as listening:
        thread = threading.Thread(target=lambda: asyncio.run(server.serve([listening])))
        thread.start()
        try:
            yield f"http://127.0.0.1:{listening.getsockname()[1]}"
        finally:
            server.should_exit = True
            thread.join()


def other_server(memory: OtherMake) -> Any:
    """It over HTTP."""

    async def app(scope: Any, receive: Any, send: Any) -> None:
        body = b""
        while True:
            event = await receive()
            body += event.get("body", b"")
            if not event.get("more_body"):
                break
        call = Call(method=scope["method"], path=scope["path"], body=json.loads(body) if body else None)
        try:
            status, answer = 200, await memory.send(call)
        except QuipuError as error:
            status = {"validation_error": 400, "not_found": 404}[error.code]
            answer = {"code": error.code, "reason": error.reason, "detail": error.message}
        kind = b"application/json" if status == 200 else b"application/problem+json"
        await send({"type": "http.response.start", "status": status, "headers": [(b"content-type", kind)]})
        await send({"type": "http.response.body", "body": json.dumps(answer).encode()})

    return app


def test_without_an_address_a_throw_away_memory_plays(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    code, body = told(capsys, *only(*ANY))
    assert (code, body["counts"]) == (0, {"pass": 3, "fail": 0, "not promised": 0})
    assert [one["name"] for one in body["results"]] == list(ANY)
    assert all(one["assertions"] for one in body["results"])
    assert list(tmp_path.iterdir()) == []


def test_what_is_unknown_is_named(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["conformance", "--only", "nothing"]) == 1
    assert "There is no scenario nothing" in capsys.readouterr().err
    assert run(["conformance", "--wire"]) == 1


def test_a_server_of_another_make_is_asked_in_its_own_words(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    class Forgetful(OtherMake):
        def merge(self, body: Any) -> Any:
            return {**super().merge(body), "merged_count": 0}

    report = tmp_path / "report.json"
    for memory, code in ((OtherMake(MovedClock(ids.now())), 0), (Forgetful(MovedClock(ids.now())), 1)):
        with served(other_server(memory)) as address:
            assert run(["conformance", address, *only(*ANY), "--report", str(report)]) == code
        shown = capsys.readouterr().out
        assert all(name in shown for name in ANY)
        outcomes = [one["outcome"] for one in json.loads(report.read_text("utf-8"))["results"]]
        assert outcomes == ["pass", "fail" if code else "pass", "not promised"]
        assert f"{2 - code} passed, {code} failed, 1 not promised" in shown
        assert memory.rows == {}


def test_an_address_where_nobody_speaks_memorywire_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    class Mute(OtherMake):
        def capabilities(self) -> Any:
            return ["hello"]

    with served(other_server(Mute(MovedClock(0)))) as address:
        assert run(["conformance", address]) != 0
    assert "No memorywire is spoken" in capsys.readouterr().err


@pytest.mark.slow
def test_our_own_server_is_asked_twice_and_keeps_nothing(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def issued() -> str:
        container = await open_container(Settings(), stores=[tmp_path / "memory.db"], embedder=WordEmbedder())
        first = await container.access.tokens.first(local(), container.clock())
        assert first is not None
        await container.close()
        return first.text

    token = asyncio.run(issued())
    chosen = only(*ANY, "approvals", "stores_are_apart", "fresher_than_days_filter")
    with _own_server(tmp_path / "memory.db") as address:
        monkeypatch.setenv("QUIPU_TOKEN", token)
        for words, passed in (([], 5), ([], 5), (["--wire"], 2)):
            code, body = told(capsys, address, *chosen, *words)
            failed = {one["name"]: one["detail"] for one in body["results"] if one["outcome"] == "fail"}
            assert failed == {}, body["results"]
            assert (code, body["left_behind"]) == (0, [])
            assert body["counts"]["pass"] == passed, [one["detail"] for one in body["results"]]
        headers = {"Authorization": f"Bearer {token}"}
        with httpx.Client(base_url=address, headers=headers) as client:
            query = {"all_agents": "true", "states": ["live", "archived", "forgotten"]}
            assert client.get("/v1/memories", params=query).json()["records"] == []
            assert [one["name"] for one in client.get("/v1/stores").json()["stores"]] == ["main"]
            assert [one["is_good"] for one in client.get("/v1/tokens").json()["tokens"]].count(True) == 1


@contextmanager
def _own_server(path: Path) -> Iterator[str]:
    """Ours; what it holds open lives on the loop of its thread, and is closed there."""
    opened: dict[str, Any] = {}

    async def app(scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] == "lifespan":
            await receive()
            opened["container"] = await open_container(Settings(), stores=[path], embedder=WordEmbedder())
            opened["app"] = http_app(opened["container"])
            await send({"type": "lifespan.startup.complete"})
            await receive()
            await opened["container"].close()
            await send({"type": "lifespan.shutdown.complete"})
            return
        await opened["app"](scope, receive, send)

    with served(app, lifespan="on") as address:
        yield address
