"""Machines as large as they may be, loops, and lives that are odd: still quick, still right."""

from __future__ import annotations

import json
import time
from dataclasses import replace
from typing import Any

import pytest

from quipu.errors import ConflictError
from quipu.faces.web.procedures_drawing import drawing
from quipu.model.record import MemoryType, Provenance, Record
from quipu.rules import procedures, procedures_life
from tests.rules.test_procedures import PARCEL


def large() -> dict[str, Any]:
    """A ring of 256 states with 500 wildcards, some of them overridden."""
    states = [f"s{n}" for n in range(256)]
    ring = [{"trigger": "n", "source": f"s{n}", "dest": f"s{(n + 1) % 256}"} for n in range(256)]
    anywhere = [{"trigger": f"w{n}", "source": "*", "dest": f"s{n % 256}"} for n in range(60)]
    return {"name": "large", "initial": "s0", "states": states, "transitions": [*ring, *anywhere]}


def test_a_large_machine_is_checked_walked_and_replayed_quickly() -> None:
    value = large()
    assert list(procedures.faults(value)) == []
    machine = procedures.machine(value)
    began = time.perf_counter()
    assert procedures.unreachable(machine) == ()
    assert len(machine.available_triggers) == 61
    assert procedures.replayed(machine, ["n"] * 10_000, {}).current == f"s{10_000 % 256}"
    assert time.perf_counter() - began < 2.0
    assert drawing(machine) is None


def test_a_loop_is_no_trap() -> None:
    machine = procedures.machine(
        {
            "name": "loop",
            "initial": "a",
            "states": ["a"],
            "transitions": [
                {"trigger": "t", "source": "a", "dest": "a", "conditions": ["t", "a"], "unless": ["t2"]},
                {"trigger": "t", "source": "*", "dest": "a"},
            ],
        }
    )
    # A guard may have the name of a trigger, a state or itself: it is a fact's name and nothing else.
    assert procedures.stepped(machine, "t", {"t": True, "a": True}).current == "a"
    with pytest.raises(ConflictError):
        procedures.stepped(machine, "t", {"t": True, "a": True, "t2": True})
    assert drawing(machine) is not None


@pytest.mark.parametrize(
    "text",
    [
        "",
        "step",
        "step ",
        "step label",
        'step "label',
        'step "label" give x',
        "step 7",
        'a step "label"',
        None,
    ],
)
def test_other_words_are_no_note_of_a_step(text: str | None) -> None:
    assert procedures_life.noted(text) is None


def test_a_note_says_which_facts_opened_the_way() -> None:
    way = procedures.Transition('re"fund, ü', "a", "b", conditions=("x", "y"), unless=("z",))
    said = procedures_life.noted(procedures_life.note(way))
    assert said == procedures_life.Noted('re"fund, ü', ("x", "y"))


def test_a_life_skips_what_was_emptied_and_doubts_what_follows() -> None:
    def version(number: int, current: str) -> Record:
        return Record(
            tenant="t",
            id="mem_1",
            version=number,
            store_id="s",
            agent_id="ana",
            type=MemoryType.PROCEDURAL,
            content=json.dumps({**PARCEL, "current": current}),
            provenance=Provenance(written_by="ana"),
            created_at=1,
            updated_at=number,
            born=number,
            salt=b"salt",
        )

    rows = [version(1, "asked"), replace(version(2, "labelled"), salt=b""), version(3, "shipped")]
    life = procedures_life.life(rows, {2: 'step "label"', 3: 'step "ship"'})
    assert [(one.version, one.trigger, one.is_explained) for one in life] == [
        (1, None, True),
        (3, "ship", False),
    ]


def test_every_shape_of_arrow_is_drawn() -> None:
    ways = [
        ("on", "a", "b"), ("back", "b", "a"), ("down", "a", "c"), ("side", "c", "b"), ("self", "b", "b"),
        ("far", "*", "d"),
    ]  # fmt: skip
    machine = procedures.machine(
        {
            "name": "m",
            "initial": "a",
            "states": ["a", "b", "c", "d", "lost"],
            "transitions": [{"trigger": t, "source": s, "dest": d} for t, s, d in ways],
            "current": "b",
        }
    )
    picture = drawing(machine)
    assert picture is not None
    assert {box.name for box in picture.boxes} == {"a", "b", "c", "d", "lost", "*"}
    assert [box.name for box in picture.boxes if box.is_current] == ["b"]
    assert len(picture.arrows) == len(ways)
    for box in picture.boxes:
        assert 0 <= box.x <= picture.width - picture.box_width
        assert 0 <= box.y <= picture.height - picture.box_height
    places = [(box.x, box.y) for box in picture.boxes]
    assert len(set(places)) == len(places)
