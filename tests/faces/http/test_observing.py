"""What operators see: a log line for each request and numbers for each route; never what was said in it."""

from __future__ import annotations

import io
import json
import logging
import re
from typing import Any

import pytest

from quipu.errors import BackendUnavailableError
from quipu.faces.http.access_log import JsonLines, moment
from quipu.model.access import Role
from quipu.model.principal import local
from tests.faces.http.rig import SECRET, Rig, problem
from tests.faces.serving import PATIENCE_S, Served, served

FIELDS = {
    *("time", "request_id", "method", "route", "status", "duration_ms"),
    *("bytes_in", "bytes_out", "tenant", "principal", "error", "reason"),
}


class Log:
    """The log as `quipu serve` writes it."""

    def __init__(self) -> None:
        self.text = io.StringIO()
        self._handler = logging.StreamHandler(self.text)
        self._handler.setFormatter(JsonLines())
        self._logger = logging.getLogger("quipu")

    def __enter__(self) -> Log:
        self._before = self._logger.level
        self._logger.addHandler(self._handler)
        self._logger.setLevel(logging.DEBUG)
        return self

    def __exit__(self, *_: object) -> None:
        self._logger.removeHandler(self._handler)
        self._logger.setLevel(self._before)

    @property
    def lines(self) -> list[dict[str, Any]]:
        return [json.loads(line) for line in self.text.getvalue().splitlines()]

    @property
    def requests(self) -> list[dict[str, Any]]:
        return [line for line in self.lines if line["logger"] == "quipu.access"]


def test_each_request_is_one_line_of_json(rig: Rig) -> None:
    with Log() as log, served(more=rig.faces) as at, at.client() as client:
        answer = client.post("/rig/echo", json=["x" * 100])
        client.get(f"/rig/items/{SECRET}", params={"q": SECRET})
        client.get(f"/{SECRET}?{SECRET}={SECRET}")
    first, second, third = log.requests
    assert first.keys() >= FIELDS
    assert first["request_id"] == answer.headers["quipu-request-id"]
    assert (first["method"], first["route"], first["status"]) == ("POST", "/rig/echo", 200)
    assert (first["tenant"], first["principal"]) == ("default", "admin")
    assert (first["bytes_in"], first["bytes_out"]) == (104, 104)
    assert (first["error"], first["reason"]) == (None, None)
    assert first["duration_ms"] > 0
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z", first["time"])
    assert (second["route"], second["status"]) == ("/rig/items/{name}", 404)
    assert (second["error"], second["reason"]) == ("not_found", "record")
    assert (third["route"], third["error"], third["reason"]) == (None, "not_found", "route")


@pytest.mark.parametrize(
    ("at", "told"),
    [
        (1_700_000_000_007, "2023-11-14T22:13:20.007Z"),
        (1_700_000_000_999.9, "2023-11-14T22:13:20.999Z"),
        (1_700_000_001_000, "2023-11-14T22:13:21.000Z"),
    ],
)
def test_a_line_says_when_to_the_millisecond(at: float, told: str) -> None:
    assert moment(at) == told


def test_health_checks_are_logged_when_debugging_only(at: Served, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.DEBUG), at.client() as client:
        client.get("/healthz")
        client.get("/rig/public")
        client.post("/metrics")
    told = [
        (record.levelname, record.fields["route"])
        for record in caplog.records
        if record.name == "quipu.access"
    ]  # type: ignore[attr-defined]  what the logger puts there
    assert told == [("DEBUG", "/healthz"), ("INFO", "/rig/public"), ("INFO", "/metrics")]


def test_the_log_holds_no_content_no_query_and_no_token(rig: Rig) -> None:
    rig.error = RuntimeError(SECRET)
    with Log() as log, served(more=rig.faces) as at:
        issued = at.do(at.service.tokens.issue(local(), name="agent", roles=[Role.AGENT]))
        with at.client(issued.text) as client:
            client.post("/rig/remember", json={"content": SECRET})
            client.post("/rig/echo", content=SECRET, headers={"Content-Type": "application/json"})
            client.get("/rig/fail", params={SECRET: SECRET}, headers={"Cookie": SECRET, "User-Agent": SECRET})
            client.get(f"/rig/{SECRET}")
            client.request("TRACE", f"/rig/items/{SECRET}")
        with at.client(f"qp_default_{SECRET}") as stranger:
            stranger.get("/rig/whoami", headers={"Host": SECRET})
        raw = f"GET /rig/public HTTP/1.1\r\nHost: x\r\nBad Header {SECRET}\r\n\r\n".encode()
        with at.connect() as connection:
            connection.sendall(raw)
            connection.recv(100)
        tokens = (issued.text, at.admin_token)
    said = log.text.getvalue()
    assert len(log.requests) >= 6
    assert SECRET not in said
    for token in tokens:
        assert token not in said
        assert token.split("_", 2)[2] not in said  # what is secret of it may hold a "_" as well


def test_a_line_stays_a_line_whatever_is_in_it() -> None:
    log = io.StringIO()
    handler = logging.StreamHandler(log)
    handler.setFormatter(JsonLines())
    record = logging.LogRecord("quipu", logging.ERROR, "f", 1, "a\n%s", ("\u2028\x1b[31m",), None)
    try:
        int(SECRET)
    except ValueError as error:
        record.exc_info = (type(error), error, error.__traceback__)
    handler.emit(record)
    (line,) = log.getvalue().splitlines()
    told = json.loads(line)
    assert told["message"] == "a\n\u2028\x1b[31m"
    assert told["trace"][0] == "builtins.ValueError"
    assert SECRET not in line


