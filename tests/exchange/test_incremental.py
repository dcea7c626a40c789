"""Bundles that go on from an earlier one: together they say what one full bundle says."""

from __future__ import annotations

import io
import json
import zipfile
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from quipu import Memory
from quipu.errors import InvalidError, QuipuError
from quipu.model.moving import Format
from quipu.testing.builders import FixedClock
from quipu.testing.embedders import WordEmbedder
from tests.exchange.conftest import ADMIN, WRITER, Host
from tests.exchange.test_tombstones import OWNER, Pair, pair, parts, stones, texts
from tests.requirement import requirement

__all__ = ["pair"]


def manifest(data: bytes) -> dict[str, Any]:
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        return dict(json.loads(archive.read("manifest.json")))


async def goes_on(pair: Pair, base: bytes, **given: Any) -> tuple[bytes, Any]:
    """What has changed since, out of the one and into the other."""
    pair.clock.move(1000)
    since = str(manifest(base)["chain_head"]["seq"])
    name = manifest(base)["export_id"]
    data, _ = await pair.one.out(owner=OWNER, since=since, base_export_id=name)
    return data, await pair.other.into(data, keys=await pair.one.keys(), **given)


@requirement("moving:bundle.incremental")
async def test_only_what_changed_goes_out_and_the_other_host_follows(pair: Pair) -> None:
    memory = pair.one.memory
    before = await memory.remember("Gone before")
    await memory.forget(ids=[before.id])
    edited = await memory.remember("Tom likes jam", tags=["food"])
    gone = await memory.remember("Ana likes figs")
    kept = await memory.remember("Mara likes tea")  # the last entry that the base knows
    base, _ = await pair.one.out(owner=OWNER)
    await pair.other.into(base, keys=await pair.one.keys())
    pair.clock.move(1000)
    await memory.remember("Tom likes honey", id=edited.id, tags=["sweet"])
    await memory.remember("Eva likes rye", links=[{"to": kept.id, "rel": "beside"}])
    await memory.forget(ids=[gone.id])
    data, report = await goes_on(pair, base)
    told = manifest(data)
    assert (told["export_type"], told["base_export_id"]) == ("incremental", manifest(base)["export_id"])
    assert told["counts"] == {"items": 2, "relations": 1, "tombstones": 1}
    assert (report.accepted, report.updated, report.conflict, report.removed) == (2, 1, 0, 1)
    mine, theirs = await pair.both()
    assert (theirs["items.jsonl"], theirs["relations.jsonl"]) == (
        mine["items.jsonl"],
        mine["relations.jsonl"],
    )
    found = await pair.other.memory.recall("honey")
    assert found.results[0].id == edited.id
    history = await pair.other.memory.history(edited.id)
    assert [version.record.content for version in history] == ["Tom likes jam", "Tom likes honey"]
    again = await pair.other.into(data, keys=await pair.one.keys())
    assert (again.accepted, again.updated, again.removed) == (0, 0, 0)


@requirement("moving:import.rollback")
async def test_undoing_it_makes_everything_as_it_was(pair: Pair) -> None:
    memory = pair.one.memory
    edited = await memory.remember("Tom likes jam", tags=["food"])
    gone = await memory.remember("Ana likes figs")
    base, _ = await pair.one.out(owner=OWNER)
    await pair.other.into(base, keys=await pair.one.keys())
    before = parts((await pair.other.out(owner=OWNER))[0])
    pair.clock.move(1000)
    await memory.remember("Tom likes honey", id=edited.id)
    await memory.remember("Eva likes rye")
    await memory.forget(ids=[gone.id])
    data, report = await goes_on(pair, base)
    undone = await pair.other.memory.roll_back_import(report.import_id)
    assert (undone.forgotten, undone.restored, undone.kept) == (1, 2, ())
    assert parts((await pair.other.out(owner=OWNER))[0]) == before
    assert (await pair.other.memory.recall("jam")).results[0].id == edited.id
    assert (await pair.other.memory.verify()).holds
    again = await pair.other.into(data, keys=await pair.one.keys())
    assert (again.updated, again.removed, again.accepted) == (1, 1, 2)


@requirement("moving:import.dedupe")
async def test_what_was_changed_here_is_not_written_over(pair: Pair) -> None:
    edited = await pair.one.memory.remember("Tom likes jam")
    base, _ = await pair.one.out(owner=OWNER)
    await pair.other.into(base, keys=await pair.one.keys())
    await pair.other.memory.remember("Tom likes nothing", id=edited.id)
    pair.clock.move(1000)
    await pair.one.memory.remember("Tom likes honey", id=edited.id)
    _, report = await goes_on(pair, base)
    assert (report.updated, report.conflict) == (0, 1)
    assert await texts(pair.other) == {"Tom likes nothing", "Tom likes honey"}


