"""The write-ahead log, brought into the file behind the back of those who write.

Left to itself SQLite does so inside the commit that finds the log long, and that one caller waits for everybody's pages.

1. When the log has grown by a thousand pages, a thread with a connection of its own copies what is there. Writers go
   on meanwhile.
2. SQLite begins the log anew when all of it has been copied and nobody reads it. Writers who never pause are always a
   little ahead of the thread; so when the log has become long all the same, the writer copies what is left, between two
   transactions and after its callers have been answered. That is little: the thread has done most of it.
3. Only one can copy at a time: who must have the log emptied (an erasure) asks again while the thread is at it.
4. Nothing depends on it: what was not copied is in the log, is read from there, and is copied the next time.
"""

from __future__ import annotations

import contextlib
import threading
from pathlib import Path

import apsw

from quipu.errors import QuipuError
from quipu.ledger.sqlite import file


class Log:
    """Watches how long the log of one file has become."""

    #: Pages of 8 KiB after which the thread copies, and beyond which the writer helps.
    soon = 1_000
    late = 4_000

    def __init__(self, path: Path, *, is_durable: bool) -> None:
        self._path, self._is_durable = path, is_durable
        #: How long it was after the last commit.
        self.pages = 0
        #: How long it was when it was last copied.
        self._seen = 0
        #: The thread has copied a long log: what came meanwhile is left to the writer.
        self.is_due = False
        self._connection: apsw.Connection | None = None
        self._thread: threading.Thread | None = None

    def watch(self, connection: apsw.Connection) -> None:
        """Be told of every commit of this connection. SQLite then leaves the log to us."""
        connection.set_wal_hook(self._told)

    def _told(self, _connection: apsw.Connection, _database: str, pages: int) -> int:
        if pages < self.pages:
            self._seen = 0  # it was begun anew
        self.pages = pages
        return apsw.SQLITE_OK

    def tend(self) -> None:
        """Have it copied if it is time. Called after a commit; nobody waits for it."""
        if self.pages - self._seen < self.soon or self._is_being_copied:
            return
        self._seen = self.pages
        thread = threading.Thread(target=self._copy, name="quipu-log", daemon=True)
        try:
            thread.start()
        except RuntimeError:
            # There is none to be had: what was written stands, and a long log is the writer's to copy.
            self.is_due = self._seen >= self.late
        else:
            self._thread = thread

    def shorten(self, connection: apsw.Connection) -> None:
        """Copy what the thread has left. Called between two transactions, when it `is_due`."""
        self.is_due = False
        with contextlib.suppress(apsw.Error):
            connection.wal_checkpoint()

    def rest(self, seconds: float | None = None) -> None:
        """Wait until it is not being copied."""
        if self._thread is not None:
            self._thread.join(seconds)

    def close(self) -> None:
        """Finish what was begun."""
        self.rest()
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    @property
    def _is_being_copied(self) -> bool:
        return self._thread is not None and self._thread.is_alive()

    def _copy(self) -> None:
        """Copies as far as readers let it, and waits for nobody."""
        with contextlib.suppress(apsw.Error, QuipuError):  # a full disk is told to who writes
            if self._connection is None:
                self._connection = file.connect(self._path, is_durable=self._is_durable)
            self._connection.wal_checkpoint()
        self.is_due = self._seen >= self.late
