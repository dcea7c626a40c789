"""What a server does about runs by itself: fails those whose server has gone, and drops histories that have had their time."""

from collections.abc import Callable
from dataclasses import dataclass, replace

from quipu.ledger.commit import Drop, Keep
from quipu.ledger.ledger import Ledger
from quipu.memory.pipeline import Guard
from quipu.model.principal import Principal, local
from quipu.operation import Context
from quipu.runs.conformance import FixturePlayer
from quipu.runs.model import ENDS, EVENTS, NOTES, RUNS, VARIABLE_RECORDS, VARIABLES, Run
from quipu.runs.steps import Step, Steps
from quipu.runs.views import every_row

_PAGE = 500
_HISTORY = (EVENTS, VARIABLES, VARIABLE_RECORDS, NOTES)
#: What a run without its history still says of itself.
_STAYS = ("tags", "agent")


@dataclass(frozen=True, slots=True, kw_only=True)
class RunUpkeep:
    """Looks after the runs of a tenant."""

    ledger: Ledger
    steps: Steps
    player: FixturePlayer
    #: How long a history is kept once its run has ended; 0: for good.
    history_ms: int

    async def work(self, tenant: str, context: Callable[[Principal], Context]) -> None:
        ctx = context(replace(local(tenant), name="system"))
        await self.player.lose_overdue(ctx)
        if self.history_ms:
            await self.drop_histories(ctx)

    async def drop_histories(self, ctx: Context) -> int:
        """The row of a run stays, so that it is known that there was one. Returns how many histories went."""
        until, count = ctx.clock() - self.history_ms, 0
        for status in ENDS:
            after: tuple[str] | None = None
            while page := await self.ledger.page(
                RUNS, ctx.tenant, {"status": status, "is_expired": 0}, after, _PAGE
            ):
                for run in page:
                    if run.ended_at is not None and run.ended_at <= until:
                        await self._drop(ctx, run)
                        count += 1
                after = (page[-1].id,)
        return count

    async def _drop(self, ctx: Context, run: Run) -> None:
        async def plan(guard: Guard) -> Step | None:
            kept = await self.ledger.kept(RUNS, ctx.tenant, run.id)
            if kept is None or kept.value.is_expired:
                return None
            body = {name: value for name, value in kept.value.body.items() if name in _STAYS}
            last = replace(kept.value, is_expired=True, body=body, nodes={})
            rows = [
                Drop(table, table.key_of(row))
                for table in _HISTORY
                for row in await every_row(self.ledger, table, ctx.tenant, run.id)
            ]
            return Step(last, (Keep(RUNS, last, kept.seq), *rows))

        await self.steps.take(ctx, "drop_run_history", run.id, plan)
