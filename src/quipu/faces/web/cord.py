"""Stretches of the journal, newest first."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from quipu.faces.web.visit import Visit
from quipu.model.journal import Entry, Op

#: How far back one page looks for entries that pass its conditions.
REACH = 2_000
_LARGEST_STEP = 1_000

#: What kind of thing each operation is; kinds have a colour and a shape of knot.
KINDS: dict[str, frozenset[Op]] = {
    "write": frozenset({Op.REMEMBER, Op.UPDATE, Op.MERGE, Op.RESTORE, Op.IMPORT}),
    "read": frozenset({Op.RECALL, Op.READ, Op.EXPORT}),
    "removal": frozenset(
        {Op.FORGET, Op.ERASE, Op.EXPIRE, Op.ARCHIVE, Op.DEMOTE, Op.SWEEP, Op.PRUNE, Op.DELETE_STORE}
    ),
    "decision": frozenset({Op.HOLD, Op.APPROVE, Op.DECIDE, Op.CHANGE_RULES, Op.DENY, Op.DISMISS_RULE}),
}


def kind_of(op: Op) -> str:
    """Whether it wrote, read, removed, decided, or kept the house."""
    return next((kind for kind, ops in KINDS.items() if op in ops), "house")


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """Conditions on entries."""

    op: str = ""
    kind: str = ""
    agent: str = ""
    actor: str = ""
    record: str = ""
    #: Only what was before this moment.
    ended_at: int | None = None

    def holds(self, entry: Entry) -> bool:
        return (
            (self.ended_at is None or entry.at < self.ended_at)
            and self.op in ("", entry.op)
            and self.kind in ("", kind_of(entry.op))
            and self.agent in ("", entry.agent)
            and self.actor in ("", entry.actor)
            and (not self.record or any(mention.id == self.record for mention in entry.records))
        )


@dataclass(frozen=True, slots=True)
class Stretch:
    """Some entries, newest first; where older ones begin; and whether the search gave up before the beginning."""

    entries: Sequence[Entry]
    before: int | None
    is_cut: bool = False


async def newest(visit: Visit, limit: int) -> Sequence[Entry]:
    """The last so many positions, as far as they may be seen."""
    head = await visit.service.audit.head(visit.principal)
    return (await _window(visit, max(0, head.seq - limit), head.seq))[::-1]


async def stretch(visit: Visit, wanted: Wanted, before: int | None, limit: int) -> Stretch:
    """Entries below a position (None: the end) that pass, newest first."""
    head = await visit.service.audit.head(visit.principal)
    top = head.seq if before is None else min(before - 1, head.seq)
    found: list[Entry] = []
    lowest = max(0, top - REACH)
    step = limit
    while top > lowest:
        bottom, step = max(lowest, top - step), min(4 * step, _LARGEST_STEP)
        for entry in reversed(await _window(visit, bottom, top)):
            if wanted.holds(entry):
                found.append(entry)
                if len(found) == limit:
                    return Stretch(found, entry.seq if entry.seq > 1 else None)
        top = bottom
    return Stretch(found, lowest + 1 if lowest else None, is_cut=lowest > 0)


async def _window(visit: Visit, after: int, last: int) -> list[Entry]:
    """The entries behind one position up to another."""
    return list(await visit.service.audit.entries(visit.principal, after, max(1, last - after), last))
