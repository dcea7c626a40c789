"""Two runs side by side: where their events part, what each wrote, what each sees of memory, and their variables."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import zip_longest
from typing import Any

from quipu.errors import NotFoundError
from quipu.ledger.ledger import Ledger
from quipu.model.record import Record
from quipu.operation import Context
from quipu.runs import messages as m
from quipu.runs.adapter import Adapter, Place, is_entry
from quipu.runs.lookup import RunLookup, every_row, run_view, variables_of
from quipu.runs.model import EVENTS, Run, RunEvent

_PAGE = 500
_FACTS = ("workflow_id", "status", "agent_id", "user_id", "last_sequence", "writes", "snapshot")


@dataclass(frozen=True, slots=True)
class Comparison:
    """Compares runs that the caller sees, both of them."""

    ledger: Ledger
    lookup: RunLookup
    adapter: Adapter

    async def compare(self, ctx: Context, request: m.CompareRunsRequest) -> m.RunComparison:
        run = await self.lookup.found(ctx, request.run_id)
        other = await self.lookup.found(ctx, request.other_id)
        logs = [await every_row(self.ledger, EVENTS, ctx.tenant, one.id) for one in (run, other)]
        variables = [await variables_of(self.ledger, ctx.tenant, one.id) for one in (run, other)]
        views = run_view(run, {}), run_view(other, {})
        parts_at = parting(*logs)
        sees, sees_more, not_compared = await self._sees(ctx, run, other, request.limit)
        names = dict.fromkeys(name for one in variables for name in one)
        rows: dict[m.DifferenceKind, Iterable[tuple[str, Any, Any]]] = {
            "fact": [(name, getattr(views[0], name), getattr(views[1], name)) for name in _FACTS],
            "event": events_from(parts_at, *logs),
            "variable": [(name, variables[0].get(name), variables[1].get(name)) for name in names],
            "wrote": written(*logs),
            "sees": sees,
        }
        found = {
            kind: [m.Difference(kind=kind, name=name, run=a, other=b) for name, a, b in some if a != b]
            for kind, some in rows.items()
        }
        return m.RunComparison(
            run=views[0],
            other=views[1],
            parts_at=parts_at,
            differences=tuple(one for some in found.values() for one in some[: request.limit]),
            is_cut=sees_more or any(len(some) > request.limit for some in found.values()),
            not_compared=not_compared,
        )

    async def _sees(
        self, ctx: Context, run: Run, other: Run, limit: int
    ) -> tuple[list[tuple[str, str | None, str | None]], bool, str | None]:
        """Entries of their agent that one sees and the other does not, or sees otherwise, and whether there are more; or
        why that is not told."""
        if (run.agent_id, run.user_id) != (other.agent_id, other.user_id):
            return [], False, "They are of different agents or users, so each sees other memory."
        if run.seen == other.seen:
            return [], False, None
        try:
            snapshots = [await self.adapter.snapshots.of(ctx, one.id) for one in (run, other)]
        except NotFoundError as gone:
            return [], False, gone.message
        scope = await self.adapter.scope(ctx, Place(run.agent_id, run.agent_id), run)
        after, until = sorted((run.seen, other.seen))
        found: list[tuple[str, Sequence[Record | None]]] = []
        below: str | None = "\x7f"  # behind every id
        while below is not None and len(found) <= limit:
            ids = await self.ledger.changed(ctx.tenant, run.agent_id, after, until, below, _PAGE)
            seen = [await self.ledger.records(ctx.tenant, ids, snapshot.seq) for snapshot in snapshots]
            for record_id in ids:
                pair = [
                    record if record and is_entry(ctx, record, scope, snapshot.now) else None
                    for snapshot, records in zip(snapshots, seen, strict=True)
                    for record in (records.get(record_id),)
                ]
                if pair != [None, None]:
                    found.append((record_id, pair))
            below = ids[-1] if len(ids) == _PAGE else None
        if not found:
            return [], False, None
        async with self.adapter.budget.reserved(ctx, run.agent_id, 2 * min(len(found), limit)) as allowed:
            told_of = found[: min(limit, allowed.count // 2)]
            shown = [record for _, pair in told_of for record in pair if record is not None]
            allowed.spend(len(shown))
        self.adapter.read_log.read(ctx, run.agent_id, shown)
        rows = [(name, _content(a), _content(b)) for name, (a, b) in told_of]
        return rows, len(found) > len(told_of), None


def _content(record: Record | None) -> str | None:
    return None if record is None else record.content


def parting(log: Sequence[RunEvent], other: Sequence[RunEvent]) -> int | None:
    """The number of the first event that is not the same in both; None: there is none. When something happened, and what
    the memory is called that was written, makes no difference."""
    pairs = enumerate(zip_longest(log, other))
    return next((number for number, (a, b) in pairs if told(a) != told(b)), None)


def told(event: RunEvent | None) -> str | None:
    """What happened, in short: `node.failed pay: sold_out`."""
    if event is None:
        return None
    payload: Any = event.payload
    about = payload.get("name") or payload.get("error", {}).get("code") or payload.get("memoryRef")
    return event.type + (f" {event.node_id}" if event.node_id else "") + (f": {about}" if about else "")


def events_from(
    number: int | None, log: Sequence[RunEvent], other: Sequence[RunEvent]
) -> Iterator[tuple[str, str | None, str | None]]:
    """From there on, number by number."""
    if number is not None:
        for place, (a, b) in enumerate(zip_longest(log[number:], other[number:]), number):
            yield str(place), told(a), told(b)


def written(log: Sequence[RunEvent], other: Sequence[RunEvent]) -> Iterator[tuple[str, Any, Any]]:
    """What each wrote, by the id of the memory: the ref that it was written to."""
    mine, theirs = (
        {(event.record_id, event.record_version): event.payload.get("memoryRef") for event in one}
        for one in (log, other)
    )
    for version in dict.fromkeys((*mine, *theirs)):
        if version[0] is not None:
            yield version[0], mine.get(version), theirs.get(version)
