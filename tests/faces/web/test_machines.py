"""Procedures drawn as machines; what cannot be drawn is shown as text."""

import json
from typing import Any

import pytest

from quipu.faces.web.machines import Step, machine
from quipu.model.record import MemoryType, Provenance, Record
from quipu.testing.builders import sealed


def record(content: str, type: MemoryType = MemoryType.PROCEDURAL) -> Record:
    return sealed(
        Record(
            tenant="default",
            id="mem_1",
            version=1,
            store_id="ms_1",
            agent_id="ana",
            type=type,
            content=content,
            provenance=Provenance(written_by="ana"),
            created_at=0,
            updated_at=0,
        )
    )


def drawn(body: Any) -> Any:
    return machine(record(json.dumps(body)))


def test_a_machine_has_its_states_and_steps() -> None:
    found = drawn(
        {
            "name": "door",
            "initial": "shut",
            "states": ["shut", "open"],
            "transitions": [
                {
                    "trigger": "push",
                    "source": "shut",
                    "dest": "open",
                    "conditions": ["unlocked", "oiled"],
                    "unless": "held",
                },
                {"trigger": "slam", "source": "*", "dest": "shut"},
            ],
        }
    )
    assert (found.name, found.states, found.current) == ("door", ("shut", "open"), "shut")
    assert found.steps == (
        Step("push", "shut", "open", "unlocked and oiled and not held"),
        Step("slam", "any state", "shut", ""),
    )


@pytest.mark.parametrize(
    "body",
    [[], "text", 1, None, {}, {"states": "a", "transitions": []}, {"states": ["a"] * 61, "transitions": []}],
)
def test_what_cannot_be_drawn_is_none(body: Any) -> None:
    assert drawn(body) is None


def test_only_procedures_are_machines() -> None:
    body = json.dumps({"states": ["a"], "transitions": []})
    assert machine(record(body)) is not None
    assert machine(record(body, MemoryType.SEMANTIC)) is None
    assert machine(record("{")) is None
