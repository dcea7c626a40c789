"""Imports over memory exchange that take long to try: a task whose outcome is the report (OAP contract 5.1, 10.3)."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable
from typing import Any

from quipu.errors import RateLimitedError
from quipu.model.grants import TaskState
from quipu.model.moving import ImportReport
from quipu.model.principal import Principal
from quipu.rules.import_reports import told_import
from quipu.service.lending_tasks import Task, Tasks


class ImportTasks(Tasks[ImportReport]):
    """Files that are gone through while somebody waits, or asks again later."""

    def check_room(self, principal: Principal, *, is_later: bool) -> None:
        """Refuse who would rather come back, before a file is taken in for nothing."""
        if is_later and not self._has_room(self._tenant(principal)):
            raise RateLimitedError(
                "Too many files are being gone through.", reason="imports_waiting", retry_after=60
            )

    async def tried(
        self, principal: Principal, work: Awaitable[ImportReport], root: str, *, is_later: bool = False
    ) -> ImportReport | dict[str, Any]:
        """The report where it is made soon, or the task that will make it; `is_later` wants the task in any case."""
        return await self._soon(principal, asyncio.ensure_future(work), root, is_later=is_later)

    async def _completed(self, task: Task[ImportReport], made: ImportReport) -> None:
        # What is in the file stays out of the ledger until it was let in: the task tells counts, not texts.
        report = {name: value for name, value in told_import(made).items() if name != "sample"}
        await self._say(task, TaskState.COMPLETED, {"report": report})
