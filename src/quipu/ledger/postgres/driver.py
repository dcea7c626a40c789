"""The driver of a server: a pool, transactions that end as they say, a COMMIT whose answer may be lost."""

import logging
import os
import re
import threading
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path
from typing import Any, Final, TypeAlias

import psycopg
from psycopg.conninfo import conninfo_to_dict
from psycopg_pool import ConnectionPool, PoolTimeout

from quipu.errors import BackendUnavailableError, UnsupportedError
from quipu.ledger.driver import Bind, Cursor, OutcomeUnknownError
from quipu.ledger.postgres.faults import meaning
from quipu.ledger.postgres.listen import Announcements
from quipu.ledger.postgres.replica import Replica, reached_by
from quipu.ledger.queries import POSTGRES, Query
from quipu.ledger.table import Row, Value

_log = logging.getLogger("quipu.ledger")
Connection: TypeAlias = psycopg.Connection[Row]

# One message each. Settings are forced whatever the database is set to. A writer must see what was committed while it
# waited for the head's lock, so its isolation is READ COMMITTED; a reader sees one moment.
_WRITING = (
    "BEGIN ISOLATION LEVEL READ COMMITTED READ WRITE; SET LOCAL synchronous_commit = {durable}; "
    "SET LOCAL lock_timeout = '10s'; SET LOCAL idle_in_transaction_session_timeout = '60s'"
)
_READING = b"BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY"
#: IF NOT EXISTS alone fails when two come at once.
_SCHEMA_LOCK = b"SELECT pg_advisory_xact_lock(7239)"
#: How long closing waits for a vacuum, and opening for a server.
_VACUUM_PATIENCE_S, _CONNECT_S = 10.0, 10
#: A server whose machine has gone without a word is noticed in half a minute; by itself TCP takes a quarter of an hour.
#: What an address says about it wins.
_NOTICED: Final[Mapping[str, Any]] = {
    **{"keepalives_idle": 10, "keepalives_interval": 5, "keepalives_count": 3},
    **{"tcp_user_timeout": 25_000, "connect_timeout": _CONNECT_S},
}


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
    is_near = False

    def __init__(self, url: str, size: int = 8, replica: str | None = None, patience_s: float = 10.0) -> None:
        """`size` is how many connections it may have; `replica` a server that recall is answered by where it has caught up."""
        self.writers = self.readers = max(1, size // 2)
        self._url, self._failure, self._process = url, None, os.getpid()
        self._vacuum: threading.Thread | None = None
        self._vacuuming = threading.Lock()
        self._owes_vacuum = False
        self._erasable: Callable[[], Sequence[str]] = tuple[str]
        with self._connect("quipu") as connection:  # says at once, and clearly, why there is none
            _check_encoding(connection)
            # Stronger than `on` is kept; anything weaker would answer before the commit is durable.
            row = connection.execute("SHOW synchronous_commit").fetchone()
            durable = "remote_apply" if row == ("remote_apply",) else "on"
        self._begin_writing = _WRITING.format(durable=durable).encode()
        self._pool = _pool(url, size, patience_s)
        self._pool.open()
        self._announcements = Announcements(self._connect)
        self._replica: Replica | None = None
        self._replica_pool: ConnectionPool[Connection] | None = None
        if replica is not None:
            pool = self._replica_pool = _pool(replica, size, patience_s)
            pool.open()
            self._replica = Replica(lambda patience: _replica_reading(pool, patience))

    def _connect(self, name: str) -> psycopg.Connection[Any]:
        """A connection of one's own, outside of the pool."""
        try:
            return psycopg.connect(
                self._url,
                autocommit=True,
                client_encoding="utf8",
                application_name=name,
                **_noticed(self._url),
            )
        except psycopg.Error as error:
            raise meaning(error) or error from error

    def lane(self, tenant: str) -> str:
        return tenant

    # -- transactions -----------------------------------------------------------------------------------------------

    @contextmanager
    def reading(self, tenant: str = "", reached: int | None = None) -> Generator[Cursor]:
        replica = self._replica
        if replica is None:
            with self._transaction(_READING) as connection:
                yield PostgresCursor(connection)
            return
        if reached is not None:
            with _driver_errors(), replica.reading(tenant, reached, lambda: self._reached(tenant)) as cursor:
                if cursor is not None:
                    yield cursor
                    return
        with self._transaction(_READING) as connection:
            cursor = PostgresCursor(connection)
            replica.note(tenant, reached_by(cursor, tenant))
            yield cursor

    def _reached(self, tenant: str) -> tuple[int, int]:
        with self._transaction(_READING) as connection:
            return reached_by(PostgresCursor(connection), tenant)

    @contextmanager
    def writing(self, lane: str) -> Generator[Cursor]:
        try:
            with self._transaction(self._begin_writing) as connection:
                yield PostgresCursor(connection)
        except BackendUnavailableError as error:
            self._failure = error.reason
            raise
        finally:
            if self._replica is not None:
                self._replica.wrote(lane)
        self._failure = None

    @contextmanager
    def _transaction(self, begin: bytes) -> Generator[Connection]:
        self._check_process()
        try:
            with _driver_errors(), self._pool.connection() as connection:
                connection.execute(begin)
                try:
                    yield connection
                except BaseException:
                    with suppress(psycopg.Error):  # the first reason is the one to report
                        connection.rollback()
                    raise
                try:
                    ended = connection.execute(b"COMMIT")
                except psycopg.OperationalError as error:
                    raise OutcomeUnknownError from error
                _check_kept(ended.statusmessage)
        except OutcomeUnknownError:
            self._check_pool()
            raise
        except BackendUnavailableError as error:
            if error.reason == "unreachable":
                self._check_pool()
            raise

    def _check_process(self) -> None:
        """Two processes on one connection would read each other's answers."""
        if os.getpid() != self._process:
            raise BackendUnavailableError(
                "The memory was opened before this process was forked.",
                reason="forked",
                hint="Open it in the process that uses it.",
            )

    def _check_pool(self) -> None:
        """A server that went away took all connections with it: else each of them costs an attempt."""
        with suppress(psycopg.Error, PoolTimeout):
            self._pool.check()

    # -- schema -------------------------------------------------------------------------------------------------------

    def create(self, statements: Sequence[str], erasable: Callable[[], Sequence[str]]) -> None:
        self._erasable = erasable
        with self._transaction(self._begin_writing) as connection:
            connection.execute(_SCHEMA_LOCK)
            if connection.execute(b"SELECT to_regclass('journal')").fetchone() == (None,):
                for statement in (*statements, *_triggers()):
                    connection.execute(statement.encode())

    def schema_faults(self, statements: Sequence[str]) -> list[str]:
        with self._transaction(self._begin_writing) as connection:
            return schema_faults(connection, (*statements, *_triggers()))

    def integrity_faults(self) -> list[str]:
        return []  # a server checks its own pages

    # -- other processes ------------------------------------------------------------------------------------------------

    def announce(self, tenant: str, seq: int) -> None:
        self._announcements.announce(tenant)

    def listen(self, heard: Callable[[str | None], None]) -> None:
        replica = self._replica

        def noted(tenant: str | None) -> None:
            if replica is not None:
                replica.wrote(tenant)
            heard(tenant)

        self._announcements.listen(noted)

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
                self._maintain(f"VACUUM {', '.join(self._erasable())}")
            except (psycopg.Error, BackendUnavailableError) as error:
                _log.warning("Erased rows are left to the server's own vacuum: %s", type(error).__name__)
                return

    def _maintain(self, statement: str) -> None:
        """Outside of the pool: it may take long, and must not take a place that callers wait for."""
        with self._connect("quipu-maintenance") as connection:
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
            self._maintain(f"VACUUM (FULL, ANALYZE) {', '.join(self._erasable())}")
        except psycopg.Error as error:
            raise BackendUnavailableError(
                "The database could not be compacted.", reason="unreachable"
            ) from error

    def writable(self) -> str | None:
        return self._failure

    def close(self) -> None:
        if os.getpid() != self._process:
            return
        self._announcements.close()
        if self._vacuum is not None:
            self._vacuum.join(_VACUUM_PATIENCE_S)  # what is left is done by the server's own vacuum
        self._pool.close()
        if self._replica_pool is not None:
            self._replica_pool.close()


def _noticed(url: str) -> dict[str, Any]:
    given = conninfo_to_dict(url)
    return {name: value for name, value in _NOTICED.items() if name not in given}


def _pool(url: str, size: int, patience_s: float) -> ConnectionPool[Connection]:
    kwargs = {
        **{"autocommit": True, "client_encoding": "utf8", "application_name": "quipu"},
        **_noticed(url),
    }
    return ConnectionPool[Connection](
        url, min_size=1, max_size=size, timeout=patience_s, kwargs=kwargs, open=False
    )


@contextmanager
def _replica_reading(pool: ConnectionPool[Connection], patience_s: float) -> Generator[PostgresCursor]:
    """One moment of a replica. Its errors are psycopg's own: nobody hears of them."""
    with pool.connection(timeout=patience_s) as connection:
        connection.execute(_READING)
        try:
            yield PostgresCursor(connection)
        finally:
            with suppress(psycopg.Error):
                connection.rollback()


@contextmanager
def _driver_errors() -> Generator[None]:
    """psycopg's errors in our words; where a statement is at fault, as they are."""
    try:
        yield
    except psycopg.Error as error:
        raise meaning(error) or error from error


def _check_kept(answer: str | None) -> None:
    """A transaction in which something failed answers COMMIT with ROLLBACK, and with no error."""
    if answer != "COMMIT":
        raise BackendUnavailableError("The database did not keep it.", reason="rolled_back")


def _check_encoding(connection: psycopg.Connection[Any]) -> None:
    """Refuse a database that cannot keep every text."""
    encoding = connection.info.parameter_status("server_encoding")
    if encoding not in (None, "UTF8"):
        raise BackendUnavailableError(
            f"The database keeps texts as {encoding}; UTF8 is needed.",
            reason="not_utf8",
            hint="Make one with `createdb --encoding=UTF8 --template=template0`. This one was not touched.",
        )


def _triggers() -> list[str]:
    text = files("quipu.ledger.postgres").joinpath("triggers.sql").read_text("utf-8")
    plain = re.sub(r"^--.*$", "", text, flags=re.M)
    return [found.strip() for found in re.split(r";\n\n|;\n*\Z", plain) if found.strip()]


# -- whether the schema is as it was made -------------------------------------------------------------------------


_CHECK = "quipu_check"
#: Kind and name → the server's words for it.
Description: TypeAlias = dict[tuple[str, str], str]


def schema_faults(connection: psycopg.Connection[Any], statements: Sequence[str]) -> list[str]:
    """They are made once more in a schema that is thrown away again, so that the server describes both in its own words."""
    row = connection.execute(b"SELECT current_schema()").fetchone()
    schema = "" if row is None else str(row[0])
    connection.execute(f"SAVEPOINT {_CHECK}".encode())
    connection.execute(f"CREATE SCHEMA {_CHECK}; SET LOCAL search_path TO {_CHECK}".encode())
    for statement in statements:
        connection.execute(statement.encode())
    expected = _described(connection, _CHECK, None)
    found = _described(connection, schema, sorted(name for kind, name in expected if kind == "table"))
    connection.execute(f"ROLLBACK TO SAVEPOINT {_CHECK}".encode())
    missing = [f"{name} is missing" for kind, name in sorted(expected) if (kind, name) not in found]
    altered = [
        f"{name} is not as it was made"
        for (kind, name), words in sorted(expected.items())
        if found.get((kind, name), words) != words
    ]
    return missing + altered + [f"{name} is not ours" for _, name in sorted(found.keys() - expected.keys())]


def _described(connection: psycopg.Connection[Any], schema: str, tables: list[str] | None) -> Description:
    """Tables of a schema, or some of them, and all that hangs on them."""
    text = files("quipu.ledger.postgres").joinpath("schema.sql").read_text("utf-8")
    rows = connection.execute(text.encode(), {"schema": schema, "tables": tables}).fetchall()
    return {(kind, name): words.replace(f"{schema}.", "") for kind, name, words in rows}
