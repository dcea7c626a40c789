"""The life of a procedure: what is noted of each step, and reading it again from its versions.

A note stands beside the journal with the version it made, so that erasing the procedure erases it too.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import cast

from quipu.model.procedure import LifeStep
from quipu.model.record import Record
from quipu.model.value import JsonObject
from quipu.rules import procedures
from quipu.rules.procedures import Machine, Transition, Ways

_STEP, _GIVEN = "step ", " given "


@dataclass(frozen=True, slots=True)
class Noted:
    """What a note says."""

    trigger: str
    facts: tuple[str, ...] = ()


def note(taken: Transition) -> str:
    """A step in words: `step "refund" given goods_intact`."""
    given = _GIVEN + ", ".join(taken.conditions) if taken.conditions else ""
    return f"{_STEP}{json.dumps(taken.trigger, ensure_ascii=False)}{given}"


def noted(text: str | None) -> Noted | None:
    """What a note says; None for any other words."""
    if text is None or not text.startswith(_STEP):
        return None
    try:
        trigger, end = json.JSONDecoder().raw_decode(text, len(_STEP))
    except ValueError:
        return None
    rest = text[end:]
    if not isinstance(trigger, str) or (rest and not rest.startswith(_GIVEN)):
        return None
    return Noted(trigger, tuple(rest.removeprefix(_GIVEN).split(", ")) if rest else ())


def life(versions: Sequence[Record], notes: Mapping[int, str]) -> tuple[LifeStep, ...]:
    """Version by version, oldest first; `notes` by the position that a version was born at."""
    steps: list[LifeStep] = []
    before: Machine | None = None
    for record in versions:
        after = machine_of(record)
        if after is None:
            before = None
            continue
        said = noted(notes.get(record.born))
        steps.append(
            LifeStep(
                version=record.version,
                at=record.updated_at,
                written_by=record.provenance.written_by,
                current=after.current,
                trigger=None if said is None else said.trigger,
                facts=() if said is None else said.facts,
                is_explained=said is None or _leads(before, after, said),
            )
        )
        before = after
    return tuple(steps)


def machine_of(record: Record) -> Machine | None:
    """The machine of a version; None where it was emptied, or is none."""
    if record.is_emptied:
        return None
    try:
        content: object = json.loads(record.content)
    except (ValueError, RecursionError):
        return None
    if next(procedures.faults(content), None) is not None:
        return None
    return procedures.machine(cast("JsonObject", content))


def facts_of(machine: Machine) -> tuple[str, ...]:
    """Every fact that some guard asks for, in the order of the transitions."""
    names = [name for way in machine.transitions for name in (*way.conditions, *way.unless)]
    return tuple(dict.fromkeys(names))


def _leads(before: Machine | None, after: Machine, said: Noted) -> bool:
    """Whether a trigger leads from one state to the other. Of what stood before an emptied version nobody knows."""
    if before is None:
        return False
    ways = Ways(before).leaving(before.current, said.trigger)
    return any(way.dest == after.current and set(way.conditions) == set(said.facts) for way in ways)
