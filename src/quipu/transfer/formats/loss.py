"""What gets lost on the way: counted while it happens, reported at the end."""

from collections import Counter

from pydantic import Field

from quipu.operation import Message, Response

#: So many different losses are told apart; names in files are anybody's, and a report stays readable.
_MOST, _LONGEST = 40, 80
_REST = "others"


class Dropped(Message):
    """A field that has no place there."""

    field: str = Field(description="What stayed behind.")
    count: int = Field(description="How often.")


class Mapped(Message):
    """Something that became something else."""

    origin: str = Field(description="What it was.")
    to: str = Field(description="What it became.")
    count: int = Field(description="How often.")


class LossReport(Response):
    """What a format has no room for. Everything that is not named here came over."""

    dropped: tuple[Dropped, ...] = Field(default=(), description="What stayed behind.")
    mapped: tuple[Mapped, ...] = Field(default=(), description="What became something else.")


class Loss:
    """Counts of what stays behind and of what changes."""

    def __init__(self) -> None:
        self._dropped: Counter[str] = Counter()
        self._mapped: Counter[tuple[str, str]] = Counter()

    def clear(self) -> None:
        """Count from the beginning: the file is read once more."""
        self._dropped.clear()
        self._mapped.clear()

    def dropped(self, field: str, count: int = 1) -> None:
        """So many fields of this name stay behind."""
        if count:
            name = _readable(field)
            self._dropped[name if name in self._dropped or len(self._dropped) < _MOST else _REST] += count

    def mapped(self, origin: str, to: str) -> None:
        """One more that becomes something else."""
        key = _readable(origin), _readable(to)
        self._mapped[key if key in self._mapped or len(self._mapped) < _MOST else (_REST, _REST)] += 1

    def report(self) -> LossReport:
        """All of it, in an order that does not depend on the file's."""
        return LossReport(
            dropped=tuple(
                Dropped(field=field, count=count) for field, count in sorted(self._dropped.items())
            ),
            mapped=tuple(
                Mapped(origin=origin, to=to, count=count)
                for (origin, to), count in sorted(self._mapped.items())
            ),
        )


def _readable(name: str) -> str:
    """A name as a report can show it: not without end, in one line, half a character as a question mark."""
    text = name[:_LONGEST].encode("utf-8", "replace").decode("utf-8")
    return "".join(letter if letter.isprintable() else "?" for letter in text)
