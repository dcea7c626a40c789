"""The driver of a server: a pool, transactions that end as they say, a COMMIT whose answer may be lost."""

import logging
import re
import threading
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path
from typing import Any, TypeAlias

import psycopg
from psycopg import errors as pg_errors
from psycopg_pool import ConnectionPool, PoolTimeout

from quipu.errors import BackendUnavailableError, TamperedError, UnsupportedError
from quipu.ledger.driver import Bind, Cursor, OutcomeUnknownError
from quipu.ledger.queries import POSTGRES, Query
from quipu.ledger.table import Row, Value

_log = logging.getLogger("quipu.ledger")
Connection: TypeAlias = psycopg.Connection[Row]

# One message each. Settings are forced whatever the database is set to. A writer must see what was committed while it
# waited for the head's lock, so its isolation is READ COMMITTED; a reader sees one moment.
_WRITING = b"BEGIN ISOLATION LEVEL READ COMMITTED READ WRITE; SET LOCAL synchronous_commit = on"
_READING = b"BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY"
#: IF NOT EXISTS alone fails when two come at once.
_SCHEMA_LOCK = b"SELECT pg_advisory_xact_lock(7239)"
#: How long closing waits for a vacuum.
_VACUUM_PATIENCE_S = 10.0
_CHANNEL = "quipu_commits"
#: Tables from which an erasure takes something.
_ERASABLE = (
    *("record", "vector", "link", "mark", "reason", "answer", "answer_record"),
    *("proposal", "proposal_subject"),
)
#: What a tenant may look like on the channel; anything else there is not ours.
_TENANT = re.compile(r"[^\x00-\x1f]{1,256}")


@dataclass(frozen=True, slots=True)
class PostgresCursor:
    """One connection in one transaction."""

    connection: Connection

    def _execute(self, query: Query, values: Mapping[str, Bind]) -> psycopg.Cursor[Row]:
        # Optional conditions need a plan per value: a prepared one would be made for all of them.
        return self.connection.execute(POSTGRES.sql(query).encode(), values, prepare=False)

    def rows(self, query: Query, /, **values: Bind) -> list[Row]:
        return self._execute(query, values).fetchall()

    def row(self, query: Query, /, **values: Bind) -> Row | None:
        return self._execute(query, values).fetchone()

    def run(self, query: Query, /, **values: Bind) -> int:
        return self._execute(query, values).rowcount

    def run_many(self, query: Query, values: Sequence[Mapping[str, Value]]) -> None:
        if len(values) == 1:  # executemany sets up a pipeline, which one row does not earn back
            self.connection.execute(POSTGRES.sql(query).encode(), values[0])
        elif values:
            self.connection.cursor().executemany(POSTGRES.sql(query).encode(), values)

    def pages(self, query: Query, /, size: int = 500, **values: Bind) -> Iterator[list[Row]]:
        with self.connection.cursor("pages") as cursor:
            cursor.execute(POSTGRES.sql(query).encode(), values)
            while page := cursor.fetchmany(size):
                yield page


