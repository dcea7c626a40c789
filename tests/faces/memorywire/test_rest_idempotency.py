"""The same key and the same body: one write, and the first answer again, byte for byte."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from quipu.testing.builders import FixedClock
from tests.faces.memorywire.test_rest_operations import TEA, bodies, held_bodies
from tests.faces.memorywire.wired import ADMIN, READ, REVIEW, V0, Caller, Wired, is_problem
from tests.requirement import requirement

KEY = {"Idempotency-Key": "k-1"}
WRITES = ["remember", "forget", "merge", "expire"]


@requirement("memorywire:rest.idempotency")
@pytest.mark.parametrize("name", WRITES)
@pytest.mark.parametrize("asks", [{}, {"Quipu-Extensions": "true"}], ids=["plain", "extensions"])
async def test_a_repeated_write_gets_the_first_answer_byte_for_byte(
    ada: Caller, clock: FixedClock, name: str, asks: dict[str, str]
) -> None:
    body = (await bodies(ada))[name]
    if name == "expire":
        body = body | {"policy": {"type": "semantic"}}
    first = await ada.post(f"/{name}", body, headers=KEY | asks)
    assert "idempotency-replayed" not in first.headers
    clock.move(1_000)
    await ada.kept("meanwhile")
    again = await ada.post(f"/{name}", body, headers=KEY | asks)
    assert again.content == first.content
    assert (again.status_code, again.headers["idempotency-replayed"]) == (first.status_code, "true")
    assert again.headers["quipu-seq"] == first.headers["quipu-seq"]


@requirement("memorywire:rest.idempotency")
async def test_the_first_answer_comes_again_whatever_has_happened_since(ada: Caller) -> None:
    found = await bodies(ada)
    firsts = {name: await ada.post(f"/{name}", found[name], headers=KEY) for name in ("remember", "merge")}
    change = TEA | {"id": firsts["remember"].json()["id"], "content": "changed"}
    firsts["change"] = await ada.post("/remember", change, headers={"Idempotency-Key": "k-2"})
    everything = {"agent_id": "ana", "policy": {"type": "semantic"}}
    await ada.post("/expire", everything)
    assert (await ada.post("/merge", found["merge"], headers=KEY)).content == firsts["merge"].content
    assert (await ada.post("/remember", TEA, headers=KEY)).content == firsts["remember"].content
    again = await ada.post("/remember", change, headers={"Idempotency-Key": "k-2"})
    assert again.content == firsts["change"].content


@requirement("memorywire:rest.idempotency")
@pytest.mark.parametrize("name", WRITES)
async def test_a_held_write_is_held_once(ada: Caller, server: Wired, clock: FixedClock, name: str) -> None:
    body = (await held_bodies(ada))[name]
    first = await ada.post(f"/{name}", body, headers=KEY)
    clock.move(5)
    again = await ada.post(f"/{name}", body, headers=KEY)
    assert (first.status_code, again.status_code, again.content) == (202, 202, first.content)
    assert again.headers["idempotency-replayed"] == "true"
    judge = await server.caller("judge", REVIEW, READ, ADMIN)
    (review,) = (await judge.get("/proposals")).json()["reviews"]
    await judge.post(f"/proposals/{review['id']}/decision", {"approved": True})
    late = await ada.post(f"/{name}", body, headers=KEY | {"Prefer": "wait=5"})
    assert (late.status_code, late.content) == (202, first.content)


@requirement("memorywire:rest.idempotency")
async def test_a_decision_by_the_same_name_is_no_repetition(server: Wired) -> None:
    """Whoever may decide on their own writes, the person at this machine, writes under the key's own name."""
    from quipu.model.operations import RememberRequest
    from quipu.model.principal import local
    from quipu.model.record import MemoryType

    service, me = server.running.service, local()
    request = RememberRequest(
        agent_id="ana",
        type=MemoryType.SEMANTIC,
        content="tea",
        approval_required=True,
        idempotency_key="k",
    )
    held = await service.remember(me, request)
    await service.decide(me, str(held.extensions["proposal_id"]), approved=True)
    assert (await service.reading.get(me, "ana", held.id, None)).content == "tea"


@requirement("memorywire:rest.idempotency")
async def test_another_body_under_the_same_key_is_a_conflict(ada: Caller) -> None:
    await ada.post("/remember", TEA, headers=KEY)
    for other in (TEA | {"content": "coffee"}, TEA | {"approval_required": True}):
        answer = await ada.post("/remember", other, headers=KEY)
        is_problem(answer, 409, "conflict", "idempotency_key_mismatch")
    assert len(await ada.recalled("tea coffee")) == 1


