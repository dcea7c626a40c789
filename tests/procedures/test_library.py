"""The machine library's surface: a release that grows another way to name code is noticed, and refused already."""

import inspect
from collections.abc import Callable
from typing import Any

import pytest
from transitions import Machine, State
from transitions.core import Event, Transition
from transitions.extensions import HierarchicalMachine
from transitions.extensions.nesting import NestedState, NestedTransition

from quipu.model.machine import faults
from tests.procedures.machines import PARCEL
from tests.requirement import requirement

ALLOWED = {
    "transition": {"trigger", "source", "dest", "conditions", "unless"},
    "machine": {"name", "initial", "states", "transitions"},
    "state": set[str](),
}
#: Everything else that the library understands today, looked at by a person.
REFUSED = {
    "transition": {"before", "after", "prepare", "kwargs"},
    "machine": {
        *("model", "send_event", "auto_transitions", "ordered_transitions", "ignore_invalid_triggers"),
        *("before_state_change", "after_state_change", "queued", "prepare_event", "finalize_event"),
        *("model_attribute", "model_override", "on_exception", "on_final", "kwargs"),
    },
    "state": {"name", "on_enter", "on_exit", "ignore_invalid_triggers", "final", "initial", "on_final"},
}
SURFACE: list[tuple[str, Callable[..., Any]]] = [
    ("transition", Transition.__init__),
    ("transition", NestedTransition.__init__),
    ("transition", Machine.add_transition),
    ("machine", Machine.__init__),
    ("machine", HierarchicalMachine.__init__),
    ("state", State.__init__),
    ("state", NestedState.__init__),
]


def taken(function: Callable[..., Any]) -> set[str]:
    return set(inspect.signature(function).parameters) - {"self"}


@requirement("memorywire:procedures.library")
@pytest.mark.parametrize(("part", "function"), SURFACE, ids=[f.__qualname__ for _, f in SURFACE])
def test_the_library_takes_nothing_that_nobody_looked_at(part: str, function: Callable[..., Any]) -> None:
    assert taken(function) <= ALLOWED[part] | REFUSED[part], "look at it, then allow or refuse it here"


def test_events_take_nothing_of_a_writers() -> None:
    assert taken(Event.__init__) == {"name", "machine"}


def test_callbacks_that_the_library_makes_up_are_all_refused() -> None:
    """`dynamic_methods` are the names it looks up on a model."""
    assert {*Transition.dynamic_methods, *NestedTransition.dynamic_methods} <= REFUSED["transition"]
    assert {*State.dynamic_methods, *NestedState.dynamic_methods} <= REFUSED["state"]


def pointers(value: object) -> list[str]:
    return [fault.pointer for fault in faults(value)]


def test_no_transition_and_no_machine_may_have_any_of_it() -> None:
    one, *rest = PARCEL["transitions"]
    for key in REFUSED["transition"]:
        machine = {**PARCEL, "transitions": [{**one, key: "x"}, *rest]}
        assert f"/content/transitions/0/{key}" in pointers(machine)
    for key in REFUSED["machine"] | (REFUSED["state"] - {"name", "initial"}):
        assert f"/content/{key}" in pointers({**PARCEL, key: "x"})


def test_a_state_is_a_name_and_no_object() -> None:
    for state in ({"name": "asked", "on_enter": "os.system"}, ["asked"], 1, None):
        assert faults({**PARCEL, "states": [state, *PARCEL["states"]]})
