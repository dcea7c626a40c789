"""What gets lost on the way: counted while it happens, told at the end."""

from __future__ import annotations

from collections import Counter

from quipu.model.moving import Dropped, LossReport, Mapped

#: So many different losses are told apart; names in files are anybody's, and a report stays readable.
_MOST, _LONGEST = 40, 80
_REST = "others"


class Loss:
    """Counts of what a format has no room for."""

    def __init__(self) -> None:
        self._dropped: Counter[str] = Counter()
        self._mapped: Counter[tuple[str, str]] = Counter()

    def dropped(self, field: str, count: int = 1) -> None:
        """So many fields of this name stay behind."""
        if count:
            name = _told(field)
            self._dropped[name if name in self._dropped or len(self._dropped) < _MOST else _REST] += count

    def mapped(self, origin: str, to: str) -> None:
        """One more that becomes something else."""
        key = _told(origin), _told(to)
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


def _told(name: str) -> str:
    """A name as a report can tell it: not without end, and what is no Unicode as a question mark."""
    return name[:_LONGEST].encode("utf-8", "replace").decode("utf-8")
