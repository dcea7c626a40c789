"""Machines: what is refused, what steps where, and that `transitions` agrees."""

from __future__ import annotations

import inspect
import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from transitions import Machine as Library
from transitions import MachineError
from transitions.core import Transition as LibraryTransition

from quipu.errors import ConflictError
from quipu.rules import procedures

PARCEL: dict[str, Any] = {
    "name": "return-parcel",
    "initial": "asked",
    "states": ["asked", "labelled", "shipped", "refunded", "dropped"],
    "transitions": [
        {"trigger": "label", "source": "asked", "dest": "labelled"},
        {"trigger": "ship", "source": "labelled", "dest": "shipped"},
        {"trigger": "refund", "source": "shipped", "dest": "refunded", "conditions": "goods_intact"},
        {"trigger": "drop", "source": "*", "dest": "dropped"},
    ],
}


def pointers(value: object) -> list[str]:
    return [fault.pointer for fault, _ in procedures.faults(value)]


def changed(**fields: Any) -> dict[str, Any]:
    return {**PARCEL, **fields}


def first(**fields: Any) -> dict[str, Any]:
    """The machine with its first transition changed."""
    one, *rest = PARCEL["transitions"]
    return changed(transitions=[{**one, **fields}, *rest])


def test_a_good_machine_has_no_faults() -> None:
    assert pointers(PARCEL) == []
    assert pointers(changed(current="shipped", metadata={"version": "1.0.0"})) == []
    assert procedures.kept(PARCEL)["current"] == "asked"
    assert procedures.kept(changed(current="shipped"))["current"] == "shipped"


