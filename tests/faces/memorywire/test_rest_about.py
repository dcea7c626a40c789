"""What the server says of itself: schemas, health, capabilities."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from jsonschema import Draft202012Validator

from quipu.errors import BackendUnavailableError
from quipu.faces.memorywire.schemas import names, schema, v0_form, v0_names
from tests.faces.memorywire.shapes import problems
from tests.faces.memorywire.wired import READ, WRITE, Caller, Wired, is_problem
from tests.requirement import requirement


@requirement("memorywire:rest.schemas")
async def test_every_schema_is_served_to_everybody(server: Wired) -> None:
    listed = (await server.stranger.get("/schemas")).json()["schemas"]
    assert [row["name"] for row in listed] == list(names())
    for row in listed:
        answer = await server.stranger.get(f"/schemas/{row['name']}")
        assert answer.headers["content-type"] == "application/schema+json"
        assert answer.json() == schema(row["name"])
        assert answer.json()["$id"] == row["id"]
        v0 = await server.stranger.get(f"/schemas/{row['name']}?dialect=v0")
        if row["v0"]:
            assert v0.json() == v0_form(row["name"])
            Draft202012Validator.check_schema(v0.json())
        else:
            is_problem(v0, 404, "not_found", "schema")
    assert {row["name"] for row in listed if row["v0"]} == set(v0_names())


@requirement("memorywire:rest.schemas")
@pytest.mark.parametrize(
    "name", ["operations/remind", "..%2F..%2Fpyproject", "../../pyproject.toml", "operations", ""]
)
async def test_other_names_lead_nowhere(server: Wired, name: str) -> None:
    assert (await server.stranger.get(f"/schemas/{name}")).status_code == 404


@requirement("memorywire:rest.schemas")
async def test_there_are_two_dialects(server: Wired) -> None:
    is_problem(await server.stranger.get("/schemas/problem?dialect=v1"), 400, "validation_error", "bad_value")


@requirement("memorywire:rest.health")
async def test_strangers_hear_whether_it_is_well_and_readers_more(server: Wired) -> None:
    short = await server.stranger.get("/health")
    assert (short.status_code, short.json()) == (200, {"status": "ok", "backend": "quipu"})
    writer = await server.caller("writer", WRITE)
    assert (await writer.get("/health")).json() == short.json()
    reader = await server.caller("reader", READ)
    full = (await reader.get("/health")).json()
    assert problems("health", full) == []
    assert full["stores"][0] | {"latency_ms": 0} == {
        "backend": "sqlite",
        "role": "ledger",
        "status": "ok",
        "lag": 0,
        "breaker": "closed",
        "latency_ms": 0,
    }
    assert full["time"] == server.clock()
    bad = Caller(server.client, "qp_default_" + "x" * 43)
    is_problem(await bad.get("/health"), 401, "unauthenticated")


@requirement("memorywire:rest.health")
@pytest.mark.parametrize("trouble", ["raises", "hangs"])
async def test_a_ledger_that_does_not_answer_is_503(server: Wired, trouble: str) -> None:
    reader = await server.caller("reader", READ)
    ledger: Any = server.running.parts.ledger

    async def down(tenant: str) -> Any:
        if trouble == "hangs":
            await asyncio.sleep(30)
        raise BackendUnavailableError("zimtstern at /var/secret", reason="ledger")

    kept, ledger.head = ledger.head, down
    short, full = await server.stranger.get("/health"), await reader.get("/health")
    ledger.head = kept
    assert (short.status_code, short.json()) == (503, {"status": "error", "backend": "quipu"})
    assert problems("health", full.json()) == []
    assert full.json()["stores"][0]["error"] == "does not answer"
    assert (await server.stranger.get("/health")).status_code == 200


@requirement("memorywire:rest.capabilities")
async def test_promises_and_limits_are_told(server: Wired) -> None:
    reader = await server.caller("reader", READ)
    told = (await reader.get("/capabilities")).json()
    assert problems("capabilities", told) == []
    assert len(told["capabilities"]) == 9
    assert told["stores"]["sqlite"]["role"] == "ledger"
    assert (told["wire"], told["extensions"]) == ("memorywire/v0", {"quipu": 1})
    assert told["embedder"] == {"model": "words-64", "dimensions": 64}
    assert told["limits"]["content_bytes"] == 1 << 20
