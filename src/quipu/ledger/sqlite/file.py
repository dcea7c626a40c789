"""The database file: opening, creating, upgrading, and what its errors mean."""

from __future__ import annotations

import re
import shutil
import stat
import time
from collections.abc import Callable, Sequence
from importlib.resources import files
from pathlib import Path

import apsw

from quipu.errors import BackendUnavailableError, ConflictError, InternalError, InvalidError, QuipuError
from quipu.ledger.sqlite import completeness, drafts, identity, statements

#: "QUIP", in the header of every file of ours.
APPLICATION_ID = 0x51554950
PAGE_SIZE = 8192
BUSY_MS = 30_000

#: SQLite takes a log for that of whatever file stands beside it, also of one that was just put there.
_RESTORE = "Run `quipu doctor`, or restore the latest backup: move the file away first, and its -wal and -shm with it."
_MEANING: Sequence[tuple[type[apsw.Error], str, str, str]] = (
    (apsw.BusyError, "busy", "Another process held the file's write lock for too long.", "Try again."),
    (apsw.LockedError, "busy", "Another process held the file's write lock for too long.", "Try again."),
    (
        apsw.FullError,
        "disk_full",
        "The disk is full; nothing of this write was kept.",
        "Free some space and repeat it.",
    ),
    (
        apsw.ReadOnlyError,
        "read_only",
        "The file or its directory is read-only.",
        "Make the directory writable.",
    ),
    (
        apsw.CantOpenError,
        "cannot_open",
        "The file cannot be opened.",
        "Check that the directory exists and is writable, and that the process may open more files.",
    ),
    (apsw.NotADBError, "not_a_database", "The file is not a Quipu database.", "Choose another path."),
    (apsw.CorruptError, "corrupt", "The database file is damaged.", _RESTORE),
    (
        apsw.IOError,
        "io_error",
        "The disk failed while reading or writing.",
        "Check the disk, its quota and the limit on file sizes; nothing half-written was kept.",
    ),
    (apsw.NoMemError, "no_memory", "There was not enough memory.", "Close something and try again."),
)
#: What SQLite says of statements that hold for every file of ours: then something else has written in this one.
_NOT_OURS = (
    "malformed",
    "no such table",
    "no such column",
    "no such index",
    "no such function",
    "no such module",
)

#: What SQLite says of a step that was taken before.
_IS_THERE = re.compile(r"already exists|duplicate column name")


class Translated:
    """A block whose errors are told as ours. Every read has one, and a generator would take three times as long."""

    def __enter__(self) -> None:
        return

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        if isinstance(error, apsw.Error):
            raise meaning(error) from error


_TRANSLATED = Translated()


def translated() -> Translated:
    """SQLite's errors as Quipu's, cause kept; a driver's message never reaches a caller."""
    return _TRANSLATED


def meaning(error: apsw.Error) -> QuipuError:
    detail = getattr(error, "extendedresult", 0)
    if detail == apsw.SQLITE_READONLY_DBMOVED:
        return BackendUnavailableError(
            "The file was deleted, moved or replaced while it was open; nothing of this write was kept.",
            reason="moved",
            hint="Put it back, or end every process that has it open, and start again.",
        )
    if isinstance(error, apsw.SchemaChangeError):
        return BackendUnavailableError(
            "The file was upgraded by a newer Quipu while it was open; nothing of this write was kept.",
            reason="newer_schema",
            hint="End this program, upgrade quipu-memory, and start it again.",
        )
    if detail == apsw.SQLITE_IOERR_SHMSIZE:
        return BackendUnavailableError(
            "The disk is full: even who only reads needs a little room beside the file.",
            reason="disk_full",
            hint="Free some space and repeat it.",
        )
    for kind, reason, message, hint in _MEANING:
        if isinstance(error, kind):
            return BackendUnavailableError(message, reason=reason, hint=hint)
    if isinstance(error, apsw.ConstraintError):
        return ConflictError("The write contradicts what the ledger holds.", reason="constraint")
    if isinstance(error, apsw.SQLError) and str(error).startswith(_NOT_OURS):
        return meaning(apsw.CorruptError())
    return InternalError("The ledger failed.", reason="ledger", hint="`quipu doctor` examines the file.")


