"""Procedures: what a machine must be to be remembered, and how it steps (memorywire contract 7).

A machine is data. No text of its writer is ever looked up, imported or called: guards are names whose truth the
caller brings along, and a key that could name code is refused with every other unknown key.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import cast

from quipu.errors import ConflictError, Fault
from quipu.model.value import Json, JsonObject
from quipu.rules.values import Faults, fault

ANYWHERE = "*"
_KEYS = ("name", "initial", "states", "transitions", "current", "metadata")
_REQUIRED = _KEYS[:4]
_TRANSITION_KEYS = ("trigger", "source", "dest", "conditions", "unless")
_NOT_STATES = frozenset({ANYWHERE, "="})
_GUARD = re.compile(r"(?!__)[A-Za-z_][A-Za-z0-9_]{0,63}")
_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f]")
_LONGEST_NAME = 128
_MOST_BYTES = 64 * 1024
_MOST_STATES = 256
_MOST_TRANSITIONS = 2048
_MOST_EXPANDED = 16_384
_MOST_GUARDS = 8
_DEEPEST_METADATA = 8
_REASON = "invalid_procedure"


@dataclass(frozen=True, slots=True)
class Transition:
    """From a state, or from anywhere, to another, when its guards let it."""

    trigger: str
    source: str
    dest: str
    conditions: tuple[str, ...] = ()
    unless: tuple[str, ...] = ()

    @property
    def is_guarded(self) -> bool:
        return bool(self.conditions or self.unless)

    def passes(self, facts: Mapping[str, bool]) -> bool:
        """All conditions true and all `unless` false; a missing fact is false."""
        return all(facts.get(name, False) for name in self.conditions) and not any(
            facts.get(name, False) for name in self.unless
        )


@dataclass(frozen=True, slots=True)
class Machine:
    """A valid machine, and the state it is in."""

    name: str
    initial: str
    states: tuple[str, ...]
    transitions: tuple[Transition, ...]
    current: str

    def leaving(self, state: str, trigger: str) -> tuple[Transition, ...]:
        """What a trigger can do in a state, in order. A named source puts the wildcard aside."""
        return Ways(self).leaving(state, trigger)

    @property
    def available_triggers(self) -> tuple[str, ...]:
        """What can be asked for now, guards aside."""
        return Ways(self).triggers(self.current)


class Ways:
    """A machine's transitions by trigger and source: a large machine is walked through without reading it anew."""

    def __init__(self, machine: Machine) -> None:
        self._by_place: dict[tuple[str, str], list[Transition]] = {}
        for item in machine.transitions:
            self._by_place.setdefault((item.trigger, item.source), []).append(item)
        self._triggers = tuple(dict.fromkeys(item.trigger for item in machine.transitions))

    def leaving(self, state: str, trigger: str) -> tuple[Transition, ...]:
        """What a trigger can do in a state, in order."""
        named = self._by_place.get((trigger, state))
        return tuple(named or self._by_place.get((trigger, ANYWHERE), ()))

    def triggers(self, state: str) -> tuple[str, ...]:
        """What can be asked for in a state, guards aside."""
        return tuple(trigger for trigger in self._triggers if self.leaving(state, trigger))

    def taken(self, state: str, trigger: str, facts: Mapping[str, bool]) -> Transition:
        """The first transition whose guards pass."""
        for transition in self.leaving(state, trigger):
            if transition.passes(facts):
                return transition
        available = self.triggers(state)
        is_known = trigger in available
        error = ConflictError(
            "No guard lets this trigger pass."
            if is_known
            else "This trigger does nothing in the current state.",
            reason="invalid_trigger",
            hint="Send the facts that its guards ask for." if is_known else None,
            faults=[Fault("/trigger", "invalid_trigger", available)],
        )
        error.available_triggers = available
        raise error


def faults(value: object) -> Faults:
    """Everything that keeps a value from being a machine."""
    if not isinstance(value, Mapping):
        yield fault("/content", _REASON, "A procedure is a machine: a JSON object.", [", ".join(_REQUIRED)])
        return
    machine = cast("Mapping[str, Json]", value)
    yield from _key_faults("/content", machine, _KEYS)
    for key in _REQUIRED:
        if key not in machine:
            yield fault(f"/content/{key}", _REASON, f"A machine needs {key}.")
    yield from _size_faults(machine)
    yield from _name_faults("/content/name", machine.get("name", ""))
    states = _texts(machine.get("states"))
    yield from _state_faults(machine, states)
    yield from _metadata_faults(machine.get("metadata"))
    yield from _transition_faults(machine.get("transitions"), set(states))


