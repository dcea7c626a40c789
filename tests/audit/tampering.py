"""A memory in which everything has happened once, and somebody who has the database."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import apsw
import psycopg

from quipu.audit.keys import KeySigner, Signer
from quipu.audit.verify import Verifier
from quipu.ledger.ledger import Ledger
from quipu.memory.operations import (
    CREATE_STORE,
    DELETE_STORE,
    EXPIRE,
    FORGET,
    MERGE,
    REMEMBER,
    RESTORE,
    UPDATE,
)
from quipu.secrets.operations import ADD_SECRET, LIST_SECRETS, REMOVE_SECRET
from tests.fixtures.memories import TestMemory


async def live(memory: TestMemory) -> None:
    """Everything that memory does, once or twice."""

    async def kept(content: str, **fields: Any) -> str:
        return (await memory(REMEMBER, content=content, **fields)).id

    await memory(CREATE_STORE, name="attic")
    one = await kept("tea at noon", user_id="mara", metadata={"n": 1, "large": 2**60, "half": 0.5})
    two = await kept("tea at twelve", user_id="mara", tags=["hot"], importance=0.5)
    three = await kept(
        "is there any cake?",
        type="episodic",
        tags=["sweet"],
        links=[{"to": one, "rel": "about"}],
        event_time=5,
        run_id="run_1",
        privacy_intent={"sensitivity": "confidential", "share_with": ["other"]},
        metadata={"subject": "cake"},
        source="user",
        key="snack",
        valid_from=1,
        confidence=0.5,
        session_id="s",
        expires_at=2**45,
    )
    await memory(UPDATE, id=three, content="cake and tea", update_strategy="append")
    await memory(MERGE, canonical=one, duplicates=[two], strategy="merge_content")
    await memory(RESTORE, id=two)
    await memory(EXPIRE, policy={"type": "episodic"}, action="demote")
    await memory(EXPIRE, policy={"type": "episodic"}, action="archive")
    await memory(RESTORE, id=three)
    gone = await kept("to be erased", store="attic")
    await memory(UPDATE, id=gone, content="to be erased later", links=[{"to": one, "rel": "about"}])
    await kept("it leads to nothing", links=[{"to": gone, "rel": "about"}])
    await memory(FORGET, ids=[gone], reason="asked")
    await memory(FORGET, ids=[gone], hard_delete=True)
    await memory(FORGET, ids=[await kept("forgotten")])
    await memory(DELETE_STORE, name="attic", confirm="attic")
    await memory(ADD_SECRET, label="pass", value="correct-horse-battery")
    await memory(ADD_SECRET, label="word", value="another-long-password")
    await memory(REMOVE_SECRET, id=(await memory(LIST_SECRETS)).secrets[0].id)
    await memory.service.read_log.flush()


def verifier(ledger: Ledger, signer: Signer | None = None, **given: Any) -> Verifier:
    return Verifier(ledger=ledger, signer=signer or KeySigner.fresh(), **given)


class Owner:
    """Somebody who has the database: triggers and checks are no hindrance, as far as the engine lets them be."""

    def __init__(self, place: Path | str) -> None:
        self._sqlite: Any = None
        self._postgres: Any = None
        if isinstance(place, Path):
            self._sqlite = apsw.Connection(str(place))
            self._sqlite.set_busy_timeout(5_000)
            self("PRAGMA ignore_check_constraints = ON")
            for (name,) in self("SELECT name FROM sqlite_schema WHERE type = 'trigger'"):
                self(f"DROP TRIGGER {name}")
        else:
            self._postgres = psycopg.connect(place, autocommit=True)
            self("SET session_replication_role = replica")

    def __call__(self, sql: str, *values: Any) -> list[tuple[Any, ...]]:
        if self._sqlite is not None:
            return self._sqlite.execute(sql, values).fetchall()
        done = self._postgres.execute(sql.replace("?", "%s").encode(), values)
        return done.fetchall() if done.description else []

    def close(self) -> None:
        (self._sqlite or self._postgres).close()

    def columns(self, table: str) -> list[str]:
        if self._sqlite is not None:
            return [row[1] for row in self(f"PRAGMA table_info({table})")]
        named = "SELECT column_name FROM information_schema.columns WHERE table_name = ? ORDER BY ordinal_position"
        return [row[0] for row in self(named, table)]

    def rows(self, table: str, key: Sequence[str]) -> list[dict[str, Any]]:
        """All rows in the order of their key."""
        found = self(f"SELECT * FROM {table} ORDER BY {', '.join(key)}")  # noqa: S608  names from the test
        return [dict(zip(self.columns(table), row, strict=True)) for row in found]

    @contextmanager
    def altered(
        self, table: str, row: Mapping[str, Any], key: Sequence[str], column: str, value: Any
    ) -> Iterator[bool]:
        """A row with another value in one column; False where the engine itself refuses it. Mended at the end."""
        at = " AND ".join(f"{name} = ?" for name in key)
        try:
            self(f"UPDATE {table} SET {column} = ? WHERE {at}", value, *(row[name] for name in key))  # noqa: S608  names from the test
        except (apsw.ConstraintError, psycopg.Error):
            yield False
            return
        yield True
        now = {**row, column: value}
        self(f"DELETE FROM {table} WHERE {at}", *(now[name] for name in key))  # noqa: S608  names from the test
        marks = ", ".join("?" for _ in row)
        self(f"INSERT INTO {table} ({', '.join(row)}) VALUES ({marks})", *row.values())  # noqa: S608  names from the test


def others(value: Any) -> list[Any]:
    """Other values than the one that stands in a column."""
    match value:
        case None:
            return ["x", 1, 0.5, b"x"]
        case str():
            letter = next((one for one in value if one.isascii() and one.isalnum()), None)
            changed = [] if letter is None else [value.replace(letter, "3" if letter != "3" else "4", 1)]
            return [value + "x", None, *changed]
        case int() | float():
            return [value + 1000, None]
        case _:
            return [bytes([value[0] ^ 1, *value[1:]]) if value else b"x", None]