def migrations() -> list[str]:
    """The steps from an empty file to the current schema; step n makes schema version n."""
    folder = files("quipu.ledger.sqlite").joinpath("migrations")
    return [
        item.read_text("utf-8") for item in sorted(folder.iterdir(), key=str) if item.name.endswith(".sql")
    ]


def connect(path: Path, *, is_durable: bool = True, is_reader: bool = False) -> apsw.Connection:
    """A connection with the settings every one of ours has."""
    flags = apsw.SQLITE_OPEN_READWRITE | (0 if is_reader else apsw.SQLITE_OPEN_CREATE)
    identity.check_own(path)
    with translated():
        connection = apsw.Connection(str(path), flags=flags, statementcachesize=200)
        connection.set_busy_timeout(BUSY_MS)
        # A full sync after each commit is what makes an acknowledged write survive a power cut.
        connection.pragma("synchronous", "FULL" if is_durable else "OFF")
        connection.pragma("secure_delete", "ON")
        connection.pragma("foreign_keys", "ON")
        connection.pragma("cache_size", -32_000)
        connection.pragma("mmap_size", 1 << 30)
        connection.pragma("query_only", is_reader)
        # A plan depends on no value that is bound later: else SQLite plans a statement anew each time it runs.
        connection.config(apsw.SQLITE_DBCONFIG_ENABLE_QPSG, 1)
    return connection


def prepare(path: Path, steps: Sequence[str], *, is_durable: bool = True) -> None:
    """Make the file ready: create it, or check that it is ours and bring it up to date after a backup."""
    with translated():
        identity.check_own(path)
        _refuse_foreign(path)
        try:
            connection = connect(path, is_durable=is_durable)
        except BackendUnavailableError as error:
            raise _not_a_database(path) if error.reason == "not_a_database" else error from error.__cause__
        try:
            _create_or_upgrade(connection, path, steps)
        finally:
            connection.close()


def _refuse_foreign(path: Path) -> None:
    try:
        mode = path.stat().st_mode
    except FileNotFoundError:
        return
    except (OSError, ValueError) as error:
        raise meaning(apsw.CantOpenError()) from error
    if stat.S_ISDIR(mode):
        raise InvalidError.at(
            "/stores",
            "bad_value",
            f"{path} is a directory, not a database file.",
            hint=f"Name a file in it, such as {path / 'memory.db'}.",
        )
    if not stat.S_ISREG(mode):  # who opens a pipe waits for somebody at its other end
        raise meaning(apsw.CantOpenError())
    try:
        header = _header(path)
    except apsw.Error as error:
        raise meaning(apsw.CantOpenError()) from error
    # Anything else is for SQLite to judge: under its lock nobody is just making the file.
    if header.startswith(b"SQLite format 3\x00") and int.from_bytes(header[68:72], "big") not in (
        APPLICATION_ID,
        0,
    ):
        raise _foreign(path)


def _header(path: Path) -> bytes:
    """How the file begins, read by SQLite's own means.

    Who opens and closes a file any other way takes from the process every lock that it has on it. Another program that
    only reads the file then believes to be alone, and throws the log away that this process goes on writing to.
    """
    opened = apsw.VFSFile("", str(path), [apsw.SQLITE_OPEN_READONLY | apsw.SQLITE_OPEN_MAIN_DB, 0])
    try:
        return opened.xRead(min(100, opened.xFileSize()), 0)
    finally:
        opened.xClose()


def _not_a_database(path: Path) -> QuipuError:
    return BackendUnavailableError(
        f"{path} is not a Quipu database.",
        reason="not_a_database",
        hint="Choose another path; it was not touched.",
    )


