"""How a machine steps, and reading its life from its versions. Pure.

A step is a look-up in the machine's own table. Guards are names whose truth the caller brings along; nothing that the
writer of a machine wrote is ever looked up anywhere else, imported or called.
"""

import json
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace

from quipu.errors import ConflictError, Fault
from quipu.model.machine import ANY_STATE, Machine, Transition, faults, machine, parsed
from quipu.model.record import Record
from quipu.procedures.model import LifeStep

_STEP, _GIVEN = "step ", " given "
#: An error names so many triggers.
_MOST_NAMED = 20


class Table:
    """A machine's transitions by trigger and source, so that a large machine is read once."""

    def __init__(self, known: Machine) -> None:
        self._by_place: dict[tuple[str, str], list[Transition]] = {}
        for item in known.transitions:
            self._by_place.setdefault((item.trigger, item.source), []).append(item)
        self._triggers = tuple(dict.fromkeys(item.trigger for item in known.transitions))

    def leaving(self, state: str, trigger: str) -> Sequence[Transition]:
        """What a trigger can do in a state, in order. A named source puts the wildcard aside."""
        named = self._by_place.get((trigger, state))
        return named or self._by_place.get((trigger, ANY_STATE), ())

    def triggers(self, state: str) -> tuple[str, ...]:
        """What can be asked for in a state, guards aside."""
        return tuple(trigger for trigger in self._triggers if self.leaving(state, trigger))

    def onward(self, state: str) -> list[Transition]:
        """Every transition that leads on from a state."""
        return [item for trigger in self.triggers(state) for item in self.leaving(state, trigger)]

    def taken(self, state: str, trigger: str, facts: Mapping[str, bool]) -> Transition:
        """The first transition whose guards pass, or a conflict."""
        choice = self.leaving(state, trigger)
        for item in choice:
            if _passes(item, facts):
                return item
        asked = facts_of(choice)
        possible = self.triggers(state)
        more = ", …" if len(possible) > _MOST_NAMED else ""
        accepted = (
            f"one of {', '.join(possible[:_MOST_NAMED])}{more}" if possible else "nothing leads on from here"
        )
        raise ConflictError(
            "No guard lets this trigger pass."
            if choice
            else "This trigger does nothing in the current state.",
            reason="invalid_trigger",
            hint=f"Say in `facts` what is true of: {', '.join(asked[:_MOST_NAMED])}." if choice else None,
            faults=[Fault("/trigger", "invalid_trigger", accepted)],
        )


def replayed(before: Machine, triggers: Sequence[str], facts: Mapping[str, bool]) -> Machine:
    """The machine after these triggers, from its beginning."""
    table, state = Table(before), before.initial
    for trigger in triggers:
        state = table.taken(state, trigger, facts).dest
    return replace(before, current=state)


def unreachable(known: Machine) -> tuple[str, ...]:
    """States that no transition leads to: worth a word, no fault."""
    table, reached, frontier = Table(known), {known.initial}, [known.initial]
    while frontier:
        fresh = {item.dest for item in table.onward(frontier.pop())} - reached
        reached |= fresh
        frontier.extend(fresh)
    return tuple(state for state in known.states if state not in reached)


def facts_of(transitions: Collection[Transition]) -> tuple[str, ...]:
    """Every fact that some guard asks for, in the order of the transitions."""
    return tuple(dict.fromkeys(name for item in transitions for name in (*item.conditions, *item.unless)))


# -- life -------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Note:
    """What is noted of a step. It stands beside the journal, so that erasing the procedure erases it too."""

    trigger: str
    facts: tuple[str, ...] = ()

    @classmethod
    def of(cls, taken: Transition) -> "Note":
        return cls(taken.trigger, taken.conditions)

    @property
    def text(self) -> str:
        """In words: `step "refund" given goods_intact`."""
        given = _GIVEN + ", ".join(self.facts) if self.facts else ""
        return f"{_STEP}{json.dumps(self.trigger, ensure_ascii=False)}{given}"


def read_note(text: str | None) -> Note | None:
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
    return Note(trigger, tuple(rest.removeprefix(_GIVEN).split(", ")) if rest else ())


def life(versions: Sequence[Record], notes: Mapping[int, str]) -> tuple[LifeStep, ...]:
    """Version by version, oldest first; `notes` by the position that a version was born at."""
    steps: list[LifeStep] = []
    before: Machine | None = None
    for record in versions:
        after = machine_of(record)
        if after is not None:
            said = read_note(notes.get(record.born))
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
    value = None if record.is_emptied else parsed(record.content)
    return machine(value) if isinstance(value, Mapping) and not faults(value) else None  # pyright: ignore[reportUnknownArgumentType]  JSON without faults


def _leads(before: Machine | None, after: Machine, said: Note) -> bool:
    """Whether a trigger leads from one state to the other. Of what stood before an emptied version nobody knows."""
    if before is None:
        return False
    choice = Table(before).leaving(before.current, said.trigger)
    return any(item.dest == after.current and set(item.conditions) == set(said.facts) for item in choice)


def _passes(item: Transition, facts: Mapping[str, bool]) -> bool:
    """All conditions true and all `unless` false; a missing fact is false."""
    return all(facts.get(name, False) for name in item.conditions) and not any(
        facts.get(name, False) for name in item.unless
    )
