"""Imports that are carried out while somebody looks on: how far each is, and how it ended.

An import that is cut off here is gone on with by doing it again, so nothing of this is kept anywhere else.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import TypeAlias

from quipu.errors import InternalError, NotFoundError, QuipuError
from quipu.model.moving import ImportReport
from quipu.model.principal import Permission, Principal

_log = logging.getLogger("quipu.imports")
#: So many are remembered after they have ended, of all tenants together.
_MOST_TOLD = 64
#: Principal, import, told items done so far → what became of it.
Commit: TypeAlias = Callable[[Principal, str, Callable[[int], None]], Awaitable[ImportReport]]


@dataclass(slots=True, eq=False)
class Carried:
    """One that goes on, or has ended."""

    import_id: str
    #: Who began it.
    by: str
    #: Items in the file, and how many of them have been gone through.
    total: int
    done: int = 0
    report: ImportReport | None = None
    error: QuipuError | None = None

    @property
    def is_over(self) -> bool:
        return self.report is not None or self.error is not None

    def tell(self, done: int) -> None:
        """So many are through."""
        self.done = min(done, self.total)


class Carrying:
    """Carries imports out behind the back of whoever asked for it."""

    def __init__(self, commit: Commit) -> None:
        self._commit = commit
        self._known: dict[tuple[str, str], Carried] = {}
        self._work: dict[tuple[str, str], asyncio.Task[None]] = {}

    async def begun(self, principal: Principal, import_id: str, total: int, patience_s: float) -> Carried:
        """Begin, or look on where it has begun; what is over within `patience_s` is over when this returns."""
        name = (principal.tenant, import_id)
        if name not in self._work:
            carried = Carried(import_id, principal.name, total)
            self._known.pop(name, None)
            self._known[name] = carried
            self._forget()
            self._work[name] = asyncio.create_task(self._carried(principal, name, carried))
        await asyncio.wait({self._work[name]}, timeout=patience_s)
        return self._known[name]

    def standing(self, principal: Principal, import_id: str) -> Carried:
        """How one stands, for who began it and for administrators; for others there is none."""
        found = self._known.get((principal.tenant, import_id))
        if found is None or not (found.by == principal.name or principal.may(Permission.ADMIN)):
            raise NotFoundError("No such import is being carried out here.", reason="import")
        return found

    async def close(self) -> None:
        """Stop what goes on: it is gone on with another time."""
        work = list(self._work.values())
        for one in work:
            one.cancel()
        await asyncio.gather(*work, return_exceptions=True)

    async def _carried(self, principal: Principal, name: tuple[str, str], carried: Carried) -> None:
        try:
            carried.report = await self._commit(principal, carried.import_id, carried.tell)
        except QuipuError as error:
            carried.error = error
        except Exception as error:  # noqa: BLE001  told to whoever looks on
            _log.error("an import failed: %s", type(error).__name__)
        finally:
            if not carried.is_over:
                carried.error = InternalError()
            del self._work[name]

    def _forget(self) -> None:
        over = [name for name, one in self._known.items() if one.is_over]
        for name in over[: max(0, len(self._known) - _MOST_TOLD)]:
            del self._known[name]
