"""Procedures step over REST, Python, MCP and the page: the same machine, the same answers, one life."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from typing import Any

import httpx
import pytest
from jsonschema import Draft202012Validator

from quipu import Memory, connect, sync
from quipu.errors import ConflictError
from quipu.faces.memorywire import openapi_step
from quipu.testing.embedders import WordEmbedder
from tests.faces.mcp.hosts import body, fault, over_http
from tests.faces.serving import Served, served
from tests.faces.web.conftest import Person
from tests.procedures.machines import PARCEL
from tests.requirement import requirement

MW, Q = "/memorywire/v0", "/quipu/v1"


@pytest.fixture(scope="module")
def server() -> Iterator[Served]:
    with served(embedder=WordEmbedder(), rate_per_minute=0, recall_budget=0) as running:
        yield running


@pytest.fixture
def api(server: Served) -> Iterator[httpx.Client]:
    with server.client() as client:
        yield client


@pytest.fixture
async def remote(server: Served) -> AsyncIterator[Memory]:
    async with connect(server.url, token=server.admin_token, agent_id="ana") as memory:
        yield memory


@pytest.fixture
def parcel(api: httpx.Client) -> str:
    """A new procedure."""
    content = {**PARCEL, "metadata": {"description": "how a customer sends something back"}}
    given = {"agent_id": "ana", "type": "procedural", "content": content}
    return str(api.post(f"{MW}/remember", json=given).json()["id"])


def step(api: httpx.Client, name: str, trigger: str | None = None, **given: Any) -> httpx.Response:
    headers = given.pop("headers", {})
    words = given if trigger is None else {"trigger": trigger, **given}
    return api.post(f"{MW}/records/{name}/step", json=words, headers=headers)


# -- REST ---------------------------------------------------------------------------------------------------------


@requirement("memorywire:procedures.step")
def test_the_answer_is_closed_and_true_to_its_description(api: httpx.Client, parcel: str) -> None:
    answer = step(api, parcel, "label")
    assert answer.status_code == 200
    Draft202012Validator(openapi_step._REPLY).validate(answer.json())
    assert set(answer.json()) == {
        *("id", "version", "stored_at", "current", "available_triggers", "pending_approval", "approval_url")
    }
    assert (answer.json()["current"], answer.json()["version"]) == ("labelled", 2)
    assert answer.headers["etag"] == '"2"'
    assert "quipu-seq" in answer.headers


def test_a_wrong_trigger_names_the_right_ones_and_changes_nothing(api: httpx.Client, parcel: str) -> None:
    answer = step(api, parcel, "refund")
    assert answer.status_code == 409
    told = answer.json()
    assert (told["reason"], told["available_triggers"]) == ("invalid_trigger", ["label", "drop"])
    assert api.get(f"{Q}/records/{parcel}/procedure").json()["version"] == 1


def test_facts_open_guards_and_only_booleans_are_facts(api: httpx.Client, parcel: str) -> None:
    for trigger in ("label", "ship"):
        assert step(api, parcel, trigger).is_success
    assert step(api, parcel, "refund").json()["reason"] == "invalid_trigger"
    for bad in ({"goods_intact": "yes"}, {"goods_intact": 1}, ["goods_intact"]):
        assert step(api, parcel, "refund", facts=bad).status_code == 400
    assert step(api, parcel, "refund", facts={"goods_intact": True}).json()["current"] == "refunded"


def test_bad_steps_are_refused_clearly(api: httpx.Client, parcel: str) -> None:
    for given, status in (
        ({}, 400),
        ({"trigger": 7}, 400),
        ({"trigger": "label", "now": True}, 400),
        ({"replay": "label"}, 400),
        ({"trigger": "label", "facts": {f"f{n}": True for n in range(300)}}, 413),
        ({"trigger": "x" * 10_000}, 409),
        ({"trigger": "__class__"}, 409),
        ({"replay": ["label"] * 3}, 409),
    ):
        answer = api.post(f"{MW}/records/{parcel}/step", json=given)
        assert answer.status_code == status, (given, answer.text)
    assert api.post(f"{MW}/records/mem_none/step", json={"trigger": "x"}).status_code == 404
    assert api.get(f"{Q}/records/{parcel}/procedure").json()["version"] == 1


def test_if_match_guards_a_step(api: httpx.Client, parcel: str) -> None:
    assert step(api, parcel, "label", headers={"If-Match": '"2"'}).json()["reason"] == "version_mismatch"
    assert step(api, parcel, "label", headers={"If-Match": '"1"'}).is_success


def test_the_same_key_takes_a_step_once_even_after_it_has_moved_on(api: httpx.Client, parcel: str) -> None:
    key = {"headers": {"Idempotency-Key": f"step-{parcel}"}}
    first = step(api, parcel, "label", **key)
    assert step(api, parcel, "ship").is_success
    again = step(api, parcel, "label", **key)
    assert again.headers.get("idempotency-replayed") == "true"
    assert again.json() == first.json()
    assert api.get(f"{Q}/records/{parcel}/procedure").json()["version"] == 3
    other = step(api, parcel, "drop", **key)
    assert (other.status_code, other.json()["reason"]) == (409, "idempotency_key_mismatch")


def test_a_held_step_waits_and_is_taken_with_a_yes(api: httpx.Client, server: Served, parcel: str) -> None:
    held = step(api, parcel, "label", approval_required=True, extensions=True)
    assert held.status_code == 202
    assert (held.json()["current"], held.json()["version"]) == ("asked", 1)
    name = held.json()["extensions"]["quipu"]["proposal_id"]
    assert held.json()["approval_url"].endswith(f"/review/{name}")
    issued = api.post(f"{Q}/tokens", json={"name": f"reviewer {name}", "roles": ["admin"]}).json()
    with server.client(issued["text"]) as reviewer:
        assert reviewer.post(f"{MW}/proposals/{name}/decision", json={"approved": True}).is_success
    shown = api.get(f"{Q}/records/{parcel}/procedure").json()
    assert (shown["current"], shown["life"][-1]["trigger"]) == ("labelled", "label")


@requirement("memorywire:procedures.life")
def test_the_life_of_a_procedure_can_be_replayed(api: httpx.Client, parcel: str) -> None:
    for trigger in ("label", "ship"):
        step(api, parcel, trigger)
    step(api, parcel, "refund", facts={"goods_intact": True, "of_no_matter": True})
    shown = api.get(f"{Q}/records/{parcel}/procedure").json()
    life = shown["life"]
    assert [one.get("trigger") for one in life] == [None, "label", "ship", "refund"]
    assert [one["current"] for one in life] == ["asked", "labelled", "shipped", "refunded"]
    assert life[-1]["facts"] == ["goods_intact"]
    assert all(one["is_explained"] for one in life)
    triggers = [one["trigger"] for one in life if one.get("trigger")]
    again = step(api, parcel, replay=triggers, facts={"goods_intact": True}).json()
    assert (again["current"], again["stored_at"]) == ("refunded", None)


def test_what_was_not_a_step_is_told_as_such(api: httpx.Client, parcel: str) -> None:
    """A state that somebody wrote by hand is no step, and a reason that looks like one is not believed."""
    body = {
        "agent_id": "ana",
        "type": "procedural",
        "id": parcel,
        "content": {**PARCEL, "current": "refunded"},
    }
    api.post(f"{MW}/remember", json={**body, "reasoning": 'step "label"'})
    api.post(f"{MW}/remember", json={**body, "content": PARCEL})
    life = api.get(f"{Q}/records/{parcel}/procedure").json()["life"]
    assert [(one.get("trigger"), one["is_explained"]) for one in life] == [
        (None, True),
        ("label", False),
        (None, True),
    ]


@requirement("memorywire:procedures.found")
def test_procedures_are_found_by_what_they_do(api: httpx.Client, parcel: str) -> None:
    for words in ("customer sends something back", "refunded", "ship labelled"):
        found = api.post(f"{MW}/recall", json={"agent_id": "ana", "query": words, "k": 50}).json()
        assert parcel in [hit["id"] for hit in found["results"]], words


# -- Python -------------------------------------------------------------------------------------------------------


async def test_python_steps_here_and_on_a_server_alike(remote: Memory) -> None:
    async with Memory("ana", "sqlite://:memory:", embedder=WordEmbedder()) as here:
        for memory in (here, remote):
            name = (await memory.remember(PARCEL, type="procedural")).id
            done = await memory.step(name, "label")
            assert (done.current, done.version, done.available_triggers) == ("labelled", 2, ("ship", "drop"))
            with pytest.raises(ConflictError) as refused:
                await memory.step(name, "label")
            assert refused.value.available_triggers is not None
            assert list(refused.value.available_triggers) == ["ship", "drop"]
            tried = await memory.step(name, replay=["label", "ship"])
            assert (tried.current, tried.stored_at) == ("shipped", None)
            shown = await memory.procedure(name)
            assert (shown.current, shown.facts, len(shown.life)) == ("labelled", ("goods_intact",), 2)


async def test_of_many_steps_at_once_each_is_taken_in_order(remote: Memory) -> None:
    loop = {
        "name": "counter",
        "initial": "a",
        "states": ["a", "b"],
        "transitions": [
            {"trigger": "next", "source": "a", "dest": "b"},
            {"trigger": "next", "source": "b", "dest": "a"},
        ],
    }
    name = (await remote.remember(loop, type="procedural")).id
    done = await asyncio.gather(*(remote.step(name, "next") for _ in range(8)), return_exceptions=True)
    won = [one for one in done if not isinstance(one, BaseException)]
    lost = [one.reason for one in done if isinstance(one, ConflictError)]
    assert len(won) + len(lost) == 8
    assert set(lost) <= {"version_mismatch"}
    life = (await remote.procedure(name)).life
    assert len(life) == 1 + len(won)
    assert [one.current for one in life] == [("a", "b")[place % 2] for place in range(len(life))]


def test_code_that_cannot_await_steps_too() -> None:
    with sync.Memory("ana", "sqlite://:memory:", embedder="none") as memory:
        name = memory.remember(PARCEL, type="procedural").id
        assert memory.step(name, "label").current == "labelled"
        assert memory.procedure(name).life[-1].trigger == "label"


# -- MCP ----------------------------------------------------------------------------------------------------------


async def test_the_mcp_tool_steps_tries_and_tells(server: Served, parcel: str) -> None:
    async with over_http(server, path="/mcp?profile=admin") as client:
        schema = {tool.name: tool.output_schema for tool in (await client.list_tools()).tools}["step"]
        told = body(await client.call_tool("step", {"id": parcel}))
        assert (told["current"], told["stored_at"]) == ("asked", None)
        tried = body(await client.call_tool("step", {"id": parcel, "trigger": "label", "persist": False}))
        assert (tried["current"], tried["version"]) == ("labelled", 1)
        done = body(await client.call_tool("step", {"id": parcel, "trigger": "label"}))
        assert (done["current"], done["version"]) == ("labelled", 2)
        for answer in (told, tried, done):
            Draft202012Validator(schema or {}).validate(answer)
        assert fault(await client.call_tool("step", {"id": parcel, "trigger": "refund"})) == "conflict"
        for bad in ({"trigger": 1}, {"facts": {"a": "b"}}, {"facts": [1]}, {"persist": "x"}, {"more": 1}):
            assert fault(await client.call_tool("step", {"id": parcel, **bad})) == "validation_error"


async def test_a_pinned_store_hides_procedures_of_others(server: Served, remote: Memory, parcel: str) -> None:
    await remote.create_store("corner")
    async with over_http(server, path="/mcp/corner?profile=admin") as client:
        assert fault(await client.call_tool("step", {"id": parcel})) == "not_found"
        assert fault(await client.call_tool("step", {"id": parcel, "trigger": "label"})) == "not_found"
    assert (await remote.procedure(parcel)).version == 1


# -- the page -----------------------------------------------------------------------------------------------------


@pytest.fixture
def person(server: Served) -> Iterator[Person]:
    with Person(server.url) as somebody:
        assert somebody.sign_in(server.admin_token).status_code == 303
        yield somebody


def test_the_page_draws_the_machine_and_steps_without_a_script(person: Person, parcel: str) -> None:
    assert f"/memories/{parcel}/procedure" in person.get(f"/memories/{parcel}").text
    shown = person.get(f"/memories/{parcel}/procedure").text
    assert '<svg class="drawing"' in shown
    assert 'class="state-box is-current"><title>asked</title>' in shown
    assert 'name="trigger" value="label"' in shown
    assert 'name="trigger" value="ship"' not in shown
    answer = person.send(f"/memories/{parcel}/step", trigger="label", version="1")
    assert answer.status_code == 303
    shown = person.get(f"/memories/{parcel}/procedure").text
    assert "It is now in the state labelled." in shown
    assert 'class="state-box is-current"><title>labelled</title>' in shown
    person.send(f"/memories/{parcel}/step", trigger="ship", version="2")
    person.send(f"/memories/{parcel}/step", trigger="refund", version="3")
    assert "No guard lets this trigger pass." in person.get(f"/memories/{parcel}/procedure").text
    person.send(
        f"/memories/{parcel}/step", **{"trigger": "refund", "version": "3", "fact.goods_intact": "on"}
    )
    assert "now in the state refunded" in person.get(f"/memories/{parcel}/procedure").text


def test_the_page_refuses_old_and_foreign_forms(person: Person, api: httpx.Client, parcel: str) -> None:
    assert step(api, parcel, "label").is_success
    person.send(f"/memories/{parcel}/step", trigger="drop", version="1")
    assert "Nothing was changed" in person.get(f"/memories/{parcel}/procedure").text
    path = f"/memories/{parcel}/step"
    for fields, headers in (
        ({"trigger": "drop"}, {}),
        ({"trigger": "drop", "csrf": "x" * 43}, {}),
        ({"trigger": "drop", "csrf": person.secret()}, {"Origin": "https://evil.example"}),
        ({"trigger": "drop", "csrf": person.secret()}, {"Sec-Fetch-Site": "cross-site"}),
    ):
        assert person.client.post(path, data=fields, headers=headers).status_code == 403
    assert api.get(f"{Q}/records/{parcel}/procedure").json()["current"] == "labelled"


def test_hostile_names_are_shown_as_text(person: Person, api: httpx.Client) -> None:
    evil = '"><script>alert(1)</script>'
    machine = {
        "name": evil,
        "initial": evil,
        "states": [evil, "b"],
        "transitions": [{"trigger": evil, "source": evil, "dest": "b"}],
    }
    given = {"agent_id": "ana", "type": "procedural", "content": machine}
    name = api.post(f"{MW}/remember", json=given).json()["id"]
    shown = person.get(f"/memories/{name}/procedure").text
    assert "<script>alert" not in shown
    assert person.send(f"/memories/{name}/step", trigger=evil, version="1").status_code == 303
    assert api.get(f"{Q}/records/{name}/procedure").json()["current"] == "b"


def test_who_may_not_write_sees_no_buttons(server: Served, api: httpx.Client, parcel: str) -> None:
    issued = api.post(f"{Q}/tokens", json={"name": f"reader {parcel}", "permissions": ["memory:read"]}).json()
    with Person(server.url) as reader:
        assert reader.sign_in(issued["text"]).status_code == 303
        shown = reader.get(f"/memories/{parcel}/procedure").text
        assert "<svg" in shown
        assert 'name="trigger"' not in shown
        assert reader.client.get("/memories/mem_none/procedure").status_code == 404
