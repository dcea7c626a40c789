"""A pattern as a machine that stands in many states at once, so that every text takes time linear in its length.

A set of states is one number, a bit for each that can eat a character.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Final, TypeAlias

_MOST_MEMORIES = 20_000
_MOST_SETS = 1_024
#: So many states that go on equally far are worth a step of their own.
_MANY = 4

Test: TypeAlias = Callable[[str], bool]
KINDS: Final[dict[str, Test]] = {
    "d": str.isdecimal,
    "w": lambda one: one.isalnum() or one == "_",
    "s": str.isspace,
    "D": lambda one: not one.isdecimal(),
    "W": lambda one: not (one.isalnum() or one == "_"),
    "S": lambda one: not one.isspace(),
}


@dataclass(slots=True)
class State:
    """Where the machine stands. With `test` it eats a character, with `gate` it asks where it is, else it just goes on."""

    test: Test | None = None
    gate: str | None = None
    next: tuple[int, ...] = ()


class _Move:
    """From the states that ate a character to those that can eat the next one; sets of states are numbers, a bit each.

    What a repetition counts lies in a row, so that most of a set goes on by being shifted.
    """

    def __init__(self, first: int, targets: Sequence[int]) -> None:
        """`first`: where a match can begin; `targets`: where one leads from each of the states."""
        apart: dict[int, int] = {}
        for number, reached in enumerate(targets):
            ahead = reached >> number
            while ahead:
                far = ahead & -ahead
                apart[far] = apart.get(far, 0) | 1 << number
                ahead ^= far
        together = {far: places for far, places in apart.items() if places.bit_count() >= _MANY}
        jumps: dict[int, int] = {}
        for number, reached in enumerate(targets):
            bit = 1 << number
            for far, places in together.items():
                if places & bit:
                    reached &= ~(bit * far)
            if reached:
                jumps[reached] = jumps.get(reached, 0) | bit
        self._first = first
        #: How far, and from where.
        self._shifts = tuple((far.bit_length() - 1, places) for far, places in together.items())
        self._jumps = tuple((places, reached) for reached, places in jumps.items())
        self._known: dict[int, int] = {}

    def after(self, ate: int) -> int:
        """Where it stands then."""
        reached = self._known.get(ate)
        if reached is None:
            reached = self._first
            for far, places in self._shifts:
                reached |= (ate & places) << far
            for places, targets in self._jumps:
                if ate & places:
                    reached |= targets
            if len(self._known) >= _MOST_SETS:
                self._known.clear()
            self._known[ate] = reached
        return reached


class Pattern:
    """A pattern, ready to be looked for. A character costs a few operations on numbers, whatever was counted before."""

    def __init__(self, states: Sequence[State], start: int, end: int) -> None:
        self._states, self._start = states, start
        self._eaters = [place for place, state in enumerate(states) if state.test is not None]
        self._bits = {place: 1 << number for number, place in enumerate((*self._eaters, end))}
        self._end = self._bits[end]
        self._has_gates = any(state.gate is not None for state in states)
        #: The states that ask the same of a character.
        self._tests: dict[Test, int] = {}
        for place in self._eaters:
            if (test := states[place].test) is not None:
                self._tests[test] = self._tests.get(test, 0) | self._bits[place]
        #: What eats a character, and how one goes on between two kinds of them, as far as they were met.
        self._eats: dict[str, int] = {}
        self._moves: dict[tuple[str, str], _Move] = {}

    def is_in(self, text: str) -> bool:
        """Whether it matches anywhere in the text."""
        eats, has_gates, end = self._eats, self._has_gates, self._end
        ate, before = 0, ""
        move = self._move("", "")
        for one in text:
            if has_gates:
                kind = _kind(one)
                move, before = self._move(before, kind), kind
            reached = move.after(ate)
            if reached & end:
                return True
            eaten = eats.get(one)
            ate = reached & (self._eaten(one) if eaten is None else eaten)
        return self._move(before, "").after(ate) & end != 0

    def _eaten(self, one: str) -> int:
        eaten = 0
        for test, places in self._tests.items():
            if test(one):
                eaten |= places
        if len(self._eats) < _MOST_MEMORIES:
            self._eats[one] = eaten
        return eaten

    def _move(self, before: str, after: str) -> _Move:
        """How one goes on between two characters, each told by one of its kind."""
        known = self._moves.get((before, after))
        if known is None:
            targets = [self._reached(self._states[place].next, before, after) for place in self._eaters]
            known = _Move(self._reached((self._start,), before, after), targets)
            self._moves[before, after] = known
        return known

    def _reached(self, places: Iterable[int], before: str, after: str) -> int:
        """Everything that is reached without eating, between two characters."""
        todo, seen, reached = list(places), set[int](), 0
        while todo:
            place = todo.pop()
            if place in seen:
                continue
            seen.add(place)
            reached |= self._bits.get(place, 0)
            state = self._states[place]
            if state.test is None and (state.gate is None or _is_open(state.gate, before, after)):
                todo.extend(state.next)
        return reached


def _kind(one: str) -> str:
    """A character that stands for all that gates do not tell from it."""
    return "a" if KINDS["w"](one) else " "


def _is_open(gate: str, before: str, after: str) -> bool:
    if gate == "^":
        return not before
    if gate == "$":
        return not after
    is_word = KINDS["w"]
    return (bool(before) and is_word(before)) is not (bool(after) and is_word(after))
