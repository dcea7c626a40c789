"""The dashboard: how much is written, held and rejected, what there is and how old, and how often recall finds something."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

from starlette.responses import Response

from quipu.faces.web import agents, cord, mirroring, wording
from quipu.faces.web.visit import Visit
from quipu.model.journal import Entry, Op
from quipu.model.principal import Permission
from quipu.model.record import Record

_DAY = 86_400_000
_DAYS = 14
#: How far back it looks: nothing here walks through everything.
_ENTRIES, _RECORDS, _AGENTS = 4_000, 1_000, 5
_AGES = ((1, "today"), (7, "this week"), (30, "this month"), (90, "3 months"), (10**6, "older"))
_WRITES = cord.KINDS["write"]


@dataclass(frozen=True, slots=True)
class Column:
    """One column of a picture."""

    name: str
    value: int
    x: float
    y: float
    height: float


@dataclass(frozen=True, slots=True)
class Chart:
    """A picture with columns, and the same in words."""

    title: str
    columns: tuple[Column, ...]
    is_by_day: bool = False

    @property
    def most(self) -> int:
        """The highest column's number."""
        return max((column.value for column in self.columns), default=0)

    @property
    def words(self) -> str:
        """For who does not see it."""
        said = ", ".join(f"{column.name} {column.value}" for column in self.columns if column.value)
        return f"{self.title}: {said or 'none'}"


async def page(visit: Visit) -> Response:
    """All of it, as far as the visitor may see."""
    visit.need(Permission.REVIEW)
    await visit.service.flush()
    entries = await cord.newest(visit, _ENTRIES)
    now = visit.site.clock()
    since = await _since(visit, entries, now)
    records = await _records(visit, entries)
    recalls = [entry for entry in entries if entry.op is Op.RECALL and "proposal" not in entry.detail]
    hits = sum(bool(entry.records) for entry in recalls)
    return visit.page(
        "dashboard.html",
        charts=[
            _daily("Writes by day", entries, (since, now), lambda entry: entry.op in _WRITES),
            _daily("Held by day", entries, (since, now), lambda entry: entry.op is Op.HOLD),
            _daily("Rejected or denied by day", entries, (since, now), _is_no),
            _chart("Memory by type", Counter(record.type.value for record in records)),
            _chart("Memory by age", _ages(records, now)),
        ],
        recalls=len(recalls),
        rate=hits / len(recalls) if recalls else None,
        looked_at=len(entries),
        since=since,
        of_records=len(records),
        mirrors=await mirroring.standing(visit),
    )


def _is_no(entry: Entry) -> bool:
    return entry.op is Op.DENY or (entry.op is Op.DECIDE and entry.detail.get("approved") is False)


async def _since(visit: Visit, entries: Sequence[Entry], now: int) -> int | None:
    """From when on the journal was looked at, where that is less than all the days of the pictures."""
    head = await visit.service.audit.head(visit.principal)
    is_all = not entries or head.seq <= _ENTRIES or entries[-1].at // _DAY <= now // _DAY - _DAYS
    return None if is_all else entries[-1].at


def _daily(
    title: str, entries: Sequence[Entry], within: tuple[int | None, int], holds: Callable[[Entry], bool]
) -> Chart:
    """A column for each of the last days. A day that was not looked at has none: nobody knows that it had nothing."""
    since, now = within
    today = now // _DAY
    counts = Counter(entry.at // _DAY for entry in entries if holds(entry))
    first = today - _DAYS + 1 if since is None else min(since // _DAY, today)
    days = range(first, today + 1)
    numbers = {wording.when(day * _DAY).split(",")[0]: counts[day] for day in days}
    return replace(_chart(title, numbers), is_by_day=True)


def _ages(records: Sequence[Record], now: int) -> dict[str, int]:
    counts = dict.fromkeys((name for _, name in _AGES), 0)
    for record in records:
        days = (now - record.created_at) / _DAY
        counts[next(name for limit, name in _AGES if days < limit)] += 1
    return counts


def _chart(title: str, numbers: Mapping[str, int]) -> Chart:
    """Columns in a field of 100 by 40."""
    highest, width = max(numbers.values(), default=0) or 1, 100 / max(1, len(numbers))
    columns = [
        Column(name, value, round(place * width, 2), round(40 - 40 * value / highest, 2), round(40 * value / highest, 2))
        for place, (name, value) in enumerate(numbers.items())
    ]  # fmt: skip
    return Chart(title, tuple(columns))


async def _records(visit: Visit, entries: Sequence[Entry]) -> list[Record]:
    if not visit.may(Permission.READ):
        return []
    asked: Sequence[str | None] = [None]
    if not visit.may(Permission.ADMIN):
        asked = agents.counted(visit.principal, (), entries)[:_AGENTS]
    found: list[Record] = []
    for agent in asked:
        found += await agents.newest(visit, agent, max(1, _RECORDS // max(1, len(asked))))
    return found
