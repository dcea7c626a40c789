"""Letting other processes know of commits, and hearing of theirs (NOTIFY and LISTEN).

1. What is said is a hint: the name of a tenant, nothing else. Whoever hears it looks at the journal.
2. It is said after the commit, apart from it: inside, it would make the commits of all tenants wait for each other.
3. What was committed within a moment is said once. What is lost is made up for by the next one, and by whoever looks at
   the journal now and then.
4. Anybody who may connect may say anything on the channel.
"""

import logging
import re
import threading
from collections.abc import Callable
from typing import Any, TypeAlias

import psycopg
from psycopg import sql

from quipu.errors import BackendUnavailableError

_log = logging.getLogger("quipu.ledger")
_CHANNEL = "quipu_commits"
#: What a tenant may look like on the channel; anything else there is not ours.
_TENANT = re.compile(r"[^\x00-\x1f\x7f]{1,256}")
_MOMENT_S = 0.02
#: How soon a listener sees that it is to end, and how long it waits for a server that went away.
_LOOK_S, _RETRY_S = 0.25, 1.0

Connect: TypeAlias = Callable[[str], psycopg.Connection[Any]]


class Announcements:
    """What this process says and hears. `connect` opens a connection of one's own, by the name it goes by."""

    def __init__(self, connect: Connect) -> None:
        self._connect = connect
        self._closing, self._has_news = threading.Event(), threading.Event()
        self._lock = threading.Lock()
        self._waiting: set[str] = set()
        self._threads: list[threading.Thread] = []

    def announce(self, tenant: str) -> None:
        """Say that a tenant's journal has grown; nobody waits for it. Where nobody here listens, nothing happens."""
        if self._threads:
            with self._lock:
                self._waiting.add(tenant)
            self._has_news.set()

    def listen(self, heard: Callable[[str | None], None]) -> None:
        """Call back with the tenant of a commit; None: nobody knows what was said meanwhile."""
        if self._threads:
            return
        for work in (lambda: self._hear(heard), self._say):
            thread = threading.Thread(target=work, name="ledger-listen", daemon=True)
            self._threads.append(thread)
            thread.start()

    def close(self) -> None:
        self._closing.set()
        self._has_news.set()
        for thread in self._threads:
            thread.join()

    def _hear(self, heard: Callable[[str | None], None]) -> None:
        while not self._closing.is_set():
            try:
                with self._connect("quipu-listen") as connection:
                    connection.execute(sql.SQL("LISTEN {}").format(sql.Identifier(_CHANNEL)))
                    heard(None)
                    while not self._closing.is_set():
                        for notice in connection.notifies(timeout=_LOOK_S):
                            if notice.channel == _CHANNEL and _TENANT.fullmatch(notice.payload):
                                heard(notice.payload)
            except (psycopg.Error, BackendUnavailableError) as error:
                _log.warning("Commits of other processes are not heard of: %s", type(error).__name__)
                heard(None)
                self._closing.wait(_RETRY_S)

    def _say(self) -> None:
        connection: psycopg.Connection[Any] | None = None
        while not (self._closing.is_set() and not self._waiting):
            self._has_news.wait()
            self._closing.wait(_MOMENT_S)
            self._has_news.clear()
            with self._lock:
                tenants, self._waiting = self._waiting, set[str]()
            try:
                if connection is None or connection.closed:
                    connection = self._connect("quipu-announce")
                for tenant in tenants:
                    connection.execute("SELECT pg_notify(%s, %s)", (_CHANNEL, tenant))
            except (psycopg.Error, BackendUnavailableError) as error:
                _log.debug("Commits were not announced: %s", type(error).__name__)
        if connection is not None:
            connection.close()
