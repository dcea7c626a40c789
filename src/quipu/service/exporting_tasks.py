"""Exports that take long: a task that is asked about, and a file that is fetched once (OAP contract 5.1, 10.2, F13).

The file waits at the server that made it. How the task stands is in the ledger, so that every server can tell; the newest
line is repeated while somebody works at it or keeps the file, so that nobody waits for a server that is gone.
"""

from __future__ import annotations

import asyncio
import contextlib
import hmac
import logging
import time
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from quipu.errors import BackendUnavailableError, NotFoundError, QuipuError, RateLimitedError
from quipu.model.grants import Lent, TaskState, TaskStep
from quipu.model.moving import ExportedFile, ExportReport
from quipu.model.principal import Principal
from quipu.model.value import JsonObject
from quipu.ports.parts import Parts
from quipu.rules import export_tasks as rules
from quipu.rules.grants_exports import AskedExport
from quipu.rules.receipts import b64
from quipu.service.access import Access
from quipu.service.lending import owner_of

_log = logging.getLogger("quipu.exports")
#: The owner, or whoever a grant lends to.
Who: TypeAlias = Principal | Lent
Make: TypeAlias = Callable[[Who, AskedExport], Awaitable[ExportedFile]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Pace:
    """How long things take at most."""

    #: An export that is made by then is answered with the file itself.
    patience_s: float = 10.0
    #: One that is to be a task is looked at for so long, because what is refused is refused at once.
    glance_s: float = 0.25
    beat_s: float = rules.BEAT_S
    longest_s: float = 3600.0


@dataclass(slots=True, eq=False)
class _Task:
    """One that this server works at, or keeps the file of."""

    tenant: str
    id: str
    work: asyncio.Task[ExportedFile]
    number: int = 0
    state: TaskState = TaskState.SUBMITTED
    file: ExportedFile | None = None
    is_taken: asyncio.Event = field(default_factory=asyncio.Event)
    follower: asyncio.Task[None] | None = None


class _LostError(Exception):
    """Somebody else has said that this task is over."""


class ExportTasks:
    """Those that are under way here, and how all of them stand."""

    def __init__(self, parts: Parts, access: Access, make: Make, pace: Pace | None = None) -> None:
        self._parts, self._access, self._make = parts, access, make
        self.pace = pace or Pace()
        self._tasks: dict[tuple[str, str], _Task] = {}

    # -- asking --------------------------------------------------------------------------------------------------

    async def export(
        self, who: Who, asked: AskedExport, root: str, *, is_later: bool = False
    ) -> ExportedFile | dict[str, Any]:
        """The file where it is made soon, or the task that will make it; `is_later` wants the task in any case.

        `root` is where this host is asked.
        """
        tenant = self._tenant(who)
        if is_later and not self._has_room(tenant):
            raise RateLimitedError(
                "Too many files are being made or wait to be fetched.",
                reason="exports_waiting",
                retry_after=60,
            )
        work = asyncio.ensure_future(self._make(who, asked))
        try:
            await asyncio.wait({work}, timeout=self.pace.glance_s if is_later else self.pace.patience_s)
            has_failed = work.done() and work.exception() is not None
            if has_failed or (not is_later and (work.done() or not self._has_room(tenant))):
                return await work
            return await self.told(who, await self._begun(who, tenant, work), root)
        except BaseException:
            _let_go(work)
            raise

    async def told(self, who: Who, task_id: str, root: str) -> dict[str, Any]:
        """How a task stands, for who asked for it; for anybody else there is none."""
        return rules.told(await self._standing(who, task_id), root)

    async def fetched(self, who: Who, task_id: str, secret: str) -> ExportedFile:
        """The file, this once."""
        last = (await self._standing(who, task_id))[-1]
        if not rules.is_waiting(last) or not hmac.compare_digest(
            str(last.detail["secret"]).encode(), secret.encode("utf-8", "replace")
        ):
            raise _unknown()
        task = self._tasks.get((last.tenant, last.task_id))
        if task is None:
            raise BackendUnavailableError(
                "The file waits at another server.",
                reason="kept_elsewhere",
                hint="Ask again: the address is still good, at the server that made the file.",
                retry_after=1,
            )
        if task.file is not None:
            await task.file.check()
        file, task.file = task.file, None
        if file is None:
            raise _unknown()
        task.is_taken.set()
        return file

    # -- around it -----------------------------------------------------------------------------------------------

    async def close(self) -> None:
        """End what is under way; each says so."""
        followers = [task.follower for task in self._tasks.values() if task.follower is not None]
        for follower in followers:
            follower.cancel()
        await asyncio.gather(*followers, return_exceptions=True)

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
            raise _unknown()
        over = rules.overdue(steps[-1], self._parts.clock())
        if over is None:
            return steps
        await ledger.add_task_step(over)
        return await ledger.task_steps(tenant, name)

    # -- at work -------------------------------------------------------------------------------------------------

    async def _begun(self, who: Who, tenant: str, work: asyncio.Task[ExportedFile]) -> str:
        task = _Task(tenant, self._parts.mint_id("tsk").partition("_")[2], work)
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

    async def _followed(self, task: _Task) -> None:
        """Until the file is fetched, or there is none, or nobody came."""
        reason: str | None = "internal_error"
        try:
            task.file = await self._made(task)
            await task.file.check()
            until = self._parts.clock() + rules.LIFE_MS
            detail = {**_reported(task.file.report), "secret": b64(self._parts.mint_salt()), "until": until}
            await self._say(task, TaskState.COMPLETED, detail)
            await self._waited(task, detail, until)
            reason = "not_fetched"
        except _LostError:
            reason = None
        except QuipuError as error:
            reason = error.reason or error.code
        except TimeoutError:
            reason = "timeout"
        except asyncio.CancelledError:
            reason = "server_stopped"
        except Exception as error:  # noqa: BLE001  told where the task is asked about
            _log.error("an export failed: %s", type(error).__name__)
        try:
            if task.file is not None:
                task.file.close()
            elif not task.is_taken.is_set():
                _let_go(task.work)
            if reason is not None:
                await self._ended(task, reason)
        finally:
            del self._tasks[task.tenant, task.id]

    async def _ended(self, task: _Task, reason: str) -> None:
        is_made = task.state is TaskState.COMPLETED
        with contextlib.suppress(_LostError):
            if task.is_taken.is_set():
                await self._say(task, TaskState.COMPLETED, {"is_fetched": True})
            else:
                state = TaskState.EXPIRED if is_made else TaskState.FAILED
                await self._say(task, state, {"reason": reason})

    async def _made(self, task: _Task) -> ExportedFile:
        end = time.monotonic() + self.pace.longest_s
        while not (await asyncio.wait({task.work}, timeout=self.pace.beat_s))[0]:
            if time.monotonic() > end:
                raise TimeoutError
            await self._say(task, TaskState.WORKING)
        return task.work.result()

    async def _waited(self, task: _Task, detail: JsonObject, until: int) -> None:
        """For somebody to fetch it. What was erased, or is lent no more, waits no longer."""
        while not task.is_taken.is_set() and self._parts.clock() < until:
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(task.is_taken.wait(), self.pace.beat_s)
            if task.file is not None:
                await task.file.check()
                await self._say(task, TaskState.COMPLETED, detail)

    async def _say(self, task: _Task, state: TaskState, detail: JsonObject | None = None) -> None:
        step = TaskStep(
            tenant=task.tenant,
            task_id=task.id,
            number=task.number + 1,
            state=state,
            at=self._parts.clock(),
            detail=detail or {},
        )
        if not await self._parts.ledger.lending.add_task_step(step):
            raise _LostError
        task.number, task.state = step.number, state


def _reported(report: ExportReport) -> dict[str, Any]:
    names = ("export_id", "file_name", "media_type", "size", "sha256", "items")
    return {name: getattr(report, name) for name in names}


def _let_go(work: asyncio.Task[ExportedFile]) -> None:
    """Nobody wants what it makes any more."""

    def closed(done: asyncio.Task[ExportedFile]) -> None:
        if not done.cancelled() and done.exception() is None:
            done.result().close()

    work.cancel()
    work.add_done_callback(closed)


def _unknown() -> NotFoundError:
    return NotFoundError("There is no such task, or its file is gone.", reason="task")