@requirement("memorywire:rest.idempotency")
async def test_a_key_belongs_to_a_principal_an_operation_and_a_day(
    ada: Caller, server: Wired, clock: FixedClock
) -> None:
    first = (await ada.post("/remember", TEA, headers=KEY)).json()["id"]
    bo = await server.caller("bo")
    assert (await bo.post("/remember", TEA, headers=KEY)).json()["id"] != first
    assert (await ada.post("/forget", {"agent_id": "ana", "ids": ["x"]}, headers=KEY)).status_code == 200
    clock.move(25 * 3_600_000)
    assert (await ada.post("/remember", TEA, headers=KEY)).json()["id"] != first


@requirement("memorywire:rest.idempotency")
async def test_header_and_field_are_one_and_must_agree(ada: Caller) -> None:
    body: dict[str, Any] = TEA | {"idempotency_key": "k-1"}
    first = await ada.post("/remember", body)
    assert (await ada.post("/remember", TEA, headers=KEY)).content == first.content
    assert (await ada.post("/remember", body, headers=KEY)).content == first.content
    differ = await ada.post("/remember", body, headers={"Idempotency-Key": "k-2"})
    is_problem(differ, 400, "validation_error", "bad_value")
    for bad in ("", "ta\tb"):
        answer = await ada.post("/remember", TEA, headers={"Idempotency-Key": bad})
        assert is_problem(answer, 400, "validation_error")["errors"][0]["pointer"] == "/idempotency_key"


@requirement("memorywire:rest.idempotency")
async def test_a_long_key_is_too_large_wherever_it_stands(ada: Caller) -> None:
    long = "x" * 129
    for answer in (
        await ada.post("/remember", TEA, headers={"Idempotency-Key": long}),
        await ada.post("/remember", TEA | {"idempotency_key": long}),
    ):
        body = is_problem(answer, 413, "validation_error", "too_large")
        assert body["errors"][0]["pointer"] == "/idempotency_key"


@requirement("memorywire:rest.idempotency")
async def test_of_two_keys_none_is_taken(ada: Caller) -> None:
    headers = [("Authorization", f"Bearer {ada.token}"), ("Idempotency-Key", "a"), ("Idempotency-Key", "b")]
    answer = await ada.client.post(f"{V0}/remember", json=TEA, headers=headers)
    is_problem(answer, 400, "validation_error", "bad_value")
    assert await ada.recalled("tea") == []


@requirement("memorywire:rest.idempotency")
async def test_equal_requests_at_once_make_one_record(ada: Caller) -> None:
    answers = await asyncio.gather(*(ada.post("/remember", TEA, headers=KEY) for _ in range(10)))
    assert len({answer.content for answer in answers}) == 1
    assert sum("idempotency-replayed" not in answer.headers for answer in answers) == 1
    assert len(await ada.recalled("tea")) == 1


@requirement("memorywire:rest.idempotency")
async def test_a_batch_that_is_sent_again_is_answered_as_before_and_says_so(ada: Caller) -> None:
    items = [TEA, {"agent_id": "ana"}, TEA | {"content": "coffee"}]
    first = await ada.post("/remember/batch", {"items": items}, headers=KEY)
    again = await ada.post("/remember/batch", {"items": items}, headers=KEY)
    assert "idempotency-replayed" not in first.headers
    assert again.headers["idempotency-replayed"] == "true"
    told = [[row.get("response") for row in answer.json()["results"]] for answer in (first, again)]
    assert told[0] == told[1]
    more = [*items, TEA | {"content": "cocoa"}]
    mixed = await ada.post("/remember/batch", {"items": more}, headers=KEY)
    assert "idempotency-replayed" not in mixed.headers


@requirement("memorywire:rest.idempotency")
async def test_an_answer_dies_with_the_erasure_of_its_record(ada: Caller) -> None:
    first = (await ada.post("/remember", TEA, headers=KEY)).json()["id"]
    await ada.post("/forget", {"agent_id": "ana", "ids": [first], "hard_delete": True})
    again = await ada.post("/remember", TEA, headers=KEY)
    assert again.json()["id"] != first
    assert "idempotency-replayed" not in again.headers
