"""Records by id: in reach, in history, and back."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from quipu.model.principal import Permission, Principal
from quipu.model.record import MemoryType, Provenance, Record
from quipu.rules.reach import in_hand
from quipu.testing.builders import FixedClock
from tests.faces.memorywire.shapes import problems
from tests.faces.memorywire.test_rest_operations import TEA
from tests.faces.memorywire.test_v0 import v0_problems
from tests.faces.memorywire.wired import ADMIN, READ, REVIEW, WRITE, Caller, Wired, is_problem
from tests.requirement import requirement

KINDS: dict[str, dict[str, Any]] = {
    "semantic": {"content": "tea", "tags": ["a"], "metadata": {"n": 1}, "importance": 0.5},
    "episodic": {"content": "lunch", "event_time": 5, "location": "Lima", "participants": ["Bo"]},
    "emotional": {"content": "joy", "sentiment": "positive", "valence": 0.5, "target": "tea"},
    "procedural": {
        "content": {
            "name": "p",
            "initial": "a",
            "states": ["a", "b"],
            "transitions": [{"trigger": "t", "source": "a", "dest": "b"}],
        }
    },
}


@requirement("memorywire:rest.records")
@pytest.mark.parametrize("kind", KINDS)
async def test_a_record_is_valid_against_its_type(ada: Caller, kind: str) -> None:
    stored = await ada.post("/remember", {"agent_id": "ana", "type": kind, "user_id": "mara", **KINDS[kind]})
    answer = await ada.get(f"/records/{stored.json()['id']}")
    assert answer.status_code == 200
    assert problems(f"types/{kind}", answer.json()) == []
    assert v0_problems(f"types/{kind}", answer.json()) == []
    assert answer.json()["store"] == "main"
    assert isinstance(answer.json()["content"], dict) is (kind == "procedural")


@requirement("memorywire:rest.records")
async def test_a_record_can_be_read_as_it_was(ada: Caller) -> None:
    record_id = await ada.kept("one")
    position = (await ada.post("/remember", TEA | {"id": record_id, "content": "two"})).headers["quipu-seq"]
    await ada.post("/forget", {"agent_id": "ana", "ids": [record_id]})
    is_problem(await ada.get(f"/records/{record_id}"), 404, "not_found", "record")
    then = await ada.get(f"/records/{record_id}", params={"as_of": position})
    before = await ada.get(f"/records/{record_id}", params={"as_of": int(position) - 1})
    assert (then.json()["content"], then.headers["etag"]) == ("two", '"2"')
    assert (before.json()["content"], before.headers["etag"]) == ("one", '"1"')
    for odd in ({"as_of": "soon"}, {"as_of": "999999"}, {"as_off": "1"}):
        answer = await ada.get(f"/records/{record_id}", params=odd)
        assert answer.status_code == 400, odd


@requirement("memorywire:rest.reach")
async def test_without_an_agent_the_records_of_all_ones_agents_are_in_reach(
    server: Wired, ada: Caller
) -> None:
    shop = (await ada.post("/remember", TEA | {"agent_id": "shop-1"})).json()["id"]
    desk = (await ada.post("/remember", TEA | {"agent_id": "desk-1"})).json()["id"]
    keeper = await server.caller("keeper", READ, WRITE, agents=("shop-*",))
    assert (await keeper.get(f"/records/{shop}")).json()["agent_id"] == "shop-1"
    assert (await keeper.get(f"/records/{shop}?agent_id=shop-1")).status_code == 200
    is_problem(await keeper.get(f"/records/{shop}?agent_id=shop-2"), 404, "not_found", "record")
    is_problem(await keeper.get(f"/records/{shop}?agent_id=desk-1"), 403, "forbidden", "agent_not_allowed")
    unknown = await keeper.get("/records/mem_unknown")
    for path in (f"/records/{desk}", f"/records/{desk}/history", f"/records/{desk}/restore"):
        method = "POST" if path.endswith("restore") else "GET"
        foreign = await keeper.ask(method, path)
        body = is_problem(foreign, 404, "not_found", "record")
        assert body["title"] == unknown.json()["title"]


@requirement("memorywire:rest.reach")
async def test_who_is_bound_to_a_user_sees_only_theirs(server: Wired, ada: Caller) -> None:
    mine = await ada.kept("mine", user_id="mara")
    theirs, nobodys = await ada.kept("theirs", user_id="bo"), await ada.kept("nobody's")
    bound = await server.caller("bound", READ, WRITE, user_id="mara")
    assert (await bound.get(f"/records/{mine}")).status_code == 200
    assert (await bound.get(f"/records/{mine}/history")).status_code == 200
    await ada.post("/forget", {"agent_id": "ana", "ids": [mine, theirs, nobodys]})
    for record_id in (theirs, nobodys):
        for method, path in (("GET", ""), ("GET", "/history"), ("POST", "/restore")):
            answer = await bound.ask(method, f"/records/{record_id}{path}")
            is_problem(answer, 404, "not_found", "record")
    assert (await bound.post(f"/records/{mine}/restore")).status_code == 200


@requirement("memorywire:rest.reach")
async def test_tenants_do_not_meet(server: Wired, ada: Caller) -> None:
    mine = await ada.kept("mine")
    await server.running.parts.ledger.open("other")
    stranger = await server.caller("ada", tenant="other")
    for method, path in (("GET", ""), ("GET", "/history"), ("POST", "/restore")):
        answer = await stranger.ask(method, f"/records/{mine}{path}")
        is_problem(answer, 404, "not_found", "record")
    assert await stranger.recalled("mine") == []


@requirement("memorywire:rest.reach")
def test_the_rule_of_reach_knows_tenant_agent_and_user() -> None:
    record = _record()
    who = Principal(tenant="t", name="p", permissions=frozenset(Permission), agents=("a-*",), user_id="u")
    assert in_hand(record, who)
    assert not in_hand(replace(record, tenant="x"), who)
    assert not in_hand(replace(record, agent_id="b-1"), who)
    assert not in_hand(replace(record, user_id="w"), who)
    assert not in_hand(replace(record, user_id=None), who)
    assert in_hand(replace(record, user_id=None), replace(who, user_id=None))


def _record() -> Record:
    return Record(
        tenant="t",
        id="m",
        version=1,
        store_id="s",
        agent_id="a-1",
        user_id="u",
        type=MemoryType.SEMANTIC,
        content="x",
        provenance=Provenance(written_by="p"),
        created_at=1,
        updated_at=1,
    )


@requirement("memorywire:rest.records")
async def test_a_record_that_was_merged_away_names_its_survivor(server: Wired, ada: Caller) -> None:
    one, two = await ada.kept("one"), await ada.kept("two")
    await ada.post("/merge", {"agent_id": "ana", "canonical": one, "duplicates": [two]})
    body = is_problem(await ada.get(f"/records/{two}"), 404, "not_found", "record")
    assert body["merged_into"] == one
    await ada.post("/forget", {"agent_id": "ana", "ids": [one], "hard_delete": True})
    assert "merged_into" not in is_problem(await ada.get(f"/records/{two}"), 404, "not_found")


@requirement("memorywire:rest.history")
async def test_all_versions_are_told_with_their_ends(ada: Caller, clock: FixedClock) -> None:
    record_id = await ada.kept("one")
    await ada.post("/remember", TEA | {"id": record_id, "content": "two"})
    await ada.post("/forget", {"agent_id": "ana", "ids": [record_id], "reason": "old"})
    answer = await ada.get(f"/records/{record_id}/history")
    assert problems("history", answer.json()) == []
    first, second = answer.json()["versions"]
    assert (first["ending"], first["record"]["content"], first["record"]["state"]) == (
        "replaced",
        "one",
        "live",
    )
    assert (second["ending"], second["record"]["state"], second["reason"]) == (
        "forgotten",
        "forgotten",
        "old",
    )
    assert first["died"] == second["born"]
    await ada.post("/forget", {"agent_id": "ana", "ids": [record_id], "hard_delete": True})
    erased = await ada.get(f"/records/{record_id}/history")
    assert problems("history", erased.json()) == []
    assert [row.get("erased") for row in erased.json()["versions"]] == [True, True]
    assert "one" not in erased.text.replace("None", "")


@requirement("memorywire:rest.restore")
async def test_what_was_forgotten_comes_back(ada: Caller) -> None:
    record_id = await ada.kept("tea")
    await ada.post("/forget", {"agent_id": "ana", "ids": [record_id]})
    answer = await ada.post(f"/records/{record_id}/restore", {"reason": "still true"})
    assert (answer.status_code, answer.headers["etag"]) == (200, '"2"')
    assert problems("operations/remember.response", answer.json()) == []
    assert [hit["id"] for hit in await ada.recalled("tea")] == [record_id]
    history = (await ada.get(f"/records/{record_id}/history")).json()["versions"]
    assert history[-1]["reason"] == "still true"


@requirement("memorywire:rest.restore")
async def test_a_return_that_waits_says_so_and_where_it_is_decided(ada: Caller, server: Wired) -> None:
    record_id = await ada.kept("tea")
    await ada.post("/forget", {"agent_id": "ana", "ids": [record_id]})
    admin = await server.caller("admin", ADMIN, REVIEW)
    rules = {
        "rules": [{"id": "back", "when": {"operations": ["restore"]}, "effect": "hold", "reason": "Look."}]
    }
    assert (await admin.ask("PUT", "/rules", json=rules)).status_code == 200
    answer = await ada.post(f"/records/{record_id}/restore", {})
    assert (answer.status_code, answer.json()["pending_approval"]) == (202, True)
    assert problems("operations/remember.response", answer.json()) == []
    (review,) = (await admin.get("/proposals")).json()["reviews"]
    where = answer.json()["approval_url"]
    assert where.startswith("http")
    assert where.endswith(f"/review/{review['id']}")
    assert await ada.recalled("tea") == []
    await admin.post(f"/proposals/{review['id']}/decision", {"approved": True})
    assert [hit["id"] for hit in await ada.recalled("tea")] == [record_id]


@requirement("memorywire:rest.restore")
async def test_a_restore_needs_no_body_and_takes_no_other(ada: Caller) -> None:
    record_id = await ada.kept("tea")
    await ada.post("/forget", {"agent_id": "ana", "ids": [record_id]})
    is_problem(
        await ada.post(f"/records/{record_id}/restore", {"why": 1}), 400, "validation_error", "unknown_field"
    )
    is_problem(
        await ada.post(f"/records/{record_id}/restore", {}, headers={"If-Match": '"1"'}),
        400,
        "validation_error",
        "bad_value",
    )
    assert (await ada.ask("POST", f"/records/{record_id}/restore")).status_code == 200


@requirement("memorywire:rest.records")
@pytest.mark.parametrize("record_id", ["%00", "a%2Fb", "mem_%F0%9F%8D%B5", "..", "%ED%A0%80", "x" * 3000])
async def test_odd_ids_are_not_there(ada: Caller, record_id: str) -> None:
    for path in ("", "/history"):
        answer = await ada.get(f"/records/{record_id}{path}")
        assert answer.status_code == 404, answer.text
