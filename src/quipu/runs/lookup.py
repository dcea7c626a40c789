"""The only door to a run: one that is not the caller's is as if it were not there."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from quipu.ledger.commit import Change, Keep
from quipu.ledger.ledger import Ledger
from quipu.ledger.reader import Kept, Reader
from quipu.memory.forget import Reached
from quipu.model.search import Scope, Snapshot
from quipu.operation import Context
from quipu.runs.model import RUNS, VARIABLE_RECORDS, VARIABLES, Run
from quipu.runs.rules import RunOverError, no_run, reaches_run


@dataclass(frozen=True, slots=True)
class RunLookup:
    """Finds runs for whoever may see them."""

    ledger: Ledger

    async def kept(self, ctx: Context, run_id: str) -> Kept[Run]:
        """A run of the caller's, with the position that its next step expects."""
        found = await self.ledger.kept(RUNS, ctx.tenant, run_id)
        if found is None or not reaches_run(ctx.principal, found.value):
            raise no_run()
        return found

    async def found(self, ctx: Context, run_id: str) -> Run:
        return (await self.kept(ctx, run_id)).value

    async def unfinished(self, ctx: Context, run_id: str) -> Kept[Run]:
        """One in which something may still happen."""
        kept = await self.kept(ctx, run_id)
        if kept.value.is_over:
            raise RunOverError(kept.value)
        return kept

    async def snapshot(self, ctx: Context, run_id: str) -> Snapshot | None:
        """What a run sees, by today's clock: expiry beats a snapshot. None: there is no such run."""
        run = await self.ledger.get(RUNS, ctx.tenant, run_id)
        if run is None or not reaches_run(ctx.principal, run):
            return None
        return Snapshot(run.seen, ctx.clock())


@dataclass(frozen=True, slots=True)
class VariablesReach:
    """Erasing a memory empties the variables that repeat it."""

    ledger: Ledger

    async def reached(
        self, tenant: str, scope: Scope, asked: Sequence[str], erased: Sequence[str]
    ) -> Reached:
        def work(reader: Reader) -> list[Change]:
            named = reader.matching(VARIABLE_RECORDS, "record_id", list(erased))
            places = sorted({(row.value.run_id, row.value.name) for row in named})
            return [
                Keep(VARIABLES, replace(kept.value, value=None), kept.seq)
                for place in places
                if (kept := reader.kept(VARIABLES, *place)) is not None and kept.value.value is not None
            ]

        return Reached(changes=tuple(await self.ledger.read(tenant, work)) if erased else ())
