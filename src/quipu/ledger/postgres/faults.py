"""What PostgreSQL's errors mean to a caller. The server's own words never reach one: they may hold values."""

import re
from collections.abc import Sequence
from typing import Final

import psycopg
from psycopg import errors
from psycopg_pool import PoolClosed, PoolTimeout

from quipu.errors import BackendUnavailableError, QuipuError, TamperedError

_AGAIN = "Try again."
_MEANING: Final[Sequence[tuple[tuple[type[Exception], ...], str, str, str]]] = (
    (
        (
            *(errors.InvalidPassword, errors.InvalidAuthorizationSpecification),
            # The last: no schema on the user's path may be looked into.
            *(errors.InsufficientPrivilege, errors.InvalidSchemaName),
        ),
        "denied",
        "PostgreSQL does not let this user do that.",
        "Check the user and its password, and what the user may do in this database.",
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
        (errors.DiskFull, errors.OutOfMemory),
        "disk_full",
        "The database has no room left.",
        "Make room; nothing was half written.",
    ),
    (
        (errors.ReadOnlySqlTransaction,),
        "read_only",
        "This server takes no writes: it is a replica.",
        "Give the primary's address; the setting `replica` is for replicas.",
    ),
    (
        (
            *(errors.LockNotAvailable, errors.DeadlockDetected, errors.SerializationFailure),
            *(errors.QueryCanceled, errors.IdleInTransactionSessionTimeout),
        ),
        "busy",
        "Somebody else held what this needs for too long.",
        _AGAIN,
    ),
    ((PoolClosed,), "closed", "The ledger is closed.", "Open it again."),
    (
        (PoolTimeout, psycopg.OperationalError),
        "unreachable",
        "The database cannot be reached.",
        "Check that the server runs and that the address is right.",
    ),
)
#: A connection that was refused comes without a code, only with words.
_WORDS: Final[Sequence[tuple[type[psycopg.Error], re.Pattern[str]]]] = (
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


def meaning(error: psycopg.Error) -> QuipuError | None:
    """The same in our words; None where a statement is at fault, which concerns its caller alone."""
    named = _named(error)
    if isinstance(named, errors.DataCorrupted | errors.IndexCorrupted):
        return TamperedError(
            "The database is damaged.", reason="damaged_file", hint="Restore the latest backup."
        )
    for kinds, reason, message, hint in _MEANING:
        if isinstance(named, kinds):
            return BackendUnavailableError(message, reason=reason, hint=hint)
    return None


def _named(error: psycopg.Error) -> psycopg.Error:
    if isinstance(error, errors.FeatureNotSupported) and "recovery" in str(error):
        return errors.ReadOnlySqlTransaction()
    if type(error) is psycopg.OperationalError and error.sqlstate is None:
        said = str(error)
        return next((kind() for kind, words in _WORDS if words.search(said)), error)
    return error