def stored(text: str) -> JsonObject:
    """What a stored procedure says. One that was written before machines were checked, or slipped in, is refused."""
    try:
        value: Json = json.loads(text)
    except (ValueError, RecursionError):
        value = None
    if next(faults(value), None) is not None:
        raise ConflictError("This procedure is not a valid machine.", reason=_REASON)
    return cast("JsonObject", value)


def machine(value: JsonObject) -> Machine:
    """A value that has no faults, as a machine."""
    transitions = tuple(
        Transition(
            str(item["trigger"]),
            str(item["source"]),
            str(item["dest"]),
            _guards(item.get("conditions")),
            _guards(item.get("unless")),
        )
        for item in cast("Sequence[Mapping[str, Json]]", value["transitions"])
    )
    initial = str(value["initial"])
    current = value.get("current")
    states = tuple(_texts(value["states"]))
    return Machine(
        str(value["name"]), initial, states, transitions, initial if current is None else str(current)
    )


def kept(value: JsonObject) -> dict[str, Json]:
    """The machine as it is stored: `current` always stands in it."""
    return {**value, "current": machine(value).current}


def stepped(before: Machine, trigger: str, facts: Mapping[str, bool]) -> Machine:
    """The machine after a trigger: the first transition whose guards pass."""
    return replace(before, current=Ways(before).taken(before.current, trigger, facts).dest)


def replayed(before: Machine, triggers: Sequence[str], facts: Mapping[str, bool]) -> Machine:
    """The machine after these triggers, from its beginning."""
    ways, state = Ways(before), before.initial
    for trigger in triggers:
        state = ways.taken(state, trigger, facts).dest
    return replace(before, current=state)


def unreachable(machine: Machine) -> tuple[str, ...]:
    """States that no way leads to: worth a word, no fault."""
    ways, reached, frontier = Ways(machine), {machine.initial}, [machine.initial]
    while frontier:
        state = frontier.pop()
        for trigger in ways.triggers(state):
            for transition in ways.leaving(state, trigger):
                if transition.dest not in reached:
                    reached.add(transition.dest)
                    frontier.append(transition.dest)
    return tuple(state for state in machine.states if state not in reached)


# -- faults, part by part -----------------------------------------------------------------------------------------


def _key_faults(pointer: str, value: Mapping[str, Json], known: Sequence[str]) -> Faults:
    for key in value:
        if key not in known:
            yield fault(f"{pointer}/{_escaped(key)}", _REASON, "A machine has no such key.", known)


def _size_faults(machine: Mapping[str, Json]) -> Faults:
    size = len(json.dumps(machine, ensure_ascii=False).encode("utf-8", "replace"))
    if size > _MOST_BYTES:
        yield fault("/content", "too_large", f"The machine has {size:,} bytes.", [f"at most {_MOST_BYTES:,}"])


def _name_faults(pointer: str, name: object) -> Faults:
    if not isinstance(name, str) or not 0 < len(name) <= _LONGEST_NAME or _CONTROL.search(name):
        yield fault(
            pointer,
            _REASON,
            "A name is a text without control characters.",
            [f"1 to {_LONGEST_NAME} characters"],
        )


def _state_faults(machine: Mapping[str, Json], states: Sequence[str]) -> Faults:
    listed = machine.get("states")
    if not isinstance(listed, list | tuple) or not listed or len(states) != len(listed):
        yield fault("/content/states", _REASON, "states is a list of names, at least one.")
    elif len(listed) > _MOST_STATES:
        yield fault("/content/states", "too_large", "There are too many states.", [f"at most {_MOST_STATES}"])
    for index, state in enumerate(states[:_MOST_STATES]):
        yield from _name_faults(f"/content/states/{index}", state)
        if state in _NOT_STATES:
            yield fault(f"/content/states/{index}", _REASON, "* and = are no states.")
    if len(set(states)) < len(states):
        yield fault("/content/states", _REASON, "Each state is named once.")
    for key in ("initial", "current"):
        if machine.get(key) is not None and machine[key] not in states:  # which need not be a text
            yield fault(f"/content/{key}", _REASON, f"{key} is one of the states.")
    if "initial" in machine and machine["initial"] is None:
        yield fault("/content/initial", _REASON, "initial is one of the states.")


