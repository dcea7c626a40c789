"""Reads leave a note in the journal and a mark on what they returned, in batches, off the hot path.

Who asks several memories of this process at once and shows only some of what they gave says so in the context of each
call. The note of such a recall waits until it is known what was chosen, and marks only that. What is asked over a network
has no such context, and counts what it gave.
"""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import Callable, Collection, Generator, Sequence
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from dataclasses import replace
from typing import TypeAlias

from quipu.errors import BackendUnavailableError, QuipuError
from quipu.model.change import Commit, Touch
from quipu.model.journal import Draft, Mention
from quipu.ports.ledger import Ledger

_log = logging.getLogger("quipu.notes")
_DELAY_S = 0.5
_MOST = 512


#: Told which ids were chosen, in the names of who gave them.
Settle: TypeAlias = Callable[[Collection[str]], None]

_current: ContextVar[Choosing | None] = ContextVar("quipu-choosing", default=None)


class Choosing:
    """One memory's answer, until it is known what of it was chosen. Others may be on a thread of their own."""

    def __init__(self) -> None:
        self._waiting: list[Settle] | None = []
        self._lock = threading.Lock()

    def hold(self, settle: Settle) -> None:
        """Tell this one later; who comes too late was not chosen."""
        with self._lock:
            if self._waiting is not None:
                self._waiting.append(settle)
                return
        settle(())

    def end(self, chosen: Collection[str]) -> None:
        """These were chosen."""
        with self._lock:
            waiting, self._waiting = self._waiting or [], None
        for settle in waiting:
            settle(chosen)

    @contextmanager
    def asking(self) -> Generator[None]:
        """What is recalled in here is chosen from."""
        before = _current.set(self)
        try:
            yield
        finally:
            _current.reset(before)


def current() -> Choosing | None:
    """Who chooses from what is recalled here, if somebody does."""
    return _current.get()


class ReadNotes:
    """Collects notes and writes them together: after a moment, when many wait, before they matter, and at the end."""

    def __init__(self, ledger: Ledger) -> None:
        self._ledger = ledger
        self._waiting: list[Commit] = []
        self._timer: asyncio.Task[None] | None = None
        self._lock = asyncio.Lock()

    def add(self, tenant: str, draft: Draft, mentions: Sequence[Mention], *, is_recall: bool) -> None:
        ids = tuple(mention.id for mention in mentions) if is_recall else ()
        note = Commit(tenant=tenant, draft=draft, mentions=tuple(mentions))
        choosing = current() if ids else None
        if choosing is None:
            self._wait(_marking(note, ids))
            return
        loop = asyncio.get_running_loop()

        def settle(chosen: Collection[str]) -> None:
            marked = _marking(note, [id for id in ids if id in chosen])
            if _running() is loop:
                self._wait(marked)
                return
            with suppress(RuntimeError):  # on another thread, and the memory was closed meanwhile
                loop.call_soon_threadsafe(self._wait, marked)

        choosing.hold(settle)

    def _wait(self, note: Commit) -> None:
        self._waiting.append(note)
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
        """Write what waits. On failure it goes on waiting, and keeps no other tenant's notes from being written."""
        async with self._lock:
            waiting, self._waiting = self._waiting, []
            failed: list[Commit] = []
            failure: QuipuError | None = None
            try:
                while waiting:  # what stands or falls together is one tenant's
                    tenant = waiting[0].tenant
                    theirs = [note for note in waiting if note.tenant == tenant]
                    try:
                        await self._ledger.commit(*theirs)
                    except QuipuError as error:
                        failure, failed = failure or error, failed + theirs
                    waiting = [note for note in waiting if note.tenant != tenant]
            finally:
                self._waiting = failed + waiting + self._waiting
            if failure is not None:
                raise failure

    async def close(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            await asyncio.gather(self._timer, return_exceptions=True)
            self._timer = None
        try:
            await self.flush()
        except BackendUnavailableError as error:
            # Such as a full disk. Whoever closes has lost nothing that they wrote.
            _log.warning("The notes of %d reads could not be written: %s", len(self._waiting), error.reason)


def _running() -> asyncio.AbstractEventLoop | None:
    try:
        return asyncio.get_running_loop()
    except RuntimeError:
        return None


def _marking(note: Commit, ids: Sequence[str]) -> Commit:
    """The note with a mark on these."""
    return replace(note, changes=(Touch(ids=tuple(ids), at=note.draft.at),)) if ids else note
