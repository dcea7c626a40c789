"""How memories that an import brings are written: some hundred in one transaction, or put before a person.

`ImportWrites.chunk` is the way of all of them: redacted, placed, judged each for itself, and then committed together.
"""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, TypeAlias

from quipu.errors import ConflictError, ForbiddenError, QuipuError, SecretLeakageError
from quipu.ledger.commit import Change, Commit, Keep, Put
from quipu.ledger.ledger import Ledger
from quipu.memory import drafts
from quipu.memory.model import ForgetResponse, RememberManyResponse
from quipu.memory.pipeline import Guard, Pipeline, Plan, Planning, Verdict, Write, naming
from quipu.memory.scope import in_scope, no_store
from quipu.memory.service import MemoryService
from quipu.model.journal import Draft
from quipu.model.record import Record
from quipu.model.store import Store
from quipu.operation import Context
from quipu.transfer.model import (
    IMPORTS,
    GivenNames,
    ImportedMemory,
    ImportMemories,
    ImportRemovals,
    ImportRow,
)
from quipu.transfer.placement import ImportsOfOwner, Placed, Placement, beside

#: Names of writes that wait, and of the entries of the journal.
IMPORT, REMOVALS = "import", "import_removals"
_MOST_ATTEMPTS = 16
_PASSING = frozenset({"secrets_changed", "version_mismatch", "derived_meanwhile", "row_changed"})


@dataclass(slots=True)
class Outcome:
    """What became of a chunk, or would."""

    #: By the place of each in the chunk: why it does not come in.
    refused: dict[int, QuipuError] = field(default_factory=dict[int, QuipuError])
    #: As they are kept, or would be.
    written: list[ImportedMemory] = field(default_factory=list[ImportedMemory])
    counts: Counter[str] = field(default_factory=Counter[str])
    #: Links to memories that are out of reach.
    lost_links: int = 0


#: The row of an import as it is to be kept with a chunk.
Row: TypeAlias = Callable[[Outcome], ImportRow]


@dataclass(slots=True)
class _Drafted:
    """A placed memory as a record, its place in the chunk, and what the rules say of it."""

    index: int
    placed: Placed
    record: Record
    verdict: Verdict = field(default_factory=Verdict)


