"""Steps: ordinary changes of a memory, taken once, held, erased, told alike on every face."""

import asyncio
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import httpx
import pytest

from quipu import Memory, sync
from quipu.bootstrap import http_app
from quipu.errors import ConflictError, ForbiddenError, InvalidError, NotFoundError, QuipuError
from quipu.governance.operations import DECIDE, LIST_REVIEWS, SET_RULES
from quipu.ledger.queries import Query
from quipu.memory.operations import FORGET, HISTORY, RECALL, REMEMBER, UPDATE
from quipu.model.principal import Permission, Principal, local
from quipu.page import Fields
from quipu.procedures.operations import GET_PROCEDURE, STEP
from quipu.procedures.page import ProcedurePart
from quipu.testing.embedders import WordEmbedder
from tests.governance.office import Office
from tests.mcp.clients import World, body, fault
from tests.procedures.machines import PARCEL
from tests.requirement import requirement

REVIEWER = replace(local(agent_id="agent"), name="carla", is_local=False)
READER = Principal(
    tenant="default", name="reader", permissions=frozenset({Permission.READ}), default_agent="agent"
)


async def parcel(office: Office, **fields: Any) -> str:
    return (await office(REMEMBER, content=PARCEL, type="procedural", **fields)).id


async def reason(office: Office, *who: Principal, **fields: Any) -> str | None:
    with pytest.raises(QuipuError) as refused:
        await office(STEP, *who, **fields)
    return refused.value.reason


@requirement("memorywire:procedures.step")
async def test_a_step_is_a_new_version_with_the_new_state(office: Office) -> None:
    name = await parcel(office)
    done = await office(STEP, id=name, trigger="label")
    assert (done.current, done.version, done.available_triggers) == ("labelled", 2, ("ship", "drop"))
    assert (done.stored_at, done.pending_approval, done.stores) == (office.clock(), False, ("sqlite",))
    versions = (await office(HISTORY, id=name)).versions
    assert [one.content["current"] for one in versions] == ["asked", "labelled"]
    assert [entry.op for entry in await office.entries("update")] == ["update"]


async def test_asking_and_trying_change_nothing(office: Office) -> None:
    name = await parcel(office)
    for asked, current in (
        ({}, "asked"),
        ({"trigger": "label", "persist": False}, "labelled"),
        ({"replay": ["label", "ship"]}, "shipped"),
        ({"replay": ["label"], "trigger": "ship"}, "shipped"),
    ):
        told = await office(STEP, READER, id=name, **asked)
        assert (told.current, told.version, told.stored_at) == (current, 1, None)
    assert (await office(STEP, id=name, replay=["label", "ship"])).facts == ("goods_intact",)
    for kept in ({"trigger": "label"}, {"replay": ["label"], "persist": True}):
        with pytest.raises(ForbiddenError):
            await office(STEP, READER, id=name, **kept)
    kept = await office(STEP, id=name, replay=["label"], trigger="ship", persist=True)
    assert (kept.current, kept.version) == ("shipped", 2)
    (_, last) = (await office(GET_PROCEDURE, id=name)).life
    assert (last.current, last.trigger) == ("shipped", None)


async def test_facts_open_guards_and_only_yes_and_no_are_facts(office: Office) -> None:
    name = await parcel(office)
    await office(STEP, id=name, replay=["label", "ship"], persist=True)
    assert await reason(office, id=name, trigger="refund") == "invalid_trigger"
    for bad in ({"goods_intact": "yes"}, {"goods_intact": 1}, ["goods_intact"]):
        with pytest.raises(InvalidError):
            await office(STEP, id=name, trigger="refund", facts=bad)
    assert (
        await reason(office, id=name, trigger="refund", facts={f"f{n}": True for n in range(300)})
        == "too_large"
    )
    done = await office(STEP, id=name, trigger="refund", facts={"goods_intact": True})
    assert done.current == "refunded"


async def test_what_is_no_procedure_or_nobodys_is_not_stepped(office: Office) -> None:
    fact = (await office(REMEMBER, content="tea")).id
    assert await reason(office, id=fact, trigger="label") == "type_mismatch"
    name = await parcel(office)
    assert await reason(office, id=name, trigger="label", agent_id="other") == "record"
    assert await reason(office, id="mem_none", trigger="label") == "record"
    for gone in ({"expires_at": office.clock() + 5}, {}):
        other = await parcel(office, **gone)
        office.clock.now += 5
        if not gone:
            await office(FORGET, ids=[other])
        assert await reason(office, id=other, trigger="label") == "record"


