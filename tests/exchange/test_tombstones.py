"""What an owner has forgotten or changed since goes on to where their memories were brought before."""

from __future__ import annotations

import io
import json
import zipfile
from typing import Any

import pytest

from quipu.errors import QuipuError
from quipu.model.principal import Permission, Principal
from quipu.testing.builders import FixedClock
from tests.exchange.conftest import ADMIN, REVIEWER, Host, Hosted
from tests.requirement import requirement

OWNER = "did:web:user.example"
FILES = ("items.jsonl", "relations.jsonl", "tombstones.jsonl")
GARDENER = Principal(
    tenant="default",
    name="gardener",
    permissions=frozenset({Permission.READ, Permission.WRITE, Permission.DELETE}),
)


def parts(data: bytes) -> dict[str, bytes]:
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        return {name: archive.read(name) for name in FILES}


def stones(data: bytes) -> list[dict[str, Any]]:
    return [json.loads(line) for line in parts(data)["tombstones.jsonl"].splitlines()]


async def texts(host: Host) -> set[str]:
    return {str(record["content"]) for record in await host.contents()}


class Pair:
    """Two hosts; what the first has goes to the second."""

    def __init__(self, one: Host, other: Host, clock: FixedClock) -> None:
        self.one, self.other, self.clock = one, other, clock

    async def send(self, who: Principal = ADMIN, **given: Any) -> Any:
        self.clock.move(1000)
        data, _ = await self.one.out(owner=OWNER, **given)
        return await self.other.into(data, who, keys=await self.one.keys())

    async def both(self) -> tuple[dict[str, bytes], dict[str, bytes]]:
        return parts((await self.one.out(owner=OWNER))[0]), parts((await self.other.out(owner=OWNER))[0])


@pytest.fixture
async def pair(hosted: Hosted, clock: FixedClock) -> Pair:
    return Pair(await hosted(), await hosted(), clock)


@requirement("moving:import.tombstones")
@pytest.mark.parametrize("hard", [False, True])
async def test_what_was_forgotten_there_is_forgotten_here_too(pair: Pair, hard: bool) -> None:
    gone = await pair.one.memory.remember("Mara likes tea")
    await pair.one.memory.remember("Mara likes jam")
    await pair.send()
    await pair.one.memory.forget(ids=[gone.id], hard_delete=hard)
    pair.clock.move(1000)
    data, _ = await pair.one.out(owner=OWNER)
    assert b"tea" not in data
    tried = await pair.other.tried(data, keys=await pair.one.keys())
    assert (tried.removed, tried.removals_waiting, tried.kept) == (1, 0, 0)
    assert await texts(pair.other) == {"Mara likes tea", "Mara likes jam"}, "a trial takes nothing away"
    done = await pair.other.service.importing.committed(ADMIN, tried.import_id)
    assert (done.removed, done.accepted, done.duplicate) == (1, 0, 1)
    assert await texts(pair.other) == {"Mara likes jam"}
    again = await pair.other.into(data, keys=await pair.one.keys())
    assert (again.removed, again.kept) == (0, 0)
    assert (await pair.other.memory.verify()).holds


@requirement("moving:import.rollback")
async def test_undoing_the_import_brings_back_what_it_took_and_never_what_was_erased(pair: Pair) -> None:
    first = await pair.one.memory.remember("Mara likes tea", tags=["food"])
    second = await pair.one.memory.remember("Mara likes jam")
    await pair.send()
    before = await pair.other.contents()
    await pair.one.memory.forget(ids=[first.id, second.id])
    report = await pair.send()
    assert report.removed == 2
    await pair.other.memory.forget(ids=[second.id], hard_delete=True)
    tried = await pair.other.memory.roll_back_import(report.import_id, dry_run=True)
    assert (tried.restored, await texts(pair.other)) == (1, set())
    undone = await pair.other.memory.roll_back_import(report.import_id)
    assert (undone.restored, undone.forgotten, undone.kept) == (1, 0, ())
    (back,) = await pair.other.contents()
    (was,) = [one for one in before if one["id"] == first.id]
    assert {**back, "version": 1} == was
    found = await pair.other.memory.recall("tea")
    assert [hit.id for hit in found.results] == [first.id], "it is found again"
    assert next(one for one in await pair.other.memory.imports()).is_rolled_back
    assert (await pair.other.memory.verify()).holds