def _metadata_faults(metadata: Json) -> Faults:
    if metadata is not None and not isinstance(metadata, Mapping):
        yield fault("/content/metadata", _REASON, "metadata is an object.")
    elif _depth(metadata) > _DEEPEST_METADATA:
        yield fault(
            "/content/metadata", _REASON, "metadata is nested too deeply.", [f"at most {_DEEPEST_METADATA}"]
        )


def _transition_faults(value: Json, states: set[str]) -> Faults:
    if not isinstance(value, list | tuple):
        yield fault("/content/transitions", _REASON, "transitions is a list.")
        return
    if len(value) > _MOST_TRANSITIONS:
        yield fault(
            "/content/transitions", "too_large", "There are too many.", [f"at most {_MOST_TRANSITIONS:,}"]
        )
        return
    good: list[Transition] = []
    for index, item in enumerate(value):
        pointer = f"/content/transitions/{index}"
        found = list(_one_transition_faults(pointer, item, states))
        yield from found
        if not found:
            made = cast("Mapping[str, Json]", item)
            guarded = (_guards(made.get("conditions")), _guards(made.get("unless")))
            good.append(Transition(str(made["trigger"]), str(made["source"]), str(made["dest"]), *guarded))
    if len(good) == len(value):
        yield from _choice_faults(good)
        yield from _expansion_faults(good, len(states))


def _one_transition_faults(pointer: str, item: Json, states: set[str]) -> Faults:
    if not isinstance(item, Mapping):
        yield fault(pointer, _REASON, "A transition is an object.", ["trigger, source, dest"])
        return
    yield from _key_faults(pointer, item, _TRANSITION_KEYS)
    yield from _name_faults(f"{pointer}/trigger", item.get("trigger"))
    source, dest = item.get("source"), item.get("dest")
    if not isinstance(source, str) or (source != ANYWHERE and source not in states):
        yield fault(f"{pointer}/source", _REASON, "source is one of the states, or *.")
    if not isinstance(dest, str) or dest not in states:
        yield fault(f"{pointer}/dest", _REASON, "dest is one of the states.")
    for key in ("conditions", "unless"):
        yield from _guard_faults(f"{pointer}/{key}", item.get(key))


def _guard_faults(pointer: str, value: Json) -> Faults:
    if value is None:
        return
    names = [value] if isinstance(value, str) else value
    if not isinstance(names, list | tuple) or len(names) > _MOST_GUARDS:
        yield fault(pointer, _REASON, "Guards are a name, or a list of names.", [f"at most {_MOST_GUARDS}"])
        return
    for name in names:
        if not isinstance(name, str) or not _GUARD.fullmatch(name):
            yield fault(
                pointer,
                _REASON,
                "A guard is the plain name of a fact.",
                ["letters, digits and _, at most 64, not beginning with __ or a digit"],
            )


def _choice_faults(transitions: Sequence[Transition]) -> Faults:
    """The same trigger twice from one source: only the last may be without a guard."""
    seen_open: set[tuple[str, str]] = set()
    for index, item in enumerate(transitions):
        place = (item.trigger, item.source)
        if place in seen_open:
            yield fault(
                f"/content/transitions/{index}",
                _REASON,
                "An earlier transition of this trigger and source has no guard, so this one could never happen.",
            )
        if not item.is_guarded:
            seen_open.add(place)


def _expansion_faults(transitions: Sequence[Transition], states: int) -> Faults:
    places = {(item.trigger, item.source) for item in transitions if item.source != ANYWHERE}
    sources = Counter(trigger for trigger, _ in places)
    expanded = sum(states - sources[item.trigger] if item.source == ANYWHERE else 1 for item in transitions)
    if expanded > _MOST_EXPANDED:
        yield fault(
            "/content/transitions",
            "too_large",
            "With its wildcards the machine has too many transitions.",
            [f"at most {_MOST_EXPANDED:,}"],
        )


def _guards(value: Json) -> tuple[str, ...]:
    return (value,) if isinstance(value, str) else tuple(_texts(value))


def _texts(value: Json) -> list[str]:
    return [item for item in value if isinstance(item, str)] if isinstance(value, list | tuple) else []


def _depth(value: Json) -> int:
    children: Iterator[Json] | None = None
    if isinstance(value, Mapping):
        children = iter(value.values())
    elif isinstance(value, list | tuple):
        children = iter(value)
    return 0 if children is None else 1 + max((_depth(child) for child in children), default=0)


def _escaped(key: str) -> str:
    return key[:_LONGEST_NAME].replace("~", "~0").replace("/", "~1")