async def test_one_that_is_labelled_secret_is_for_admins(office: Office) -> None:
    name = await parcel(office, privacy_intent={"sensitivity": "secret"})
    for operation in (STEP, GET_PROCEDURE):
        with pytest.raises(ForbiddenError) as refused:
            await office(operation, READER, id=name)
        assert "asked" not in str(refused.value)
    assert (await office(STEP, id=name, trigger="label")).current == "labelled"


# -- once, and in order -------------------------------------------------------------------------------------------------


async def test_of_many_steps_at_once_each_is_taken_in_order(office: Office) -> None:
    there_and_back = {
        "name": "counter",
        "initial": "a",
        "states": ["a", "b"],
        "transitions": [
            {"trigger": "next", "source": "a", "dest": "b"},
            {"trigger": "next", "source": "b", "dest": "a"},
        ],
    }
    name = (await office(REMEMBER, content=there_and_back, type="procedural")).id
    calls = [office(STEP, id=name, trigger="next") for _ in range(8)]
    done = await asyncio.gather(*calls, return_exceptions=True)
    won = [one for one in done if not isinstance(one, BaseException)]
    assert {one.reason for one in done if isinstance(one, ConflictError)} <= {"version_mismatch"}
    life = (await office(GET_PROCEDURE, id=name)).life
    assert len(life) == 1 + len(won) < 9
    assert [one.current for one in life] == [("a", "b")[place % 2] for place in range(len(life))]


async def test_a_version_guards_a_step(office: Office) -> None:
    name = await parcel(office)
    assert await reason(office, id=name, trigger="label", if_version=2) == "version_mismatch"
    assert (await office(STEP, id=name, trigger="label", if_version=1)).version == 2


async def test_the_same_key_takes_a_step_once_even_after_it_has_moved_on(office: Office) -> None:
    name = await parcel(office)
    first = await office(STEP, id=name, trigger="label", idempotency_key="k")
    await office(STEP, id=name, trigger="ship")
    again = await office(STEP, id=name, trigger="label", idempotency_key="k")
    assert again.replayed
    assert again.model_copy(update={"replayed": False}) == first
    assert (await office(GET_PROCEDURE, id=name)).version == 3
    assert await reason(office, id=name, trigger="drop", idempotency_key="k") == "idempotency_key_mismatch"


async def test_equal_steps_at_once_under_one_key_are_one(office: Office) -> None:
    name = await parcel(office)
    asked = {"id": name, "trigger": "label", "idempotency_key": "k"}
    done = await asyncio.gather(*(office(STEP, **asked) for _ in range(6)))
    assert {(one.current, one.version) for one in done} == {("labelled", 2)}
    assert (await office(GET_PROCEDURE, id=name)).version == 2


# -- held --------------------------------------------------------------------------------------------------------------


async def test_a_held_step_has_not_been_taken_until_somebody_agrees(office: Office) -> None:
    name = await parcel(office)
    held = await office(STEP, id=name, trigger="label", approval_required=True, idempotency_key="k")
    assert (held.current, held.version, held.is_held) == ("asked", 1, True)
    assert held.approval_url is not None
    assert (await office(GET_PROCEDURE, id=name)).current == "asked"
    (waiting,) = (await office(LIST_REVIEWS, REVIEWER)).reviews
    assert waiting.operation == "update"
    await office(DECIDE, REVIEWER, id=held.proposal_id, approved=True)
    shown = await office(GET_PROCEDURE, id=name)
    assert (shown.current, shown.life[-1].trigger, shown.life[-1].is_explained) == ("labelled", "label", True)
    again = await office(STEP, id=name, trigger="label", approval_required=True, idempotency_key="k")
    assert (again.replayed, again.current, again.is_held) == (True, "asked", True)


