"""The SQLite file of memorywire's reference package, opened read-only.

The file is a stranger's: its schema is not trusted, nothing in it is run, and rows and bytes are counted against its size,
because pages that point to one another can pretend to be any number of rows.
"""

import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any, cast

import apsw

from quipu.errors import InvalidError
from quipu.transfer.formats import values
from quipu.transfer.formats.archive import LONGEST_LINE, Source
from quipu.transfer.formats.loss import Loss
from quipu.transfer.formats.reading import Look
from quipu.transfer.formats.values import Found, Item, refused

_MARK = b"SQLite format 3\x00"
_TABLE = "memories"
_TEXTS = ("id", "agent_id", "user_id", "type", "content", "metadata", "source")
_NUMBERS = ("confidence", "created_at", "updated_at", "expires_at", "deleted_at", "last_recalled_at")
_NEEDED = {"id", "agent_id", "type", "content", "created_at"}
#: Tables that have no place here.
_OTHERS = ("procedures", "episodes", "audit_log")
_KINDS = {"semantic": "fact", "episodic": "observation", "procedural": "fact", "emotional": "fact"}
#: In `deleted_at`: the row waits for somebody's approval.
_PENDING = -1
#: Steps of SQLite between two rows; a row takes some dozens.
_STEPS_PER_CALL, _MOST_CALLS = 100_000, 500
#: The fewest bytes that a row takes.
_SMALLEST_ROW = 8


def detect(look: Look) -> bool:
    """Any SQLite file; whether it is the right one is found out when it is read."""
    return look.head.startswith(_MARK)


def items(source: Source, loss: Loss) -> Iterator[Found]:
    """Live memories, by their row. What was deleted, or waits for approval, stays behind."""
    with tempfile.TemporaryDirectory(prefix="quipu-import-") as folder:
        path = Path(folder) / "memories.db"
        with path.open("wb") as copy:
            shutil.copyfileobj(source.open(), copy)
        try:
            connection = _opened(path)
            try:
                for number, row in _rows(connection, path.stat().st_size, loss):
                    if isinstance(row, InvalidError):
                        yield number, row
                    elif (item := item_of(row, loss)) is not None:
                        yield number, item
            finally:
                connection.close()
        except apsw.TooBigError:
            raise refused("too_large", "A memory in the database is too large.") from None
        except apsw.InterruptError:
            raise refused("too_large", "The database takes too long to read.") from None
        except (apsw.Error, UnicodeDecodeError):
            raise refused(
                "bad_file",
                "The database is damaged or cut short.",
                "Copy it again while no program has it open.",
            ) from None


def _opened(path: Path) -> apsw.Connection:
    """Read-only and without its side files, so that nothing is created or replayed."""
    connection = apsw.Connection(
        f"{path.as_uri()}?mode=ro&immutable=1", flags=apsw.SQLITE_OPEN_READONLY | apsw.SQLITE_OPEN_URI
    )
    connection.limit(apsw.SQLITE_LIMIT_LENGTH, LONGEST_LINE)
    connection.config(apsw.SQLITE_DBCONFIG_TRUSTED_SCHEMA, 0)
    connection.config(apsw.SQLITE_DBCONFIG_DEFENSIVE, 1)
    connection.config(apsw.SQLITE_DBCONFIG_ENABLE_VIEW, 0)
    connection.execute("PRAGMA cell_size_check = ON")
    return connection


def _columns(connection: apsw.Connection) -> set[str]:
    """The columns of the table; what only looks like one is refused."""
    said = connection.execute(
        "SELECT type, sql FROM sqlite_schema WHERE lower(name) = ? AND type IN ('table', 'view')", (_TABLE,)
    ).fetchall()
    is_table = len(said) == 1 and said[0][0] == "table"
    if not is_table or not str(said[0][1]).lstrip().upper().startswith("CREATE TABLE"):
        raise _not_one()
    # `hidden` is 0 for what is stored; generated columns are computed by what the file says.
    columns = {
        str(name): int(hidden)
        for name, hidden in connection.execute("SELECT name, hidden FROM pragma_table_xinfo(?)", (_TABLE,))
    }
    if not columns.keys() >= _NEEDED or any(columns.get(name) for name in (*_TEXTS, *_NUMBERS)):
        raise _not_one()
    return set(columns)


