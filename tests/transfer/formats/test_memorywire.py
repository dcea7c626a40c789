"""The SQLite file of memorywire's reference package: read-only, in bounds, and nothing that it says is run."""

import json
import sqlite3
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from quipu.errors import InvalidError
from quipu.transfer.formats import memorywire
from tests.requirement import requirement
from tests.transfer.formats.shelf import AT, dropped, good, read, reasons, writes

TABLE = """CREATE TABLE memories (
  id TEXT PRIMARY KEY, agent_id TEXT NOT NULL, user_id TEXT, type TEXT NOT NULL, content TEXT NOT NULL, metadata TEXT,
  confidence REAL DEFAULT 1.0, source TEXT, created_at INTEGER NOT NULL, updated_at INTEGER NOT NULL,
  expires_at INTEGER, deleted_at INTEGER, last_recalled_at INTEGER)"""
MACHINE = {"name": "door", "initial": "shut", "states": ["shut", "open"], "transitions": []}


def database(*statements: str | tuple[str, tuple[Any, ...]], encoding: str = "UTF-8") -> bytes:
    """A database after these."""
    with sqlite3.connect(":memory:", isolation_level=None) as connection:
        connection.execute(f"PRAGMA encoding = '{encoding}'")
        for statement in statements:
            connection.execute(*((statement,) if isinstance(statement, str) else statement))
        data = connection.serialize()
    connection.close()
    return data


def row(id_: str, type_: str = "semantic", content: Any = "tea", **more: Any) -> tuple[str, tuple[Any, ...]]:
    known = {
        "id": id_,
        "agent_id": "ana",
        "type": type_,
        "content": content,
        "created_at": AT,
        "updated_at": AT,
    } | more
    names = ", ".join(known)
    marks = ", ".join("?" * len(known))
    return f"INSERT INTO memories ({names}) VALUES ({marks})", tuple(known.values())  # noqa: S608  names of this file


FILE = database(
    TABLE,
    "CREATE TABLE audit_log (id INTEGER PRIMARY KEY, payload TEXT)",
    "INSERT INTO audit_log (payload) VALUES ('x'), ('y')",
    row(
        "m1",
        user_id="mara",
        metadata='{"room": "kitchen"}',
        confidence=0.5,
        source="chat",
        last_recalled_at=AT,
    ),
    row("m2", "episodic", "Moved desks", expires_at=AT + 10**13),
    row("m3", "procedural", json.dumps(MACHINE)),
    row("m4", "emotional", "Glad", metadata='{"valence": 1}'),
    row("m5", deleted_at=AT),
    row("m6", deleted_at=-1),
)


@requirement("formats:formats.memorywire")
def test_live_memories_of_all_four_types_come_in() -> None:
    found = read(FILE)
    assert (found.format, found.source) == ("memorywire", "memorywire")
    fact, event, machine, feeling = writes(found.items())
    assert (fact.record_id, fact.request.agent_id, fact.request.user_id) == ("m1", "ana", "mara")
    assert (fact.request.source, fact.request.confidence) == ("chat", 0.5)
    assert fact.request.metadata == {"room": "kitchen"}
    assert fact.captured_at == AT
    assert (event.request.type, event.request.expires_at) == ("episodic", AT + 10**13)
    assert machine.request.type == "procedural"
    assert (feeling.request.type, feeling.request.content) == ("emotional", "Glad")
    assert dropped(found) == {"audit_log": 2, "deleted": 1, "last_recalled_at": 1, "waiting for approval": 1}


@requirement("formats:formats.memorywire")
def test_texts_are_read_in_the_encoding_of_their_file() -> None:
    for encoding in ("UTF-8", "UTF-16le", "UTF-16be"):
        (item,) = good(
            read(database(TABLE, row("m1", content="Ümlaut \U0001f600"), encoding=encoding)).items()
        )
        assert item["content"]["text"] == "Ümlaut \U0001f600"