class PostgresDriver:
    """A PostgreSQL database; any number of processes may share it."""

    name = "postgresql"
    dialect = POSTGRES

    def __init__(self, url: str, size: int = 8, patience_s: float = 10.0) -> None:
        self.writers = self.readers = max(1, size // 2)
        self._url, self._failure = url, None
        self._closing = threading.Event()
        self._listener: threading.Thread | None = None
        self._announced: list[str] = []
        self._vacuum: threading.Thread | None = None
        self._vacuuming = threading.Lock()
        self._owes_vacuum = False
        kwargs = {"autocommit": True, "client_encoding": "utf8", "application_name": "quipu"}
        self._pool = ConnectionPool[Connection](
            url, min_size=1, max_size=size, timeout=patience_s, kwargs=kwargs, open=False
        )
        try:
            self._pool.open(wait=True, timeout=patience_s)
        except PoolTimeout as error:
            self._pool.close()
            raise BackendUnavailableError(
                "The database cannot be reached.",
                reason="unreachable",
                hint="Look at its address, user and password, and whether the server runs.",
            ) from error

    def lane(self, tenant: str) -> str:
        return tenant

    # -- transactions -----------------------------------------------------------------------------------------------

    @contextmanager
    def reading(self) -> Generator[Cursor]:
        with self._transaction(_READING) as connection:
            yield PostgresCursor(connection)

    @contextmanager
    def writing(self, lane: str) -> Generator[Cursor]:
        try:
            with self._transaction(_WRITING) as connection:
                yield PostgresCursor(connection)
        except BackendUnavailableError as error:
            self._failure = error.reason
            raise
        self._failure = None

    @contextmanager
    def _transaction(self, begin: bytes) -> Generator[Connection]:
        try:
            with self._pool.connection() as connection:
                connection.execute(begin)
                try:
                    yield connection
                except BaseException:
                    with suppress(psycopg.Error):  # the reason is the one that is told
                        connection.rollback()
                    raise
                try:
                    ended = connection.execute(b"COMMIT")
                except psycopg.OperationalError as error:
                    raise OutcomeUnknownError from error
                if (
                    ended.statusmessage != "COMMIT"
                ):  # a failed transaction answers COMMIT with ROLLBACK, and no error
                    raise BackendUnavailableError("The database did not keep it.", reason="rolled_back")
        except OutcomeUnknownError:
            self._check_pool()
            raise
        except (pg_errors.DiskFull, pg_errors.OutOfMemory) as error:
            raise BackendUnavailableError(
                "The database has no room left.",
                reason="disk_full",
                hint="Make room; nothing was half written.",
            ) from error
        except (pg_errors.ReadOnlySqlTransaction, pg_errors.InsufficientPrivilege) as error:
            raise BackendUnavailableError(
                "The database does not let us write.",
                reason="read_only",
                hint="Look at the rights of its user.",
            ) from error
        except pg_errors.DataCorrupted as error:
            raise TamperedError("The database is damaged.", reason="damaged_file") from error
        except (psycopg.OperationalError, PoolTimeout) as error:
            self._check_pool()
            raise BackendUnavailableError("The database does not answer.", reason="unreachable") from error

    def _check_pool(self) -> None:
        """A server that went away took all connections with it: else each of them costs an attempt."""
        with suppress(psycopg.Error, PoolTimeout):
            self._pool.check()

    # -- schema -------------------------------------------------------------------------------------------------------

    def create(self, statements: Sequence[str]) -> None:
        with self._transaction(_WRITING) as connection:
            connection.execute(_SCHEMA_LOCK)
            if connection.execute(b"SELECT to_regclass('journal')").fetchone() == (None,):
                for statement in (*statements, *_triggers()):
                    connection.execute(statement.encode())

    def schema_faults(self, statements: Sequence[str]) -> list[str]:
        expected = {
            (named[1].lower(), named[2])
            for statement in (*statements, *_triggers())
            if (named := re.match(r"CREATE (TABLE|INDEX|TRIGGER) (\w+)", statement)) is not None
        }
        with self._transaction(_READING) as connection:
            tables = connection.execute(
                b"SELECT 'table', tablename FROM pg_tables WHERE schemaname = current_schema()"
            ).fetchall()
            indexes = connection.execute(
                b"SELECT 'index', indexname FROM pg_indexes WHERE schemaname = current_schema()"
            ).fetchall()
            triggers = connection.execute(
                b"SELECT 'trigger', t.tgname, t.tgenabled, p.prosrc FROM pg_trigger AS t "
                b"JOIN pg_class AS c ON c.oid = t.tgrelid JOIN pg_proc AS p ON p.oid = t.tgfoid "
                b"JOIN pg_namespace AS n ON n.oid = c.relnamespace "
                b"WHERE n.nspname = current_schema() AND NOT t.tgisinternal"
            ).fetchall()
        found = {(kind, name) for kind, name, *_ in (*tables, *indexes, *triggers)}
        faults = [f"{name} is missing" for kind, name in sorted(expected) if (kind, name) not in found]
        for _, name, enabled, source in triggers:
            is_ours = ("trigger", name) in expected
            is_whole = (
                enabled in ("O", "A", b"O", b"A") and "RAISE EXCEPTION 'the journal is append-only'" in source
            )
            if is_ours and not is_whole:
                faults.append(f"{name} is not as it was made")
        return faults

    def integrity_faults(self) -> list[str]:
        return []  # a server checks its own pages

    # -- other processes ------------------------------------------------------------------------------------------------

    def announce(self, tenant: str, seq: int) -> None:
        """After the commit, never inside: a NOTIFY in a transaction would make all tenants wait for each other."""
        if self._listener is not None:
            self._announced.append(tenant)

    def listen(self, heard: Callable[[str | None], None]) -> None:
        if self._listener is None:
            self._listener = threading.Thread(
                target=self._listen, args=(heard,), name="ledger-listen", daemon=True
            )
            self._listener.start()

    def _listen(self, heard: Callable[[str | None], None]) -> None:
        while not self._closing.is_set():
            try:
                with psycopg.connect(
                    self._url, autocommit=True, application_name="quipu-listen"
                ) as connection:
                    connection.execute(f"LISTEN {_CHANNEL}".encode())
                    heard(None)  # whatever came while nobody listened
                    while not self._closing.is_set():
                        self._send(connection)
                        for notice in connection.notifies(timeout=0.05):
                            if _TENANT.fullmatch(notice.payload):
                                heard(notice.payload)
            except psycopg.Error as error:
                _log.warning("The database's announcements cannot be heard: %s", type(error).__name__)
                heard(None)
                self._closing.wait(1.0)

    def _send(self, connection: psycopg.Connection[Any]) -> None:
        waiting, self._announced = self._announced, []
        for tenant in dict.fromkeys(waiting):
            connection.execute(b"SELECT pg_notify(%s, %s)", (_CHANNEL, tenant))

    # -- the rest -------------------------------------------------------------------------------------------------------

    def scrub(self, patience_ms: int) -> bool:
        """Have dead rows vacuumed away in the background; `compact` leaves no byte of them."""
        with self._vacuuming:
            self._owes_vacuum = True
            if self._vacuum is None or not self._vacuum.is_alive():
                self._vacuum = threading.Thread(
                    target=self._vacuum_until_done, name="ledger-vacuum", daemon=True
                )
                self._vacuum.start()
        return False

    def _vacuum_until_done(self) -> None:
        while True:
            with self._vacuuming:
                if not self._owes_vacuum:
                    return
                self._owes_vacuum = False
            try:
                self._maintain(f"VACUUM {', '.join(_ERASABLE)}")
            except psycopg.Error as error:
                _log.warning("Erased rows are left to the server's own vacuum: %s", type(error).__name__)
                return

    def _maintain(self, statement: str) -> None:
        """Outside of the pool: it may take long, and must not take a place that callers wait for."""
        with psycopg.connect(self._url, autocommit=True, application_name="quipu-maintenance") as connection:
            connection.execute(statement.encode())

    def backup(self, target: Path, progress: Callable[[int, int], None] | None = None) -> None:
        raise UnsupportedError(
            "A PostgreSQL database is backed up with its own tools.", reason="backup", hint="Use pg_dump."
        )

    def sizes(self) -> Mapping[str, int]:
        with self._transaction(_READING) as connection:
            row = connection.execute(b"SELECT pg_database_size(current_database())").fetchone()
        return {"database": 0 if row is None else row[0]}

    def compact(self) -> None:
        """Write the tables anew, without anything that is gone; nobody reads or writes them meanwhile."""
        try:
            self._maintain(f"VACUUM (FULL, ANALYZE) {', '.join(_ERASABLE)}")
        except psycopg.Error as error:
            raise BackendUnavailableError(
                "The database could not be compacted.", reason="unreachable"
            ) from error

    def writable(self) -> str | None:
        return self._failure

    def close(self) -> None:
        self._closing.set()
        if self._listener is not None:
            self._listener.join()
        if self._vacuum is not None:
            self._vacuum.join(_VACUUM_PATIENCE_S)  # what is left is done by the server's own vacuum
        self._pool.close()


def _triggers() -> list[str]:
    text = files("quipu.ledger.postgres").joinpath("triggers.sql").read_text("utf-8")
    plain = re.sub(r"^--.*$", "", text, flags=re.M)
    return [found.strip() for found in re.split(r";\n\n|;\n*\Z", plain) if found.strip()]
