"""Stretches of the journal, newest first."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from quipu.faces.web.visit import Visit
from quipu.model.journal import Entry, Op
from quipu.model.principal import Principal
from quipu.ports.ledger import Entries

#: How far back one page looks for entries that pass its conditions; and where not all of them may be seen, so that each
#: has to be looked at.
REACH, _NEAR = 100_000, 2_000

#: What kind of thing each operation is; kinds have a colour and a shape of knot.
KINDS: dict[str, frozenset[Op]] = {
    "write": frozenset({Op.REMEMBER, Op.UPDATE, Op.MERGE, Op.RESTORE, Op.IMPORT}),
    "read": frozenset({Op.RECALL, Op.READ, Op.EXPORT}),
    "removal": frozenset(
        {Op.FORGET, Op.ERASE, Op.EXPIRE, Op.ARCHIVE, Op.DEMOTE, Op.SWEEP, Op.PRUNE, Op.DELETE_STORE}
    ),
    "decision": frozenset({Op.HOLD, Op.APPROVE, Op.DECIDE, Op.CHANGE_RULES, Op.DENY, Op.DISMISS_RULE}),
}

#: What somebody did, as a sentence goes on after their name.
VERBS: dict[Op, str] = {
    Op.GENESIS: "opened the journal",
    Op.REMEMBER: "remembered",
    Op.UPDATE: "changed",
    Op.RECALL: "recalled",
    Op.READ: "read",
    Op.FORGET: "forgot",
    Op.ERASE: "erased",
    Op.MERGE: "merged",
    Op.EXPIRE: "let expire",
    Op.ARCHIVE: "archived",
    Op.DEMOTE: "demoted",
    Op.RESTORE: "restored",
    Op.SWEEP: "swept up",
    Op.PRUNE: "pruned",
    Op.HOLD: "proposed",
    Op.DECIDE: "decided",
    Op.CREATE_STORE: "opened a store",
    Op.DELETE_STORE: "deleted a store",
    Op.IMPORT: "imported",
    Op.EXPORT: "exported",
    Op.REEMBED: "embedded anew",
    Op.ISSUE_TOKEN: "issued a token",
    Op.END_TOKEN: "ended a token",
    Op.SUSPEND: "suspended the tenant",
    Op.RESUME: "resumed the tenant",
    Op.KEEP_SECRET: "registered a secret",
    Op.DROP_SECRET: "dropped a secret",
    Op.APPROVE: "agreed to",
    Op.CHANGE_RULES: "changed the rules",
    Op.DISMISS_RULE: "dismissed a suggested rule",
    Op.DENY: "was denied",
    Op.ADD_WEBHOOK: "added a webhook",
    Op.DROP_WEBHOOK: "removed a webhook",
    Op.OPEN_RUN: "began a run",
    Op.STEP_RUN: "went on with a run",
    Op.EXPIRE_RUN: "dropped the log of a run",
    Op.KEEP_REF: "opened a place for runs to write to",
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
    #: The id of a proposal, an import or anything else that they tell of.
    about: str = ""
    #: Only what was before this moment.
    ended_at: int | None = None

    @property
    def ops(self) -> frozenset[Op] | None:
        """The operations that pass; None where all do."""
        named = None if not self.op else frozenset(op for op in Op if op == self.op)
        alike = None if not self.kind else frozenset(op for op in Op if kind_of(op) == self.kind)
        return named if alike is None else alike if named is None else named & alike

    def holds(self, entry: Entry) -> bool:
        return (
            (self.ended_at is None or entry.at < self.ended_at)
            and self.op in ("", entry.op)
            and self.kind in ("", kind_of(entry.op))
            and self.agent in ("", entry.agent)
            and self.actor in ("", entry.actor)
            and (not self.record or any(mention.id == self.record for mention in entry.records))
            and (not self.about or self.about in entry.detail.values())
        )


@dataclass(frozen=True, slots=True)
class Stretch:
    """Some entries, newest first; where older ones begin; and where the search gave up, how many it has looked through."""

    entries: Sequence[Entry]
    before: int | None
    looked_through: int = 0


async def newest(visit: Visit, limit: int) -> Sequence[Entry]:
    """The last so many positions, as far as they may be seen."""
    head = await visit.service.audit.head(visit.principal)
    after = max(0, head.seq - limit)
    return (await visit.service.audit.entries(visit.principal, after, limit, head.seq))[::-1]


async def stretch(visit: Visit, wanted: Wanted, before: int | None, limit: int) -> Stretch:
    """Entries below a position (None: the end) that pass, newest first."""
    head = await visit.service.audit.head(visit.principal)
    top = head.seq if before is None else min(before - 1, head.seq)
    lowest = max(0, top - (REACH if _sees_all(visit.principal) else _NEAR))
    asked = Entries(
        ops=wanted.ops,
        agent=wanted.agent or None,
        actor=wanted.actor or None,
        record=wanted.record or None,
        told=wanted.about or None,
        after=lowest,
        last=max(top, 0),
        limit=limit,
        is_newest_first=True,
    )
    seen = await visit.service.audit.entries_with(visit.principal, asked)
    found = [entry for entry in seen if wanted.holds(entry)]
    if len(seen) == limit:
        return Stretch(found, seen[-1].seq if seen[-1].seq > 1 else None)
    return Stretch(found, lowest + 1 if lowest else None, looked_through=top - lowest if lowest else 0)


def _sees_all(principal: Principal) -> bool:
    """Whether nothing of the journal is kept from them."""
    return principal.agents == ("*",) and principal.user_id is None and not principal.is_limited
