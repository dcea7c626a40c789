"""Machines and triggers that do not fit, on every way in: a clear reason, a stable code, and nothing changed."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from typing import Any

import httpx
import pytest
from typer.testing import CliRunner

from quipu import Memory, sync
from quipu.cli.program import app
from quipu.errors import QuipuError
from tests.faces.mcp.hosts import fault, over_http
from tests.faces.web.conftest import Person
from tests.ledgers import altered, slip_in
from tests.procedures.machines import BAD, EVIL, PARCEL
from tests.procedures.test_attacks import AGENT, MW, Place, Q, place
from tests.requirement import requirement

__all__ = ["place"]

#: What is told: the reason, whatever the face.
Way = Callable[[Place, Any], str | None]


def reason(answer: httpx.Response) -> str | None:
    body = answer.json()
    assert body["code"] in ("validation_error", "conflict", "too_large"), answer.text
    return str(body["reason"])


def good(at: Place) -> str:
    """A procedure that is fine, in its second state."""
    name = str(at.api.post(f"{MW}/remember", json={**AGENT, "content": PARCEL}).json()["id"])
    assert at.api.post(f"{MW}/records/{name}/step", json={"trigger": "label"}).is_success
    return name


def standing(at: Place) -> dict[str, tuple[int, str]]:
    """Every procedure there is, with its version and all its words."""
    body = {"agent_id": "ana", "limit": 500, "states": ["live", "forgotten", "archived"]}
    found = at.api.post(f"{Q}/records/query", json=body).json()["records"]
    return {one["id"]: (one["version"], json.dumps(one["content"], sort_keys=True)) for one in found}


# -- ways in ------------------------------------------------------------------------------------------------------


def remember(at: Place, machine: Any) -> str | None:
    return reason(at.api.post(f"{MW}/remember", json={**AGENT, "content": machine}))


def as_text(at: Place, machine: Any) -> str | None:
    return reason(at.api.post(f"{MW}/remember", json={**AGENT, "content": json.dumps(machine)}))


def batch(at: Place, machine: Any) -> str | None:
    answer = at.api.post(f"{MW}/remember/batch", json={"items": [{**AGENT, "content": machine}]})
    return str(answer.json()["results"][0]["error"]["reason"])


def atomic_batch(at: Place, machine: Any) -> str | None:
    items = [{**AGENT, "content": PARCEL}, {**AGENT, "content": machine}]
    return reason(at.api.post(f"{MW}/remember/batch", json={"items": items, "atomic": True}))


def upserted(strategy: str) -> Way:
    def way(at: Place, machine: Any) -> str | None:
        body = {**AGENT, "content": machine, "id": at.ids["upsert"], "update_strategy": strategy}
        return reason(at.api.post(f"{MW}/remember", json=body))

    way.__name__ = f"upsert_{strategy}"
    return way


def approved_with_an_edit(at: Place, machine: Any) -> str | None:
    with at.reviewer as reviewer:
        path = f"{MW}/proposals/{at.ids['held']}/decision"
        return reason(reviewer.post(path, json={"approved": True, "edit": {"content": machine}}))


def imported(at: Place, machine: Any) -> str | None:
    line = json.dumps({**AGENT, "content": machine})
    answer = at.api.post(f"{MW}/import", content=line, headers={"Content-Type": "application/x-ndjson"})
    return _told_by(answer.text)


def over_mcp(at: Place, machine: Any) -> str | None:
    async def call() -> str:
        async with over_http(at.server) as client:
            done = await client.call_tool("remember", {**AGENT, "content": json.dumps(machine)})
            assert "content" in json.dumps(done.model_dump(mode="json")), "where it is wrong is told"
            return fault(done)

    return asyncio.run(call())


def by_command(at: Place, machine: Any) -> str | None:
    done = _command(at, ["remember", "-", "--type", "procedural"], json.dumps(machine))
    return str(json.loads(done)["reason"])


def by_client(at: Place, machine: Any) -> str | None:
    with (
        sync.connect(at.server.url, token=at.server.admin_token, agent_id="ana") as memory,
        pytest.raises(QuipuError) as refused,
    ):
        memory.remember(machine, type="procedural")
    return refused.value.reason


def in_process(_: Place, machine: Any) -> str | None:
    async def call() -> str | None:
        async with Memory("ana", "sqlite://:memory:", embedder="none") as memory:
            with pytest.raises(QuipuError) as refused:
                await memory.remember(machine, type="procedural")
            assert (await memory.list()).records == ()
            return refused.value.reason

    return asyncio.run(call())


def _told_by(text: str) -> str | None:
    return next((name for name in ("invalid_procedure", "too_large") if name in text), None)


def _command(at: Place, words: list[str], given: str | None = None) -> str:
    token = at.store.with_name("token")
    token.write_text(at.server.admin_token, "utf-8")
    where = ["--agent", "ana", "--server", at.server.url, "--token-file", str(token), "--json"]
    done = CliRunner().invoke(app, [*words, *where], input=given)
    assert done.exit_code == 1, done.output
    return done.stderr


WAYS: list[Way] = [
    remember, as_text, batch, atomic_batch, upserted("overwrite"), upserted("merge"), upserted("append"),
    approved_with_an_edit, imported, over_mcp, by_command, by_client, in_process,
]  # fmt: skip


@requirement("memorywire:procedures.refused")
@pytest.mark.parametrize("way", WAYS, ids=[way.__name__ for way in WAYS])
def test_what_is_no_machine_is_refused_with_its_reason_and_changes_nothing(place: Place, way: Way) -> None:
    place.ids.setdefault("upsert", good(place))
    place.ids.setdefault("held", place.held())
    before = standing(place)
    told = {name: way(place, machine) for name, (machine, _) in BAD.items()}
    # Over MCP there are codes and no reasons.
    is_coded = way is over_mcp
    assert told == {name: "validation_error" if is_coded else expected for name, (_, expected) in BAD.items()}
    for name in ("before", "dotted condition", "callback on a state", "on_exception of the machine"):
        assert way(place, EVIL[name]) == ("validation_error" if is_coded else "invalid_procedure")
    assert standing(place) == before


def test_odd_machines_are_fine_and_told_of(place: Place) -> None:
    """States that cannot be reached, loops, and guards that are called like triggers, states and one another."""
    ways = [
        {"trigger": "go", "source": "a", "dest": "b", "conditions": ["go", "a"], "unless": "b"},
        {"trigger": "go", "source": "b", "dest": "a", "conditions": "go"},
        {"trigger": "stay", "source": "*", "dest": "a"},
    ]
    machine = {"name": "odd", "initial": "a", "states": ["a", "b", "lost"], "transitions": ways}
    name = place.api.post(f"{MW}/remember", json={**AGENT, "content": machine}).json()["id"]
    assert place.api.get(f"{Q}/records/{name}/procedure").json()["unreachable"] == ["lost"]
    path = f"{MW}/records/{name}/step"
    assert reason(place.api.post(path, json={"trigger": "go"})) == "invalid_trigger"
    done = place.api.post(path, json={"trigger": "go", "facts": {"go": True, "a": True}})
    assert done.json()["current"] == "b"


# -- steps --------------------------------------------------------------------------------------------------------


def step_over_rest(at: Place, name: str, trigger: str) -> str | None:
    return reason(at.api.post(f"{MW}/records/{name}/step", json={"trigger": trigger}))


def replay_over_rest(at: Place, name: str, trigger: str) -> str | None:
    body = {"replay": [trigger], "persist": True}
    return reason(at.api.post(f"{MW}/records/{name}/step", json=body))


def step_over_mcp(at: Place, name: str, trigger: str) -> str | None:
    async def call() -> str:
        async with over_http(at.server, path="/mcp?profile=admin") as client:
            return fault(await client.call_tool("step", {"id": name, "trigger": trigger}))

    return asyncio.run(call())


def step_by_command(at: Place, name: str, trigger: str) -> str | None:
    return str(json.loads(_command(at, ["procedure", "step", name, trigger]))["reason"])


def step_by_client(at: Place, name: str, trigger: str) -> str | None:
    with (
        sync.connect(at.server.url, token=at.server.admin_token, agent_id="ana") as memory,
        pytest.raises(QuipuError) as refused,
    ):
        memory.step(name, trigger)
    return refused.value.reason


def step_on_the_page(at: Place, name: str, trigger: str) -> str | None:
    with Person(at.server.url) as person:
        assert person.sign_in(at.server.admin_token).status_code == 303
        answer = person.send(f"/memories/{name}/step", trigger=trigger, version="2")
        shown = answer.text + person.client.get(f"/memories/{name}/procedure").text
    if "not a valid machine" in shown:
        return "invalid_procedure"
    return "invalid_trigger" if "This trigger does nothing in the current state." in shown else None


STEPS = [
    step_over_rest, replay_over_rest, step_over_mcp, step_by_command, step_by_client, step_on_the_page,
]  # fmt: skip


@pytest.mark.parametrize("take", STEPS, ids=[take.__name__ for take in STEPS])
def test_a_trigger_of_another_state_is_refused_and_nothing_moves(
    place: Place, take: Callable[[Place, str, str], str | None]
) -> None:
    name = good(place)
    before = standing(place)
    for trigger in ("refund", "no such trigger", "__class__", "to_shipped"):
        assert take(place, name, trigger) == ("conflict" if take is step_over_mcp else "invalid_trigger")
    assert standing(place) == before


@requirement("memorywire:procedures.no-code")
@pytest.mark.parametrize("take", STEPS, ids=[take.__name__ for take in STEPS])
def test_code_that_got_in_behind_everybodys_back_is_not_stepped(
    place: Place, take: Callable[[Place, str, str], str | None]
) -> None:
    """An old file, a broken importer, somebody with the database: a step asks again what it steps."""
    name, expected = good(place), "conflict" if take is step_over_mcp else "invalid_procedure"
    for machine in (EVIL["before"], EVIL["dotted condition"], EVIL["on_exception of the machine"]):
        text = json.dumps({**machine, "current": "asked"})
        slip_in(f"sqlite://{place.store}", name, text, 2)
        assert take(place, name, "go") == expected
    slip_in(f"sqlite://{place.store}", name, "no json", 2)
    assert take(place, name, "label") == expected
    place.api.post(f"{MW}/forget", json={"agent_id": "ana", "ids": [name], "hard_delete": True})


@requirement("memorywire:procedures.refused")
def test_what_would_be_refused_now_is_not_restored(place: Place) -> None:
    name = good(place)
    place.api.post(f"{MW}/forget", json={"agent_id": "ana", "ids": [name]})
    slip_in(f"sqlite://{place.store}", name, json.dumps(EVIL["after"]), 2)
    assert reason(place.api.post(f"{MW}/records/{name}/restore")) == "invalid_procedure"
    assert place.api.get(f"{Q}/records/{name}/procedure").status_code == 404
    place.api.post(f"{MW}/forget", json={"agent_id": "ana", "ids": [name], "hard_delete": True})


@requirement("memorywire:procedures.refused")
def test_what_would_be_refused_now_is_not_approved(place: Place) -> None:
    """A proposal that was tampered with while it waited is not even looked at."""
    waiting = place.held()
    evil = json.dumps(EVIL["prepare"])
    statement = "UPDATE proposal SET request = json_set(request, '$.content', json({})) WHERE id = {}"
    assert altered(f"sqlite://{place.store}", statement, evil, waiting) == 1
    before = standing(place)
    with place.reviewer as reviewer:
        answer = reviewer.post(f"{MW}/proposals/{waiting}/decision", json={"approved": True})
    assert reason(answer) == "altered_proposal"
    assert standing(place) == before
