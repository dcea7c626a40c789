"""Exports that take long: a task that is asked about, and a file that is fetched once (OAP contract 5.1, 10.2, F13).

The file waits at the server that made it.
"""

from __future__ import annotations

import asyncio
import contextlib
import hmac
from collections.abc import Awaitable, Callable
from typing import Any, TypeAlias

from quipu.errors import BackendUnavailableError, RateLimitedError
from quipu.model.grants import TaskState
from quipu.model.moving import ExportedFile, ExportReport
from quipu.model.value import JsonObject
from quipu.ports.parts import Parts
from quipu.rules import export_tasks as rules
from quipu.rules.grants_exports import AskedExport
from quipu.rules.receipts import b64
from quipu.service.access import Access
from quipu.service.lending_tasks import Task, Tasks, Who, unknown

Make: TypeAlias = Callable[[Who, AskedExport], Awaitable[ExportedFile]]


class ExportTasks(Tasks[ExportedFile]):
    """Files that are made while somebody waits, or asks again later."""

    def __init__(self, parts: Parts, access: Access, make: Make) -> None:
        super().__init__(parts, access)
        self._make = make

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
        return await self._soon(who, work, root, is_later=is_later)

    async def fetched(self, who: Who, task_id: str, secret: str) -> ExportedFile:
        """The file, this once."""
        last = (await self._standing(who, task_id))[-1]
        if not rules.is_waiting(last) or not hmac.compare_digest(
            str(last.detail["secret"]).encode(), secret.encode("utf-8", "replace")
        ):
            raise unknown()
        task = self._tasks.get((last.tenant, last.task_id))
        if task is None:
            raise BackendUnavailableError(
                "The file waits at another server.",
                reason="kept_elsewhere",
                hint="Ask again: the address is still good, at the server that made the file.",
                retry_after=1,
            )
        if task.made is not None:
            await task.made.check()
        file, task.made = task.made, None
        if file is None:
            raise unknown()
        task.is_taken.set()
        return file

    async def _completed(self, task: Task[ExportedFile], made: ExportedFile) -> str:
        await made.check()
        until = self._parts.clock() + rules.LIFE_MS
        detail = {**_reported(made.report), "secret": b64(self._parts.mint_salt()), "until": until}
        await self._say(task, TaskState.COMPLETED, detail)
        await self._waited(task, detail, until)
        return "not_fetched"

    def _dropped(self, made: ExportedFile) -> None:
        made.close()

    async def _waited(self, task: Task[ExportedFile], detail: JsonObject, until: int) -> None:
        """For somebody to fetch it. What was erased, or is lent no more, waits no longer."""
        while not task.is_taken.is_set() and self._parts.clock() < until:
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(task.is_taken.wait(), self.pace.beat_s)
            if task.made is not None:
                await task.made.check()
                await self._say(task, TaskState.COMPLETED, detail)


def _reported(report: ExportReport) -> dict[str, Any]:
    names = ("export_id", "file_name", "media_type", "size", "sha256", "items")
    return {name: getattr(report, name) for name in names}