def _foreign(path: Path) -> QuipuError:
    return BackendUnavailableError(
        f"{path} is a SQLite database of another program.",
        reason="not_a_database",
        hint="Choose another path; a memorywire file can be brought in with `quipu import`. It was not touched.",
    )


def _create_or_upgrade(connection: apsw.Connection, path: Path, steps: Sequence[str]) -> None:
    if not path.stat().st_size:
        connection.pragma("page_size", PAGE_SIZE)
    version = _version(connection, path)
    if version == len(steps):
        completeness.check(connection, steps)
        _use_wal(connection)
        return
    if version > len(steps):
        raise BackendUnavailableError(
            f"{path} was written by a newer Quipu (schema {version}; this one knows {len(steps)}).",
            reason="newer_schema",
            hint="Upgrade quipu-memory. The file was not touched.",
        )
    _use_wal(connection)
    connection.execute("BEGIN IMMEDIATE")
    try:
        # Another process may have done the work while this one waited for the lock.
        version = _version(connection, path)
        if version < len(steps):
            for step in steps[version:]:
                _take(connection, step, version)
            completeness.check(connection, steps)
            if version:
                _back_up_before_upgrade(path, version)
            connection.pragma("application_id", APPLICATION_ID)
            connection.pragma("user_version", len(steps))
        connection.execute("COMMIT")
    except BaseException:
        if connection.in_transaction:  # a full disk has rolled it back already
            connection.execute("ROLLBACK")
        raise


def _take(connection: apsw.Connection, step: str, version: int) -> None:
    """One step of an upgrade. What it would make is not there yet in a file that tells its version rightly."""
    try:
        connection.execute(step)
    except apsw.SQLError as error:
        if not _IS_THERE.search(str(error)):
            raise
        raise BackendUnavailableError(
            f"The file says that its schema is version {version}, and holds parts of a later one.",
            reason="half_migrated",
            hint="Its version was changed, or it was restored in part. Restore the latest backup; nothing was touched.",
        ) from error


def _use_wal(connection: apsw.Connection) -> None:
    """Switch to the write-ahead log. Where two do so at once SQLite does not wait, so the second asks again."""
    until = time.monotonic() + BUSY_MS / 1000
    while True:
        try:
            connection.pragma("journal_mode", "wal")
        except apsw.BusyError:
            if time.monotonic() > until:
                raise
            time.sleep(0.005)
        else:
            return


def _back_up_before_upgrade(path: Path, version: int) -> None:
    """A copy of what was there, taken under the write lock by a reader, who does not see what is not committed yet.

    Only of a file that can be upgraded: it takes the place of the copy that an earlier upgrade has left.
    """
    target = path.with_name(f"{path.name}.schema-{version}.backup")
    # Each is a whole memory, and the lock is held: none of them is being written.
    drafts.clear_abandoned(target)
    reader = connect(path, is_reader=True)
    try:
        back_up(reader, target, replaces=True)
    finally:
        reader.close()


def _version(connection: apsw.Connection, path: Path) -> int:
    application, version, tables = statements.select(connection, "nature")[0]
    if application == APPLICATION_ID or (application, version, tables) == (0, 0, 0):
        return int(version)
    raise _foreign(path)


def back_up(
    source: apsw.Connection,
    target: Path,
    progress: Callable[[int, int], None] | None = None,
    *,
    replaces: bool = False,
) -> None:
    """A consistent copy of the whole file, put in place only when it is complete. Who may read the file may read it."""
    draft = drafts.begun(target)
    copy = apsw.Connection(str(draft))
    try:
        # One read for all of it: else every write of somebody else would make the copying begin again.
        with source, copy.backup("main", source, "main") as backup:
            statements.select(source, "tables")
            while not backup.done:
                backup.step(2048)
                if progress is not None:
                    progress(backup.page_count - backup.remaining, backup.page_count)
        copy.pragma("journal_mode", "delete")
        copy.close()
        shutil.copymode(source.filename, draft)
        drafts.put(draft, target, replaces=replaces)
    finally:
        copy.close()
        drafts.cleared(draft)
