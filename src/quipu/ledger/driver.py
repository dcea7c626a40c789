"""What truly differs between a file and a server. Synchronous; called from worker threads."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any, Protocol, TypeAlias

from quipu.ledger.queries import Dialect, Query
from quipu.ledger.table import Row, Value

Bind: TypeAlias = Value | list[Any]


class Cursor(Protocol):
    """One connection in one transaction, on the thread that asks."""

    def rows(self, query: Query, /, **values: Bind) -> list[Row]: ...
    def row(self, query: Query, /, **values: Bind) -> Row | None: ...
    def run(self, query: Query, /, **values: Bind) -> int:
        """How many rows were touched."""
        ...

    def run_many(self, query: Query, values: Sequence[Mapping[str, Value]]) -> None: ...
    def pages(self, query: Query, /, size: int = 500, **values: Bind) -> Iterator[list[Row]]: ...


class Driver(Protocol):
    """One engine."""

    #: What answers and logs call it: `sqlite` or `postgresql`. Never an address.
    name: str
    dialect: Dialect
    #: How many threads may write, and read, at once.
    writers: int
    readers: int
    #: Whether a few rows come sooner than a thread can be woken: no network lies in between.
    is_near: bool

    def lane(self, tenant: str) -> str:
        """Whose writes wait for each other: "" in a file (one writer), the tenant on a server."""
        ...

    def reading(self, tenant: str = "", reached: int | None = None) -> AbstractContextManager[Cursor]:
        """One moment, read-only. With `reached` a replica may answer that has come so far, and as far as anything of the
        tenant that this process has seen; without it the primary does.
        """
        ...

    def writing(self, lane: str) -> AbstractContextManager[Cursor]:
        """Left without an error: durable."""
        ...

    def create(self, statements: Sequence[str], erasable: Callable[[], Sequence[str]]) -> None:
        """Bring a database that has no tables yet to the schema; of two who come at once one does it.

        erasable: Tables from which an erasure takes something, so that dead rows are left there. Asked when that matters.
        """
        ...

    def scrub(self, patience_ms: int) -> bool:
        """Take erased bytes out of log and dead rows; False: it is still to be done."""
        ...

    def announce(self, tenant: str, seq: int) -> None:
        """Let other processes know of a commit, after it."""
        ...

    def listen(self, heard: Callable[[str | None], None]) -> None:
        """Call back with the tenant of another process's commit; None: the connection broke, look at all you know."""
        ...

    def schema_faults(self, statements: Sequence[str]) -> list[str]:
        """Tables, indexes and triggers that are missing or not as they were made."""
        ...

    def integrity_faults(self) -> list[str]: ...
    def backup(self, target: Path, progress: Callable[[int, int], None] | None = None) -> None: ...
    def sizes(self) -> Mapping[str, int]: ...
    def compact(self) -> None: ...
    def writable(self) -> str | None:
        """None, or why nothing can be written now."""
        ...

    def close(self) -> None: ...


class OutcomeUnknownError(Exception):
    """The connection broke during COMMIT. `Groups` finds out how it ended; no caller ever sees this."""