@dataclass(frozen=True, slots=True, kw_only=True)
class ImportWrites:
    """Plans and writes."""

    ledger: Ledger
    pipeline: Pipeline
    memory: MemoryService

    @property
    def placement(self) -> Placement:
        return Placement(ledger=self.ledger)

    @property
    def write(self) -> Write[ImportMemories, RememberManyResponse]:
        """How what was held is written once it is approved."""
        return Write(
            operation=IMPORT,
            request=ImportMemories,
            response=RememberManyResponse,
            plan=self.plan,
            held=self.memory.batch.write.held,
        )

    @property
    def removal(self) -> Write[ImportRemovals, ForgetResponse]:
        """How what a file's owner has forgotten is forgotten here."""
        return Write(
            operation=REMOVALS,
            request=ImportRemovals,
            response=ForgetResponse,
            plan=self.plan_removals,
            held=self.memory.forget.write.held,
        )

    async def plan(self, planning: Planning, request: ImportMemories) -> Plan[RememberManyResponse]:
        outcome = Outcome()
        placed = [Placed(memory, "new") for memory in request.items]
        drafted = await self._drafted(planning, list(enumerate(placed)), outcome)
        for error in outcome.refused.values():
            raise error
        return _plan(drafted, await self._commits(planning, drafted))

    async def plan_removals(self, planning: Planning, request: ImportRemovals) -> Plan[ForgetResponse]:
        made = await self.memory.forget.plan(planning, request)
        return replace(made, commits=naming(made.commits, "import_id", request.import_id))

    # -- a chunk ------------------------------------------------------------------------------------------------------

    async def chunk(
        self,
        ctx: Context,
        memories: Sequence[ImportedMemory],
        owner: ImportsOfOwner | None = None,
        *,
        row: Row | None = None,
    ) -> Outcome:
        """Memories of one import, in one transaction. Those that cannot come in say why; the others do.

        row: What is kept of the import with it; without one it is a trial, and nothing is written.
        """
        for attempt in range(_MOST_ATTEMPTS):
            try:
                return await self._chunk(ctx, memories, owner, row)
            except ConflictError as conflict:
                if conflict.reason not in _PASSING or attempt + 1 == _MOST_ATTEMPTS:
                    raise
        raise ConflictError  # unreachable: the last turn raises or returns

    async def _chunk(
        self,
        ctx: Context,
        memories: Sequence[ImportedMemory],
        owner: ImportsOfOwner | None,
        row: Row | None,
    ) -> Outcome:
        outcome = Outcome()
        guard = await self.pipeline.redactor.guard(ctx.tenant, None)
        planning = self.pipeline.planning(ctx.principal, ctx.clock(), guard)
        clean = _cleaned(guard, memories, outcome)
        fresh: list[tuple[int, Placed]] = []
        places = await self.placement.placed(ctx.principal, list(clean.values()), owner)
        for index, placed in zip(clean, places, strict=True):
            if isinstance(placed, QuipuError):
                outcome.refused[index] = placed
            elif placed.place == "duplicate":
                outcome.counts["duplicate"] += 1
            else:
                fresh.append((index, placed))
        drafted = await self._drafted(planning, fresh, outcome)
        if drafted:
            await self._judged(ctx, planning, guard, drafted, outcome, row)
        return outcome

    async def _judged(
        self,
        ctx: Context,
        planning: Planning,
        guard: Guard,
        drafted: Sequence[_Drafted],
        outcome: Outcome,
        row: Row | None,
    ) -> None:
        """What the rules say of each, and then all of it at once: what comes in, what waits, and the import's row."""

        async def planned() -> Plan[Any]:
            return _plan(drafted, ())

        governor = self.pipeline.governor
        verdicts = await governor.judge_each(ctx, _request(drafted), guard, planned)
        sorted_: dict[str, list[_Drafted]] = {"allow": [], "hold": [], "deny": []}
        for one, verdict in zip(drafted, verdicts, strict=True):
            one.verdict = verdict
            sorted_[verdict.effect].append(one)
        free, held, denied = sorted_.values()
        for one in denied:
            outcome.refused[one.index] = ForbiddenError(
                f"A rule forbids this: {', '.join(one.verdict.rules)}.",
                reason="denied",
                hint=one.verdict.because,
            )
        _count(outcome, free, held)
        if row is None:
            return
        if denied:
            await governor.denied(ctx, IMPORT, _request(denied), denied[0].verdict)
        commits = await self._commits(planning, free)
        for agent in dict.fromkeys(one.record.agent_id for one in held):
            waiting = [one for one in held if one.record.agent_id == agent]
            commits.append(await self._held(ctx, planning, waiting))
        if commits:
            last = commits[-1]
            commits[-1] = replace(last, changes=(*last.changes, kept_row(guard, row(outcome))))
            await self.pipeline.commit(ctx, _plan(free, commits), guard)

    async def _held(self, ctx: Context, planning: Planning, waiting: Sequence[_Drafted]) -> Commit:
        """What waits of one agent in one chunk is one proposal; a whole import is decided on at once.

        A newer version waits beside what it would follow: who decides sees both.
        """
        own = [
            one.placed.memory
            if one.placed.after is None
            else beside(ctx.principal, one.placed.after, one.placed.memory)
            for one in waiting
        ]
        bare = [memory.model_copy(update={"embedding": None, "approval_required": False}) for memory in own]
        request = ImportMemories(agent_id=bare[0].agent_id, items=tuple(bare), import_id=bare[0].import_id)
        plan = await self.plan(planning, request)
        verdict = strictest_of([one.verdict for one in waiting])
        commit, _ = await self.pipeline.governor.hold(ctx, IMPORT, request, plan, verdict)
        return commit

    # -- records ------------------------------------------------------------------------------------------------------

    async def _drafted(
        self, planning: Planning, placed: Sequence[tuple[int, Placed]], outcome: Outcome
    ) -> list[_Drafted]:
        """The records as they would be kept; some cannot be."""
        stores = await self.memory.remember.scopes.stores(planning.tenant)
        reachable = await self._reachable(planning, [one.memory for _, one in placed])
        drafted: list[_Drafted] = []
        for index, one in placed:
            links = tuple(link for link in one.memory.links or () if reachable(one.memory, link.to))
            outcome.lost_links += len(one.memory.links or ()) - len(links)
            own = replace(one, memory=one.memory.model_copy(update={"links": links or None}))
            try:
                drafted.append(_Drafted(index, own, self._record(planning, own, stores)))
            except QuipuError as error:
                outcome.refused[index] = error
        return drafted

    def _record(self, planning: Planning, placed: Placed, stores: Mapping[str, Store]) -> Record:
        memory = placed.memory
        store = stores.get(memory.store)
        if store is None or not planning.reaches_store(store.name):
            raise no_store()
        record = drafts.new_record(
            memory,
            planning,
            self.memory.remember.limits,
            store=store,
            record_id=memory.record_id,
            import_id=memory.import_id,
            created_at=memory.created_at,
            captured_at=memory.captured_at,
        )
        record = replace(record, state=memory.state, updated_at=memory.updated_at or record.updated_at)
        if (was := placed.after) is None:
            return record
        return replace(record, version=was.version + 1, created_at=was.created_at)

    async def _reachable(self, planning: Planning, memories: Sequence[ImportedMemory]) -> Any:
        """Whether a link may stay: to what is in reach, or to what is not there yet and may come later in the file."""
        targets = {link.to for memory in memories for link in memory.links or ()}
        known = await self.ledger.records(planning.tenant, sorted(targets))
        agents = {memory.agent for memory in memories} if known else set[str]()
        scopes = {agent: await self.memory.remember.scopes.of(planning, agent) for agent in agents}

        def reachable(memory: ImportedMemory, target: str) -> bool:
            return target not in known or in_scope(known[target], scopes[memory.agent])

        return reachable

    async def _commits(self, planning: Planning, drafted: Sequence[_Drafted]) -> list[Commit]:
        """One entry of the journal for each agent, store and rule; all are embedded in one go."""
        if not drafted:
            return []
        remember = self.memory.remember
        vectors = await remember.embedding.of_records(
            planning.tenant,
            [one.record for one in drafted],
            [one.placed.memory.embedding for one in drafted],
        )
        groups: dict[tuple[str, str, str], list[Change]] = {}
        for one, vector in zip(drafted, vectors, strict=True):
            put: Put = remember.put(planning.tenant, one.record, vector)
            if one.placed.after is not None:
                put = replace(put, expects=one.placed.after.version)
            rule = next(iter(one.verdict.rules), "")
            groups.setdefault((one.record.agent_id, one.record.store_id, rule), []).append(put)
        import_id = drafted[0].placed.memory.import_id
        return [
            Commit(
                tenant=planning.tenant,
                draft=Draft(
                    op=IMPORT,
                    actor=planning.author,
                    at=planning.now,
                    store=store,
                    agent=agent,
                    detail={"import_id": import_id, **({"rule": rule} if rule else {})},
                ),
                changes=tuple(changes),
            )
            for (agent, store, rule), changes in groups.items()
        ]


