"""Reads leave a note in the journal and a mark on what they returned, in batches, off the hot path."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence

from quipu.errors import QuipuError
from quipu.model.change import Commit, Touch
from quipu.model.journal import Draft, Mention
from quipu.ports.ledger import Ledger

_log = logging.getLogger("quipu.notes")
_DELAY_S = 0.5
_MOST = 512


class ReadNotes:
    """Collects notes and writes them together: after a moment, when many wait, before they matter, and at the end."""

    def __init__(self, ledger: Ledger) -> None:
        self._ledger = ledger
        self._waiting: list[Commit] = []
        self._timer: asyncio.Task[None] | None = None
        self._lock = asyncio.Lock()

    def add(self, tenant: str, draft: Draft, mentions: Sequence[Mention], *, is_recall: bool) -> None:
        ids = tuple(mention.id for mention in mentions)
        changes = (Touch(ids=ids, at=draft.at),) if is_recall and ids else ()
        self._waiting.append(Commit(tenant=tenant, draft=draft, changes=changes, mentions=tuple(mentions)))
        if self._timer is None or self._timer.done():
            self._timer = asyncio.create_task(self._later())

    async def _later(self) -> None:
        for _ in range(10):
            if len(self._waiting) >= _MOST:
                break
            await asyncio.sleep(_DELAY_S / 10)
        try:
            await self.flush()
        except QuipuError as error:
            _log.warning("The notes of %d reads could not be written: %s", len(self._waiting), error.code)

    async def flush(self) -> None:
        """Write what waits. On failure it goes on waiting."""
        async with self._lock:
            waiting, self._waiting = self._waiting, []
            try:
                while waiting:  # what stands or falls together is one tenant's
                    tenant = waiting[0].tenant
                    await self._ledger.commit(*(note for note in waiting if note.tenant == tenant))
                    waiting = [note for note in waiting if note.tenant != tenant]
            except BaseException:
                self._waiting = waiting + self._waiting
                raise

    async def close(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            await asyncio.gather(self._timer, return_exceptions=True)
            self._timer = None
        await self.flush()
