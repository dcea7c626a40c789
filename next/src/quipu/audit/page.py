"""The pages of the journal: its entries, its verification, and undoing what a cause did."""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass

from quipu.audit import operations as ops
from quipu.audit.model import VerifyResponse
from quipu.errors import QuipuError
from quipu.operation import Context, dispatch


@dataclass(slots=True)
class Check:
    """One verification of a tenant's journal, begun by a person."""

    begun_at: int
    begun_by: str
    ended_at: int | None = None
    report: VerifyResponse | None = None
    error: QuipuError | None = None

    @property
    def is_running(self) -> bool:
        return self.ended_at is None


class Checks:
    """The last verification of each tenant on this server. It goes on while nobody looks."""

    def __init__(self, clock: Callable[[], int]) -> None:
        self._clock = clock
        self._last: dict[str, Check] = {}
        self._tasks: set[asyncio.Task[None]] = set()

    def last(self, tenant: str) -> Check | None:
        return self._last.get(tenant)

    def start(self, ctx: Context) -> Check:
        """Begin one, unless one is running."""
        running = self._last.get(ctx.tenant)
        if running is not None and running.is_running:
            return running
        check = self._last[ctx.tenant] = Check(self._clock(), ctx.principal.name)
        task = asyncio.create_task(self._run(ctx, check))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return check

    async def _run(self, ctx: Context, check: Check) -> None:
        try:
            check.report = await dispatch(ctx, ops.VERIFY, {})
        except QuipuError as error:
            check.error = error
        finally:
            check.ended_at = self._clock()

    async def close(self) -> None:
        """A check that is not done is given up."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
