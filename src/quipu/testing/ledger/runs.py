"""Runs, their logs, and entries by the time they were made."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import Any

import pytest

from quipu.errors import ConflictError, NotFoundError
from quipu.model.change import Commit, Erase, Once
from quipu.model.journal import Draft, Op
from quipu.model.record import Provenance
from quipu.model.runs import (
    Driver,
    EventType,
    ExpireRun,
    Happening,
    KeepRef,
    MintedRef,
    Note,
    OpenRun,
    Run,
    RunChange,
    RunError,
    RunStatus,
    RunStep,
    Variable,
    View,
)
from quipu.model.search import Scope, Snapshot
from quipu.ports.ledger import Ledger
from quipu.rules.runs_states import VIEW_KEY
from quipu.testing.builders import FixedClock, Scribe
from quipu.testing.ledger.case import LedgerCase

_NODE = Happening(type=EventType.NODE_STARTED, node_id="a")
_DONE = Happening(type=EventType.RUN_COMPLETED)


def _run(scribe: Scribe, run_id: str = "run_1", **given: Any) -> Run:
    made = Run(
        tenant=scribe.tenant, id=run_id, workflow_id="w", driver=Driver.ENGINE, created_at=scribe.clock()
    )
    return replace(made, **given)


async def _do(scribe: Scribe, *changes: RunChange | Erase, once: Once | None = None) -> int:
    draft = Draft(op=Op.STEP_RUN, actor="test", at=scribe.clock())
    commit = Commit(tenant=scribe.tenant, draft=draft, changes=changes, once=once)
    return (await scribe.ledger.commit(commit))[0].seq


class RunsContract(LedgerCase):
    """What a run sees is one position; what happens in it is told in order, without a gap, or not at all."""

    async def test_a_run_gets_the_position_of_its_own_beginning(self, scribe: Scribe) -> None:
        seq = await _do(scribe, OpenRun(run=_run(scribe)))
        run = await scribe.ledger.run(scribe.tenant, "run_1")
        assert run is not None
        assert run.view == View(seq, scribe.clock())
        (started,) = await scribe.ledger.run_events(scribe.tenant, "run_1")
        assert (started.sequence, started.type, started.position) == (0, EventType.RUN_STARTED, seq)
        assert started.payload[VIEW_KEY] == {"seq": seq, "at": "2023-11-14T22:13:20.000Z"}
        assert run.last == 0

    async def test_a_run_comes_back_as_it_was_given(self, scribe: Scribe) -> None:
        given = _run(
            scribe,
            inputs={"q": "ö"},
            configurable={"a": [1]},
            metadata={"m": {}},
            tags=("x", "y"),
            agent={"agentId": "core.x"},
            authority={"name": "ana"},
            view=View(3, 7),
            source_run_id="run_0",
            from_seq=2,
        )
        await _do(scribe, OpenRun(run=given))
        assert await scribe.ledger.run(scribe.tenant, "run_1") == replace(given, last=0)
        assert await scribe.ledger.run("another", "run_1") is None
        assert [run.id for run in await scribe.ledger.runs(scribe.tenant)] == ["run_1"]
        assert await scribe.ledger.runs(scribe.tenant, workflow_id="other") == []
        assert await scribe.ledger.runs(scribe.tenant, below="run_1") == []

    async def test_events_are_numbered_without_gaps_however_many_write(self, scribe: Scribe) -> None:
        await _do(scribe, OpenRun(run=_run(scribe)))
        await asyncio.gather(*(_do(scribe, RunStep(run_id="run_1", events=(_NODE, _NODE))) for _ in range(8)))
        events = await scribe.ledger.run_events(scribe.tenant, "run_1")
        assert [event.sequence for event in events] == list(range(17))
        positions = [event.position for event in events]
        assert positions == sorted(positions)
        assert [e.sequence for e in await scribe.ledger.run_events(scribe.tenant, "run_1", 3, 2)] == [4, 5]

    async def test_a_refused_step_leaves_no_event_and_no_record(self, scribe: Scribe) -> None:
        await _do(scribe, OpenRun(run=_run(scribe)))
        with pytest.raises(NotFoundError):
            await _do(
                scribe, RunStep(run_id="run_1", events=(_NODE,)), RunStep(run_id="run_2", events=(_NODE,))
            )
        assert len(await scribe.ledger.run_events(scribe.tenant, "run_1")) == 1

    async def test_nothing_happens_in_a_run_that_is_over(self, scribe: Scribe) -> None:
        await _do(scribe, OpenRun(run=_run(scribe)))
        await _do(scribe, RunStep(run_id="run_1", events=(_DONE,), status=RunStatus.COMPLETED))
        with pytest.raises(ConflictError) as refused:
            await _do(scribe, RunStep(run_id="run_1", events=(_NODE,)))
        assert refused.value.reason == "run_over"
        run = await scribe.ledger.run(scribe.tenant, "run_1")
        assert run is not None
        assert (run.status, run.ended_at, run.last) == (RunStatus.COMPLETED, scribe.clock(), 1)

    async def test_notes_are_kept_in_order_until_the_run_ends(self, scribe: Scribe) -> None:
        ledger = scribe.ledger
        await _do(scribe, OpenRun(run=_run(scribe)), OpenRun(run=_run(scribe, "run_2")))
        for backend, text in (("pad", "a"), ("pad", "b"), ("talk", "c")):
            await _do(scribe, RunStep(run_id="run_1", note=Note(backend, text)))
        assert await ledger.run_notes(scribe.tenant, "run_1", "pad") == ["a", "b"]
        assert await ledger.run_note_count(scribe.tenant, "run_1", "pad") == 2
        assert await ledger.run_notes(scribe.tenant, "run_2", "pad") == []
        assert await ledger.run_notes("another", "run_1", "pad") == []
        await _do(scribe, RunStep(run_id="run_1", clears="pad"))
        assert await ledger.run_notes(scribe.tenant, "run_1", "pad") == []
        assert await ledger.run_notes(scribe.tenant, "run_1", "talk") == ["c"]
        await _do(scribe, RunStep(run_id="run_1", events=(_DONE,), status=RunStatus.COMPLETED))
        assert await ledger.run_notes(scribe.tenant, "run_1", "talk") == []

    async def test_an_engine_that_takes_over_finds_no_notes(self, scribe: Scribe) -> None:
        await _do(scribe, OpenRun(run=_run(scribe)))
        await _do(scribe, RunStep(run_id="run_1", worker="one", note=Note("pad", "a")))
        await _do(scribe, RunStep(run_id="run_1", worker="one"))
        assert await scribe.ledger.run_notes(scribe.tenant, "run_1", "pad") == ["a"]
        await _do(scribe, RunStep(run_id="run_1", worker="two"))
        assert await scribe.ledger.run_notes(scribe.tenant, "run_1", "pad") == []

    async def test_a_keeper_that_takes_over_finds_no_notes(self, scribe: Scribe, clock: FixedClock) -> None:
        ledger = scribe.ledger
        await _do(scribe, OpenRun(run=_run(scribe, driver=Driver.EXTERNAL)))
        until = clock() + 10

        async def note(text: str, keeper: str) -> None:
            await _do(
                scribe, RunStep(run_id="run_1", note=Note("pad", text), keeper=keeper, lease_until=until)
            )

        await note("a", "one")
        await note("b", "two")  # the first is alive, and goes on holding the run
        assert await ledger.run_notes(scribe.tenant, "run_1", "pad") == ["a", "b"]
        run = await ledger.run(scribe.tenant, "run_1")
        assert run is not None
        assert (run.worker, run.lease_until) == ("one", until)
        clock.move(10)
        await note("c", "two")
        assert await ledger.run_notes(scribe.tenant, "run_1", "pad") == ["c"]

    async def test_a_run_is_held_by_one_keeper_until_it_lets_go(self, scribe: Scribe) -> None:
        ledger = scribe.ledger

        async def held() -> tuple[str | None, int]:
            run = await ledger.run(scribe.tenant, "run_1")
            assert run is not None
            return run.worker, run.lease_until

        await _do(
            scribe, OpenRun(run=_run(scribe, driver=Driver.EXTERNAL)), OpenRun(run=_run(scribe, "run_2"))
        )
        assert await ledger.noting_runs(scribe.tenant) == []
        for name in ("run_1", "run_2"):
            await _do(scribe, RunStep(run_id=name, note=Note("pad", "a")))
        assert [run.id for run in await ledger.noting_runs(scribe.tenant)] == ["run_1"]
        assert await ledger.noting_runs("another") == []
        await ledger.hold_run(scribe.tenant, "run_1", "one", 5)
        await ledger.hold_run(scribe.tenant, "run_1", "two", 7)
        await ledger.hold_run(scribe.tenant, "run_1", "two", None)
        await ledger.hold_run("another", "run_1", "one", None)
        assert await held() == ("one", 5)
        await ledger.hold_run(scribe.tenant, "run_1", "one", 9)
        assert await held() == ("one", 9)
        await ledger.hold_run(scribe.tenant, "run_1", "one", None)
        assert await held() == (None, 0)
        await _do(scribe, RunStep(run_id="run_1", keeper="two", lease_until=9))
        assert await ledger.run_notes(scribe.tenant, "run_1", "pad") == ["a"]  # let go of, and found
        await _do(scribe, RunStep(run_id="run_2", worker="engine"))
        assert await ledger.run_notes(scribe.tenant, "run_2", "pad") == []  # an engine only begins

    async def test_erasure_takes_the_tags_of_an_entry_out_of_every_log(self, scribe: Scribe) -> None:
        ledger = scribe.ledger
        await _do(scribe, OpenRun(run=_run(scribe)))
        origin = Provenance(written_by="tester", run_id="run_1")
        kept = [await scribe.put("of ana", provenance=origin) for _ in range(2)]
        told = [
            Happening(type=EventType.MEMORY_WRITTEN, payload={"memoryId": record.id, "tags": ["of ana"]})
            for record in kept
        ]
        await _do(scribe, RunStep(run_id="run_1", events=tuple(told)))
        for name, source in (("run_2", "run_1"), ("run_3", "run_2")):
            recorded = tuple(await ledger.run_events(scribe.tenant, "run_1"))
            await _do(scribe, OpenRun(run=_run(scribe, name, source_run_id=source), recorded=recorded))
        await _do(scribe, Erase(id=kept[0].id))
        for name in ("run_1", "run_2", "run_3"):
            payloads = [event.payload for event in await ledger.run_events(scribe.tenant, name, 0)]
            assert payloads == [
                {"memoryId": kept[0].id},
                {"memoryId": kept[1].id, "tags": ["of ana"]},
            ]

    async def test_a_run_that_is_being_cancelled_cannot_complete(self, scribe: Scribe) -> None:
        await _do(scribe, OpenRun(run=_run(scribe)))
        await _do(scribe, RunStep(run_id="run_1", status=RunStatus.CANCELLING))
        with pytest.raises(ConflictError) as refused:
            await _do(scribe, RunStep(run_id="run_1", events=(_DONE,), status=RunStatus.COMPLETED))
        assert refused.value.reason == "run_cancelling"
        error = RunError("gone", "It is gone.")
        await _do(scribe, RunStep(run_id="run_1", status=RunStatus.CANCELLED, error=error))
        run = await scribe.ledger.run(scribe.tenant, "run_1")
        assert run is not None
        assert run.error == error

    async def test_one_engine_at_a_time(self, scribe: Scribe, clock: FixedClock) -> None:
        await _do(scribe, OpenRun(run=_run(scribe)))
        assert [run.id for run in await scribe.ledger.unfinished_runs(scribe.tenant, clock())] == ["run_1"]
        until = clock() + 1_000
        await _do(scribe, RunStep(run_id="run_1", worker="one", lease_until=until))
        assert await scribe.ledger.unfinished_runs(scribe.tenant, clock()) == []
        with pytest.raises(ConflictError) as refused:
            await _do(scribe, RunStep(run_id="run_1", worker="two", lease_until=until))
        assert refused.value.reason == "run_taken"
        clock.move(1_001)
        await _do(scribe, RunStep(run_id="run_1", worker="two", lease_until=clock() + 1, secrets=("s",)))
        await _do(scribe, RunStep(run_id="run_1", secrets=("t", "s")))
        run = await scribe.ledger.run(scribe.tenant, "run_1")
        assert run is not None
        assert (run.worker, run.secrets) == ("two", ("s", "t"))

    async def test_a_recorded_log_is_kept_as_it_was(self, scribe: Scribe) -> None:
        await _do(scribe, OpenRun(run=_run(scribe)))
        await _do(scribe, RunStep(run_id="run_1", events=(_NODE, _DONE), status=RunStatus.COMPLETED))
        source = await scribe.ledger.run_events(scribe.tenant, "run_1")
        recorded = tuple(replace(event, causation_id=event.id) for event in source)
        copy = _run(scribe, "run_2", status=RunStatus.COMPLETED, driver=Driver.REPLAY, view=View(1, 1))
        await _do(scribe, OpenRun(run=copy, recorded=recorded))
        told = await scribe.ledger.run_events(scribe.tenant, "run_2")
        kept = [(e.type, e.payload, e.node_id, e.at) for e in source]
        assert [(e.type, e.payload, e.node_id, e.at) for e in told] == kept
        assert [e.causation_id for e in told] == [e.id for e in source]

    async def test_variables_are_kept_each_time_they_are_set(self, scribe: Scribe) -> None:
        await _do(scribe, OpenRun(run=_run(scribe)))
        await _do(
            scribe, RunStep(run_id="run_1", events=(_NODE,), variables=(Variable("v", 1), Variable("w", 2)))
        )
        await _do(scribe, RunStep(run_id="run_1", events=(_NODE,), variables=(Variable("v", {"a": None}),)))
        kept = await scribe.ledger.run_variables(scribe.tenant, "run_1")
        assert [(v.name, v.value, v.sequence) for v in kept] == [
            ("v", 1, 1),
            ("w", 2, 1),
            ("v", {"a": None}, 2),
        ]

    async def test_erasure_empties_variables_that_repeat_the_record(self, scribe: Scribe) -> None:
        record = await scribe.put("a secret of Ana")
        await _do(scribe, OpenRun(run=_run(scribe)))
        told = Variable("v", {"content": "a secret of Ana"}, (record.id,))
        await _do(scribe, RunStep(run_id="run_1", variables=(told, Variable("w", "other"))))
        await _do(scribe, Erase(id=record.id))
        kept = {v.name: v.value for v in await scribe.ledger.run_variables(scribe.tenant, "run_1")}
        assert kept == {"v": None, "w": "other"}

    async def test_the_history_of_a_run_can_go_and_the_run_is_still_known(
        self, scribe: Scribe, clock: FixedClock
    ) -> None:
        await _do(scribe, OpenRun(run=_run(scribe, inputs={"a": 1})))
        with pytest.raises(ConflictError) as refused:
            await _do(scribe, ExpireRun(run_id="run_1"))
        assert refused.value.reason == "run_active"
        await _do(
            scribe,
            RunStep(
                run_id="run_1", events=(_DONE,), variables=(Variable("v", 1),), status=RunStatus.COMPLETED
            ),
        )
        assert await scribe.ledger.ended_runs(scribe.tenant, clock()) == []
        clock.move(1)
        assert [run.id for run in await scribe.ledger.ended_runs(scribe.tenant, clock())] == ["run_1"]
        await _do(scribe, ExpireRun(run_id="run_1"))
        run = await scribe.ledger.run(scribe.tenant, "run_1")
        assert run is not None
        assert (run.is_expired, run.last, run.inputs) == (True, 1, {})
        assert await scribe.ledger.run_events(scribe.tenant, "run_1") == []
        assert await scribe.ledger.run_variables(scribe.tenant, "run_1") == ()
        assert await scribe.ledger.ended_runs(scribe.tenant, clock()) == []

    async def test_a_ref_is_its_tenants_and_one_for_each_owner(self, scribe: Scribe, ledger: Ledger) -> None:
        ref = MintedRef(tenant=scribe.tenant, ref="mem_1", agent_id="ana", store_id="s", created_at=1)
        await _do(scribe, KeepRef(ref=ref))
        await _do(scribe, KeepRef(ref=replace(ref, ref="mem_2")))
        assert await ledger.minted_ref(scribe.tenant, "mem_1") == ref
        assert await ledger.minted_ref(scribe.tenant, "mem_2") is None
        assert await ledger.minted_ref("another", "mem_1") is None
        assert await ledger.ref_minted_for(scribe.tenant, "ana", "s") == ref
        assert await ledger.ref_minted_for(scribe.tenant, "ana", "other") is None

    async def test_entries_are_the_newest_by_creation_then_by_birth(
        self, scribe: Scribe, clock: FixedClock
    ) -> None:
        first = await scribe.put("one", tags=("a",))
        second = await scribe.put("two", tags=("a", "b"))
        clock.move(5)
        third = await scribe.put("three", expires_at=clock() + 10)
        scope = Scope(tenant=scribe.tenant, agent_id=first.agent_id)
        live = Snapshot(None, clock())

        async def ids(snapshot: Snapshot = live, **given: Any) -> list[str]:
            found = await scribe.ledger.newest_entries(scope, snapshot, **given)
            return [record.id for record in found]

        assert await ids() == [third.id, second.id, first.id]
        assert await ids(limit=2) == [third.id, second.id]
        assert await ids(tag="a") == [second.id, first.id]
        assert await ids(tag="c") == []
        assert await ids(Snapshot(None, clock() + 10)) == [second.id, first.id]
        assert await ids(Snapshot(first.born, clock())) == [first.id]
        assert await ids(until=third.created_at - 1) == [second.id, first.id]
        ahead = await scribe.put("of tomorrow", created_at=clock() + 1_000)
        assert await ids(until=clock()) == [ahead.id, third.id, second.id, first.id]
        await scribe.erase(ahead.id)
        await scribe.forget(second)
        assert await ids() == [third.id, first.id]
        assert await ids(Snapshot(third.born, clock())) == [third.id, second.id, first.id]
        await _do(scribe, Erase(id=first.id))
        assert await ids(Snapshot(third.born, clock())) == [third.id, second.id]

    async def test_a_run_is_opened_once_for_each_key(self, scribe: Scribe) -> None:
        def once(name: str) -> Once:
            return Once(principal="p", operation="o", key="k", fingerprint="f", answer={"runId": name})

        draft = Draft(op=Op.OPEN_RUN, actor="test", at=scribe.clock())
        done = await asyncio.gather(
            *(
                scribe.ledger.commit(
                    Commit(
                        tenant=scribe.tenant,
                        draft=draft,
                        changes=(OpenRun(run=_run(scribe, f"run_{n}")),),
                        once=once(f"run_{n}"),
                    )
                )
                for n in range(5)
            )
        )
        (run,) = await scribe.ledger.runs(scribe.tenant)
        replays = [committed.replayed for (committed,) in done if committed.replayed is not None]
        assert replays == [{"runId": run.id}] * 4
