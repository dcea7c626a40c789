"""Imports as the journal knows them: what was brought in, one decision over all that waits, and undoing it whole."""

from __future__ import annotations

from collections import Counter
from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing
from dataclasses import dataclass, field, replace

from quipu.errors import InvalidError, NotFoundError, QuipuError
from quipu.model.change import Proposal, Put
from quipu.model.governance import Decision
from quipu.model.journal import Entry, Op
from quipu.model.moving import ImportDecided, ImportState, RolledBack
from quipu.model.principal import Permission, Principal
from quipu.model.record import Record, State
from quipu.model.value import Json
from quipu.ports.ledger import Entries, Proposals
from quipu.ports.parts import Parts
from quipu.service.access import Access
from quipu.service.embedding import Vectors
from quipu.service.governance import Governance
from quipu.service.import_placing import held_ids
from quipu.service.import_undoing import Trace, Undoing, traces
from quipu.service.reviewing import Reviewing

_PAGE, _WAITING, _TOLD = 1_000, 100, 1_000
#: So far back in the journal imports are looked for when they are listed.
_LOOKED_AT = 50_000
#: What brings memories in, and what takes them back.
_TELLING = frozenset({Op.IMPORT, Op.FORGET, Op.RESTORE})
#: What lines are called beside the formats of files.
_LINES = "lines"


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
        wanted = Entries(ops=_TELLING, after=max(0, end - _LOOKED_AT), limit=_PAGE, is_newest_first=True)
        while end > wanted.after:
            page = await self._parts.ledger.entries_with(principal.tenant, replace(wanted, last=end))
            for entry in await self._governance.sight.entries(principal, page):
                _note(entry, found, undone)
            end = page[-1].seq - 1 if len(page) == _PAGE else wanted.after
        waiting: Counter[str] = Counter()
        async for name, proposal in self._waiting(principal):
            waiting[name] += len(held_ids(proposal))
        return tuple(replace(state, waiting=waiting[name]) for name, state in found.items())

    async def decide(
        self, principal: Principal, import_id: str, *, approved: bool, reason: str | None = None
    ) -> ImportDecided:
        """Say yes or no to everything of an import that waits."""
        self._access.authorise(principal, Permission.REVIEW)
        decided = failed = 0
        is_waiting = False
        first: QuipuError | None = None
        async for name, proposal in self._waiting(principal):
            if name != import_id:
                continue
            count, is_waiting = len(held_ids(proposal)), True
            try:
                said = Decision(approved=approved, reason=reason)
                await self._reviewing.decide(principal, proposal.id, said)
                decided += count
            except QuipuError as error:
                first, failed = first or error, failed + count
        if not is_waiting:
            raise NotFoundError("Nothing of such an import waits here.", reason="import")
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
        undone = _Undone()
        held: list[Trace] | None = None
        async with aclosing(traces(self._parts, principal.tenant, import_id)) as stretches:
            async for stretch in stretches:
                if held is not None:
                    await self._undone(principal, held, import_id, undone, force=force, dry_run=dry_run)
                held = stretch
        # What waits goes before the last stretch, which says that all is undone.
        withdrawn, is_waiting = await self._withdrawn(principal, import_id, dry_run=dry_run)
        if held is None and not is_waiting:
            raise NotFoundError("There is no such import.", reason="import")
        await self._undone(
            principal, held or [], import_id, undone, force=force, dry_run=dry_run, is_last=True
        )
        return RolledBack(
            import_id=import_id,
            forgotten=undone.forgotten,
            withdrawn=withdrawn,
            kept=tuple(undone.kept),
            restored=undone.restored,
            dry_run=dry_run,
        )

    async def _undone(
        self,
        principal: Principal,
        done: Sequence[Trace],
        import_id: str,
        undone: _Undone,
        *,
        force: bool,
        dry_run: bool,
        is_last: bool = False,
    ) -> None:
        """One stretch of it, in one transaction. What is undone already is passed over, so it can be gone on with."""
        gone: list[Record] = []
        puts: list[Put] = []
        there = await self._parts.ledger.read(principal.tenant, [one.id for one in done])
        for one in done:
            record = there.get(one.id)
            if record is None or not principal.may_act_for(record.agent_id):
                continue
            if one.version is None:
                if record.standing is State.FORGOTTEN and record.died == one.seq:
                    puts.append(self._undoing.returned(record))
                continue
            if record.standing not in (State.LIVE, State.ARCHIVED):
                continue
            if record.version != one.version:
                if await self._undoing.is_settled(record, one.version, import_id):
                    continue
                if not force:
                    undone.keep(one.id)
                    continue
            put = await self._undoing.back(record, import_id)
            if put is None:
                gone.append(record)
            else:
                puts.append(put)
        undone.forgotten += len(gone)
        undone.restored += len(puts)
        commits = self._undoing.commits(principal, gone, puts, import_id, is_last=is_last)
        if is_last and not commits:
            commits = [self._undoing.mark(principal, import_id)]
        if commits and not dry_run:
            await self._parts.ledger.commit(*commits)

    async def _withdrawn(self, principal: Principal, import_id: str, *, dry_run: bool) -> tuple[int, bool]:
        """What waits of it is dropped from the queue: how many, and whether anything waited."""
        count, is_waiting = 0, False
        async with aclosing(self._waiting(principal)) as waiting:
            async for name, proposal in waiting:
                if name != import_id:
                    continue
                count, is_waiting = count + len(held_ids(proposal)), True
                if not dry_run:
                    settled = self._governance.settling(
                        principal, proposal, Decision(approved=False), closed_by="withdrawn"
                    )
                    await self._parts.ledger.commit(settled)
        return count, is_waiting

    async def _waiting(self, principal: Principal) -> AsyncGenerator[tuple[str, Proposal]]:
        """What waits of imports, as far as it may be seen, oldest first."""
        after: tuple[int, str] | None = None
        while page := await self._parts.ledger.proposals(
            principal.tenant, "pending", Proposals(is_of_imports=True, after=after, limit=_WAITING)
        ):
            for proposal in page:
                name = proposal.request.get("import_id")
                if isinstance(name, str) and await self._governance.sight.sees(principal, proposal):
                    yield name, proposal
            after = (page[-1].created_at, page[-1].id)


