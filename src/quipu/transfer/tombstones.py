"""Deletions that a file brings: what its owner has forgotten or erased since goes here too.

1. They are followed only in a file whose owner's signature is good, brought in by somebody who may forget.
2. A memory that a file of the same owner brought, and that nobody has changed here since, is forgotten: judged by the
   rules like any forgetting, and undone with the import. Nothing is erased on a file's word.
3. Of a memory that was never here only the fact that it is gone is kept, so that no older file brings it in.
4. Everything else stays as it is, and is counted.
"""

import asyncio
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from typing import TYPE_CHECKING, Any, cast

from quipu.errors import ForbiddenError, QuipuError
from quipu.ledger.commit import Change, Commit, Erase, Put
from quipu.memory.model import ForgetResponse
from quipu.memory.pipeline import Guard, Plan
from quipu.model.journal import Draft
from quipu.model.principal import Permission
from quipu.model.record import Provenance, Record
from quipu.model.store import MAIN
from quipu.operation import Context
from quipu.search.text import is_storable
from quipu.sharing.times import instant
from quipu.transfer.model import GivenName, ImportRemovals, ImportRow
from quipu.transfer.placement import ImportsOfOwner
from quipu.transfer.writes import REMOVALS, ImportWrites, Outcome, Row, kept_row

if TYPE_CHECKING:
    from quipu.transfer.formats.reading import Reading
    from quipu.transfer.formats.values import Found

_STRETCH, _LONGEST_ID = 500, 128
_THERE = ("live", "archived")


@dataclass(frozen=True, slots=True)
class _Tombstone:
    id: str
    at: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Tombstones:
    """Reads those of a file, and has what they are of forgotten."""

    writes: ImportWrites
    ctx: Context
    reading: "Reading"
    owner: ImportsOfOwner
    agent_id: str
    #: What became of them, or would.
    counts: Counter[str]
    #: Without it nothing is written.
    row: Row | None

    async def follow(self) -> None:
        ctx, found = self.ctx, self.reading.tombstones()
        while stretch := await asyncio.to_thread(_stretch, found):
            stones: list[_Tombstone] = []
            if ctx.principal.may(Permission.DELETE):
                now = ctx.clock()
                stones = [one for _, line in stretch if (one := _read(line, now)) is not None]
            self.reading.loss.dropped("tombstones", len(stretch) - len(stones))
            await self._stretch(stones)

    async def _stretch(self, stones: Sequence[_Tombstone]) -> None:
        tenant, counts, names = self.ctx.tenant, self.counts, [stone.id for stone in stones]
        there = await self.writes.ledger.newest_versions(tenant, names)
        waiting = await self.writes.placement.waiting(tenant, names)
        unknown = [stone for stone in stones if stone.id not in there]
        if unknown and self.row is not None:
            await self._note(unknown, self.row(Outcome()))
        gone: dict[str, list[Record]] = {}
        for stone in stones:
            record = there.get(stone.id)
            if record is None or record.standing not in _THERE:
                continue
            if record.id in waiting:
                counts["removals_held"] += 1
            elif record.updated_at > stone.at or not await self.owner.brought(record):
                counts["kept"] += 1
            else:
                gone.setdefault(record.agent_id, []).append(record)
        for agent, records in gone.items():
            try:
                is_held = await self._forget(agent, records)
            except QuipuError:  # a rule forbids it, or it is another's: it stays
                counts["kept"] += len(records)
                continue
            counts["removals_held" if is_held else "removed"] += len(records)

    async def _forget(self, agent_id: str, records: Sequence[Record]) -> bool:
        """Whether it waits for a person. Who may bring in but not decide asks one."""
        ctx, row = self.ctx, self.row
        if not ctx.principal.may_act_for(agent_id):
            raise ForbiddenError(hint="The credential may not act for this agent.")
        request = ImportRemovals(
            agent_id=agent_id,
            user_id=ctx.principal.user_id,
            ids=tuple(record.id for record in records),
            reason="It was forgotten where it came from.",
            approval_required=not ctx.principal.may(Permission.ADMIN),
            import_id=self.owner.import_id,
        )
        guard = await self.writes.pipeline.redactor.guard(ctx.tenant, None)
        clean = guard.clean(request)
        planning = self.writes.pipeline.planning(ctx.principal, ctx.clock(), guard)
        plan = await self.writes.plan_removals(planning, clean)

        async def planned() -> Plan[Any]:
            return plan

        verdict = await self.writes.pipeline.governor.judge(ctx, "forget", clean, guard, planned)
        if verdict.effect == "deny":
            raise ForbiddenError("A rule forbids this.", reason="denied")
        is_held = verdict.effect == "hold"
        if row is None or not plan.commits:
            return is_held
        if is_held:
            commit, _ = await self.writes.pipeline.governor.hold(ctx, REMOVALS, clean, plan, verdict)
            plan = Plan(commits=(commit,), answer=plan.answer)
        outcome = Outcome(counts=Counter({"removals_held" if is_held else "removed": len(records)}))
        last = plan.commits[-1]
        keep = kept_row(guard, row(outcome))
        commits = (*plan.commits[:-1], replace(last, changes=(*last.changes, keep)))
        await self.writes.pipeline.commit(ctx, replace(plan, commits=commits), guard)
        return is_held

    async def _note(self, stones: Sequence[_Tombstone], row: ImportRow) -> None:
        """Memories that are born erased: id and time, and nothing else."""
        ctx, agent_id = self.ctx, self.agent_id
        store = (await self.writes.memory.remember.scopes.stores(ctx.tenant))[MAIN]
        changes: list[Change] = []
        for stone in {stone.id: stone for stone in stones}.values():
            record = Record(
                id=stone.id,
                version=1,
                store_id=store.id,
                agent_id=agent_id,
                type="semantic",
                content="",
                provenance=Provenance(written_by=ctx.principal.name, import_id=row.id),
                created_at=stone.at,
                updated_at=stone.at,
            )
            changes += [Put(record=record), Erase(id=stone.id)]
        draft = Draft(
            op="erase",
            actor=ctx.principal.name,
            at=ctx.clock(),
            agent=agent_id,
            detail={"import_id": row.id},
        )
        commit = Commit(tenant=ctx.tenant, draft=draft, changes=tuple(changes))

        async def plan(guard: Guard) -> Plan[ForgetResponse]:
            for stone in stones:
                guard.clean(GivenName(name=stone.id))
            nothing = ForgetResponse(forgotten_ids=(), hard_delete=True)
            return Plan(commits=(commit,), answer=lambda _: nothing)

        await self.writes.pipeline.carry_out(ctx, plan)


def _read(line: Any, now: int) -> _Tombstone | None:
    if not isinstance(line, dict):
        return None
    body = cast("dict[str, Any]", line)
    name, at = body.get("item_id"), instant(body.get("deleted_at"))
    if not isinstance(name, str) or not 0 < len(name) <= _LONGEST_ID or not is_storable(name) or at is None:
        return None
    return _Tombstone(name, min(at, now))


def _stretch(found: "Iterator[Found]") -> "list[Found]":
    return list(islice(found, _STRETCH))