@requirement("moving:import.tombstones")
async def test_only_what_came_from_there_and_was_not_changed_here_goes(pair: Pair, hosted: Hosted) -> None:
    changed = await pair.one.memory.remember("Mara likes tea")
    native = await pair.one.memory.remember("Mara likes jam")
    await pair.send()
    await pair.other.memory.remember("Mara likes green tea", id=changed.id)
    third = Pair(pair.one, await hosted(), pair.clock)
    await third.other.memory.import_records([{"id": native.id, "content": "Mine"}])
    await pair.one.memory.forget(ids=[changed.id, native.id])
    report = await pair.send()
    assert (report.removed, report.kept) == (1, 1)
    assert await texts(pair.other) == {"Mara likes green tea"}
    report = await third.send()
    assert (report.removed, report.kept) == (0, 1)
    assert await texts(third.other) == {"Mine"}


@requirement("moving:import.tombstones")
async def test_another_owner_s_tombstones_reach_nothing(pair: Pair, hosted: Hosted) -> None:
    gone = await pair.one.memory.remember("Mara likes tea")
    await pair.send()
    await pair.one.memory.forget(ids=[gone.id])
    pair.clock.move(1000)
    keys = await pair.one.keys()
    for given in ({"owner": "did:web:somebody.else"}, {"owner": OWNER}):
        data, _ = await pair.one.out(**given)
        if given["owner"] == OWNER:  # signed by a key that nobody knows here
            report = await pair.other.into(data, foreign_owner=True)
            assert [one.count for one in report.loss.dropped if one.field == "tombstones"] == [1]
        else:
            report = await pair.other.into(data, keys=keys)
            assert report.kept == 1
        assert report.removed == 0
        assert await texts(pair.other) == {"Mara likes tea"}


@requirement("moving:import.tombstones")
async def test_who_is_no_admin_has_a_person_look_first(pair: Pair) -> None:
    gone = await pair.one.memory.remember("Mara likes tea")
    await pair.send()
    await pair.one.memory.forget(ids=[gone.id])
    report = await pair.send(GARDENER)
    assert (report.removed, report.removals_waiting) == (0, 1)
    assert await texts(pair.other) == {"Mara likes tea"}
    assert (await pair.other.service.imports.list(ADMIN))[0].waiting == 1
    decided = await pair.other.service.imports.decide(REVIEWER, report.import_id, approved=True)
    assert decided.decided == 1
    assert await texts(pair.other) == set()
    undone = await pair.other.memory.roll_back_import(report.import_id)
    assert undone.restored == 1


@requirement("moving:import.tombstones")
async def test_a_deletion_that_waits_is_withdrawn_with_its_import(pair: Pair) -> None:
    gone = await pair.one.memory.remember("Mara likes tea")
    await pair.send()
    await pair.one.memory.forget(ids=[gone.id])
    report = await pair.send(GARDENER)
    data, _ = await pair.one.out(owner=OWNER)
    undone = await pair.other.memory.roll_back_import(report.import_id)
    assert undone.withdrawn == 1
    assert await pair.other.memory.proposals() == ()
    assert await texts(pair.other) == {"Mara likes tea"}
    with pytest.raises(QuipuError):
        await pair.other.service.imports.decide(REVIEWER, report.import_id, approved=True)
    assert data


@requirement("moving:import.tombstones")
async def test_a_tombstone_of_what_never_came_keeps_an_older_file_out(pair: Pair) -> None:
    gone = await pair.one.memory.remember("Mara likes tea")
    await pair.one.memory.remember("Mara likes jam")
    pair.clock.move(1000)
    older, _ = await pair.one.out(owner=OWNER)
    await pair.one.memory.forget(ids=[gone.id])
    newer = await pair.send()
    refused = await pair.other.into(older, keys=await pair.one.keys())
    assert [one.reason for one in refused.rejected] == ["tombstone"]
    await pair.other.memory.roll_back_import(newer.import_id)
    back = await pair.other.into(older, keys=await pair.one.keys())
    assert (back.accepted, back.refused) == (2, 0)
    assert (await pair.other.memory.verify()).holds


@requirement("moving:bundle.round-trip")
async def test_tombstones_are_the_same_bytes_after_a_move(pair: Pair) -> None:
    memory = pair.one.memory
    ids = [(await memory.remember(f"Fact {number}")).id for number in range(4)]
    pair.clock.move(1234)
    await memory.forget(ids=[ids[0]])
    pair.clock.move(1)
    await memory.forget(ids=[ids[2]], hard_delete=True)
    report = await pair.send()
    assert report.accepted == 2
    mine, theirs = await pair.both()
    assert theirs == mine
    assert [one["item_id"] for one in stones((await pair.one.out())[0])] == sorted([ids[0], ids[2]])
    undone = await pair.other.memory.roll_back_import(report.import_id)
    assert undone.forgotten == 2
    assert stones((await pair.other.out())[0]) == [], "an import that was undone leaves none"
