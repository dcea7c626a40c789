"""Reading from a replica, where it has reached what this process has seen.

A replica that is away, or answers nobody, is left alone for a while: the primary answers, and nobody waits for it twice.
"""

import logging
import threading
import time
from collections.abc import Callable, Generator
from contextlib import contextmanager
from typing import Any, TypeAlias

import psycopg
from psycopg_pool import PoolTimeout

from quipu.ledger.driver import Cursor
from quipu.ledger.queries import SQL

_log = logging.getLogger("quipu.ledger")
#: How long a replica may take to give a connection at first, and once it was away; how long one that does not is left alone.
_PATIENCE_S, _LATER_PATIENCE_S, _REST_S = 1.0, 0.05, 5.0

#: Position of the head, and how often its index was made anew: a reader of either is shown nothing older.
Reached: TypeAlias = tuple[int, int]
Reading: TypeAlias = Callable[[float], Any]


def reached_by(cursor: Cursor, tenant: str) -> Reached:
    """How far a tenant has come, as this cursor sees it."""
    row = cursor.row(SQL["head"], tenant=tenant)
    return (0, 0) if row is None else (row[0], row[8])


class Replica:
    """Decides who may be answered by the replica. `reading` opens a transaction there, within so many seconds."""

    def __init__(self, reading: Reading) -> None:
        self._reading = reading
        self._lock = threading.Lock()
        self._seen: dict[str, Reached] = {}
        #: Tenants of which nobody has written since the primary was asked how far they are.
        self._asked: set[str] = set()
        self._is_away, self._rests_until = False, 0.0

    def wrote(self, tenant: str | None) -> None:
        """Somebody has written, perhaps erased: how far the tenant has come is asked before it is read again."""
        with self._lock:
            self._asked.clear() if tenant is None else self._asked.discard(tenant)

    def note(self, tenant: str, reached: Reached) -> None:
        """This process has seen so much: from now on it is shown nothing older."""
        with self._lock:
            seq, refilled = self._seen.get(tenant, (0, 0))
            self._seen[tenant] = (max(seq, reached[0]), max(refilled, reached[1]))

    @contextmanager
    def reading(self, tenant: str, reached: int, ask: Callable[[], Reached]) -> Generator[Cursor | None]:
        """A cursor there, or None where the primary has to answer. `ask` says how far the primary is."""
        if self._is_away and time.monotonic() < self._rests_until:
            yield None
            return
        with self._lock:
            is_asked = tenant in self._asked
            self._asked.add(tenant)
        if not is_asked:
            try:
                self.note(tenant, ask())
            except BaseException:
                self.wrote(tenant)
                raise
        is_read = False
        try:
            with self._reading(_LATER_PATIENCE_S if self._is_away else _PATIENCE_S) as cursor:
                there = reached_by(cursor, tenant)
                if self._is_away:
                    self._is_away = False
                    _log.warning("The replica answers again.")
                seq, refilled = self._seen.get(tenant, (0, 0))
                if there[0] >= max(seq, reached) and there[1] >= refilled:
                    is_read = True
                    yield cursor
                    return
        except (psycopg.OperationalError, PoolTimeout):
            self._leave_alone()
            if is_read:  # it broke off the read, which is done again on the primary
                raise
        yield None

    def _leave_alone(self) -> None:
        if not self._is_away:
            _log.warning("The replica does not answer; the primary is read from.")
        self._is_away, self._rests_until = True, time.monotonic() + _REST_S
