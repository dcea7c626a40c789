"""Work for somebody outside that takes long: a task that is asked about (OAP contract 5.1).

How a task stands is in the ledger, so that every server can tell; the newest line is repeated while somebody works at it,
so that nobody waits for a server that is gone.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Generic, TypeAlias, TypeVar

from quipu.errors import NotFoundError, QuipuError
from quipu.model.grants import Lent, TaskState, TaskStep
from quipu.model.principal import Principal
from quipu.model.value import JsonObject
from quipu.ports.parts import Parts
from quipu.rules import export_tasks as rules
from quipu.service.access import Access
from quipu.service.lending import owner_of

_log = logging.getLogger("quipu.tasks")
T = TypeVar("T")
#: The owner, or whoever a grant lends to.
Who: TypeAlias = Principal | Lent


@dataclass(frozen=True, slots=True, kw_only=True)
class Pace:
    """How long things take at most."""

    #: Work that is done by then is answered with what it made.
    patience_s: float = 10.0
    #: Work that is to be a task is looked at for so long, because what is refused is refused at once.
    glance_s: float = 0.25
    beat_s: float = rules.BEAT_S
    longest_s: float = 3600.0


@dataclass(slots=True, eq=False)
class Task(Generic[T]):
    """One that this server works at, or keeps the outcome of."""

    tenant: str
    id: str
    work: asyncio.Task[T]
    number: int = 0
    state: TaskState = TaskState.SUBMITTED
    #: What was made, until somebody takes it.
    made: T | None = None
    is_taken: asyncio.Event = field(default_factory=asyncio.Event)
    follower: asyncio.Task[None] | None = None


class LostError(Exception):
    """Somebody else has said that this task is over."""


class Tasks(Generic[T]):
    """Those that are under way here, and how all of them stand. What becomes of what is made, each kind says itself."""

    def __init__(self, parts: Parts, access: Access, pace: Pace | None = None) -> None:
        self._parts, self._access = parts, access
        self.pace = pace or Pace()
        self._tasks: dict[tuple[str, str], Task[T]] = {}

    # -- asking --------------------------------------------------------------------------------------------------

    async def told(self, who: Who, task_id: str, root: str) -> dict[str, Any]:
        """How a task stands, for who asked for it; for anybody else there is none. `root` is where this host is asked."""
        return rules.told(await self._standing(who, task_id), root)

    async def close(self) -> None:
        """End what is under way; each says so."""
        followers = [task.follower for task in self._tasks.values() if task.follower is not None]
        for follower in followers:
            follower.cancel()
        await asyncio.gather(*followers, return_exceptions=True)

    async def _soon(
        self, who: Who, work: asyncio.Task[T], root: str, *, is_later: bool
    ) -> T | dict[str, Any]:
        """What the work makes, where that is soon, or the task that will; `is_later` wants the task in any case."""
        try:
            tenant = self._tenant(who)
            await asyncio.wait({work}, timeout=self.pace.glance_s if is_later else self.pace.patience_s)
            has_failed = work.done() and work.exception() is not None
            if has_failed or (not is_later and (work.done() or not self._has_room(tenant))):
                return await work
            return await self.told(who, await self._begun(who, tenant, work), root)
        except BaseException:
            self._let_go(work)
            raise

    # -- what each kind says itself ------------------------------------------------------------------------------

    async def _completed(self, task: Task[T], made: T) -> str | None:
        """Say that it is made, with what is told of it, and wait for whoever comes for it; why it is over, if it is."""
        raise NotImplementedError

    def _dropped(self, made: T) -> None:
        """Nobody wants what was made any more."""
        del made

    # -- at work -------------------------------------------------------------------------------------------------

    def _tenant(self, who: Who) -> str:
        return who.tenant if isinstance(who, Lent) else owner_of(self._access, who)

    def _has_room(self, tenant: str) -> bool:
        mine = sum(of == tenant for of, _ in self._tasks)
        return mine < rules.MOST_OF_ONE and len(self._tasks) < rules.MOST

    async def _standing(self, who: Who, task_id: str) -> Sequence[TaskStep]:
        """All its lines; one that nobody works at any more is over, and that is written down."""
        tenant, grant_id = self._tenant(who), who.grant.id if isinstance(who, Lent) else None
        name, ledger = task_id.removeprefix(rules.TASK), self._parts.ledger.lending
        steps = await ledger.task_steps(tenant, name)
        if not steps or steps[0].detail.get("grant_id") != grant_id:
            raise unknown()
        over = rules.overdue(steps[-1], self._parts.clock())
        if over is None:
            return steps
        await ledger.add_task_step(over)
        return await ledger.task_steps(tenant, name)

    async def _begun(self, who: Who, tenant: str, work: asyncio.Task[T]) -> str:
        task = Task(tenant, self._parts.mint_id("tsk").partition("_")[2], work)
        self._tasks[tenant, task.id] = task
        try:
            grant_id = who.grant.id if isinstance(who, Lent) else None
            await self._say(task, TaskState.SUBMITTED, {"grant_id": grant_id})
            await self._say(task, TaskState.ACCEPTED)
            await self._say(task, TaskState.WORKING)
        except BaseException:
            del self._tasks[tenant, task.id]
            raise
        task.follower = asyncio.create_task(self._followed(task))
        return task.id

    async def _followed(self, task: Task[T]) -> None:
        """Until what it makes is taken, or there is nothing, or nobody came."""
        reason: str | None = "internal_error"
        try:
            task.made = made = await self._worked(task)
            reason = await self._completed(task, made)
        except LostError:
            reason = None
        except QuipuError as error:
            reason = error.reason or error.code
        except TimeoutError:
            reason = "timeout"
        except asyncio.CancelledError:
            reason = "server_stopped"
        except Exception as error:  # noqa: BLE001  told where the task is asked about
            _log.error("a task failed: %s", type(error).__name__)
        try:
            if task.made is not None:
                self._dropped(task.made)
            elif not task.is_taken.is_set():
                self._let_go(task.work)
            if reason is not None:
                await self._ended(task, reason)
        finally:
            del self._tasks[task.tenant, task.id]

    async def _ended(self, task: Task[T], reason: str) -> None:
        is_made = task.state is TaskState.COMPLETED
        with contextlib.suppress(LostError):
            if task.is_taken.is_set():
                await self._say(task, TaskState.COMPLETED, {"is_fetched": True})
            else:
                state = TaskState.EXPIRED if is_made else TaskState.FAILED
                await self._say(task, state, {"reason": reason})

    async def _worked(self, task: Task[T]) -> T:
        end = time.monotonic() + self.pace.longest_s
        while not (await asyncio.wait({task.work}, timeout=self.pace.beat_s))[0]:
            if time.monotonic() > end:
                raise TimeoutError
            await self._say(task, TaskState.WORKING)
        return task.work.result()

    async def _say(self, task: Task[T], state: TaskState, detail: JsonObject | None = None) -> None:
        step = TaskStep(
            tenant=task.tenant,
            task_id=task.id,
            number=task.number + 1,
            state=state,
            at=self._parts.clock(),
            detail=detail or {},
        )
        if not await self._parts.ledger.lending.add_task_step(step):
            raise LostError
        task.number, task.state = step.number, state

    def _let_go(self, work: asyncio.Task[T]) -> None:
        """Nobody wants what it makes any more."""

        def dropped(done: asyncio.Task[T]) -> None:
            if not done.cancelled() and done.exception() is None:
                self._dropped(done.result())

        work.cancel()
        work.add_done_callback(dropped)


def unknown() -> NotFoundError:
    """Of a task that is not there, or not the asker's."""
    return NotFoundError("There is no such task, or its file is gone.", reason="task")
