"""Imports over memory exchange that take long: to try, to carry out, to undo. Each is a task that ends with its report.

A task that is cut off in the middle has lost nothing: whoever commits or undoes again goes on with it (OAP contract 5.1, 10.3).
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any, TypeAlias

from quipu.errors import RateLimitedError
from quipu.model.grants import TaskState
from quipu.model.moving import ImportReport, RolledBack
from quipu.model.principal import Principal
from quipu.ports.parts import Parts
from quipu.rules.import_reports import told_import, told_undoing
from quipu.service.access import Access
from quipu.service.lending_tasks import Task, Tasks

#: What a file would do or did, or what was undone.
Outcome: TypeAlias = ImportReport | RolledBack


class ImportTasks(Tasks[Outcome]):
    """What is gone through while somebody waits, or asks again later."""

    def __init__(self, parts: Parts, access: Access) -> None:
        super().__init__(parts, access)
        self._under_way: dict[tuple[str, ...], asyncio.Task[Outcome]] = {}

    def check_room(self, principal: Principal, *, is_later: bool) -> None:
        """Refuse who would rather come back, before a file is taken in for nothing."""
        if is_later and not self._has_room(self._tenant(principal)):
            raise RateLimitedError(
                "Too many files are being gone through.", reason="imports_waiting", retry_after=60
            )

    async def tried(
        self, principal: Principal, work: Awaitable[Outcome], root: str, *, is_later: bool = False
    ) -> Outcome | dict[str, Any]:
        """The report where it is made soon, or the task that will make it; `is_later` wants the task in any case."""
        return await self._soon(principal, asyncio.ensure_future(work), root, is_later=is_later)

    async def once(
        self,
        principal: Principal,
        name: tuple[str, str],
        work: Callable[[], Awaitable[Outcome]],
        root: str,
        *,
        is_later: bool = False,
    ) -> Outcome | dict[str, Any]:
        """The same of what is done once at a time: who asks for it meanwhile looks on, and gets the same report."""
        self.check_room(principal, is_later=is_later)
        key = (self._tenant(principal), *name)
        begun = self._under_way.get(key)
        if begun is None:
            begun = self._under_way[key] = asyncio.ensure_future(work())
            begun.add_done_callback(lambda _: self._under_way.pop(key, None))
        return await self._soon(principal, begun, root, is_later=is_later)

    async def _completed(self, task: Task[Outcome], made: Outcome) -> None:
        # What is in a file stays out of the ledger until it was let in: the task tells counts and ids, not texts.
        told = told_import(made) if isinstance(made, ImportReport) else told_undoing(made)
        report = {name: value for name, value in told.items() if name != "sample"}
        await self._say(task, TaskState.COMPLETED, {"report": report})
