"""Imports as the journal knows them: what was brought in, one decision over all that waits, and undoing it whole."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from quipu.errors import InvalidError, NotFoundError, QuipuError
from quipu.model.change import Commit, Proposal, Put
from quipu.model.governance import Decision
from quipu.model.journal import Draft, Entry, Op
from quipu.model.moving import ImportDecided, ImportState, RolledBack
from quipu.model.principal import Permission, Principal
from quipu.model.record import Record, State
from quipu.model.value import Json
from quipu.ports.parts import Parts
from quipu.service.access import Access
from quipu.service.embedding import Vectors
from quipu.service.governance import Governance
from quipu.service.import_placing import held_ids
from quipu.service.import_undoing import Traces, Undoing, traces
from quipu.service.reviewing import Reviewing

_PAGE, _CHUNK, _TOLD = 1_000, 500, 1_000
#: So far back in the journal imports are looked for when they are listed.
_LOOKED_AT = 50_000


class Imports:
    """What became of them."""

    def __init__(
        self,
        parts: Parts,
        access: Access,
        governance: Governance,
        reviewing: Reviewing,
        vectors: Vectors,
    ) -> None:
        self._parts, self._access, self._undoing = parts, access, Undoing(parts, vectors)
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
            page = await self._parts.ledger.entries(principal.tenant, start, end - start)
            for entry in reversed(await self._governance.sight.entries(principal, page)):
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
        ours = await traces(self._parts, principal.tenant, import_id)
        waiting = (await self._waiting(principal)).get(import_id, [])
        if not ours.is_known and not waiting:
            raise NotFoundError("There is no such import.", reason="import")
        undone = _Undone()
        names = [*(ours.brought | ours.taken)]
        for start in range(0, len(names), _CHUNK):
            part = names[start : start + _CHUNK]
            await self._undone(principal, part, ours, import_id, undone, force=force, dry_run=dry_run)
        if not dry_run:
            marks = Draft(
                op=Op.FORGET,
                actor=principal.name,
                at=self._parts.clock(),
                detail={"import_id": import_id, "rollback": True},
            )
            if not undone.forgotten and not undone.restored:
                await self._parts.ledger.commit(Commit(tenant=principal.tenant, draft=marks))
            for proposal in waiting:
                settled = self._governance.settling(
                    principal, proposal, Decision(approved=False), closed_by="withdrawn"
                )
                await self._parts.ledger.commit(settled)
        return RolledBack(
            import_id=import_id,
            forgotten=undone.forgotten,
            withdrawn=sum(len(held_ids(one)) for one in waiting),
            kept=tuple(undone.kept[:_TOLD]),
            restored=undone.restored,
            dry_run=dry_run,
        )

    async def _undone(
        self,
        principal: Principal,
        names: Sequence[str],
        ours: Traces,
        import_id: str,
        undone: _Undone,
        *,
        force: bool,
        dry_run: bool,
    ) -> None:
        """One stretch of it, in one transaction."""
        gone: list[Record] = []
        puts: list[Put] = []
        there = await self._parts.ledger.read(principal.tenant, names)
        for name in names:
            record = there.get(name)
            if record is None or not principal.may_act_for(record.agent_id):
                continue
            if record.standing is State.FORGOTTEN and record.died == ours.taken.get(name):
                puts.append(self._undoing.returned(record))
            elif record.standing not in (State.LIVE, State.ARCHIVED) or name not in ours.brought:
                continue
            elif not force and record.version != ours.brought[name]:
                undone.kept.append(name)
            elif (put := await self._undoing.back(record, import_id)) is not None:
                puts.append(put)
            else:
                gone.append(record)
        undone.forgotten += len(gone)
        undone.restored += len(puts)
        if (gone or puts) and not dry_run:
            await self._parts.ledger.commit(*self._undoing.commits(principal, gone, puts, import_id))

    async def _waiting(self, principal: Principal) -> dict[str, list[Proposal]]:
        """What waits, by import, as far as it may be seen."""
        found: dict[str, list[Proposal]] = {}
        for proposal in await self._parts.ledger.proposals(principal.tenant, "pending"):
            name = proposal.request.get("import_id")
            if isinstance(name, str) and await self._governance.sight.sees(principal, proposal):
                found.setdefault(name, []).append(proposal)
        return found


@dataclass(slots=True)
class _Undone:
    """What a rollback has done so far."""

    forgotten: int = 0
    restored: int = 0
    kept: list[str] = field(default_factory=list[str])


def _note(entry: Entry, found: dict[str, ImportState], undone: set[str]) -> None:
    """Entries come newest first. An import may have been gone on with: then its runs are told together."""
    name = entry.detail.get("import_id")
    if not isinstance(name, str):
        return
    if entry.op in (Op.FORGET, Op.RESTORE) and entry.detail.get("rollback"):
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
            for key in ("accepted", "quarantined", "conflict", "updated", "removed", "removals_waiting")
            if key in state.detail or key in entry.detail
        }
        found[name] = replace(state, detail={**state.detail, **sums})


def _number(value: Json) -> int:
    return value if isinstance(value, int) else 0
