"""The write-ahead log: written back into the file behind the back of those who write, and cut after an erasure.

1. Left to itself SQLite writes it back inside the commit that finds it long, and that one caller pays for everybody. So a
   thread does it, on a connection of its own.
2. SQLite begins the log anew once all of it was written back. Writers who never pause are always a little ahead of the
   thread, so where the log has become long all the same, the writer writes back the little that is left, between two
   transactions.
3. What was erased stands in the log until it is cut, and a reader may hold it for a while. Then the cut is owed, and the
   thread tries until it is made. Who owes it may be gone by then: a log that is there when the file is opened, and writes of
   another process, are reasons to cut it as well.
4. SQLite overwrites what is deleted, but not the copies that it leaves where rows were moved from one page to another. So
   a file is written anew after an erasure, as long as it is small; a large one by `quipu vacuum`.
5. Nothing else depends on it: what was not written back is read from the log.
"""

import threading
import time
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, Protocol

import apsw

from quipu.ledger.table import Value

#: Pages after which the thread writes back, and beyond which the writer helps.
SOON, LATE = 1_000, 4_000
#: Files up to so many bytes are written anew after an erasure.
SMALL = 64 << 20
#: How long one attempt to cut the log waits for readers, and how long until the next.
_ATTEMPT_MS = 20
_PAUSE_S, _LONGEST_PAUSE_S = 0.05, 1.0
_BUSY_MS = 10_000


class Connection(Protocol):
    """What is used of apsw's; its own stubs name a type that Python 3.11 does not have."""

    in_transaction: bool

    def execute(self, statements: str, bindings: Mapping[str, Value] | None = None) -> Any: ...
    def executemany(self, statements: str, sequenceofbindings: Iterable[Mapping[str, Value]]) -> Any: ...
    def changes(self) -> int: ...
    def set_busy_timeout(self, milliseconds: int) -> None: ...
    def set_wal_hook(self, callable: Callable[[Any, str, int], int] | None) -> None: ...
    def close(self) -> None: ...


def opened(path: Path | str, flags: int) -> Connection:
    """A connection that waits for other processes."""
    connection: Connection = apsw.Connection(str(path), flags=flags)  # pyright: ignore[reportAssignmentType]  our protocol of it
    connection.set_busy_timeout(_BUSY_MS)
    return connection


class Log:
    """The log of one file. `turn` is held by whoever uses the writer's connection."""

    def __init__(self, path: Path, writer: Connection, turn: threading.RLock, *, is_left: bool) -> None:
        """`is_left`: somebody has left a log behind, or is using it."""
        self._path, self._writer, self._turn = path, writer, turn
        #: How long it was after the last commit, and when it was last written back.
        self.pages = self._seen = 0
        self._is_due = False
        self._owes_cut, self._owes_rewriting = is_left, False
        self._version = self._data_version()
        self._closing, self._has_work = threading.Event(), threading.Event()
        writer.set_wal_hook(self._grew)
        self._thread = threading.Thread(target=self._run, name="ledger-log", daemon=True)
        with suppress(RuntimeError):  # no thread can be had: the writer writes back a long log
            self._thread.start()
        if self._owes_cut:
            self._has_work.set()

    def _grew(self, _connection: Any, _database: str, pages: int) -> int:
        if pages < self.pages:
            self._seen = 0  # it was begun anew
        self.pages = pages
        return 0

    def look(self) -> None:
        """In a transaction of the writer: whether another process wrote. It may have erased, and be gone."""
        version = self._data_version()
        if version != self._version:
            self._version = version
            self._owes_cut = True

    def _data_version(self) -> int:
        return int(next(iter(self._writer.execute("PRAGMA data_version")))[0])

    def tend(self) -> None:
        """After a commit, with the turn: see to it that the log does not grow for ever."""
        if self._is_due or (self.pages >= LATE and not self._thread.is_alive()):
            self._is_due = False
            with suppress(apsw.Error):
                self._writer.execute("PRAGMA wal_checkpoint(PASSIVE)").fetchall()
        if self._owes_cut or self.pages - self._seen >= SOON:
            self._has_work.set()

    def cut(self, patience_ms: int) -> bool:
        """After an erasure: leave nothing of it. False: readers were in the way, and it is done later."""
        self._owes_rewriting = self._path.stat().st_size <= SMALL
        until = time.monotonic() + patience_ms / 1000
        while not self._cut():
            if time.monotonic() > until:
                self._owes_cut = True
                self._has_work.set()
                return False
            time.sleep(_PAUSE_S)
        return True

    def close(self) -> None:
        """Finish what was begun; what is owed is tried once more."""
        self._closing.set()
        self._has_work.set()
        if self._thread.is_alive():
            self._thread.join()
        if self._owes_cut:
            with suppress(apsw.Error):
                self._cut()

    def _cut(self) -> bool:
        """One attempt. Not on another connection: to the writer its cut would look like another process's commit."""
        with self._turn:
            self._writer.set_busy_timeout(_ATTEMPT_MS)
            try:
                if self._owes_rewriting:
                    self._writer.execute("VACUUM").fetchall()
                    self._owes_rewriting = False
                busy, _, _ = next(iter(self._writer.execute("PRAGMA wal_checkpoint(TRUNCATE)")))
            except apsw.BusyError:
                return False
            finally:
                self._writer.set_busy_timeout(_BUSY_MS)
            if not busy:
                self._owes_cut, self.pages, self._seen = False, 0, 0
            return not busy

    def _run(self) -> None:
        connection: Connection | None = None
        while True:
            self._has_work.wait()
            self._has_work.clear()
            if self._closing.is_set():
                break
            with suppress(apsw.Error):  # the disk is full, or somebody copies: the next write tries again
                connection = connection or opened(self._path, apsw.SQLITE_OPEN_READWRITE)
                if self.pages - self._seen >= SOON:
                    self._seen = self.pages
                    connection.execute("PRAGMA wal_checkpoint(PASSIVE)").fetchall()
                    self._is_due = self._seen >= LATE
            self._pay()
        if connection is not None:
            connection.close()

    def _pay(self) -> None:
        """Cut the log if that is owed, however long readers hold it."""
        pause = _PAUSE_S
        while self._owes_cut and not self._closing.wait(pause):
            with suppress(apsw.Error):
                self._cut()
            pause = min(2 * pause, _LONGEST_PAUSE_S)
