"""Regular expressions that never run away: a small syntax, matched in time linear in the text.

Accepted: characters, `.`, classes, `\\d \\w \\s` and their opposites, `^ $ \\b`, groups, `|`, `* + ?`, `{m,n}`, and `(?i)` in
front. The pattern becomes a machine of states.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import NoReturn

from quipu.errors import InvalidError
from quipu.rules.policy_machines import KINDS, Pattern, State, Test

LONGEST = 200
_MOST_STATES = 1_000
_MOST_REPEATS = 200
_MOST_NESTING = 20

_SIGNS = {"n": "\n", "t": "\t", "r": "\r"}


@dataclass(frozen=True, slots=True)
class _Part:
    """A piece of the machine: where it begins, and the states whose next is still open."""

    start: int
    ends: tuple[int, ...]


class _Reader:
    """Reads a pattern into states."""

    def __init__(self, pattern: str, pointer: str) -> None:
        self.is_caseless = pattern.startswith("(?i)")
        self._text = pattern[4:] if self.is_caseless else pattern
        self._pointer = pointer
        self._place = 0
        self._depth = 0
        #: What is asked where in the pattern: copies that are read again ask the same.
        self._tests: dict[int, Test] = {}
        self.states: list[State] = []

    def machine(self) -> tuple[int, int]:
        """Where it begins, and where it has matched."""
        whole = self._alternatives()
        if self._place < len(self._text):
            self._refuse("a `)` closes nothing")
        end = self._add(State())
        self._join(whole, end)
        return whole.start, end

    def _alternatives(self) -> _Part:
        parts = [self._sequence()]
        while self._taken("|"):
            parts.append(self._sequence())
        if len(parts) == 1:
            return parts[0]
        fork = self._add(State(next=tuple(part.start for part in parts)))
        return _Part(fork, tuple(end for part in parts for end in part.ends))

    def _sequence(self) -> _Part:
        nothing = self._add(State())
        whole = _Part(nothing, (nothing,))
        while self._place < len(self._text) and self._text[self._place] not in "|)":
            at = self._place
            part = self._repeated(self._atom(), at)
            self._join(whole, part.start)
            whole = _Part(whole.start, part.ends)
        return whole

    def _repeated(self, part: _Part, at: int) -> _Part:
        """A part with the count behind it. Further copies are read again from where the first one stood."""
        low, high = self._count()
        if (low, high) == (1, 1):
            return part
        after = self._place
        if self._count() != (1, 1):
            self._refuse("a repetition is repeated; put a group around the first")
        copies = max(low, 1) if high is None else high
        parts = [part, *(self._again(at, after) for _ in range(copies - 1))][:copies]
        nothing = self._add(State())
        whole, left = _Part(nothing, (nothing,)), list[int]()
        for number, one in enumerate(parts):
            if number >= low:
                left.append(self._add(State()))
                self._join(whole, left[-1])
                whole = _Part(whole.start, (left[-1],))
            self._join(whole, one.start)
            whole = _Part(whole.start, one.ends)
        if high is None:
            loop = self._add(State(next=(parts[-1].start,)))
            self._join(whole, loop)
            whole = _Part(whole.start, (loop,))
        return _Part(whole.start, (*whole.ends, *left))

    def _again(self, at: int, after: int) -> _Part:
        self._place = at
        fresh = self._atom()
        self._place = after
        return fresh

    def _count(self) -> tuple[int, int | None]:
        for sign, count in (("*", (0, None)), ("+", (1, None)), ("?", (0, 1))):
            if self._taken(sign):
                return count
        if not self._taken("{"):
            return 1, 1
        inside, brace, _ = self._text[self._place :].partition("}")
        low, comma, high = inside.partition(",")
        if not brace or not low.isdecimal() or (high and not high.isdecimal()):
            self._refuse("`{` begins a count such as {2,5}; write \\{ for the sign")
        self._place += len(inside) + 1
        least, most = int(low), (int(high) if high else None) if comma else int(low)
        if max(least, most or 0) > _MOST_REPEATS or (most is not None and most < least):
            self._refuse(f"a count goes up to {_MOST_REPEATS}, the smaller number first")
        return least, most

    def _atom(self) -> _Part:
        at, sign = self._place, self._one()
        if sign in "*+?{":
            self._refuse("a repetition follows nothing")
        match sign:
            case "(":
                return self._group()
            case "[":
                return self._eater(self._class(), at)
            case ".":
                return self._eater(lambda one: one != "\n", at)
            case "^" | "$":
                return self._gate(sign)
            case "\\":
                return self._escaped(at)
            case _:
                return self._eater(self._exactly(sign), at)

    def _group(self) -> _Part:
        if self._taken("?") and not self._taken(":"):
            self._refuse(
                "look-around, names and flags in groups are not accepted; (?:...) and (?i) in front are"
            )
        self._depth += 1
        if self._depth > _MOST_NESTING:
            self._refuse("groups are nested too deep")
        inner = self._alternatives()
        if not self._taken(")"):
            self._refuse("a `(` is not closed")
        self._depth -= 1
        return inner

    def _escaped(self, at: int) -> _Part:
        sign = self._one()
        if sign == "b":
            return self._gate(sign)
        if sign in KINDS:
            return self._eater(KINDS[sign], at)
        return self._eater(self._exactly(self._sign(sign)), at)

    def _sign(self, sign: str) -> str:
        if sign in _SIGNS:
            return _SIGNS[sign]
        if sign.isalnum():
            self._refuse(f"\\{sign} is not accepted; back references and special classes are not")
        return sign

    def _class(self) -> Test:
        is_opposite = self._taken("^")
        tests: list[Test] = []
        while not tests or not self._taken("]"):
            low = self._one()
            if low == "\\":
                sign = self._one()
                if sign in KINDS:
                    tests.append(KINDS[sign])
                    continue
                low = self._sign(sign)
            if self._text[self._place : self._place + 1] == "-" and self._text[
                self._place + 1 : self._place + 2
            ] not in ("]", ""):
                self._place += 1
                high = self._one()
                tests.append(self._between(low, self._sign(self._one()) if high == "\\" else high))
            else:
                tests.append(self._exactly(low))

        def inside(one: str) -> bool:
            return any(test(one) for test in tests) is not is_opposite

        return inside

    def _exactly(self, sign: str) -> Test:
        if self.is_caseless:
            folded = sign.casefold()
            return lambda one: one.casefold() == folded
        return lambda one: one == sign

    def _between(self, low: str, high: str) -> Test:
        if high < low:
            self._refuse("a range in a class goes upwards")
        if self.is_caseless:
            return lambda one: low <= one <= high or low <= one.lower() <= high or low <= one.upper() <= high
        return lambda one: low <= one <= high

    # -- states -------------------------------------------------------------------------------------------------

    def _eater(self, test: Test, at: int) -> _Part:
        return self._alone(State(test=self._tests.setdefault(at, test)))

    def _gate(self, kind: str) -> _Part:
        return self._alone(State(gate=kind))

    def _alone(self, state: State) -> _Part:
        place = self._add(state)
        return _Part(place, (place,))

    def _join(self, part: _Part, target: int) -> None:
        for end in part.ends:
            self.states[end].next = (*self.states[end].next, target)

    def _add(self, state: State) -> int:
        if len(self.states) >= _MOST_STATES:
            self._refuse("it counts too far")
        self.states.append(state)
        return len(self.states) - 1

    def _one(self) -> str:
        if self._place >= len(self._text):
            self._refuse("it ends too early")
        self._place += 1
        return self._text[self._place - 1]

    def _taken(self, sign: str) -> bool:
        is_there = self._text.startswith(sign, self._place)
        self._place += is_there
        return is_there

    def _refuse(self, why: str) -> NoReturn:
        raise InvalidError.at(self._pointer, "bad_value", f"The pattern is not accepted: {why}.")


@lru_cache(maxsize=256)
def pattern(text: str, pointer: str = "/content_regex") -> Pattern:
    """A pattern of the accepted syntax; InvalidError says what is not."""
    if not 0 < len(text) <= LONGEST:
        raise InvalidError.at(
            pointer, "bad_value", "The pattern is empty or too long.", accepted=[f"1 to {LONGEST} characters"]
        )
    reader = _Reader(text, pointer)
    start, end = reader.machine()
    return Pattern(reader.states, start, end)
