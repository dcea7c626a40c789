"""What a reader is told of a journal entry."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from quipu.model.feed import Happening
from quipu.model.journal import Entry, Mention, Op
from quipu.model.principal import Permission, Principal
from quipu.model.record import MemoryType
from quipu.rules.feed import Place, Wanted, is_change, told

ONE, TWO = Mention("mem_1", 2, "d"), Mention("mem_2", 1, "d")
ENTRY = Entry(
    tenant="t",
    seq=7,
    at=70,
    actor="w",
    op=Op.FORGET,
    store=None,
    agent="ana",
    run=None,
    node=None,
    records=(ONE, TWO),
    detail={},
    prev="",
    hash="",
)
PLACES = {
    "mem_1": Place("t", "ana", "mara", "ms_1", "main", MemoryType.SEMANTIC, None),
    "mem_2": Place("t", "bo", None, "ms_2", "attic", MemoryType.EPISODIC, ()),
}


def reader(*permissions: str, **given: Any) -> Principal:
    granted = frozenset(Permission(f"memory:{name}") for name in permissions or ("read",))
    return Principal(tenant="t", name="r", permissions=granted, **given)


def ids(who: Principal, wanted: Wanted | None = None) -> list[str]:
    event = told(ENTRY, PLACES, who, wanted or Wanted())
    return [] if event is None else [record.id for record in event.records]


def test_an_event_speaks_of_the_records_in_reach_and_of_no_others() -> None:
    assert ids(reader()) == ["mem_1", "mem_2"]
    assert ids(reader(agents=("ana",))) == ["mem_1"]
    assert ids(reader(agents=("carla",))) == []
    assert ids(reader(user_id="mara")) == ["mem_1"]
    assert ids(replace(reader(), tenant="other")) == []


def test_agent_and_store_are_told_where_all_records_share_them() -> None:
    event = told(ENTRY, PLACES, reader(), Wanted())
    assert event is not None
    assert (event.seq, event.at, event.op) == (7, 70, Happening.FORGOTTEN)
    assert (event.agent_id, event.store) == (None, None)
    mine = told(ENTRY, PLACES, reader(agents=("bo",)), Wanted())
    assert mine is not None
    assert (mine.agent_id, mine.store, mine.records[0].type) == ("bo", "attic", MemoryType.EPISODIC)


def test_what_was_asked_for_narrows_it_further() -> None:
    assert ids(reader(), Wanted(agent_id="bo")) == ["mem_2"]
    assert ids(reader(), Wanted(store_id="ms_1")) == ["mem_1"]
    assert ids(reader(), Wanted(types=frozenset({MemoryType.EPISODIC}))) == ["mem_2"]
    assert ids(reader(), Wanted(agent_id="ana", types=frozenset({MemoryType.EPISODIC}))) == []


def test_a_shared_store_reaches_what_may_be_shared() -> None:
    carla = reader(agents=("carla",))
    shared = Wanted(agent_id="carla", store_id="ms_1", is_shared=True)
    assert ids(carla, shared) == ["mem_1"]
    assert ids(carla, replace(shared, is_shared=False)) == []
    assert ids(carla, replace(shared, agent_id=None)) == []
    assert ids(carla, replace(shared, store_id="ms_2")) == []
    assert ids(reader(agents=("carla",), user_id="bo"), shared) == []
    assert ids(reader(agents=("dora",)), shared) == []


def test_of_an_erased_record_nobody_bound_to_a_user_hears() -> None:
    gone = {"mem_1": replace(PLACES["mem_1"], user_id=None)}
    erased = replace(ENTRY, op=Op.ERASE, records=(ONE,))
    assert told(erased, gone, reader(user_id="mara"), Wanted()) is None
    event = told(erased, gone, reader(), Wanted())
    assert event is not None
    assert event.op is Happening.ERASED


@pytest.mark.parametrize("op", [Op.HOLD, Op.DECIDE])
def test_held_writes_are_told_to_reviewers_of_the_agent(op: Op) -> None:
    entry = replace(ENTRY, op=op, records=(), detail={"proposal": "prp_1"})
    event = told(entry, {}, reader("read", "review"), Wanted())
    assert event is not None
    assert (event.cause, event.agent_id, event.records) == ("prp_1", "ana", ())
    for who, wanted in (
        (reader(), Wanted()),
        (reader("read", "review", agents=("bo",)), Wanted()),
        (reader("read", "review", user_id="mara"), Wanted()),
        (reader("read", "review"), Wanted(agent_id="bo")),
        (reader("read", "review"), Wanted(store_id="ms_1")),
        (reader("read", "review"), Wanted(types=frozenset({MemoryType.SEMANTIC}))),
    ):
        assert told(entry, {}, who, wanted) is None


def test_causes_are_the_proposal_the_import_or_the_run() -> None:
    def cause(**changed: Any) -> str | None:
        event = told(replace(ENTRY, **changed), PLACES, reader(), Wanted())
        assert event is not None
        return event.cause

    assert cause() is None
    assert cause(detail={"import_id": "imp_1"}) == "imp_1"
    assert cause(detail={"proposal": "prp_1"}) == "prp_1"
    assert cause(run="run_1") == "run_1"


@pytest.mark.parametrize(
    "op", [Op.RECALL, Op.READ, Op.EXPORT, Op.PRUNE, Op.REEMBED, Op.GENESIS, Op.CREATE_STORE]
)
def test_reads_and_upkeep_are_no_changes(op: Op) -> None:
    assert not is_change(replace(ENTRY, op=op))
    assert told(replace(ENTRY, op=op), PLACES, reader(), Wanted()) is None