@requirement("moving:import.quarantine")
async def test_a_change_that_a_rule_holds_waits_beside_what_it_would_change(pair: Pair) -> None:
    edited = await pair.one.memory.remember("Tom likes jam")
    base, _ = await pair.one.out(owner=OWNER)
    await pair.other.into(base, keys=await pair.one.keys())
    pair.clock.move(1000)
    await pair.one.memory.remember("Tom likes honey", id=edited.id)
    _, report = await goes_on(pair, base, who=WRITER)
    assert (report.quarantined, report.updated, report.conflict) == (1, 0, 1)
    assert await texts(pair.other) == {"Tom likes jam"}
    await pair.other.service.imports.decide(ADMIN, report.import_id, approved=True)
    assert await texts(pair.other) == {"Tom likes jam", "Tom likes honey"}


@requirement("moving:bundle.incremental")
async def test_what_makes_no_sense_is_refused(pair: Pair) -> None:
    await pair.one.memory.remember("Tom likes jam")
    for pointer, wrong in (
        ("/since", {"since": "999999"}),
        ("/since", {"since": "yesterday"}),
        ("/since", {"since": "run_1"}),
        ("/since", {"since": "1", "format": Format.PAM}),
        ("/since", {"since": "1", "as_of": "1"}),
        ("/since", {"base_export_id": "exp_1"}),
        ("/receipts", {"receipts": True, "format": Format.OMI}),
        ("/logs", {"logs": True, "format": Format.MARKDOWN}),
    ):
        with pytest.raises(InvalidError) as refused:
            await pair.one.out(**wrong)
        assert [fault.pointer for fault in refused.value.faults] == [pointer], wrong


STEPS = st.lists(
    st.tuples(
        st.sampled_from(("remember", "change", "forget", "erase", "restore", "send")), st.integers(0, 5)
    ),
    min_size=1,
    max_size=14,
)


@requirement("moving:bundle.incremental")
@settings(max_examples=30, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(STEPS)
async def test_increments_say_what_one_full_bundle_says(steps: list[tuple[str, int]]) -> None:
    clock = FixedClock()
    memories = [
        Memory(agent_id="ana", stores="sqlite://:memory:", embedder=WordEmbedder(), clock=clock)
        for _ in range(2)
    ]
    try:
        one, other = [Host(memory, await memory._service()) for memory in memories]
        pair, keys, since = Pair(one, other, clock), await one.keys(), None
        ids: list[str] = []
        known: set[str] = set()
        planted: set[str] = set()
        for what, place in (*steps, ("send", 0)):
            clock.move(1000)
            if what == "send":
                data, _ = await one.out(owner=OWNER, **({} if since is None else {"since": since}))
                since = str(manifest(data)["chain_head"]["seq"])
                planted |= {stone["item_id"] for stone in stones(data)} - known
                known |= {json.loads(line)["item_id"] for line in parts(data)["items.jsonl"].splitlines()}
                report = await other.into(data, keys=keys)
                assert {one.reason for one in report.rejected} <= {"tombstone"}
            elif what == "remember" or not ids:
                ids.append((await one.memory.remember(f"Fact {len(ids)}")).id)
            else:
                await _change(one, what, ids[place % len(ids)], place)
        mine, theirs = await pair.both()
        # What the other host first heard of by its tombstone is erased there, and stays so.
        wanted = [
            line for line in mine["items.jsonl"].splitlines() if json.loads(line)["item_id"] not in planted
        ]
        assert theirs["items.jsonl"].splitlines() == wanted
        assert (await other.memory.verify()).holds
    finally:
        for memory in memories:
            await memory.close()


async def _change(host: Host, what: str, name: str, place: int) -> None:
    try:
        match what:
            case "change":
                await host.memory.remember(f"Another fact {place}", id=name)
            case "restore":
                await host.memory.restore(name)
            case _:
                await host.memory.forget(ids=[name], hard_delete=what == "erase")
    except QuipuError:
        pass  # it is not there to be changed, or to come back


@requirement("moving:import.tombstones")
async def test_what_was_forgotten_here_stays_so_whatever_became_of_it_there(pair: Pair) -> None:
    edited = await pair.one.memory.remember("Tom likes jam")
    base, _ = await pair.one.out(owner=OWNER)
    await pair.other.into(base, keys=await pair.one.keys())
    await pair.other.memory.forget(ids=[edited.id])
    pair.clock.move(1000)
    await pair.one.memory.remember("Tom likes honey", id=edited.id)
    _, report = await goes_on(pair, base)
    assert [one.reason for one in report.rejected] == ["tombstone"]
    assert await texts(pair.other) == set()
