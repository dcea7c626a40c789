"""The driver of one file: write-ahead log, every commit flushed, one writer, readers that cannot write."""

import json
import os
import re
import threading
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path
from queue import LifoQueue
from typing import Any, Final, TypeAlias

import apsw

from quipu.errors import BackendUnavailableError, TamperedError
from quipu.ledger.driver import Bind, Cursor
from quipu.ledger.queries import SQLITE, Query
from quipu.ledger.sqlite.log import Connection, Log, opened
from quipu.ledger.table import Row, Value

#: Marks a file as one of ours.
_APPLICATION_ID = 0x51755069
#: The version of the schema.
SCHEMA = 2


def _bound(values: Mapping[str, Bind]) -> dict[str, Value]:
    return {name: json.dumps(value) if isinstance(value, list) else value for name, value in values.items()}


@dataclass(frozen=True, slots=True)
class SqliteCursor:
    """One connection in one transaction."""

    connection: Connection

    def _execute(self, query: Query, values: Mapping[str, Bind]) -> Any:
        return self.connection.execute(SQLITE.sql(query), _bound(values))

    def rows(self, query: Query, /, **values: Bind) -> list[Row]:
        return self._execute(query, values).fetchall()

    def row(self, query: Query, /, **values: Bind) -> Row | None:
        return next(iter(self._execute(query, values)), None)

    def run(self, query: Query, /, **values: Bind) -> int:
        self._execute(query, values).fetchall()
        return self.connection.changes()

    def run_many(self, query: Query, values: Sequence[Mapping[str, Value]]) -> None:
        if len(values) == 1:
            self.connection.execute(SQLITE.sql(query), values[0])
        elif values:
            self.connection.executemany(SQLITE.sql(query), values)

    def pages(self, query: Query, /, size: int = 500, **values: Bind) -> Iterator[list[Row]]:
        page: list[Row] = []
        for row in self._execute(query, values):
            page.append(row)
            if len(page) == size:
                yield page
                page = []
        if page:
            yield page