# What the machine library would import or call, and where.
CODE = "os.system"
REFUSED: dict[str, tuple[object, str]] = {
    "text": ("a plan", "/content"),
    "a list": ([], "/content"),
    "no name": ({k: v for k, v in PARCEL.items() if k != "name"}, "/content/name"),
    "no states": ({k: v for k, v in PARCEL.items() if k != "states"}, "/content/states"),
    "no initial": ({k: v for k, v in PARCEL.items() if k != "initial"}, "/content/initial"),
    "no transitions": ({k: v for k, v in PARCEL.items() if k != "transitions"}, "/content/transitions"),
    "a key of the library": (changed(send_event=True), "/content/send_event"),
    "code before every change": (changed(before_state_change=CODE), "/content/before_state_change"),
    "a model of its own": (changed(model="self"), "/content/model"),
    "code before": (first(before=CODE), "/content/transitions/0/before"),
    "code after": (first(after=[CODE]), "/content/transitions/0/after"),
    "code to prepare": (first(prepare=CODE), "/content/transitions/0/prepare"),
    "a dotted guard": (first(conditions=CODE), "/content/transitions/0/conditions"),
    "a dotted guard in a list": (first(unless=["ok", CODE]), "/content/transitions/0/unless"),
    "a private guard": (first(conditions="__class__"), "/content/transitions/0/conditions"),
    "a guard with a line end": (first(conditions="ok\n"), "/content/transitions/0/conditions"),
    "a guard that is an object": (first(conditions={"func": CODE}), "/content/transitions/0/conditions"),
    "nine guards": (first(conditions=["a"] * 9), "/content/transitions/0/conditions"),
    "a state with code": (changed(states=[{"name": "asked", "on_enter": CODE}]), "/content/states"),
    "a state twice": (changed(states=[*PARCEL["states"], "asked"]), "/content/states"),
    "a star for a state": (changed(states=[*PARCEL["states"], "*"]), "/content/states/5"),
    "an equals sign for a state": (changed(states=[*PARCEL["states"], "="]), "/content/states/5"),
    "an empty state": (changed(states=[*PARCEL["states"], ""]), "/content/states/5"),
    "a state with a bell": (changed(states=[*PARCEL["states"], "a\x07"]), "/content/states/5"),
    "an undeclared initial": (changed(initial="lost"), "/content/initial"),
    "an initial that is nothing": (changed(initial=None), "/content/initial"),
    "an undeclared current": (changed(current="lost"), "/content/current"),
    "an undeclared source": (first(source="lost"), "/content/transitions/0/source"),
    "an undeclared dest": (first(dest="lost"), "/content/transitions/0/dest"),
    "a reflexive dest": (first(dest="="), "/content/transitions/0/dest"),
    "two sources": (first(source=["asked", "shipped"]), "/content/transitions/0/source"),
    "no trigger": (first(trigger=""), "/content/transitions/0/trigger"),
    "a transition that is a list": (
        changed(transitions=[["label", "asked", "labelled"]]),
        "/content/transitions/0",
    ),
    "one that can never happen": (
        changed(
            transitions=[*PARCEL["transitions"], {"trigger": "ship", "source": "labelled", "dest": "asked"}]
        ),
        "/content/transitions/4",
    ),
    "metadata that is a list": (changed(metadata=[]), "/content/metadata"),
    "deep metadata": (changed(metadata=json.loads('{"a":' * 9 + "1" + "}" * 9)), "/content/metadata"),
    "too many states": (changed(states=["asked", *map(str, range(256))], transitions=[]), "/content/states"),
    "too many transitions": (
        changed(transitions=[{"trigger": str(n), "source": "*", "dest": "asked"} for n in range(2049)]),
        "/content/transitions",
    ),
    "too many after the wildcard": (
        changed(
            states=["asked", *map(str, range(200))],
            transitions=[{"trigger": str(n), "source": "*", "dest": "asked"} for n in range(100)],
        ),
        "/content/transitions",
    ),
    "too large": (changed(metadata={"note": "x" * 65_536}), "/content"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_is_refused_and_where(name: str) -> None:
    value, pointer = REFUSED[name]
    assert pointer in pointers(value)


def test_a_library_release_with_another_callback_is_noticed() -> None:
    """Every parameter of the library's transition is one that we allow, or one that we know to refuse."""
    known = {"self", "source", "dest", "conditions", "unless", "before", "after", "prepare"}
    assert set(inspect.signature(LibraryTransition.__init__).parameters) == known
    listed = inspect.signature(Library.add_transition).parameters
    assert set(listed) == {"self", "trigger", *known - {"self"}, "kwargs"}


def test_guards_choose_and_the_first_that_passes_wins() -> None:
    value = changed(
        transitions=[
            {"trigger": "go", "source": "asked", "dest": "labelled", "conditions": ["a", "b"], "unless": "c"},
            {"trigger": "go", "source": "asked", "dest": "shipped", "conditions": "a"},
            {"trigger": "go", "source": "asked", "dest": "dropped"},
        ]
    )
    assert pointers(value) == []
    machine = procedures.machine(value)
    for facts, dest in (
        ({"a": True, "b": True}, "labelled"),
        ({"a": True, "b": True, "c": True}, "shipped"),
        ({"b": True}, "dropped"),
        ({}, "dropped"),
    ):
        assert procedures.stepped(machine, "go", facts).current == dest


def test_a_named_source_puts_the_wildcard_aside() -> None:
    value = changed(
        transitions=[
            {"trigger": "go", "source": "*", "dest": "dropped"},
            {"trigger": "go", "source": "asked", "dest": "shipped", "conditions": "ok"},
        ]
    )
    machine = procedures.machine(value)
    assert procedures.stepped(machine, "go", {"ok": True}).current == "shipped"
    with pytest.raises(ConflictError):
        procedures.stepped(machine, "go", {})
    assert (
        procedures.stepped(procedures.machine({**value, "current": "labelled"}), "go", {}).current
        == "dropped"
    )


def test_a_trigger_that_does_nothing_names_those_that_do() -> None:
    machine = procedures.machine(PARCEL)
    with pytest.raises(ConflictError) as refused:
        procedures.stepped(machine, "ship", {})
    assert refused.value.reason == "invalid_trigger"
    assert refused.value.faults[0].accepted == ("label", "drop")


def test_replay_starts_at_the_beginning() -> None:
    machine = procedures.machine(changed(current="dropped"))
    assert (
        procedures.replayed(machine, ["label", "ship", "refund"], {"goods_intact": True}).current
        == "refunded"
    )
    assert procedures.replayed(machine, [], {}).current == "asked"


def test_states_no_way_leads_to_are_told() -> None:
    assert procedures.unreachable(procedures.machine(PARCEL)) == ()
    island = changed(states=[*PARCEL["states"], "island"])
    assert procedures.unreachable(procedures.machine(island)) == ("island",)


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
    assert pointers(value) == []
    assert procedures.replayed(procedures.machine(value), ["__init__", "model"], {}).current == "trigger"


NAMES = [f"s{n}" for n in range(4)]
GUARDS = st.lists(st.sampled_from(["a", "b"]), max_size=2, unique=True)
TRANSITIONS = st.lists(
    st.fixed_dictionaries(
        {
            "trigger": st.sampled_from(["t0", "t1"]),
            "source": st.sampled_from([*NAMES, "*"]),
            "dest": st.sampled_from(NAMES),
            "conditions": GUARDS,
            "unless": GUARDS,
        }
    ),
    max_size=8,
)


class Facts:
    """What the library asks for guards."""

    def __init__(self, facts: dict[str, bool]) -> None:
        self.a, self.b = (lambda: facts.get("a", False)), (lambda: facts.get("b", False))


@given(
    TRANSITIONS,
    st.lists(st.sampled_from(["t0", "t1"]), max_size=6),
    st.fixed_dictionaries({"a": st.booleans(), "b": st.booleans()}),
)
def test_the_library_steps_alike(
    transitions: list[dict[str, Any]], triggers: list[str], facts: dict[str, bool]
) -> None:
    """`transitions` is the oracle. Its wildcard is spelt out, because it knows no overriding."""
    value = {"name": "m", "initial": "s0", "states": NAMES, "transitions": transitions}
    if pointers(value):
        return
    ours = procedures.machine(value)
    model = Facts(facts)
    theirs = Library(model, states=NAMES, initial="s0", auto_transitions=False)
    for trigger in ("t0", "t1"):
        for state in NAMES:
            for item in ours.leaving(state, trigger):
                theirs.add_transition(
                    trigger, state, item.dest, conditions=list(item.conditions), unless=list(item.unless)
                )
    for trigger in triggers:
        try:
            ours, moved = procedures.stepped(ours, trigger, facts), True
        except ConflictError:
            moved = False
        try:
            did = bool(getattr(model, trigger)()) if hasattr(model, trigger) else False
        except MachineError:
            did = False
        assert (moved, ours.current) == (did, model.state)  # type: ignore[attr-defined]  the library adds it
