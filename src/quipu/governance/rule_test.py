"""What rules would have done with the last writes, and would do with what waits. Nothing changes."""

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from quipu.errors import QuipuError
from quipu.governance.gate import Gate
from quipu.governance.model import (
    DEFAULT,
    PROPOSALS,
    ListReviewsRequest,
    Proposal,
    Rule,
    TestedWrite,
    TestRulesRequest,
    TestRulesResponse,
)
from quipu.governance.proposals import Proposals
from quipu.governance.review import HeldWrites, author
from quipu.governance.reviewer_scope import ReviewerScope
from quipu.governance.rules import Facts, Question, decided
from quipu.ledger.ledger import JournalQuery, Kept, Ledger
from quipu.memory.pipeline import Plan, Verdict
from quipu.model.journal import Entry
from quipu.model.record import Record
from quipu.model.store import Store
from quipu.operation import Context

_PAGE = 1_000
#: So many writes are judged before others have their turn.
_AT_ONCE = 20
#: Kinds of entries that are writes, and what rules call them.
_WRITES: Mapping[str, str] = {
    **{"remember": "remember", "update": "remember", "import": "remember", "restore": "restore"},
    **{"forget": "forget", "erase": "forget", "merge": "merge"},
    **{"expire": "expire", "archive": "expire", "demote": "expire"},
}
#: Those after which the memories are as they were before, or gone.
_REMOVING = frozenset({"forget", "erase", "expire", "merge"})


@dataclass(frozen=True, slots=True, kw_only=True)
class RuleTest:
    """Replays. The journal does not say everything: whether a source was new, and whether something stood against a
    memory, is not known of the past, and conditions on them match nothing there. Of what waits, the held request and
    what it would touch now are judged."""

    ledger: Ledger
    gate: Gate
    proposals: Proposals
    held: HeldWrites
    scope: ReviewerScope

    async def test(self, ctx: Context, request: TestRulesRequest) -> TestRulesResponse:
        guard = await self.held.pipeline.redactor.guard(ctx.tenant, None)
        given = guard.clean(request).rules  # their names stand in the answer
        rules = await self.gate.rules.in_force(ctx.tenant, guard.checked_at, own=given)
        stores = await self.scope.scopes.stores(ctx.tenant)
        replayed: list[TestedWrite] = []
        for entry in await self._writes(ctx, request.last):
            if len(replayed) % _AT_ONCE == 0:
                await asyncio.sleep(0)  # rules may be many, and others wait
            replayed.append(await self._replayed(ctx, rules, entry, stores))
        return TestRulesResponse(replayed=tuple(replayed), pending=tuple(await self._pending(ctx, rules)))

    async def _writes(self, ctx: Context, last: int) -> list[Entry]:
        """The last writes that the caller may see, newest first."""
        found: list[Entry] = []
        before: int | None = None
        while len(found) < last:
            page = await self.ledger.entries(
                ctx.tenant, JournalQuery(before=before, newest_first=True, limit=_PAGE)
            )
            writes = [entry for entry in page if entry.op in _WRITES and entry.agent is not None]
            found += await self.scope.entries(ctx.principal, writes)
            if len(page) < _PAGE:
                break
            before = page[-1].seq
        return found[:last]

    async def _replayed(
        self, ctx: Context, rules: Sequence[Rule], entry: Entry, stores: Mapping[str, Store]
    ) -> TestedWrite:
        writer = await self._writer(ctx, entry)
        records = await self._records(ctx.tenant, entry)
        facts = Facts(
            operation=_WRITES[entry.op],
            agent_id=entry.agent or "",
            principal=writer,
            is_hard=entry.op == "erase",
            is_forgetting=entry.op == "expire",
            subjects=tuple(self.gate.subject(record, place) for place, record in enumerate(records)),
            count=max(1, len({mention.id for mention in entry.records})),
            stores=stores,
            is_new_source=False,
            has_conflict=False,
        )
        return TestedWrite(
            seq=entry.seq,
            at=entry.at,
            operation=entry.op,
            agent_id=entry.agent,
            writer=writer,
            **_outcome(decided(rules, facts, entry.at, default=self.gate.rules.default)),
        )

    async def _pending(self, ctx: Context, rules: Sequence[Rule]) -> list[TestedWrite]:
        """What waits, as far as it could be carried out now."""
        found: list[TestedWrite] = []
        reach = await self.scope.of(ctx.principal)
        async for kept in self.proposals.walk(ctx.tenant, ListReviewsRequest(status="pending")):
            proposal = kept.value
            if proposal.operation == "recall" or not reach.sees(proposal):
                continue
            try:
                verdict = await self._verdict(ctx, rules, kept)
            except QuipuError:
                continue
            found.append(
                TestedWrite(
                    proposal_id=proposal.id,
                    at=proposal.created_at,
                    operation=proposal.operation,
                    agent_id=proposal.agent_id,
                    writer=proposal.writer,
                    **_outcome(verdict),
                )
            )
        return found

    async def _verdict(self, ctx: Context, rules: Sequence[Rule], kept: Kept[Proposal]) -> Verdict:
        """What these rules say of a held write, as its author asks for it and as it would be carried out now."""
        waiting = await self.held.read(ctx.tenant, kept)
        assert waiting.request is not None

        async def plan() -> Plan[Any]:
            return await self.held.plan(ctx, waiting)

        writer = author(ctx.tenant, kept.value)
        facts = self.gate.facts(writer, kept.value.operation, waiting.request)
        return await self.gate.verdict(ctx, rules, facts, plan)

    async def _writer(self, ctx: Context, entry: Entry) -> str:
        """Who asked for it: of what a reviewer let through, who had proposed it."""
        name = entry.detail.get("proposal")
        proposal = await self.ledger.get(PROPOSALS, ctx.tenant, name) if isinstance(name, str) else None
        return entry.actor if proposal is None else proposal.writer

    async def _records(self, tenant: str, entry: Entry) -> list[Record]:
        """The versions that the entry speaks of, as far as they are still there."""
        ids = list(dict.fromkeys(mention.id for mention in entry.records))
        at = entry.seq - 1 if entry.op in _REMOVING else entry.seq
        found = await self.ledger.records(tenant, ids, at)
        return [record for record in found.values() if not record.is_emptied]


def _outcome(verdict: Verdict | Question) -> dict[str, Any]:
    """What becomes of it; a rule that asks for what nobody knows any more is about nothing."""
    if isinstance(verdict, Question):
        verdict = Verdict()
    return {"effect": verdict.effect, "rule": verdict.rules[0] if verdict.rules else DEFAULT}
