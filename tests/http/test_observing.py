"""What operators see: a log line for each request, numbers for each route, readiness; never what was said."""

import asyncio
import json
import logging
import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from quipu.errors import BackendUnavailableError, ConflictError, TamperedError
from quipu.http import probes
from quipu.http.exchange import Exchanges, exchange_of
from quipu.ledger.ledger import Health
from quipu.model.principal import Permission
from tests.http.conftest import Server, Servers
from tests.http.rig import SECRET

FIELDS = {
    *("request_id", "method", "route", "status", "duration_ms", "bytes_in", "bytes_out"),
    *("tenant", "principal", "error", "reason"),
}


def lines_of(caplog: pytest.LogCaptureFixture) -> list[dict[str, Any]]:
    return [json.loads(record.message) for record in caplog.records if record.name == "quipu.access"]


async def test_each_request_is_one_line_of_json(server: Server, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "quipu")
    answer = await server.post("/rig/echo", value={"a": "x" * 100})
    await server.http.get(f"/v1/memories/{SECRET}", params={"as_of": SECRET})
    await server.http.get(f"/{SECRET}?{SECRET}={SECRET}")
    await server.http.get("/healthz")
    first, second, third = lines_of(caplog)
    assert first.keys() == FIELDS
    assert first["request_id"] == answer.headers["quipu-request-id"]
    assert (first["method"], first["route"], first["status"]) == ("POST", "/rig/echo", 200)
    assert (first["tenant"], first["principal"]) == ("default", "local")
    assert (first["bytes_in"], first["bytes_out"]) == (len(answer.request.content), len(answer.content))
    assert (first["error"], first["reason"]) == (None, None)
    assert first["duration_ms"] > 0
    assert (second["route"], second["status"]) == ("/v1/memories/{id}", 400)
    assert (third["route"], third["error"], third["reason"]) == (None, "not_found", "address")