def _plan(drafted: Sequence[_Drafted], commits: Sequence[Commit]) -> Plan[RememberManyResponse]:
    return Plan(
        commits=tuple(commits),
        answer=lambda _: RememberManyResponse(results=()),
        before=tuple(one.placed.after for one in drafted if one.placed.after is not None),
        after=tuple(one.record for one in drafted),
    )


def kept_row(guard: Guard, row: ImportRow) -> Keep:
    """The change that keeps an import's row: its names without secrets, or not at all."""
    try:
        names = guard.clean(GivenNames(file_name=row.file_name, export_id=row.export_id))
    except SecretLeakageError:
        names = GivenNames()
    return Keep(IMPORTS, replace(row, file_name=names.file_name, export_id=names.export_id))


def strictest_of(verdicts: Sequence[Verdict]) -> Verdict:
    """One verdict for what waits together."""
    reasons = dict.fromkeys(one.because for one in verdicts if one.because)
    lapses = [one.lapses_at for one in verdicts if one.lapses_at is not None]
    return Verdict(
        effect="hold",
        rules=tuple(dict.fromkeys(name for one in verdicts for name in one.rules)),
        because=" ".join(reasons) or None,
        approvals=max(one.approvals for one in verdicts),
        lapses_at=min(lapses, default=None),
    )


def _cleaned(guard: Guard, memories: Sequence[ImportedMemory], outcome: Outcome) -> dict[int, ImportedMemory]:
    """Without secrets. A text that lost one has lost the vector that came with it; a name with one refuses its item."""
    clean: dict[int, ImportedMemory] = {}
    for index, memory in enumerate(memories):
        try:
            clean[index] = guard.clean(memory)
        except QuipuError as error:
            outcome.refused[index] = error
    return clean


def _request(drafted: Sequence[_Drafted]) -> ImportMemories:
    memories = tuple(one.placed.memory for one in drafted)
    return ImportMemories.model_construct(
        agent_id=memories[0].agent_id, items=memories, import_id=memories[0].import_id
    )


def _count(outcome: Outcome, free: Sequence[_Drafted], held: Sequence[_Drafted]) -> None:
    """An update that waits is one beside what it would change."""
    outcome.counts["accepted"] += len(free)
    outcome.counts["held"] += len(held)
    outcome.counts["updated"] += sum(one.placed.place == "update" for one in free)
    outcome.counts["vectors_used"] += sum(one.placed.memory.embedding is not None for one in free)
    outcome.counts["conflict"] += sum(one.placed.place == "conflict" for one in (*free, *held))
    outcome.counts["conflict"] += sum(one.placed.place == "update" for one in held)
    outcome.written = [one.placed.memory for one in (*free, *held)]