def _rows(
    connection: apsw.Connection, size: int, loss: Loss
) -> Iterator[tuple[int, dict[str, Any] | InvalidError]]:
    columns = _columns(connection)
    encoding = str(connection.execute("PRAGMA encoding").get)
    calls = 0

    def is_too_long() -> bool:
        nonlocal calls
        calls += 1
        return calls > _MOST_CALLS

    connection.set_progress_handler(is_too_long, _STEPS_PER_CALL)
    for name in _OTHERS:
        loss.dropped(name, _count(connection, name, size))
    texts = [f"CAST({name} AS BLOB)" if name in columns else "NULL" for name in _TEXTS]
    numbers = [name if name in columns else "NULL" for name in _NUMBERS]
    rows = connection.execute(f"SELECT rowid, {', '.join((*texts, *numbers))} FROM {_TABLE}")  # noqa: S608  names of ours
    taken = 0
    for count, (rowid, *row) in enumerate(rows, 1):
        calls = 0
        taken += sum(len(part) for part in row if isinstance(part, bytes | str))
        if count > size // _SMALLEST_ROW or taken > 2 * size:
            raise refused("bad_file", "The database says more than its bytes can hold.")
        yield int(rowid), _decoded(row, encoding)


def _count(connection: apsw.Connection, name: str, size: int) -> int:
    said = connection.execute(
        "SELECT sql FROM sqlite_schema WHERE lower(name) = ? AND type = 'table'", (name,)
    ).get
    if not str(said or "").lstrip().upper().startswith("CREATE TABLE"):
        return 0
    return min(int(connection.execute(f"SELECT count(*) FROM {name}").get), size)  # noqa: S608  a name of ours


def _decoded(row: list[Any], encoding: str) -> dict[str, Any] | InvalidError:
    try:
        said = [None if part is None else cast("bytes", part).decode(encoding) for part in row[: len(_TEXTS)]]
    except UnicodeDecodeError:
        return refused("bad_encoding", "The text is not in the encoding of its database.")
    return dict(zip((*_TEXTS, *_NUMBERS), (*said, *row[len(_TEXTS) :]), strict=True))


def item_of(row: dict[str, Any], loss: Loss) -> Item | InvalidError | None:
    """A row as an item; None where it is not to come."""
    if row["deleted_at"] is not None:
        loss.dropped("waiting for approval" if row["deleted_at"] == _PENDING else "deleted")
        return None
    loss.dropped("last_recalled_at", row["last_recalled_at"] is not None)
    kind = _KINDS.get(str(row["type"]))
    if kind is None:
        return refused("bad_value", "A memory is of none of the four types.")
    try:
        metadata = None if row["metadata"] is None else values.parsed(row["metadata"].encode())
        structured = _structured(row)
    except InvalidError as error:
        return error
    own: dict[str, Any] = {"agent_id": row["agent_id"], "metadata": values.an_object(metadata)}
    for name in ("user_id", "source", "expires_at", "updated_at"):
        if row[name] is not None:
            own[name] = row[name]
    item = values.item(
        kind,
        row["content"],
        item_id=row["id"],
        captured_at=values.when(row["created_at"]),
        labels=[] if structured is None else [f"memory_type:{row['type']}"],
        structured=structured,
        own=own,
    )
    if row["confidence"] is not None:
        item["provenance"]["confidence"] = row["confidence"]
    return item


def _structured(row: dict[str, Any]) -> dict[str, Any] | None:
    """What tells a procedure or a feeling from a fact."""
    if row["type"] == "procedural":
        return {"memory_type": "procedural", "procedure": values.parsed(row["content"].encode())}
    return {"memory_type": "emotional"} if row["type"] == "emotional" else None


def _not_one() -> InvalidError:
    return refused(
        "unknown_format",
        "The database is not that of memorywire's reference package.",
        "It has a table `memories` with an agent, a type and a content.",
    )