class SqliteDriver:
    """A file, or `:memory:`, where readers and the writer take turns on one connection."""

    name = "sqlite"
    dialect = SQLITE
    writers = 1
    is_near = True

    def __init__(self, path: Path | str, readers: int = 2) -> None:
        self._is_memory = str(path) == ":memory:"
        self._path = Path(path)
        self._process = os.getpid()
        self._failure: str | None = None
        self._turn = threading.RLock()
        self.readers = 1 if self._is_memory else readers
        if not self._is_memory:
            check_not_inherited(self._path)
            with suppress(OSError):  # it is there, or cannot be: SQLite says which
                self._path.touch(mode=0o600, exist_ok=False)  # its log gets the same
        self._found_log = Path(f"{path}-wal").exists()
        with _errors():
            self._writer = opened(path, apsw.SQLITE_OPEN_READWRITE | apsw.SQLITE_OPEN_CREATE)
            self._check_file()
            self._writer.execute("PRAGMA secure_delete = ON")
            if not self._is_memory:
                self._writer.execute("PRAGMA journal_mode = WAL")
                self._writer.execute("PRAGMA synchronous = FULL")  # NORMAL would not flush the log at COMMIT
                self._writer.execute("PRAGMA wal_autocheckpoint = 0")  # a thread does it: no caller pays
                self._writer.execute("PRAGMA temp_store = MEMORY")  # no copy in another file
        self._idle: LifoQueue[Connection] = LifoQueue()
        self._place = None if self._is_memory else identity(self._path)
        self._log: Log | None = None

    def _check_file(self) -> None:
        """A file of another program, or of a newer version of ours, is left alone."""
        mark = next(iter(self._writer.execute("PRAGMA application_id")))[0]
        has_tables = next(iter(self._writer.execute("SELECT count(*) FROM sqlite_schema")))[0] > 0
        if has_tables and mark != _APPLICATION_ID:
            raise BackendUnavailableError(
                f"{self._path} is a database of another program.",
                reason="foreign_file",
                hint="Name another file.",
            )
        self._check_version()

    def _check_version(self) -> None:
        version = next(iter(self._writer.execute("PRAGMA user_version")))[0]
        if 0 < version < SCHEMA:
            raise BackendUnavailableError(
                f"{self._path} was made by an earlier version of Quipu, before its first release.",
                reason="older_schema",
                hint="Export it with that version, `quipu export FILE`, and import the file here.",
            )
        if version > SCHEMA:
            raise BackendUnavailableError(
                f"{self._path} was made by a newer version of Quipu.",
                reason="newer_schema",
                hint="Update Quipu.",
            )

    def lane(self, tenant: str) -> str:
        return ""

    # -- transactions -----------------------------------------------------------------------------------------------

    @contextmanager
    def reading(self, tenant: str = "", reached: int | None = None) -> Generator[Cursor]:
        check_process(self._process)
        if self._is_memory:
            with self._turn, _errors():
                yield from _between(self._writer, "BEGIN")
            return
        try:
            connection = self._idle.get_nowait()
        except Exception:  # noqa: BLE001  Empty: one more is opened, as many as there are threads
            with _errors():
                connection = opened(self._path, apsw.SQLITE_OPEN_READONLY)
        try:
            with _errors():
                yield from _between(connection, "BEGIN")
        finally:
            self._idle.put(connection)

    @contextmanager
    def writing(self, lane: str) -> Generator[Cursor]:
        check_process(self._process)
        with self._turn:
            try:
                with _errors():
                    yield from _between(self._writer, "BEGIN IMMEDIATE", self._check_still_ours)
            except BackendUnavailableError as error:
                self._failure = error.reason
                raise
            self._failure = None
            if self._log is not None:
                self._log.tend()

    def _check_still_ours(self) -> None:
        """A file that was moved, replaced or upgraded while it is open is written no more."""
        if self._log is None:
            return
        if identity(self._path) != self._place:
            raise BackendUnavailableError(
                f"{self._path} is not where it was opened: it was moved, deleted or replaced.",
                reason="moved_file",
                hint="Put it back, or open it again.",
            )
        self._check_version()
        self._log.look()

    # -- schema -------------------------------------------------------------------------------------------------------

    def create(self, statements: Sequence[str], erasable: Callable[[], Sequence[str]]) -> None:
        with self._turn, _errors():
            self._writer.execute("BEGIN IMMEDIATE")
            try:
                if next(iter(self._writer.execute("PRAGMA user_version")))[0] == 0:
                    for statement in (*statements, *_triggers()):
                        self._writer.execute(statement)
                    self._writer.execute(f"PRAGMA application_id = {_APPLICATION_ID}")
                    self._writer.execute(f"PRAGMA user_version = {SCHEMA}")
                self._writer.execute("COMMIT")
            except BaseException:
                if self._writer.in_transaction:
                    self._writer.execute("ROLLBACK")
                raise
        if not self._is_memory:
            self._place = identity(self._path)
            self._log = Log(self._path, self._writer, self._turn, is_left=self._found_log)

    def schema_faults(self, statements: Sequence[str]) -> list[str]:
        expected: dict[str, str] = {}
        for statement in (*statements, *_triggers()):
            named = re.match(r"CREATE (?:UNIQUE )?(TABLE|INDEX|TRIGGER) (\w+)", statement)
            assert named is not None
            expected[named[2]] = _squeezed(statement)
        with self.reading() as cursor:
            assert isinstance(cursor, SqliteCursor)
            found = {
                name: _squeezed(text)
                for name, text in cursor.connection.execute(
                    "SELECT name, sql FROM sqlite_schema WHERE sql IS NOT NULL AND name NOT LIKE 'sqlite_%'"
                )
            }
        faults = [f"{name} is missing" for name in expected if name not in found]
        faults += [
            f"{name} is not as it was made"
            for name in expected
            if found.get(name, expected[name]) != expected[name]
        ]
        return faults + [f"{name} is not ours" for name in found if name not in expected]

    def integrity_faults(self) -> list[str]:
        with self.reading() as cursor:
            assert isinstance(cursor, SqliteCursor)
            found = [row[0] for row in cursor.connection.execute("PRAGMA integrity_check(20)")]
        return [] if found == ["ok"] else [str(fault) for fault in found]

    # -- the rest -------------------------------------------------------------------------------------------------------

    def scrub(self, patience_ms: int) -> bool:
        """Erased bytes stand in the log until it is cut."""
        with _errors():
            return self._log is None or self._log.cut(patience_ms)

    def announce(self, tenant: str, seq: int) -> None:
        """Other processes with the same file look at it themselves."""

    def listen(self, heard: Callable[[str | None], None]) -> None:
        """Whoever follows the journal of a file looks every quarter of a second."""

    def backup(self, target: Path, progress: Callable[[int, int], None] | None = None) -> None:
        if target.exists():
            raise BackendUnavailableError(
                "The target of a backup must not exist yet.",
                reason="target_exists",
                hint="Name another file.",
            )
        with _errors():
            copy = apsw.Connection(str(target))
            try:
                with copy.backup("main", self._writer, "main") as backup:  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]  apsw's own connection
                    while not backup.done:
                        with self._turn:
                            backup.step(500)
                        if progress is not None:
                            progress(backup.page_count - backup.remaining, backup.page_count)
            finally:
                copy.close()

    def sizes(self) -> Mapping[str, int]:
        if self._is_memory:
            return {}
        names = {"file": self._path, "log": Path(f"{self._path}-wal")}
        return {name: path.stat().st_size for name, path in names.items() if path.exists()}

    def compact(self) -> None:
        with self._turn, _errors():
            self._writer.execute("VACUUM")
        self.scrub(1_000)

    def writable(self) -> str | None:
        return self._failure

    def close(self) -> None:
        if os.getpid() != self._process:
            return
        while not self._idle.empty():
            self._idle.get().close()
        if self._log is not None:
            self._log.close()
        self._writer.close()


