"""Machines that would run code, and machines that are none: refused on every way in, with nothing kept."""

import json
import os
from collections.abc import Awaitable, Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import apsw
import pytest

from quipu.errors import QuipuError
from quipu.governance.operations import DECIDE
from quipu.memory.operations import FORGET, GET, LIST, REMEMBER, REMEMBER_MANY, RESTORE, UPDATE
from quipu.model.principal import local
from quipu.procedures.operations import GET_PROCEDURE, STEP
from tests.governance.office import Office
from tests.procedures.machines import BAD, EVIL, PARCEL
from tests.requirement import requirement

REVIEWER = replace(local(agent_id="agent"), name="carla", is_local=False)
Way = Callable[[Office, str, Any], Awaitable[str | None]]


async def good(office: Office, **fields: Any) -> str:
    """A procedure that is fine, in its second state."""
    made = await office(REMEMBER, content=PARCEL, type="procedural", **fields)
    if not made.is_held:
        await office(STEP, id=made.id, trigger="label")
    return made.id


async def refused(call: Awaitable[Any]) -> str | None:
    with pytest.raises(QuipuError) as error:
        await call
    return error.value.reason


async def remember(office: Office, _: str, machine: Any) -> str | None:
    return await refused(office(REMEMBER, content=machine, type="procedural"))


async def remember_text(office: Office, _: str, machine: Any) -> str | None:
    return await refused(office(REMEMBER, content=json.dumps(machine), type="procedural"))


async def remember_held(office: Office, _: str, machine: Any) -> str | None:
    return await refused(office(REMEMBER, content=machine, type="procedural", approval_required=True))


async def batch(office: Office, _: str, machine: Any) -> str | None:
    done = await office(REMEMBER_MANY, items=[{"content": machine, "type": "procedural"}])
    return done.results[0].error.reason


async def atomic_batch(office: Office, _: str, machine: Any) -> str | None:
    items = [{"content": one, "type": "procedural"} for one in (PARCEL, machine)]
    return await refused(office(REMEMBER_MANY, items=items, atomic=True))


async def update(office: Office, name: str, machine: Any) -> str | None:
    return await refused(office(UPDATE, id=name, content=machine))


async def overwrite(office: Office, name: str, machine: Any) -> str | None:
    return await refused(office(UPDATE, id=name, content=json.dumps(machine), update_strategy="overwrite"))


async def edit_at_approval(office: Office, _: str, machine: Any) -> str | None:
    held = await office(REMEMBER, content=PARCEL, type="procedural", approval_required=True)
    return await refused(
        office(DECIDE, REVIEWER, id=held.proposal_id, approved=True, edit={"content": json.dumps(machine)})
    )


WAYS: list[Way] = [
    remember,
    remember_text,
    remember_held,
    batch,
    atomic_batch,
    update,
    overwrite,
    edit_at_approval,
]


async def standing(office: Office) -> dict[str, tuple[int, str]]:
    found = await office(LIST, limit=500, states=["live", "forgotten", "archived"])
    return {one.id: (one.version, json.dumps(one.content)) for one in found.records}


@requirement("memorywire:procedures.no-code")
@pytest.mark.parametrize("way", WAYS, ids=[way.__name__ for way in WAYS])
async def test_no_way_in_takes_what_names_code_or_is_no_machine(
    office: Office, way: Way, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    name = await good(office)
    before = await standing(office)
    for label, machine in EVIL.items():
        assert await way(office, name, machine) == "invalid_procedure", label
    for label, (machine, reason) in BAD.items():
        assert await way(office, name, machine) == reason, label
    assert await standing(office) == before
    assert os.listdir() == []  # what the machines name would have left something here


# -- behind everybody's back --------------------------------------------------------------------------------------------


def slip_in(folder: Path, name: str, content: str) -> None:
    """Somebody who has the database writes into the newest version of a record."""
    database = apsw.Connection(str(folder / "memory.db"))
    newest = "version = (SELECT max(version) FROM record WHERE id = ?1)"
    database.execute(f"UPDATE record SET content = ?2 WHERE id = ?1 AND {newest}", (name, content))  # noqa: S608  ours
    assert database.changes() == 1
    database.close()


@requirement("memorywire:procedures.refused")
async def test_what_slipped_in_is_neither_stepped_nor_shown_nor_restored(
    filed: Office, tmp_path: Path
) -> None:
    """An old file, a broken importer, somebody with the database: whoever uses a machine asks again what it is."""
    name = await good(filed)
    for label in ("before", "dotted condition", "on_exception of the machine", "no machine"):
        evil = "no json" if label == "no machine" else json.dumps({**EVIL[label], "current": "asked"})
        slip_in(tmp_path, name, evil)
        for asked in ({"trigger": "go"}, {"replay": ["go"], "persist": True}, {}):
            assert await refused(filed(STEP, id=name, **asked)) == "invalid_procedure", label
        assert await refused(filed(GET_PROCEDURE, id=name)) == "invalid_procedure"
    await filed(FORGET, ids=[name])
    assert await refused(filed(RESTORE, id=name)) == "invalid_procedure"
    assert await refused(filed(GET, id=name)) == "record"


async def test_what_would_be_refused_now_is_not_approved(filed: Office, tmp_path: Path) -> None:
    """A proposal that was tampered with while it waited is not even looked at."""
    held = await filed(REMEMBER, content=PARCEL, type="procedural", approval_required=True)
    database = apsw.Connection(str(tmp_path / "memory.db"))
    evil = json.dumps(EVIL["prepare"])
    database.execute("UPDATE proposal SET request = json_set(request, '$.content', json(?))", (evil,))
    database.close()
    assert await refused(filed(DECIDE, REVIEWER, id=held.proposal_id, approved=True)) == "altered_proposal"
    assert await standing(filed) == {}


async def test_a_trigger_of_another_state_is_refused_and_nothing_moves(office: Office) -> None:
    name = await good(office)
    before = await standing(office)
    for trigger in ("refund", "no such trigger", "__class__", "to_shipped"):
        assert await refused(office(STEP, id=name, trigger=trigger)) == "invalid_trigger"
        assert await refused(office(STEP, id=name, replay=[trigger], persist=True)) == "invalid_trigger"
    assert await standing(office) == before
