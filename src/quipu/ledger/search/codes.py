"""Names of a partition as small numbers, each kept once."""

from __future__ import annotations

from collections.abc import Sequence

from quipu.ledger.search.sizes import ENTRY, OBJECT, TEXT
from quipu.rules.names import parts
from quipu.rules.texts import spelled


class Codes:
    """Strings as small numbers; None is -1."""

    def __init__(self) -> None:
        self._numbers: dict[str, int] = {}
        self.names: list[str] = []
        self.nbytes = 0

    def add(self, name: str | None) -> int:
        if name is None:
            return -1
        number = self._numbers.get(name)
        if number is None:
            number = self._numbers[name] = len(self.names)
            self.names.append(name)
            self.nbytes += ENTRY + TEXT + len(name)
        return number

    def find(self, name: str) -> int:
        """The number, or -2, which no row has."""
        return self._numbers.get(name, -2)

    def name(self, number: int) -> str | None:
        return None if number < 0 else self.names[number]


class Users(Codes):
    """Users, found also by a part of their id."""

    def __init__(self) -> None:
        super().__init__()
        self._called: dict[str, list[int]] = {}

    def add(self, name: str | None) -> int:
        known = len(self.names)
        number = super().add(name)
        if name is not None and number == known:
            for part in parts(name):
                self._called.setdefault(part, []).append(number)
                self.nbytes += ENTRY + OBJECT + TEXT + len(part)
        return number

    def called(self, part: str) -> Sequence[int]:
        return self._called.get(part, ())


class Subjects(Codes):
    """Subjects, and how each is spelled: every text that is asked for is looked through for all of them."""

    def __init__(self) -> None:
        super().__init__()
        self.spelled: dict[str, str] = {}

    def add(self, name: str | None) -> int:
        known = len(self.names)
        number = super().add(name)
        if name is not None and number == known:
            self.spelled[name] = spelled(name)
            self.nbytes += ENTRY + TEXT + len(name)
        return number
