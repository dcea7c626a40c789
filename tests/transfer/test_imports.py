"""Files are tried, carried out, held, decided on as a whole, and listed."""

import json

import pytest

from quipu.audit.operations import UNDO
from quipu.errors import NotFoundError
from quipu.transfer import operations as ops
from tests.requirement import requirement
from tests.transfer.room import Room, memories


@requirement("oap:import.owner")
async def test_a_file_is_tried_before_anything_is_written(room: Room) -> None:
    report = await room.sent(memories("Ana likes tea", "Ana likes coffee"), file_name="mem0.json")
    assert (report.status, report.format, report.file_name) == ("checked", "mem0", "mem0.json")
    assert (report.counts.read, report.counts.accepted) == (2, 2)
    assert [one.content for one in report.sample] == ["Ana likes tea", "Ana likes coffee"]
    assert await room.contents() == []
    assert await room.entries("import", "commit_import") == []


@requirement("oap:import.owner")
async def test_what_was_tried_is_carried_out(room: Room) -> None:
    report = await room.sent(memories("Ana likes tea", "Ana likes coffee"))
    done = await room.committed(report.import_id)
    assert (done.status, done.counts.accepted) == ("done", 2)
    assert await room.contents() == ["Ana likes coffee", "Ana likes tea"]
    assert await room.texts("tea") != []


@requirement("oap:import.owner")
async def test_the_same_file_brings_nothing_twice(room: Room) -> None:
    data = memories("Ana likes tea", "Ana likes tea", "Ana likes coffee")
    first = await room.brought(data)
    again = await room.brought(data)
    assert first.import_id == again.import_id
    assert again.counts.duplicate == again.counts.read == 3
    assert len(await room.contents()) == 3


async def test_what_a_rule_holds_waits_and_is_decided_on_as_a_whole(room: Room) -> None:
    await room.rules({"id": "imported", "effect": "hold", "when": {"imported": True}})
    writer = await room.token("importer", "agent")
    reviewer = await room.token("carla", "reviewer", agents=("agent",))
    done = await room.brought(memories(*(f"fact {n}" for n in range(600))), writer)
    assert (done.counts.accepted, done.counts.held) == (0, 600)
    assert await room.contents() == []
    assert (await room(ops.GET_IMPORT, id=done.import_id)).waiting == 600
    # Sent again it waits once.
    again = await room.brought(memories(*(f"fact {n}" for n in range(600))), writer)
    assert again.counts.duplicate == 600
    decided = await room(ops.DECIDE_IMPORT, reviewer, id=done.import_id, approved=True)
    assert (decided.decided, decided.failed) == (600, 0)
    assert len(await room.contents()) == 600
    with pytest.raises(NotFoundError):
        await room(ops.DECIDE_IMPORT, reviewer, id=done.import_id, approved=True)


@requirement("oap:import.times")
async def test_times_and_ids_of_the_file_are_kept_also_by_what_waited(room: Room) -> None:
    await room.rules({"id": "imported", "effect": "hold", "when": {"imported": True}})
    writer = await room.token("importer", "agent")
    done = await room.brought(memories("Ana likes tea"), writer)
    await room(ops.DECIDE_IMPORT, id=done.import_id, approved=True)
    (record,) = (
        await room.container.ledger.records("default", ["00000000-0000-4000-8000-000000000000"])
    ).values()
    assert record.created_at == record.provenance.captured_at == 1_735_787_045_000
    assert record.provenance.import_id == done.import_id
    assert record.provenance.trust == "external"


async def test_imports_are_listed(room: Room) -> None:
    done = await room.brought(memories("Ana likes tea"), file_name="a.json")
    (listed,) = (await room(ops.LIST_IMPORTS)).imports
    assert (listed.import_id, listed.status, listed.file_name) == (done.import_id, "done", "a.json")
    assert listed.counts.accepted == 1


@requirement("oap:import.owner")
async def test_an_import_is_undone_as_a_whole(room: Room) -> None:
    done = await room.brought(memories("Ana likes tea", "Ana likes coffee"))
    await room.undone(done.import_id)
    assert await room.contents() == []
    again = await room.brought(memories("Ana likes tea", "Ana likes coffee"))
    assert again.counts.accepted == 2
    assert len(await room.contents()) == 2


async def test_undoing_an_import_drops_what_waits_of_it_and_says_so(room: Room) -> None:
    await room.rules({"id": "imported", "effect": "hold", "when": {"imported": True}})
    writer = await room.token("importer", "agent")
    done = await room.brought(memories("Ana likes tea", "Ana likes coffee"), writer)
    trial = await room(UNDO, import_id=done.import_id)
    assert (trial.dry_run, trial.withdrawn) == (True, 2)
    undone = await room.undone(done.import_id)
    assert undone.withdrawn == 2
    shown = await room(ops.GET_IMPORT, id=done.import_id)
    assert (shown.waiting, shown.undone_at is not None) == (0, True)
    # The same file may come again.
    assert (await room.brought(memories("Ana likes tea", "Ana likes coffee"), writer)).counts.held == 2


async def test_an_import_is_not_undone_while_a_rule_holds_that(room: Room) -> None:
    done = await room.brought(memories("Ana likes tea"))
    await room.rules({"id": "imported", "effect": "hold", "when": {"imported": True}})
    undone = await room.undone(done.import_id)
    assert [one.outcome for one in undone.findings] == ["held"]
    assert (await room(ops.GET_IMPORT, id=done.import_id)).undone_at is None


@requirement("oap:import.times")
async def test_how_long_an_item_is_kept_counts_from_when_it_was_first_known(room: Room) -> None:
    captured = {"captured_at": "2025-06-01T00:00:00Z", "confidence": 1}
    kept = {"item_id": "i1", "kind": "fact", "content": {"text": "Ana likes tea"}, "provenance": captured}
    gone = {**kept, "item_id": "i2", "ttl_days": 1}
    lines = (json.dumps(item) for item in ({**kept, "ttl_days": 30}, gone))
    done = await room.brought("\n".join(lines).encode())
    assert (done.counts.accepted, [one.reason for one in done.rejected]) == (1, ["expired"])
    (record,) = (await room.container.ledger.records("default", ["i1"])).values()
    assert record.provenance.captured_at == 1_748_736_000_000
    assert record.expires_at == 1_748_736_000_000 + 30 * 86_400_000
