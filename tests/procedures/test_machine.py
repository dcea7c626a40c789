"""Stepping as the machine library steps, machines as large as they may be, and lives that are odd."""

import json
import time
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from transitions import Machine as Library
from transitions import MachineError

from quipu.errors import ConflictError
from quipu.model.machine import Machine, Transition, faults, machine
from quipu.model.record import Provenance, Record
from quipu.procedures.machine import Note, Table, life, read_note, replayed, unreachable
from tests.procedures.machines import PARCEL, ring


def stepped(before: Machine, trigger: str, facts: Mapping[str, bool]) -> Machine:
    return replace(before, current=Table(before).taken(before.current, trigger, facts).dest)


def of(*transitions: dict[str, Any], **fields: Any) -> Any:
    """The parcel's states with other transitions."""
    value = {**PARCEL, "transitions": list(transitions), **fields}
    assert faults(value) == []
    return machine(value)


def test_guards_choose_and_the_first_that_passes_wins() -> None:
    known = of(
        {"trigger": "go", "source": "asked", "dest": "labelled", "conditions": ["a", "b"], "unless": "c"},
        {"trigger": "go", "source": "asked", "dest": "shipped", "conditions": "a"},
        {"trigger": "go", "source": "asked", "dest": "dropped"},
    )
    for facts, dest in (
        ({"a": True, "b": True}, "labelled"),
        ({"a": True, "b": True, "c": True}, "shipped"),
        ({"b": True}, "dropped"),
        ({}, "dropped"),
    ):
        assert stepped(known, "go", facts).current == dest


def test_a_named_source_puts_the_wildcard_aside() -> None:
    transitions = (
        {"trigger": "go", "source": "*", "dest": "dropped"},
        {"trigger": "go", "source": "asked", "dest": "shipped", "conditions": "ok"},
    )
    assert stepped(of(*transitions), "go", {"ok": True}).current == "shipped"
    with pytest.raises(ConflictError, match="No guard"):
        stepped(of(*transitions), "go", {})
    assert stepped(of(*transitions, current="labelled"), "go", {}).current == "dropped"


def test_a_trigger_that_does_nothing_names_those_that_do() -> None:
    with pytest.raises(ConflictError, match="does nothing") as refused:
        stepped(machine(PARCEL), "ship", {})
    (fault,) = refused.value.faults
    assert (refused.value.reason, fault.accepted) == ("invalid_trigger", "one of label, drop")


def test_replay_starts_at_the_beginning() -> None:
    known = machine({**PARCEL, "current": "dropped"})
    assert replayed(known, ["label", "ship", "refund"], {"goods_intact": True}).current == "refunded"
    assert replayed(known, [], {}).current == "asked"


def test_states_that_nothing_leads_to_are_named() -> None:
    assert unreachable(machine(PARCEL)) == ()
    assert unreachable(machine({**PARCEL, "states": [*PARCEL["states"], "island"]})) == ("island",)


def test_names_of_python_do_no_harm() -> None:
    value = {
        "name": "odd",
        "initial": "__class__",
        "states": ["__class__", "state", "trigger"],
        "transitions": [
            {"trigger": "__init__", "source": "__class__", "dest": "state"},
            {"trigger": "model", "source": "state", "dest": "trigger"},
        ],
    }
    assert faults(value) == []
    assert replayed(machine(value), ["__init__", "model"], {}).current == "trigger"


def test_a_large_machine_is_checked_walked_and_replayed_quickly() -> None:
    value = ring()
    assert faults(value) == []
    known = machine(value)
    began = time.process_time()
    assert unreachable(known) == ()
    assert len(Table(known).triggers("s0")) == 61
    assert replayed(known, ["n"] * 10_000, {}).current == f"s{10_000 % 256}"
    assert time.process_time() - began < 2.0


# -- the machine library as the judge ----------------------------------------------------------------------------------

STATES = [f"s{n}" for n in range(4)]
GUARDS = st.lists(st.sampled_from(["a", "b"]), max_size=2, unique=True)
TRANSITIONS = st.lists(
    st.fixed_dictionaries(
        {
            "trigger": st.sampled_from(["t0", "t1"]),
            "source": st.sampled_from([*STATES, "*"]),
            "dest": st.sampled_from(STATES),
            "conditions": GUARDS,
            "unless": GUARDS,
        }
    ),
    max_size=8,
)


class Facts:
    """What the library asks for guards."""

    def __init__(self, facts: dict[str, bool]) -> None:
        self.a, self.b = (lambda: facts["a"]), (lambda: facts["b"])


def in_full(transitions: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Wildcards written out: the library does not know that a named source puts them aside."""
    named = {(one["trigger"], one["source"]) for one in transitions}
    return [
        {**one, "source": state}
        for one in transitions
        for state in STATES
        if one["source"] == state or (one["source"] == "*" and (one["trigger"], state) not in named)
    ]


@given(
    TRANSITIONS,
    st.lists(st.sampled_from(["t0", "t1"]), max_size=6),
    st.fixed_dictionaries({"a": st.booleans(), "b": st.booleans()}),
)
def test_the_library_steps_alike(
    transitions: list[dict[str, Any]], triggers: list[str], facts: dict[str, bool]
) -> None:
    value = {"name": "m", "initial": "s0", "states": STATES, "transitions": transitions}
    if faults(value):
        return
    ours, model = machine(value), Facts(facts)
    theirs = Library(model, states=STATES, initial="s0", auto_transitions=False)
    for one in in_full(transitions):
        theirs.add_transition(**one)
    for trigger in triggers:
        try:
            ours, has_moved = stepped(ours, trigger, facts), True
        except ConflictError:
            has_moved = False
        try:
            did = bool(getattr(model, trigger)()) if hasattr(model, trigger) else False
        except MachineError:
            did = False
        assert (has_moved, ours.current) == (did, model.state)  # type: ignore[attr-defined]  the library adds it


# -- life --------------------------------------------------------------------------------------------------------------


def version(number: int, current: str) -> Record:
    return Record(
        id="mem_1",
        version=number,
        store_id="s",
        agent_id="ana",
        type="procedural",
        content=json.dumps({**PARCEL, "current": current}),
        provenance=Provenance(written_by="ana"),
        created_at=1,
        updated_at=number,
        born=number,
        salt=b"salt",
    )


@pytest.mark.parametrize(
    "text", ["", "step", "step ", "step label", 'step "label', 'step "a" give x', "step 7", None]
)
def test_other_words_are_no_note_of_a_step(text: str | None) -> None:
    assert read_note(text) is None


def test_a_note_says_which_facts_opened_the_way() -> None:
    taken = Transition('re"fund, ü', "a", "b", conditions=("x", "y"), unless=("z",))
    assert read_note(Note.of(taken).text) == Note('re"fund, ü', ("x", "y"))


def test_a_life_skips_what_was_emptied_and_doubts_what_follows() -> None:
    rows = [version(1, "asked"), replace(version(2, "labelled"), salt=b""), version(3, "shipped")]
    steps = life(rows, {2: 'step "label"', 3: 'step "ship"'})
    assert [(one.version, one.trigger, one.is_explained) for one in steps] == [
        (1, None, True),
        (3, "ship", False),
    ]
