"""The five operations over HTTP: what is answered, with which status and which headers."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest

from quipu.faces.memorywire.openapi_examples import EXAMPLES
from tests.faces.memorywire.shapes import problems
from tests.faces.memorywire.test_v0 import v0_problems
from tests.faces.memorywire.wired import ADMIN, DELETE, READ, REVIEW, WRITE, Caller, Wired, is_problem
from tests.requirement import requirement

TEA = {"agent_id": "ana", "type": "semantic", "content": "tea at noon"}


async def bodies(ada: Caller) -> dict[str, dict[str, Any]]:
    """A request of each operation that changes something."""
    one, two, three = await ada.kept("one"), await ada.kept("two"), await ada.kept("three")
    return {
        "remember": TEA,
        "recall": {"agent_id": "ana", "query": "one"},
        "forget": {"agent_id": "ana", "ids": [three]},
        "merge": {"agent_id": "ana", "canonical": one, "duplicates": [two]},
        "expire": {"agent_id": "ana", "policy": {"type": "episodic"}},
    }


@requirement("memorywire:rest.operations")
async def test_each_operation_answers_with_200_and_a_valid_body(ada: Caller) -> None:
    for name, body in (await bodies(ada)).items():
        answer = await ada.post(f"/{name}", body)
        assert (answer.status_code, answer.headers["content-type"]) == (200, "application/json"), name
        assert problems(f"operations/{name}.response", answer.json()) == []
        assert "extensions" not in answer.json()


@requirement("memorywire:rest.operations")
async def test_what_was_remembered_is_recalled_and_what_was_forgotten_is_not(ada: Caller) -> None:
    answer = await ada.post("/remember", TEA)
    record_id = answer.json()["id"]
    assert answer.json()["stores"] == ["sqlite"]
    (hit,) = await ada.recalled("tea")
    assert (hit["id"], hit["content"], hit["provenance"]["written_by"]) == (record_id, "tea at noon", "ada")
    gone = await ada.post("/forget", {"agent_id": "ana", "ids": [record_id, "mem_unknown"]})
    assert gone.json()["forgotten_ids"] == [record_id]
    assert gone.json()["stores"] == [{"store": "sqlite", "count": 1, "error": None}]
    assert await ada.recalled("tea") == []


@requirement("memorywire:rest.operations")
async def test_a_recall_may_ask_why(ada: Caller) -> None:
    await ada.kept("tea")
    (hit,) = await ada.recalled("tea", explain=True)
    assert set(hit["why"]) >= {"cosine", "keyword", "blend"}
    assert "why" not in (await ada.recalled("tea"))[0]


@requirement("memorywire:rest.operations")
@pytest.mark.parametrize("field", ["run_id", "node_id", "if_version", "tenant"])
async def test_what_only_the_server_knows_is_no_field(ada: Caller, field: str) -> None:
    body = is_problem(
        await ada.post("/remember", TEA | {field: "x"}), 400, "validation_error", "unknown_field"
    )
    assert body["errors"][0]["pointer"] == f"/{field}"


@requirement("memorywire:rest.headers")
async def test_every_answer_has_its_id_and_is_never_cached(ada: Caller, server: Wired) -> None:
    for answer in (
        await ada.post("/remember", TEA),
        await ada.post("/remember", {}),
        await ada.get("/capabilities"),
        await server.stranger.get("/health"),
    ):
        assert answer.headers["quipu-request-id"].startswith("req_")
        assert answer.headers["cache-control"] == "no-store"


@requirement("memorywire:rest.headers")
async def test_position_and_version_are_told_in_headers(ada: Caller, server: Wired) -> None:
    stored = await ada.post("/remember", TEA, headers={"Quipu-Extensions": "true"})
    beyond = stored.json()["extensions"]["quipu"]
    assert stored.headers["quipu-seq"] == str(beyond["seq"])
    assert stored.headers["etag"] == '"1"'
    record_id = stored.json()["id"]
    changed = await ada.post("/remember", TEA | {"id": record_id, "content": "tea at one"})
    assert changed.headers["etag"] == '"2"'
    assert (await ada.get(f"/records/{record_id}")).headers["etag"] == '"2"'
    head = await server.running.parts.ledger.head("default")
    assert changed.headers["quipu-seq"] == str(head.seq)


# -- extensions -------------------------------------------------------------------------------------------------


@requirement("memorywire:rest.extensions")
@pytest.mark.parametrize("asked", ["body", "header"])
async def test_extensions_come_only_to_those_who_ask(ada: Caller, asked: str) -> None:
    headers = {"Quipu-Extensions": "true"} if asked == "header" else {}
    more = {"extensions": True} if asked == "body" else {}
    for name, body in (await bodies(ada)).items():
        told = (await ada.post(f"/{name}", body | more, headers=headers)).json()
        assert set(told["extensions"]) == {"quipu"}, name
        assert problems(f"operations/{name}.response", told) == []
        del told["extensions"]
        assert v0_problems(f"operations/{name}.response", told) == []


@requirement("memorywire:rest.extensions")
async def test_the_header_says_true_or_false(ada: Caller) -> None:
    answer = await ada.post("/remember", TEA, headers={"Quipu-Extensions": "perhaps"})
    is_problem(answer, 400, "validation_error", "bad_value")
    assert (
        "extensions" not in (await ada.post("/remember", TEA, headers={"Quipu-Extensions": "False"})).json()
    )


@requirement("memorywire:rest.extensions")
async def test_similar_memories_are_named_to_those_who_ask(ada: Caller) -> None:
    first = await ada.kept("tea at noon")
    told = (await ada.post("/remember", TEA, headers={"Quipu-Extensions": "true"})).json()
    assert [row["id"] for row in told["extensions"]["quipu"]["similar"]] == [first]


# -- lenient ----------------------------------------------------------------------------------------------------


@requirement("memorywire:rest.lenient")
async def test_unknown_fields_are_refused_unless_the_caller_prefers_otherwise(ada: Caller) -> None:
    odd = TEA | {"approval_requird": True, "x,ö": 1}
    refused = is_problem(await ada.post("/remember", odd), 400, "validation_error", "unknown_field")
    assert {error["pointer"] for error in refused["errors"]} == {"/approval_requird", "/x,ö"}
    taken = await ada.post("/remember", odd, headers={"Prefer": "handling=lenient"})
    assert taken.status_code == 200
    assert taken.headers["preference-applied"] == "handling=lenient"
    assert taken.headers["quipu-ignored-fields"] == "approval_requird, x %C3%B6"
    assert len(await ada.recalled("tea")) == 1


@requirement("memorywire:rest.lenient")
@pytest.mark.parametrize("prefer", ["handling=strict", "respond-async", "handling", 'handling="lenient', ""])
async def test_other_preferences_change_nothing(ada: Caller, prefer: str) -> None:
    answer = await ada.post("/remember", TEA | {"x": 1}, headers={"Prefer": prefer} if prefer else {})
    if "lenient" not in prefer:
        is_problem(answer, 400, "validation_error", "unknown_field")
    assert "preference-applied" not in answer.headers or "lenient" in prefer


# -- held -------------------------------------------------------------------------------------------------------


async def held_bodies(ada: Caller) -> dict[str, dict[str, Any]]:
    found = await bodies(ada)
    del found["recall"]
    found["expire"] = {"agent_id": "ana", "policy": {"type": "semantic"}}
    return {name: body | {"approval_required": True} for name, body in found.items()}


@requirement("memorywire:rest.held")
async def test_a_held_write_answers_202_with_the_page_where_it_is_decided(ada: Caller) -> None:
    for name, body in (await held_bodies(ada)).items():
        answer = await ada.post(f"/{name}", body)
        assert answer.status_code == 202, name
        told = answer.json()
        assert told["pending_approval"] is True
        assert problems(f"operations/{name}.response", told) == []
        address, _, proposal = told["approval_url"].rpartition("/")
        assert address == "https://memory.example/review"
        assert (await ada.get(f"/proposals/{proposal}")).status_code == 200


@requirement("memorywire:rest.held")
async def test_without_a_public_address_the_callers_own_is_used(server: Wired) -> None:
    from tests.faces.memorywire.wired import wired

    async with wired(public_url="") as plain:
        bo = await plain.caller("bo")
        told = (await bo.post("/remember", TEA | {"approval_required": True})).json()
        assert told["approval_url"].startswith("http://quipu.test/review/prp_")


@requirement("memorywire:rest.wait")
@pytest.mark.parametrize("name", ["remember", "forget", "merge", "expire"])
async def test_a_held_write_may_wait_for_its_decision(ada: Caller, server: Wired, name: str) -> None:
    judge = await server.caller("judge", REVIEW, READ, ADMIN)
    body = (await held_bodies(ada))[name]
    waiting = asyncio.create_task(
        ada.post(f"/{name}", body, headers={"Prefer": "wait=20", "Quipu-Extensions": "true"})
    )
    proposal = await _proposal(judge)
    await judge.post(f"/proposals/{proposal}/decision", {"approved": True})
    answer = await waiting
    told = answer.json()
    assert (answer.status_code, told["pending_approval"], told["approval_url"]) == (200, False, None)
    assert answer.headers["preference-applied"] == "wait=20"
    assert problems(f"operations/{name}.response", told) == []
    beyond = told["extensions"]["quipu"]
    match name:
        case "remember":
            assert (await ada.get(f"/records/{told['id']}")).json()["content"] == "tea at noon"
            assert (told["stores"], beyond["version"], answer.headers["etag"]) == (["sqlite"], 1, '"1"')
        case "forget":
            assert told["forgotten_ids"] == body["ids"]
            assert told["stores"][0]["count"] == 1
        case "merge":
            assert (told["merged_count"], beyond["merged_ids"]) == (1, body["duplicates"])
        case _:
            assert told["matched_count"] == 3


async def _proposal(judge: Caller) -> str:
    """The one that waits, as soon as it does."""
    for _ in range(500):
        reviews = (await judge.get("/proposals")).json()["reviews"]
        if reviews:
            return str(reviews[0]["id"])
        await asyncio.sleep(0.01)
    raise AssertionError("nothing was held")


@requirement("memorywire:rest.wait")
async def test_a_rejected_write_is_told_as_such(ada: Caller, server: Wired) -> None:
    judge = await server.caller("judge", REVIEW)
    waiting = asyncio.create_task(
        ada.post("/remember", TEA | {"approval_required": True}, headers={"Prefer": "wait=20"})
    )
    proposal = await _proposal(judge)
    await judge.post(f"/proposals/{proposal}/decision", {"approved": False, "reason": "no"})
    assert is_problem(await waiting, 403, "approval_rejected")["proposal_id"] == proposal


@requirement("memorywire:rest.wait")
async def test_nobody_decides_in_time(ada: Caller) -> None:
    body = TEA | {"approval_required": True}
    answer = await ada.post("/remember", body, headers={"Prefer": "wait=0"})
    assert (answer.status_code, answer.headers["preference-applied"]) == (202, "wait=0")
    plain = await ada.post("/remember", TEA, headers={"Prefer": "wait=5"})
    assert (plain.status_code, "preference-applied" in plain.headers) == (200, False)


@requirement("memorywire:rest.wait")
async def test_waiting_may_take_longer_than_a_request_may(ada: Caller) -> None:
    from tests.faces.memorywire.wired import wired

    async with wired(request_timeout_s=0.2) as short:
        bo = await short.caller("bo")
        body = TEA | {"approval_required": True}
        answer = await bo.post("/remember", body, headers={"Prefer": "wait=1"})
        assert answer.status_code == 202, answer.text


# -- versions ---------------------------------------------------------------------------------------------------


@requirement("memorywire:rest.if-match")
async def test_a_change_may_be_bound_to_a_version(ada: Caller) -> None:
    record_id = await ada.kept("one")
    change = TEA | {"id": record_id}
    assert (await ada.post("/remember", change, headers={"If-Match": '"1"'})).headers["etag"] == '"2"'
    late = await ada.post("/remember", change, headers={"If-Match": '"1"'})
    is_problem(late, 409, "conflict", "version_mismatch")
    assert (await ada.post("/remember", change, headers={"If-Match": "*"})).headers["etag"] == '"3"'


@requirement("memorywire:rest.if-match")
@pytest.mark.parametrize("tag", ["1", 'W/"1"', '"one"', '"1", "2"', '"-1"', ""])
async def test_what_names_no_version_is_refused(ada: Caller, tag: str) -> None:
    record_id = await ada.kept("one")
    answer = await ada.post("/remember", TEA | {"id": record_id}, headers={"If-Match": tag})
    is_problem(answer, 400, "validation_error", "bad_value")


@requirement("memorywire:rest.if-match")
async def test_a_guard_that_would_not_be_heeded_is_refused(ada: Caller) -> None:
    found = await bodies(ada)
    guard = {"If-Match": '"1"'}
    is_problem(await ada.post("/remember", TEA, headers=guard), 400, "validation_error")
    for name in ("forget", "merge", "expire"):
        is_problem(
            await ada.post(f"/{name}", found[name], headers=guard), 400, "validation_error", "bad_value"
        )
    batch = {"items": [TEA]}
    is_problem(await ada.post("/remember/batch", batch, headers=guard), 400, "validation_error", "bad_value")


# -- many -------------------------------------------------------------------------------------------------------


@requirement("memorywire:rest.batch")
async def test_each_item_of_a_batch_is_answered_in_its_place(ada: Caller) -> None:
    items = [TEA, TEA | {"content": ""}, TEA | {"store": "attic"}, TEA | {"approval_required": True}, TEA]
    answer = await ada.post("/remember/batch", {"items": items})
    assert answer.status_code == 200
    results = answer.json()["results"]
    assert problems("operations/remember_batch.response", answer.json()) == []
    assert [row["index"] for row in results] == [0, 1, 2, 3, 4]
    assert ["error" in row for row in results] == [False, True, True, False, False]
    assert results[1]["error"]["errors"][0]["pointer"] == "/items/1/content"
    assert results[2]["error"]["code"] == "not_found"
    assert results[3]["response"]["pending_approval"] is True
    for row in results:
        if "response" in row:
            assert v0_problems("operations/remember.response", row["response"]) == []
    assert len(await ada.recalled("tea")) == 2


@requirement("memorywire:rest.batch")
@pytest.mark.parametrize(
    ("wrong", "status", "pointer"),
    [
        ({"content": ""}, 400, "/items/1/content"),
        ({"store": "attic"}, 404, "/items/1"),
        ({"id": "mem_unknown"}, 404, "/items/1"),
        ({"links": [{"to": "mem_unknown", "rel": "r"}]}, 400, "/items/1/links/0/to"),
        ({"colour": 1}, 400, "/items/1/colour"),
    ],
)
async def test_an_atomic_batch_is_all_or_none(
    ada: Caller, wrong: dict[str, Any], status: int, pointer: str
) -> None:
    answer = await ada.post("/remember/batch", {"items": [TEA, TEA | wrong, TEA], "atomic": True})
    assert answer.status_code == status
    assert answer.json()["errors"][0]["pointer"] == pointer
    assert await ada.recalled("tea") == []
    good = await ada.post("/remember/batch", {"items": [TEA, TEA], "atomic": True})
    assert len(good.json()["results"]) == len(await ada.recalled("tea")) == 2


@requirement("memorywire:rest.batch")
async def test_an_atomic_batch_is_held_as_one(ada: Caller) -> None:
    items = [TEA, TEA | {"content": "coffee", "approval_required": True}]
    answer = await ada.post("/remember/batch", {"items": items, "atomic": True})
    told = [result["response"] for result in answer.json()["results"]]
    assert [one["pending_approval"] for one in told] == [True, True]
    (review,) = (await ada.get("/proposals")).json()["reviews"]
    assert (review["operation"], len(review["request"]["items"])) == ("batch", 2)
    assert {one["approval_url"].rpartition("/")[2] for one in told} == {review["id"]}
    assert await ada.recalled("tea") == []


@requirement("memorywire:rest.batch")
async def test_a_key_for_the_batch_counts_for_each_item(ada: Caller) -> None:
    body = {"items": [TEA, TEA | {"content": "coffee", "idempotency_key": "own"}]}
    first = await ada.post("/remember/batch", body, headers={"Idempotency-Key": "b"})
    again = await ada.post("/remember/batch", body, headers={"Idempotency-Key": "b"})
    assert again.content == first.content
    assert len(await ada.recalled("tea coffee")) == 2
    long = await ada.post("/remember/batch", body, headers={"Idempotency-Key": "b" * 124})
    is_problem(long, 413, "validation_error", "too_large")


@requirement("memorywire:rest.batch")
async def test_a_batch_is_neither_empty_nor_too_long(ada: Caller) -> None:
    is_problem(await ada.post("/remember/batch", {"items": []}), 400, "validation_error", "bad_value")
    many = await ada.post("/remember/batch", {"items": [TEA] * 1001})
    is_problem(many, 413, "validation_error", "too_large")


@requirement("memorywire:rest.examples")
async def test_the_examples_of_the_documentation_are_accepted(server: Wired) -> None:
    ada = await server.caller("ada", WRITE, READ, DELETE)
    for name in ("remember", "recall", "forget", "expire"):
        assert (await ada.post(f"/{name}", EXAMPLES[name])).status_code == 200, name
    assert (await ada.post("/remember/batch", EXAMPLES["batch"])).status_code == 200
    is_problem(await ada.post("/merge", EXAMPLES["merge"]), 404, "not_found", "canonical")
    json.dumps(EXAMPLES["decision"])
