"""Reads leave a note in the journal and a mark on what they returned, in batches, off the hot path.

Who asks several memories of this process at once and shows only some of what they gave says so in the context of each
call. The note of such a recall waits until it is known what was chosen, and marks only that. What is asked over a network
has no such context, and counts what it gave.

As long as nothing can be written, as on a disk that is full, notes wait in memory, but not without end. What is read
beyond that is counted, and the journal tells how much it was as soon as it can.
"""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import Awaitable, Callable, Collection, Generator, Sequence
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from dataclasses import replace
from typing import TypeAlias

from quipu.errors import BackendUnavailableError, QuipuError
from quipu.model.change import Commit, Touch
from quipu.model.journal import Draft, Mention, Op
from quipu.ports.ledger import Ledger

_log = logging.getLogger("quipu.notes")
_DELAY_S = 0.5
_MOST = 512
#: So many memories may be spoken of by notes that could not be written; a note without any counts as one.
_MOST_WAITING = 200_000
#: What the entry says that tells of reads which left no note.
UNNOTED = "unnoted"


#: Told which ids were chosen, in the names of who gave them.
Settle: TypeAlias = Callable[[Collection[str]], None]
#: Takes secrets out of the notes of one tenant.
Clean: TypeAlias = Callable[[Sequence[Commit]], Awaitable[Sequence[Commit]]]

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

    def __init__(self, ledger: Ledger, clean: Clean) -> None:
        self._ledger, self._clean = ledger, clean
        self._waiting: list[Commit] = []
        #: Tenants whose notes could not be written the last time, and how much of them waits.
        self._stuck: dict[str, int] = {}
        #: How many reads of a tenant left no note, with the time of the last of them.
        self._unnoted: dict[str, tuple[int, int]] = {}
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
        stuck = self._stuck.get(note.tenant)
        if stuck is None:
            self._waiting.append(note)
        elif sum(self._stuck.values()) < _MOST_WAITING:
            self._waiting.append(note)
            self._stuck[note.tenant] = stuck + _weight(note)
        else:
            self._leave_out(note)
        if self._timer is None or self._timer.done():
            self._timer = asyncio.create_task(self._later())

    async def leave_turn(self) -> None:
        """Where many wait, let them be written. Who asks again and again, and finds every answer at hand, keeps the event
        loop to itself meanwhile: the notes would pile up for as long as that goes on."""
        if len(self._waiting) >= _MOST and not self._stuck:
            await asyncio.sleep(0)

    def _leave_out(self, note: Commit) -> None:
        count, _ = self._unnoted.get(note.tenant, (0, 0))
        if not count:
            _log.error("Too many notes of reads wait to be written: from here on reads leave none.")
        self._unnoted[note.tenant] = count + 1, note.draft.at

    def _told(self, tenant: str) -> list[Commit]:
        """The entry that tells of reads that left no note, where there are any."""
        if tenant not in self._unnoted:
            return []
        count, at = self._unnoted[tenant]
        draft = Draft(op=Op.READ, actor="system", at=at, detail={UNNOTED: count})
        return [Commit(tenant=tenant, draft=draft)]

    async def _later(self) -> None:
        for _ in range(10):
            if len(self._waiting) >= _MOST and not self._stuck:
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
                # what stands or falls together is one tenant's
                for tenant in dict.fromkeys((*(note.tenant for note in waiting), *self._unnoted)):
                    theirs = [note for note in waiting if note.tenant == tenant]
                    unnoted, _ = self._unnoted.get(tenant, (0, 0))
                    try:
                        await self._ledger.commit(*await self._clean(theirs), *self._told(tenant))
                    except QuipuError as error:
                        failure, failed = failure or error, failed + theirs
                        self._stuck[tenant] = sum(_weight(note) for note in theirs)
                    else:
                        self._written(tenant, unnoted)
                    waiting = [note for note in waiting if note.tenant != tenant]
            finally:
                self._waiting = failed + waiting + self._waiting
            if failure is not None:
                raise failure

    def _written(self, tenant: str, unnoted: int) -> None:
        """It works again; so many reads that left no note are told. Others may have come meanwhile."""
        self._stuck.pop(tenant, None)
        if unnoted:
            count, at = self._unnoted.pop(tenant)
            if count > unnoted:
                self._unnoted[tenant] = count - unnoted, at

    async def close(self) -> None:
        # It ended with its event loop, where that was another one.
        if self._timer is not None and not self._timer.done():
            self._timer.cancel()
            await asyncio.gather(self._timer, return_exceptions=True)
        self._timer = None
        try:
            await self.flush()
        except BackendUnavailableError as error:
            # Such as a full disk. Whoever closes has lost nothing that they wrote.
            _log.warning("The notes of %d reads could not be written: %s", len(self._waiting), error.reason)


def _weight(note: Commit) -> int:
    return max(1, len(note.mentions))


def _running() -> asyncio.AbstractEventLoop | None:
    try:
        return asyncio.get_running_loop()
    except RuntimeError:
        return None


def _marking(note: Commit, ids: Sequence[str]) -> Commit:
    """The note with a mark on these."""
    return replace(note, changes=(Touch(ids=tuple(ids), at=note.draft.at),)) if ids else note
