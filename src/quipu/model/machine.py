"""A procedure's state machine: what it must be to be remembered.

A machine is data. No text of its writer is ever looked up, imported or called: guards are names whose truth the caller
brings along, and a key that could name code is refused with every other unknown key.
"""

import json
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, cast

from quipu.errors import ConflictError, Fault
from quipu.model.value import Json, JsonObject

#: As a source it stands for every state that no other transition of the trigger names.
ANY_STATE = "*"
_KEYS = ("name", "initial", "states", "transitions", "current", "metadata")
_REQUIRED = _KEYS[:4]
_TRANSITION_KEYS = ("trigger", "source", "dest", "conditions", "unless")
_NOT_STATES = frozenset({ANY_STATE, "="})
_GUARD = re.compile(r"(?!__)[A-Za-z_][A-Za-z0-9_]{0,63}")
_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f]")
_LONGEST_NAME = 128
_MOST_BYTES = 64 * 1024
_MOST_STATES = 256
_MOST_TRANSITIONS = 2048
_MOST_EXPANDED = 16_384
_MOST_GUARDS = 8
_DEEPEST_METADATA = 8
_INVALID = "invalid_procedure"


@dataclass(frozen=True, slots=True)
class Transition:
    """From a state, or from any, to another, when its guards let it."""

    trigger: str
    source: str
    dest: str
    conditions: tuple[str, ...] = ()
    unless: tuple[str, ...] = ()

    @property
    def is_guarded(self) -> bool:
        return bool(self.conditions or self.unless)


@dataclass(frozen=True, slots=True)
class Machine:
    """A valid machine, and the state it is in."""

    name: str
    initial: str
    states: tuple[str, ...]
    transitions: tuple[Transition, ...]
    current: str


def parsed(content: str | Mapping[str, Any]) -> object:
    """The JSON value of a procedure's content; None for text that is no JSON."""
    if not isinstance(content, str):
        return content
    try:
        return json.loads(content)
    except (ValueError, RecursionError):
        return None


def faults(value: object) -> list[Fault]:
    """Everything that keeps a value from being a machine; pointers begin at /content."""
    return list(_faults(value))


def stored(text: str) -> JsonObject:
    """What a stored procedure says. One that slipped in, or that was written before machines were checked, is refused."""
    value = parsed(text)
    if faults(value):
        raise ConflictError("This procedure is not a valid machine.", reason=_INVALID)
    return cast("JsonObject", value)


def machine(value: JsonObject) -> Machine:
    """A value that has no faults, as a machine."""
    initial, current = str(value["initial"]), value.get("current")
    return Machine(
        name=str(value["name"]),
        initial=initial,
        states=tuple(_texts(value["states"])),
        transitions=tuple(
            _transition(item) for item in cast("Sequence[Mapping[str, Json]]", value["transitions"])
        ),
        current=initial if current is None else str(current),
    )


def kept_text(value: JsonObject) -> str:
    """The machine as it is stored: JSON text in which `current` always stands."""
    return json.dumps({**value, "current": machine(value).current}, ensure_ascii=False, separators=(",", ":"))


def _faults(value: object) -> Iterator[Fault]:
    if not isinstance(value, Mapping):
        yield Fault("/content", _INVALID, f"a state machine: a JSON object with {', '.join(_REQUIRED)}")
        return
    given = cast("Mapping[str, Json]", value)
    yield from _unknown_keys("/content", given, _KEYS)
    for key in _REQUIRED:
        if key not in given:
            yield Fault(f"/content/{key}", _INVALID, f"a machine needs {key}")
    if len(json.dumps(given, ensure_ascii=False).encode("utf-8", "replace")) > _MOST_BYTES:
        yield Fault("/content", "too_large", f"a machine of at most {_MOST_BYTES:,} bytes")
    yield from _name_faults("/content/name", given.get("name", ""))
    states = _texts(given.get("states"))
    yield from _state_faults(given, states)
    metadata = given.get("metadata")
    if metadata is not None and not isinstance(metadata, Mapping):
        yield Fault("/content/metadata", _INVALID, "an object")
    elif _depth(metadata) > _DEEPEST_METADATA:
        yield Fault("/content/metadata", _INVALID, f"an object at most {_DEEPEST_METADATA} deep")
    yield from _transitions_faults(given.get("transitions"), set(states))


def _unknown_keys(pointer: str, value: Mapping[str, Json], known: Sequence[str]) -> Iterator[Fault]:
    for key in value:
        if key not in known:
            shown = key[:_LONGEST_NAME].replace("~", "~0").replace("/", "~1")
            yield Fault(f"{pointer}/{shown}", _INVALID, f"only the keys {', '.join(known)}")


def _name_faults(pointer: str, name: object) -> Iterator[Fault]:
    if not isinstance(name, str) or not 0 < len(name) <= _LONGEST_NAME or _CONTROL.search(name):
        yield Fault(pointer, _INVALID, f"1 to {_LONGEST_NAME} characters, no control characters")