@dataclass(slots=True)
class _Undone:
    """What a rollback has done so far."""

    forgotten: int = 0
    restored: int = 0
    #: The first thousand.
    kept: list[str] = field(default_factory=list[str])

    def keep(self, record_id: str) -> None:
        """It was changed since, and stays."""
        if len(self.kept) < _TOLD:
            self.kept.append(record_id)


def _note(entry: Entry, found: dict[str, ImportState], undone: set[str]) -> None:
    """Entries come newest first. An import may have been gone on with: then its runs are told together.

    A file ends with an entry that tells all of it (`sha256`). Lines have none: what each entry brought in is counted.
    """
    name = entry.detail.get("import_id")
    if not isinstance(name, str):
        return
    state = found.get(name)
    if entry.op in (Op.FORGET, Op.RESTORE) and entry.detail.get("rollback"):
        if not entry.detail.get("more"):  # one that was stopped in the middle has not undone it
            undone.add(name)
    elif entry.op is not Op.IMPORT:
        return
    elif "sha256" not in entry.detail:
        if state is None or "sha256" not in state.detail:
            _note_lines(entry, name, found, is_undone=name in undone)
    elif state is None or "sha256" not in state.detail:
        found[name] = ImportState(
            import_id=name, at=entry.at, by=entry.actor, detail=entry.detail, is_rolled_back=name in undone
        )
    elif name not in undone:
        sums: dict[str, Json] = {
            key: _number(state.detail.get(key)) + _number(entry.detail.get(key))
            for key in ("accepted", "quarantined", "conflict", "updated", "removed", "removals_waiting")
            if key in state.detail or key in entry.detail
        }
        found[name] = replace(state, detail={**state.detail, **sums})


def _note_lines(entry: Entry, name: str, found: dict[str, ImportState], *, is_undone: bool) -> None:
    state = found.get(name) or ImportState(
        import_id=name, at=entry.at, by=entry.actor, detail={"format": _LINES}, is_rolled_back=is_undone
    )
    accepted = _number(state.detail.get("accepted")) + len(entry.records)
    found[name] = replace(state, detail={**state.detail, "accepted": accepted})


def _number(value: Json) -> int:
    return value if isinstance(value, int) else 0
