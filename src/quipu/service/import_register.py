"""Imports as the journal knows them: what was brought in, one decision over all that waits, and undoing it whole."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from quipu.errors import InvalidError, NotFoundError, QuipuError
from quipu.model.change import Close, Commit, Proposal
from quipu.model.governance import Decision
from quipu.model.journal import Draft, Entry, Op
from quipu.model.moving import ImportDecided, ImportState, RolledBack
from quipu.model.principal import Permission, Principal
from quipu.model.record import Ending, Record, State
from quipu.model.value import Json
from quipu.ports.parts import Parts
from quipu.service.access import Access
from quipu.service.governance import Governance
from quipu.service.import_placing import UNDONE, held_ids
from quipu.service.reviewing import Reviewing

_PAGE, _CHUNK, _TOLD = 1_000, 500, 1_000
#: So far back in the journal imports are looked for when they are listed.
_LOOKED_AT = 50_000


class Imports:
    """What became of them."""

    def __init__(self, parts: Parts, access: Access, governance: Governance, reviewing: Reviewing) -> None:
        self._parts, self._access = parts, access
        self._governance, self._reviewing = governance, reviewing

    async def list(self, principal: Principal) -> tuple[ImportState, ...]:
        """The last ones, newest first."""
        self._access.authorise(principal, Permission.REVIEW)
        found: dict[str, ImportState] = {}
        undone: set[str] = set()
        end = (await self._parts.ledger.head(principal.tenant)).seq
        last = max(0, end - _LOOKED_AT)
        while end > last:
            start = max(last, end - _PAGE)
            for entry in reversed(await self._parts.ledger.entries(principal.tenant, start, end - start)):
                _note(entry, found, undone)
            end = start
        waiting = await self._waiting(principal)
        return tuple(
            replace(
                state,
                waiting=sum(len(held_ids(one)) for one in waiting.get(name, ())),
            )
            for name, state in found.items()
        )

    async def decide(
        self, principal: Principal, import_id: str, *, approved: bool, reason: str | None = None
    ) -> ImportDecided:
        """Say yes or no to everything of an import that waits."""
        self._access.authorise(principal, Permission.REVIEW)
        decided = failed = 0
        waiting = (await self._waiting(principal)).get(import_id, [])
        if not waiting:
            raise NotFoundError("Nothing of such an import waits here.", reason="import")
        first: QuipuError | None = None
        for proposal in waiting:
            count = len(held_ids(proposal))
            try:
                said = Decision(approved=approved, reason=reason)
                await self._reviewing.decide(principal, proposal.id, said)
                decided += count
            except QuipuError as error:
                first, failed = first or error, failed + count
        if first is not None and not decided:
            raise first
        return ImportDecided(import_id=import_id, approved=approved, decided=decided, failed=failed)

    async def roll_back(
        self, principal: Principal, import_id: str, *, force: bool = False, dry_run: bool = False
    ) -> RolledBack:
        """Undo an import as a whole. What was changed since is kept and named, unless `force` says otherwise."""
        self._access.authorise(principal, Permission.ADMIN)
        if not import_id.startswith("imp_"):
            raise InvalidError.at("/import_id", "bad_value", "This is no import of ours.")
        ours = await self._brought(principal.tenant, import_id)
        waiting = (await self._waiting(principal)).get(import_id, [])
        if not ours and not waiting:
            raise NotFoundError("There is no such import.", reason="import")
        forgotten, kept = 0, list[str]()
        names = [*ours]
        for start in range(0, len(names), _CHUNK):
            part = names[start : start + _CHUNK]
            there = await self._parts.ledger.read(principal.tenant, part)
            mine = [
                record
                for record in there.values()
                if record.standing in (State.LIVE, State.ARCHIVED) and principal.may_act_for(record.agent_id)
            ]
            edited = {record.id for record in mine if record.version != ours[record.id]}
            kept += [] if force else sorted(edited)
            gone = [record for record in mine if force or record.id not in edited]
            forgotten += len(gone)
            if gone and not dry_run:
                await self._parts.ledger.commit(*self._undoing(principal, gone, import_id))
        withdrawn = sum(len(held_ids(one)) for one in waiting)
        for proposal in [] if dry_run else waiting:
            settled = self._governance.settling(
                principal, proposal, Decision(approved=False), closed_by="withdrawn"
            )
            await self._parts.ledger.commit(settled)
        return RolledBack(
            import_id=import_id,
            forgotten=forgotten,
            withdrawn=withdrawn,
            kept=tuple(kept[:_TOLD]),
            dry_run=dry_run,
        )

    def _undoing(self, principal: Principal, gone: Sequence[Record], import_id: str) -> list[Commit]:
        """One entry for each agent. The reason lets the same file come in again."""
        agents: dict[str, list[Record]] = {}
        for record in gone:
            agents.setdefault(record.agent_id, []).append(record)
        return [
            Commit(
                tenant=principal.tenant,
                draft=Draft(
                    op=Op.FORGET,
                    actor=principal.name,
                    at=self._parts.clock(),
                    agent=agent,
                    detail={"import_id": import_id, "rollback": True},
                ),
                changes=tuple(Close(record=record, ending=Ending.FORGOTTEN) for record in records),
                reason=UNDONE + import_id,
            )
            for agent, records in agents.items()
        ]

    async def _brought(self, tenant: str, import_id: str) -> dict[str, int]:
        """Ids that an import wrote, each with the version that it wrote last. The journal is the witness."""
        found: dict[str, int] = {}
        after = 0
        while page := await self._parts.ledger.entries(tenant, after, _PAGE):
            for entry in page:
                if entry.op is Op.IMPORT and entry.detail.get("import_id") == import_id:
                    found |= {mention.id: mention.version for mention in entry.records}
            after = page[-1].seq
        return found

    async def _waiting(self, principal: Principal) -> dict[str, list[Proposal]]:
        """What waits, by import, as far as it may be seen."""
        found: dict[str, list[Proposal]] = {}
        for proposal in await self._parts.ledger.proposals(principal.tenant, "pending"):
            name = proposal.request.get("import_id")
            if isinstance(name, str) and await self._governance.sight.sees(principal, proposal):
                found.setdefault(name, []).append(proposal)
        return found


def _note(entry: Entry, found: dict[str, ImportState], undone: set[str]) -> None:
    """Entries come newest first. An import may have been gone on with: then its runs are told together."""
    name = entry.detail.get("import_id")
    if not isinstance(name, str):
        return
    if entry.op is Op.FORGET and entry.detail.get("rollback"):
        undone.add(name)
    elif entry.op is not Op.IMPORT or "sha256" not in entry.detail:
        return
    elif name not in found:
        is_undone = name in undone
        found[name] = ImportState(
            import_id=name, at=entry.at, by=entry.actor, detail=entry.detail, is_rolled_back=is_undone
        )
    elif name not in undone:
        state = found[name]
        sums: dict[str, Json] = {
            key: _number(state.detail.get(key)) + _number(entry.detail.get(key))
            for key in ("accepted", "quarantined", "conflict")
        }
        found[name] = replace(state, detail={**state.detail, **sums})


def _number(value: Json) -> int:
    return value if isinstance(value, int) else 0
