"""What PostgreSQL's errors mean to a caller. A driver's message never reaches one: it may hold values."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Generator, Sequence

import psycopg
from psycopg import errors
from psycopg_pool import PoolClosed, PoolTimeout

from quipu.errors import BackendUnavailableError, ConflictError, InternalError, QuipuError

_AGAIN = "Try again."
_CHECK = "Check that the server runs and that the address is right."
_GRANT = "Check the user and its password, and what the user may do in this database."
_MEANING: Sequence[tuple[tuple[type[Exception], ...], str, str, str]] = (
    (
        (
            errors.InvalidPassword,
            errors.InvalidAuthorizationSpecification,
            errors.InsufficientPrivilege,
            # There is no schema on the user's path that the user may look into.
            errors.InvalidSchemaName,
        ),
        "denied",
        "PostgreSQL does not let this user do that.",
        _GRANT,
    ),
    (
        (errors.InvalidCatalogName,),
        "no_database",
        "There is no such database on the server.",
        "Create it first: `createdb`.",
    ),
    (
        (errors.TooManyConnections, errors.ConfigurationLimitExceeded),
        "too_many_connections",
        "PostgreSQL has no connection left.",
        "Raise max_connections, or lower QUIPU_POOL_SIZE.",
    ),
    (
        (errors.DiskFull,),
        "disk_full",
        "The database's disk is full; nothing of this write was kept.",
        "Free some space and repeat it.",
    ),
    ((errors.OutOfMemory,), "no_memory", "The database server is out of memory.", _AGAIN),
    (
        (errors.ReadOnlySqlTransaction,),
        "read_only",
        "This server is a replica: it takes no writes.",
        "Give the primary's address; QUIPU_REPLICA is for replicas.",
    ),
    (
        (errors.LockNotAvailable, errors.DeadlockDetected, errors.SerializationFailure),
        "busy",
        "Somebody else held what this needs for too long.",
        _AGAIN,
    ),
    (
        (errors.QueryCanceled,),
        "busy",
        "This took longer than the database allows, or somebody stopped it there.",
        "Try again; if it happens often, raise statement_timeout and transaction_timeout for Quipu's user.",
    ),
    (
        # The last: JSON with U+0000, found when the server looks into it. Nothing of ours is written like that.
        (errors.DataCorrupted, errors.IndexCorrupted, errors.UntranslatableCharacter),
        "corrupt",
        "The database is damaged.",
        "Restore the latest backup, or run `quipu doctor` to see what can be read.",
    ),
    (
        (errors.IoError,),
        "io_error",
        "The database's disk failed while reading or writing.",
        "Check the disk.",
    ),
    ((PoolClosed,), "closed", "The ledger is closed.", "Open it again."),
    (
        (PoolTimeout, psycopg.OperationalError, errors.IdleInTransactionSessionTimeout),
        "unreachable",
        "PostgreSQL cannot be reached.",
        _CHECK,
    ),
)


#: The server has ended the connection: it stops, or nothing was heard on it for as long as its operator allows.
_GONE = (
    errors.AdminShutdown,
    errors.CrashShutdown,
    errors.CannotConnectNow,
    errors.IdleSessionTimeout,
    errors.IdleInTransactionSessionTimeout,
)
#: A transaction took longer than its server allows; not every driver has a name for it.
_TRANSACTION_TIMEOUT = "25P04"
#: What codes about the connection itself begin with; a pooler in between gives them, too.
_CONNECTION = "08"
_WORDS = (
    (errors.CannotConnectNow, re.compile(r"database system is|terminating connection")),
    (errors.InvalidCatalogName, re.compile(r'database ".*" does not exist')),
    (errors.TooManyConnections, re.compile(r"too many (clients|connections)|connection slots")),
    (
        errors.InvalidPassword,
        re.compile(
            r'role ".*" does not exist|authentication failed|pg_hba\.conf|permission denied|no password'
        ),
    ),
)


@contextlib.contextmanager
def translated() -> Generator[None]:
    """PostgreSQL's errors as Quipu's, cause kept."""
    try:
        yield
    except psycopg.Error as error:
        raise meaning(error) from error


def meaning(error: psycopg.Error) -> QuipuError:
    error = _named(error)
    for kinds, reason, message, hint in _MEANING:
        if isinstance(error, kinds):
            return BackendUnavailableError(message, reason=reason, hint=hint)
    if isinstance(error, psycopg.IntegrityError):
        return ConflictError("The write contradicts what the ledger holds.", reason="constraint")
    return InternalError("The ledger failed.", reason="ledger")


def _named(error: psycopg.Error) -> psycopg.Error:
    """The same under the name it is known by: a connection that was refused comes without a code, only with words."""
    if error.sqlstate == _TRANSACTION_TIMEOUT:
        return errors.QueryCanceled()
    if type(error) is psycopg.OperationalError and error.sqlstate is None:
        said = str(error)
        for kind, words in _WORDS:
            if words.search(said):
                return kind()
    return error


def came_from_a_lost_line(error: QuipuError) -> bool:
    """Whether the connection, not the statement, was at fault: the same may work on another one."""
    cause = error.__cause__
    if not isinstance(cause, psycopg.Error) or isinstance(cause, PoolClosed):
        return False
    cause = _named(cause)
    if isinstance(cause, (*_GONE, PoolTimeout)):
        return True
    # Without a code the server never said anything: the line went dead.
    return isinstance(cause, psycopg.OperationalError) and (cause.sqlstate or _CONNECTION).startswith(
        _CONNECTION
    )


def may_be_repeated(error: QuipuError) -> bool:
    """Whether nothing was wrong with the work itself: its line went dead, or it was taken back for others who held it up."""
    undone = (errors.DeadlockDetected, errors.SerializationFailure)
    return came_from_a_lost_line(error) or isinstance(error.__cause__, undone)