async def test_a_rule_for_changes_holds_steps_and_one_that_is_late_is_not_taken(office: Office) -> None:
    name = await parcel(office)
    rule = {
        "id": "procedures",
        "effect": "hold",
        "when": {"operations": ["remember"], "types": ["procedural"]},
    }
    await office(SET_RULES, rules=[rule])
    held = await office(STEP, id=name, trigger="label")
    assert held.held_by == ("procedures",)
    await office(SET_RULES, rules=[])
    await office(STEP, id=name, trigger="drop")
    with pytest.raises(ConflictError):
        await office(DECIDE, REVIEWER, id=held.proposal_id, approved=True)
    assert (await office(GET_PROCEDURE, id=name)).current == "dropped"


async def test_what_is_erased_is_in_no_answer_that_is_repeated(office: Office) -> None:
    """The answers of steps name states, so they go with the procedure; also those of steps that wait."""
    name = await parcel(office)
    asked = [
        {"id": name, "trigger": "label", "idempotency_key": "one"},
        {"id": name, "trigger": "ship", "idempotency_key": "two", "approval_required": True},
    ]
    for one in asked:
        await office(STEP, **one)
    await office(FORGET, ids=[name], hard_delete=True)
    for one in asked:
        with pytest.raises(NotFoundError):
            await office(STEP, **one)
    answers = Query("SELECT count(*) FROM answer WHERE tenant = :tenant")
    ledger = office.container.ledger
    left = await ledger.read("default", lambda reader: reader.cursor.row(answers, tenant="default"))
    assert left == (0,)


# -- life --------------------------------------------------------------------------------------------------------------


@requirement("memorywire:procedures.life")
async def test_the_life_of_a_procedure_can_be_replayed(office: Office) -> None:
    name = await parcel(office)
    for trigger in ("label", "ship"):
        await office(STEP, id=name, trigger=trigger)
    await office(STEP, id=name, trigger="refund", facts={"goods_intact": True, "of_no_matter": True})
    life = (await office(GET_PROCEDURE, id=name)).life
    assert [one.trigger for one in life] == [None, "label", "ship", "refund"]
    assert [one.current for one in life] == ["asked", "labelled", "shipped", "refunded"]
    assert life[-1].facts == ("goods_intact",)
    assert all(one.is_explained for one in life)
    triggers = [one.trigger for one in life if one.trigger]
    again = await office(STEP, id=name, replay=triggers, facts={"goods_intact": True})
    assert (again.current, again.stored_at) == ("refunded", None)
    short = await office(GET_PROCEDURE, id=name, limit=2)
    assert (short.life, short.is_cut) == (life[-2:], True)


async def test_what_was_not_a_step_is_shown_as_such(office: Office) -> None:
    """A state that somebody wrote by hand is no step, and a reason that looks like one is not believed."""
    name = await parcel(office)
    await office(UPDATE, id=name, content={**PARCEL, "current": "refunded"}, reasoning='step "label"')
    await office(UPDATE, id=name, content=PARCEL)
    life = (await office(GET_PROCEDURE, id=name)).life
    assert [(one.trigger, one.is_explained) for one in life] == [(None, True), ("label", False), (None, True)]


@requirement("memorywire:procedures.found")
async def test_procedures_are_found_by_what_they_do(office: Office) -> None:
    metadata = {"description": "how a customer sends something back"}
    name = (await office(REMEMBER, content={**PARCEL, "metadata": metadata}, type="procedural")).id
    for words in ("customer sends something back", "refunded", "ship labelled"):
        found = await office(RECALL, query=words, min_relevance="off")
        assert name in [hit.id for hit in found], words


async def test_a_read_of_a_procedure_is_journaled(office: Office) -> None:
    name = await parcel(office)
    await office(GET_PROCEDURE, id=name)
    await office(STEP, id=name)
    await office.container.memory.read_log.flush()
    assert [entry.records[0].id for entry in await office.entries("read")] == [name, name]


# -- faces -------------------------------------------------------------------------------------------------------------