@requirement("formats:import.limits")
def test_a_row_that_cannot_be_read_leaves_the_others() -> None:
    found = read(
        database(
            TABLE,
            row("m1", "unheard-of"),
            row("m2", metadata='{"half": '),
            row("m3", "procedural", "no machine"),
            (
                "INSERT INTO memories VALUES ('m4', 'ana', NULL, 'semantic', CAST(x'ff' AS TEXT), NULL, 1, NULL, 1, 1, NULL, NULL, NULL)",
                (),
            ),
            row("m5", content=5),
            row("m6", metadata="[]", created_at="yesterday", confidence="high"),
        )
    )
    assert reasons(found.items()) == ["bad_value", "bad_json", "bad_json", "bad_encoding", None, None]
    *_, number, odd = [item for _, item in found.items() if isinstance(item, dict)]
    assert number["content"]["text"] == "5"
    assert odd["provenance"] == {"captured_at": None, "confidence": "high"}, "refused where it is written"


HOSTILE: dict[str, bytes] = {
    "another product's": database("CREATE TABLE notes (id TEXT)"),
    "too few columns": database("CREATE TABLE memories (id TEXT, content TEXT)"),
    "a view": database(TABLE.replace("memories", "other"), "CREATE VIEW memories AS SELECT * FROM other"),
    "computed columns": database(
        TABLE.replace(
            "content TEXT NOT NULL", "content TEXT GENERATED ALWAYS AS (printf('%.*c', 1000000000, 'x'))"
        )
    ),
    "a virtual table": database(
        "CREATE VIRTUAL TABLE memories USING fts5(id, agent_id, type, content, created_at)"
    ),
}


@requirement("formats:import.limits")
@pytest.mark.parametrize("name", HOSTILE)
def test_what_is_no_such_file_is_refused(name: str) -> None:
    with pytest.raises(InvalidError) as refused:
        list(read(HOSTILE[name]).items())
    assert refused.value.reason == "unknown_format"


@requirement("formats:import.limits")
@given(st.data())
def test_a_damaged_file_is_read_or_refused_and_never_breaks(data: st.DataObject) -> None:
    whole = bytearray(FILE)
    for _ in range(data.draw(st.integers(1, 8))):
        whole[data.draw(st.integers(16, len(whole) - 1))] = data.draw(st.integers(0, 255))
    cut = data.draw(st.integers(16, len(whole)))
    for damaged in (bytes(whole), bytes(whole[:cut])):
        try:
            for _ in read(damaged, "memorywire").items():
                pass
        except InvalidError as error:
            if error.reason is None:
                raise


def _doubled(times: int) -> bytes:
    """A table whose inner page names one leaf so many times: more rows than the file has room for."""
    rows = [row(f"m{number}", content="x" * 300) for number in range(100)]
    data = bytearray(database("PRAGMA page_size = 4096", TABLE.replace("TEXT PRIMARY KEY", "TEXT"), *rows))
    root = 4096  # page 2 is the table's inner page
    assert data[root] == 5
    first = data[root + 12 : root + 14]
    data[root + 3 : root + 5] = times.to_bytes(2)
    data[root + 12 : root + 12 + 2 * times] = bytes(first) * times
    return bytes(data)


@requirement("formats:import.limits")
def test_pages_that_are_named_again_and_again_do_not_give_more_than_the_file_holds() -> None:
    assert len(good(read(_doubled(2)).items())) < 100
    with pytest.raises(InvalidError, match="more than its bytes") as refused:
        list(read(_doubled(600)).items())
    assert refused.value.reason == "bad_file"


@requirement("formats:import.limits")
def test_a_file_is_neither_changed_nor_left_behind(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(memorywire.tempfile, "tempdir", str(tmp_path))
    reading = read(FILE)
    found = reading.items()
    next(found)
    (copy,) = tmp_path.rglob("*.db")
    assert copy.read_bytes() == FILE
    assert [path.name for path in copy.parent.iterdir()] == ["memories.db"], "no journal beside it"
    found.close()  # type: ignore[attr-defined]  a generator
    assert list(tmp_path.iterdir()) == []