async def test_the_log_holds_no_content_no_query_no_token_and_no_text_of_an_error(
    server: Server, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    await server.post("/v1/memories", content=SECRET)
    await server.post("/v1/memories/recall", query=SECRET)
    await server.http.post("/rig/echo", content=SECRET, headers={"Content-Type": "application/json"})
    failed = await server.http.post(
        f"/rig/fail?id={SECRET}", json={}, headers={"Cookie": SECRET, "User-Agent": SECRET}
    )
    server.rig.error = TamperedError(SECRET)
    await server.post("/rig/fail")
    await server.post("/rig/many", id="later")
    await server.http.request("TRACE", f"/rig/items/{SECRET}")
    await server.http.request(SECRET.upper(), "/rig/echo", headers={"Authorization": f"Bearer {SECRET}"})
    ours = [record for record in caplog.records if record.name.startswith("quipu")]
    said = "\n".join(record.getMessage() for record in ours)
    assert len(lines_of(caplog)) == 8
    assert SECRET not in said.lower()
    assert "good" not in said
    assert failed.status_code == 500
    assert SECRET not in failed.text
    (told,) = [json.loads(record.getMessage()) for record in ours if record.name == "quipu.http"][:1]
    assert told["request_id"] == failed.headers["quipu-request-id"], "the log says where"
    assert told["trace"][0] == "builtins.RuntimeError"
    assert any("rig.py" in place and place.endswith(" fail") for place in told["trace"])


async def test_of_a_failure_of_ours_the_caller_learns_the_request_id(server: Server) -> None:
    answer = await server.post("/rig/fail")
    body = answer.json()
    assert (answer.status_code, body["code"], body["reason"], body["hint"]) == (
        500,
        "internal_error",
        None,
        None,
    )
    assert body["request_id"] == answer.headers["quipu-request-id"]
    server.rig.error = ConflictError("What happened.", reason="why", hint="Do this.")
    body = (await server.post("/rig/fail")).json()
    assert (body["detail"], body["reason"], body["hint"]) == ("What happened.", "why", "Do this.")
    assert body["title"] == "It was changed by somebody else. Read it again and repeat."
    server.rig.error = OSError(28, SECRET)
    full = await server.post("/rig/fail")
    assert (full.status_code, full.json()["reason"], full.headers["retry-after"]) == (503, "disk_full", "1")


async def test_a_span_stands_around_every_request_but_probes(server: Server) -> None:
    spans: list[tuple[str | None, int | None, str | None]] = []

    @contextmanager
    def span(scope: Any) -> Iterator[None]:
        yield
        exchange = exchange_of(scope)
        spans.append((exchange.route, exchange.status, exchange.error))

    outermost = server.app.asgi
    assert isinstance(outermost, Exchanges)
    outermost._spans = span
    for path in ("/rig/who", "/nowhere", "/healthz"):
        await server.http.get(path)
    await server.post("/rig/fail")
    assert spans == [
        ("/rig/who", 200, None),
        (None, 404, "not_found"),
        ("/rig/fail", 500, "internal_error"),
    ]


# -- numbers ----------------------------------------------------------------------------------------------------------


def number(text: str, name: str) -> float:
    found = re.search(rf"^{re.escape(name)} (\S+)$", text, re.M)
    return float(found.group(1)) if found else 0.0


async def test_metrics_move_with_what_happens_and_no_label_is_a_callers(server: Server) -> None:
    before = (await server.http.get("/metrics")).text
    await server.post("/rig/echo")
    await server.http.post("/rig/echo", content=b"{", headers={"Content-Type": "application/json"})
    await server.http.get("/rig/who", headers={"Authorization": "Bearer no"})
    await server.http.request(SECRET.upper(), f"/{SECRET}?{SECRET}")
    await server.http.get(f"/rig/items/{SECRET}")
    after = (await server.http.get("/metrics")).text

    def moved(name: str) -> float:
        return number(after, name) - number(before, name)

    assert moved('quipu_http_requests_total{method="POST",route="/rig/echo",status="200"}') == 1
    assert moved('quipu_http_requests_total{method="POST",route="/rig/echo",status="400"}') == 1
    assert moved('quipu_http_requests_total{method="other",route="none",status="404"}') == 1
    assert moved('quipu_http_requests_total{method="GET",route="/rig/items/{id}",status="200"}') == 1
    assert moved('quipu_http_request_seconds_count{method="POST",route="/rig/echo"}') == 2
    assert moved('quipu_errors_total{code="validation_error"}') == 1
    assert moved('quipu_authentication_failures_total{reason="bad_token"}') == 1
    assert moved("quipu_http_received_bytes_total") == len("{}") + len("{")
    assert moved("quipu_http_sent_bytes_total") > 100
    assert number(after, "quipu_http_in_flight") == 1, "the one that asks"
    assert number(after, "quipu_ready") == 1
    assert number(after, "quipu_live_records") == 3
    assert 'quipu_build_info{version="' in after
    assert SECRET not in after.lower()


@pytest.mark.parametrize("is_public", [False, True])
async def test_metrics_are_for_who_runs_the_server_unless_they_are_public(
    servers: Servers, is_public: bool
) -> None:
    server = await servers(metrics_public=is_public)
    server.tokens["agent"] = server.memory.named(
        name="agent", permissions=frozenset(Permission) - {Permission.OPERATE}
    )
    wanted = {"good": 200, "agent": 403, "no": 401}
    for token, status in wanted.items():
        answer = await server.http.get("/metrics", headers={"Authorization": f"Bearer {token}"})
        assert answer.status_code == (200 if is_public else status)
    nobody = await (server.call("GET", "/metrics", {"authorization": ""})).done()
    assert nobody.status == (200 if is_public else 401)


# -- readiness --------------------------------------------------------------------------------------------------------


async def refuses() -> Health:
    return Health("sqlite", writable=False, reason="disk_full")


async def dead() -> Health:
    raise BackendUnavailableError(SECRET)


async def silent() -> Health:
    await asyncio.Event().wait()
    raise AssertionError


async def stubborn() -> Health:
    """As a driver does that tells a database which is out of reach."""
    try:
        return await silent()
    finally:
        await asyncio.shield(asyncio.Event().wait())


@pytest.mark.parametrize("stand_in", [refuses, dead, silent, stubborn], ids=lambda one: one.__name__)
async def test_readiness_depends_on_the_ledger_and_gives_up_on_it_while_life_does_not(
    server: Server, stand_in: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(probes, "_PATIENCE_S", 0.05)
    server.health.append(stand_in)
    async with asyncio.timeout(20):
        answer = await server.http.get("/readyz", headers={"Authorization": "Bearer no"})
    assert (answer.status_code, answer.json()) == (503, {"status": "unavailable", "reason": "ledger"})
    assert (await server.http.get("/healthz")).json() == {"status": "ok"}
    assert number((await server.http.get("/metrics")).text, "quipu_ready") == 0
    server.health.clear()
    assert (await server.http.get("/readyz")).json() == {"status": "ok"}