def _state_faults(given: Mapping[str, Json], states: Sequence[str]) -> Iterator[Fault]:
    listed = given.get("states")
    if not isinstance(listed, list | tuple) or not listed or len(states) != len(listed):
        yield Fault("/content/states", _INVALID, "a list of names, at least one")
    elif len(listed) > _MOST_STATES:
        yield Fault("/content/states", "too_large", f"at most {_MOST_STATES} states")
    for index, state in enumerate(states[:_MOST_STATES]):
        yield from _name_faults(f"/content/states/{index}", state)
        if state in _NOT_STATES:
            yield Fault(f"/content/states/{index}", _INVALID, "a name other than * and =")
    if len(set(states)) < len(states):
        yield Fault("/content/states", _INVALID, "each state once")
    for key in ("initial", "current"):
        is_given = key in given if key == "initial" else given.get(key) is not None
        if is_given and given[key] not in states:
            yield Fault(f"/content/{key}", _INVALID, "one of the states")


def _transitions_faults(value: Json, states: set[str]) -> Iterator[Fault]:
    if not isinstance(value, list | tuple):
        yield Fault("/content/transitions", _INVALID, "a list of transitions")
        return
    if len(value) > _MOST_TRANSITIONS:
        yield Fault("/content/transitions", "too_large", f"at most {_MOST_TRANSITIONS:,} transitions")
        return
    good: list[Transition] = []
    for index, item in enumerate(value):
        found = list(_transition_faults(f"/content/transitions/{index}", item, states))
        yield from found
        if not found:
            good.append(_transition(cast("Mapping[str, Json]", item)))
    if len(good) == len(value):
        yield from _choice_faults(good)
        yield from _expansion_faults(good, len(states))


def _transition_faults(pointer: str, item: Json, states: set[str]) -> Iterator[Fault]:
    if not isinstance(item, Mapping):
        yield Fault(pointer, _INVALID, "an object with trigger, source, dest")
        return
    yield from _unknown_keys(pointer, item, _TRANSITION_KEYS)
    yield from _name_faults(f"{pointer}/trigger", item.get("trigger"))
    source, dest = item.get("source"), item.get("dest")
    if not isinstance(source, str) or (source != ANY_STATE and source not in states):
        yield Fault(f"{pointer}/source", _INVALID, "one of the states, or *")
    if not isinstance(dest, str) or dest not in states:
        yield Fault(f"{pointer}/dest", _INVALID, "one of the states")
    for key in ("conditions", "unless"):
        yield from _guard_faults(f"{pointer}/{key}", item.get(key))


def _guard_faults(pointer: str, value: Json) -> Iterator[Fault]:
    if value is None:
        return
    names = [value] if isinstance(value, str) else value
    if not isinstance(names, list | tuple) or len(names) > _MOST_GUARDS:
        yield Fault(pointer, _INVALID, f"a name, or a list of at most {_MOST_GUARDS} names")
        return
    for name in names:
        if not isinstance(name, str) or not _GUARD.fullmatch(name):
            yield Fault(
                pointer,
                _INVALID,
                "plain names of facts: letters, digits and _, at most 64, not beginning with __ or a digit",
            )


def _choice_faults(transitions: Sequence[Transition]) -> Iterator[Fault]:
    """The same trigger twice from one source: only the last may be without a guard."""
    without_guard: set[tuple[str, str]] = set()
    for index, item in enumerate(transitions):
        place = (item.trigger, item.source)
        if place in without_guard:
            pointer = f"/content/transitions/{index}"
            yield Fault(pointer, _INVALID, "a guard on the earlier transition of this trigger and source")
        if not item.is_guarded:
            without_guard.add(place)


def _expansion_faults(transitions: Sequence[Transition], states: int) -> Iterator[Fault]:
    places = {(item.trigger, item.source) for item in transitions if item.source != ANY_STATE}
    sources = Counter(trigger for trigger, _ in places)
    expanded = sum(states - sources[item.trigger] if item.source == ANY_STATE else 1 for item in transitions)
    if expanded > _MOST_EXPANDED:
        yield Fault(
            "/content/transitions", "too_large", f"at most {_MOST_EXPANDED:,} transitions with wildcards"
        )


def _transition(item: Mapping[str, Json]) -> Transition:
    return Transition(
        trigger=str(item["trigger"]),
        source=str(item["source"]),
        dest=str(item["dest"]),
        conditions=_guards(item.get("conditions")),
        unless=_guards(item.get("unless")),
    )


def _guards(value: Json) -> tuple[str, ...]:
    return (value,) if isinstance(value, str) else tuple(_texts(value))


def _texts(value: Json) -> list[str]:
    return [item for item in value if isinstance(item, str)] if isinstance(value, list | tuple) else []


def _depth(value: Json) -> int:
    children: Sequence[Json] | None = None
    if isinstance(value, Mapping):
        children = list(value.values())
    elif isinstance(value, list | tuple):
        children = list(value)
    return 0 if children is None else 1 + max((_depth(child) for child in children), default=0)