def _triggers() -> list[str]:
    text = files("quipu.ledger.sqlite").joinpath("triggers.sql").read_text("utf-8")
    return [found.strip() for found in re.findall(r"CREATE TRIGGER.*?END(?=;)", text, re.S)]


def _squeezed(text: str) -> str:
    return " ".join(re.sub(r"--[^\n]*", " ", text).split())


def _between(connection: Connection, begin: str, check: Callable[[], None] | None = None) -> Iterator[Cursor]:
    connection.execute(begin)
    try:
        if check is not None:
            check()
        yield SqliteCursor(connection)
        connection.execute("COMMIT")
    except BaseException:
        if connection.in_transaction:  # some errors have rolled back already
            connection.execute("ROLLBACK")
        raise


@contextmanager
def _errors() -> Generator[None]:
    """apsw's errors in our words."""
    try:
        yield
    except (apsw.BusyError, apsw.LockedError) as error:
        raise BackendUnavailableError("The file is in use by somebody else.", reason="busy") from error
    except apsw.FullError as error:
        raise BackendUnavailableError(
            "The disk is full.", reason="disk_full", hint="Make room; nothing was half written."
        ) from error
    except (apsw.CorruptError, apsw.NotADBError, UnicodeDecodeError) as error:
        raise TamperedError(
            "The file is damaged, or no database.", reason="damaged_file", hint="Restore the latest backup."
        ) from error
    except (apsw.CantOpenError, apsw.PermissionsError, apsw.ReadOnlyError, apsw.IOError) as error:
        raise BackendUnavailableError(
            "The file cannot be opened or written.",
            reason="cannot_open",
            hint="Look at its folder and permissions.",
        ) from error


# -- which file is open -------------------------------------------------------------------------------------------


#: The device and the number of a file on it.
Identity: TypeAlias = tuple[int, int]

#: What the parents of this process had open when they forked.
_inherited: Final[set[Identity]] = set()


def identity(path: Path | str) -> Identity | None:
    """Of what is at the path; None where nothing is. Only looked at: opening it here would drop SQLite's locks."""
    try:
        found = os.stat(path)
    except OSError:
        return None
    return found.st_dev, found.st_ino


def check_not_inherited(path: Path) -> None:
    """Refuse a file that was open when this process was forked."""
    if _inherited and identity(path) in _inherited:
        raise BackendUnavailableError(
            "The file was open when this process was forked, and cannot be opened again here.",
            reason="forked",
            hint="Open it after the fork, or close it before; with multiprocessing, start processes by 'spawn'.",
        )


def check_process(opened_in: int) -> None:
    """A forked child must not touch what its parent has opened."""
    if os.getpid() != opened_in:
        raise BackendUnavailableError(
            "The memory was opened before this process was forked.",
            reason="forked",
            hint="Open it in the process that uses it.",
        )


def _note_inherited() -> None:
    for connection in apsw.connections():
        with suppress(apsw.Error):
            found = identity(connection.filename)
            if found is not None:
                _inherited.add(found)


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_note_inherited)