async def test_over_http(office: Office) -> None:
    name = await parcel(office)
    transport = httpx.ASGITransport(http_app(office.container, is_open=True))
    async with httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1") as client:
        path = f"/v1/memories/{name}/step"
        key = {"Idempotency-Key": "one", "If-Match": '"1"'}
        done = await client.post(path, json={"trigger": "label"}, headers=key)
        assert (done.status_code, done.json()["current"], done.headers["etag"]) == (200, "labelled", '"2"')
        assert "quipu-seq" in done.headers
        again = await client.post(path, json={"trigger": "label"}, headers=key)
        assert (again.headers["idempotency-replayed"], again.json()["version"]) == ("true", 2)
        wrong = await client.post(path, json={"trigger": "refund"})
        assert (wrong.status_code, wrong.json()["reason"]) == (409, "invalid_trigger")
        assert wrong.json()["errors"][0]["accepted"] == "one of ship, drop"
        held = await client.post(path, json={"trigger": "ship", "approval_required": True})
        assert (held.status_code, held.json()["current"]) == (202, "labelled")
        shown = await client.get(f"/v1/memories/{name}/procedure")
        assert [one["trigger"] for one in shown.json()["life"]] == [None, "label"]
        for bad, status in (
            ({"trigger": 7}, 400),
            ({"trigger": "label", "now": True}, 400),
            ({"replay": "label"}, 400),
            ({"trigger": "x" * 200}, 413),
            ({"trigger": "__class__"}, 409),
        ):
            assert (await client.post(path, json=bad)).status_code == status, bad


async def test_from_python() -> None:
    async with Memory("ana", "sqlite://:memory:", embedder=WordEmbedder()) as memory:
        name = (await memory.remember(PARCEL, type="procedural")).id
        assert (await memory.step(name, trigger="label")).available_triggers == ("ship", "drop")
        shown = await memory.call("get_procedure", id=name)
        assert (shown.current, shown.facts, len(shown.life)) == ("labelled", ("goods_intact",), 2)


def test_from_python_that_does_not_wait() -> None:
    with sync.Memory("ana", "sqlite://:memory:", embedder="none") as memory:
        name = memory.remember(PARCEL, type="procedural").id
        assert memory.step(name, trigger="label").current == "labelled"


async def test_a_governance_object_decides_on_steps_too() -> None:
    class Agreeing:
        async def review(self, review: Any) -> dict[str, Any]:
            return {"approved": True}

    async with Memory("ana", ":memory:", embedder="none", governance=Agreeing()) as memory:
        name = (await memory.remember(PARCEL, type="procedural")).id
        await memory.step(name, trigger="label", approval_required=True)
        assert (await memory.step(name)).current == "labelled"


async def test_the_part_of_the_page_says_where_it_stands_and_steps(office: Office) -> None:
    name = await parcel(office)
    part, form = ProcedurePart(), [("id", name), ("once", "a")]
    done = await part.actions["step"](office.context(), Fields([*form, ("trigger", "label")]))
    assert done.said == "Now labelled."
    shown = await part.load(office.context(), Fields(form))
    assert (shown["standing"].current, shown["can_step"]) == ("labelled", True)
    assert shown["procedure"].machine["name"] == PARCEL["name"]
    with pytest.raises(NotFoundError):
        await part.load(office.context(), Fields([("id", "mem_none")]))


async def test_over_mcp(office: Office) -> None:
    name = await parcel(office)
    world = World(office.container, office.clock, "2026-07-28")
    async with world.client(world.caller(profile="admin")) as client:
        told = body(await client.call_tool("step", {"id": name}))
        assert (told["current"], "stored_at" in told) == ("asked", False)
        done = body(await client.call_tool("step", {"id": name, "trigger": "label"}))
        assert (done["current"], done["version"]) == ("labelled", 2)
        assert fault(await client.call_tool("step", {"id": name, "trigger": "refund"})) == "conflict"
        assert fault(await client.call_tool("step", {"id": name, "facts": {"a": "b"}})) == "validation_error"
    elsewhere = world.named(review_stores=("corner",))
    async with world.client(world.caller(elsewhere, profile="admin")) as client:
        assert fault(await client.call_tool("step", {"id": name, "trigger": "ship"})) == "not_found"


def test_the_page_of_the_docs_does_what_it_says(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("QUIPU_STORE", f"sqlite://{tmp_path / 'memory.db'}")
    monkeypatch.setenv("QUIPU_EMBEDDER", "none")
    page = Path(__file__).parents[2] / "docs" / "howto" / "procedures.md"
    (snippet,) = re.findall(r"```python\n(.+?)```", page.read_text("utf-8"), re.S)
    exec(compile(snippet, str(page), "exec"), {})  # noqa: S102  our own page
    assert capsys.readouterr().out == "refunded\n"