def number(text: str, name: str) -> float:
    """The value of one series."""
    found = re.search(rf"^{re.escape(name)} (\S+)$", text, re.M)
    return float(found.group(1)) if found else 0.0


def test_metrics_move_with_what_happens(at: Served) -> None:
    with at.client() as client:
        before = client.get("/metrics").text
        client.post("/rig/remember", json={"content": "x"})
        client.post("/rig/echo", json=[1])
        client.post("/rig/echo", content=b"{", headers={"Content-Type": "application/json"})
        client.get("/rig/whoami", headers={"Authorization": "Bearer no"})
        client.get(f"/{SECRET}")
        after = client.get("/metrics").text

    def moved(name: str) -> float:
        return number(after, name) - number(before, name)

    assert moved('quipu_http_requests_total{method="POST",route="/rig/echo",status="200"}') == 1
    assert moved('quipu_http_requests_total{method="POST",route="/rig/echo",status="400"}') == 1
    assert moved('quipu_http_requests_total{method="GET",route="none",status="404"}') == 1
    assert moved('quipu_http_request_seconds_count{method="POST",route="/rig/echo"}') == 2
    assert moved('quipu_operation_seconds_count{operation="remember"}') == 1
    assert moved('quipu_errors_total{code="validation_error"}') == 1
    assert moved('quipu_errors_total{code="unauthenticated"}') == 1
    assert moved('quipu_authentication_failures_total{reason="bad_token"}') == 1
    assert moved("quipu_http_received_bytes_total") == len('{"content":"x"}') + len("[1]") + 1
    assert moved("quipu_http_sent_bytes_total") > 100
    assert number(after, "quipu_http_in_flight") == 1, "the one that asks"
    assert number(after, "quipu_ready") == 1
    assert 'quipu_build_info{version="' in after
    assert "process_resident_memory_bytes" in after
    assert SECRET not in after
    assert "quipu_journal_seq{" not in after


def test_metrics_by_tenant_are_a_choice(rig: Rig) -> None:
    with served(more=rig.faces, metrics_tenants=True) as at, at.client() as client:
        at.do(at.service.tenancy.create(local(), "acme"))
        before = number(client.get("/metrics").text, 'quipu_journal_seq{tenant="default"}')
        client.post("/rig/remember", json={"content": "x"})
        after = client.get("/metrics").text
        assert number(after, 'quipu_journal_seq{tenant="default"}') == before + 1
        assert number(after, 'quipu_journal_seq{tenant="acme"}') >= 1


def test_two_servers_in_one_process_count_for_themselves(rig: Rig) -> None:
    with served(more=rig.faces) as one, served(more=Rig().faces) as other:
        with one.client() as client:
            client.get("/rig/public")
        with other.client() as client:
            assert 'route="/rig/public"' not in client.get("/metrics").text


@pytest.mark.parametrize(
    ("settings", "who", "status"),
    [
        ({}, "", 200),
        ({"behind_proxy": True}, "", 401),
        ({"behind_proxy": True}, "agent", 403),
        ({"behind_proxy": True}, None, 200),
        ({"behind_proxy": True, "metrics_public": True}, "", 200),
    ],
    ids=["on loopback", "a stranger", "an agent", "an operator", "public"],
)
def test_metrics_are_for_operators(rig: Rig, settings: dict[str, Any], who: str | None, status: int) -> None:
    with served(more=rig.faces, **settings) as at:
        issued = at.do(at.service.tokens.issue(local(), name="agent", roles=[Role.AGENT]))
        with at.client(issued.text if who == "agent" else who) as client:
            answer = client.get("/metrics")
        assert answer.status_code == status
        if status == 403:
            problem(answer, 403, "forbidden", "missing_scope")


def test_health_is_told_to_everybody_and_says_nothing_else(at: Served) -> None:
    with at.client("") as client:
        assert client.get("/healthz").json() == client.get("/readyz").json() == {"status": "ok"}


def test_health_is_told_whatever_credential_is_sent_and_asks_no_ledger_for_it(at: Served) -> None:
    ledger = at.web.running.parts.ledger
    alive = ledger.token

    async def dead(_tenant: str, _digest: str) -> object:
        raise BackendUnavailableError(SECRET)

    with at.client("qp_default_x") as stranger, at.client() as client:
        object.__setattr__(ledger, "token", dead)
        for who in (stranger, client):
            assert who.get("/healthz").json() == who.get("/readyz").json() == {"status": "ok"}
        problem(client.get("/rig/whoami"), 503, "backend_unavailable")
        object.__setattr__(ledger, "token", alive)


def test_readiness_depends_on_the_ledger_and_life_does_not(at: Served) -> None:
    ledger = at.web.running.parts.ledger

    async def dead(_tenant: str) -> object:
        raise BackendUnavailableError(SECRET)

    async def silent(_tenant: str) -> object:
        import asyncio

        await asyncio.sleep(3600)
        return None

    async def stubborn(_tenant: str) -> object:
        import asyncio

        try:
            await asyncio.sleep(3600)
        except asyncio.CancelledError:
            await asyncio.sleep(PATIENCE_S)  # as a driver does that tells a database which is out of reach
            raise
        return None

    alive = ledger.head
    with at.client() as client:
        client.timeout = PATIENCE_S / 3
        for stand_in in (dead, silent, stubborn):
            object.__setattr__(ledger, "head", stand_in)
            answer = client.get("/readyz")
            assert answer.status_code == 503
            assert answer.json() == {"status": "unavailable", "reason": "ledger"}
            assert client.get("/healthz").status_code == 200
            assert number(client.get("/metrics").text, "quipu_ready") == 0
        object.__setattr__(ledger, "head", alive)
        assert client.get("/readyz").status_code == 200
