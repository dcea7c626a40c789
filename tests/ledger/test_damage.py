"""Damage inside a file that opens: whoever reads what was hit is told so, by an error that says what to do."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import apsw
import pytest

from quipu.errors import BackendUnavailableError, QuipuError, TamperedError
from quipu.ledger.sqlite import file
from quipu.model.record import PrivacyIntent, Record, Sensitivity
from quipu.testing.builders import TENANT, CountedIds, FixedClock, Scribe, vector
from tests.ledger.test_file import contents, opened, writing, written


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "memory.db"


def tampered(path: Path, *statements: str, record: str = "") -> None:
    """Write what no write of ours could; `:id` is this record."""
    connection = apsw.Connection(str(path))
    connection.pragma("ignore_check_constraints", True)
    connection.pragma("foreign_keys", False)
    for statement in statements:
        connection.execute(statement, {"id": record})
    connection.close()


def told(error: QuipuError) -> str:
    """The reason; every such error names a way out."""
    assert "backup" in (error.hint or ""), error.hint
    return f"{error.code}/{error.reason}"


ALTERED = "tampered/altered_record"
CORRUPT = "backend_unavailable/corrupt"
ROWS = {
    "a type": ("UPDATE record SET type = 'episodiX' WHERE id = :id", ALTERED),
    "a state": ("UPDATE record SET state = 'alive' WHERE id = :id", ALTERED),
    "words without their counts": ("UPDATE record SET terms = x'0102030405aa' WHERE id = :id", ALTERED),
    "a vector cut short": ("UPDATE vector SET data = x'00000000'", ALTERED),
    "privacy that is no JSON": ("UPDATE record SET privacy = '{\"share_with\":' WHERE id = :id", CORRUPT),
    "details that are no JSON": ("UPDATE record SET details = '{' WHERE id = :id", CORRUPT),
    "a list that is none": ('UPDATE record SET privacy = \'{"share_with":"x"}\' WHERE id = :id', ALTERED),
    "metadata that is no JSON": ("UPDATE record SET metadata = '{' WHERE id = :id", CORRUPT),
}


@pytest.mark.parametrize("is_followed", [False, True], ids=["read anew", "followed"])
@pytest.mark.parametrize(("statement", "reason"), ROWS.values(), ids=ROWS)
async def test_search_tells_a_row_that_it_cannot_read(
    path: Path, statement: str, reason: str, *, is_followed: bool
) -> None:
    asked: dict[str, Any] = {"filter": {"colour": "red"}} if "metadata" in statement else {}
    async with writing(path) as scribe:
        first = await scribe.put("tea at noon", vector=vector(1), metadata={"colour": "red"})
        if is_followed:
            assert await scribe.found("tea", vector(1)) == {first.id}
        record = await scribe.put(
            "tea at four",
            vector=vector(2),
            metadata={"colour": "red"},
            privacy=PrivacyIntent(sensitivity=Sensitivity.INTERNAL),
        )
        tampered(path, statement, record=record.id)
        for _ in range(2):  # and it says so again
            with pytest.raises((TamperedError, BackendUnavailableError)) as refused:
                await scribe.found("tea", vector(1), **asked)
            assert told(refused.value) == reason
            if reason == ALTERED and "vector" not in statement:
                assert record.id in refused.value.message


async def test_a_partition_that_met_a_damaged_row_holds_nothing_of_it(path: Path) -> None:
    async with writing(path) as scribe:
        first = await scribe.put("tea at noon")
        assert await scribe.found("tea") == {first.id}
        second, third = await scribe.put("tea at four"), await scribe.put("tea at five")
        tampered(path, "UPDATE record SET state = 'alive' WHERE id = :id", record=third.id)
        with pytest.raises(TamperedError):
            await scribe.found("tea")
        tampered(path, "UPDATE record SET state = 'live' WHERE id = :id", record=third.id)
        assert await scribe.found("tea") == {first.id, second.id, third.id}
        assert await scribe.found("noon") == {first.id}


LOST = {
    "its head": ["DELETE FROM tenant"],
    "its head, and the name of a store": ["DELETE FROM tenant", "UPDATE store SET name = 'mXin'"],
    "its head, and its stores": ["DELETE FROM tenant", "DELETE FROM store"],
}


@pytest.mark.parametrize("statements", LOST.values(), ids=LOST)
async def test_a_tenant_that_lost_its_head_is_damage_and_not_a_name_that_is_taken(
    path: Path, statements: list[str]
) -> None:
    async with writing(path) as scribe:
        await scribe.put()
    tampered(path, *statements)
    ledger = opened(path)
    for _ in range(2):
        with pytest.raises(BackendUnavailableError) as refused:
            await ledger.open(TENANT)
        assert told(refused.value) == CORRUPT
    await ledger.close()


async def test_a_name_that_is_taken_is_still_said_to_be(path: Path) -> None:
    async with writing(path) as scribe:
        await scribe.open_store("garden")
        with pytest.raises(QuipuError) as refused:
            await scribe.open_store("garden")
        assert refused.value.reason == "name_taken"


SAID: dict[str, tuple[Callable[[], apsw.Error], str]] = {
    "JSON that is none": (lambda: apsw.SQLError("malformed JSON"), "corrupt"),
    "a table": (lambda: apsw.SQLError("no such table: recorX"), "corrupt"),
    "a column": (lambda: apsw.SQLError("no such column: r.stbte"), "corrupt"),
    "no room for what readers share": (
        lambda: apsw.exception_for(apsw.SQLITE_IOERR_SHMSIZE),
        "disk_full",
    ),
    "a mistake of ours": (lambda: apsw.SQLError('near "SELEC": syntax error'), "ledger"),
}


@pytest.mark.parametrize(("error", "reason"), SAID.values(), ids=SAID)
def test_what_sqlite_says_of_a_damaged_file_is_told_as_that(
    error: Callable[[], apsw.Error], reason: str
) -> None:
    meant = file.meaning(error())
    assert meant.reason == reason
    assert meant.hint


async def test_a_column_that_a_bad_disk_has_renamed_is_damage(path: Path) -> None:
    async with writing(path) as scribe:
        record: Record = await scribe.put()
    data = contents(path)
    assert data.count(b"merged_into TEXT,") == 1
    written(path, data.replace(b"merged_into TEXT,", b"mXrged_into TEXT,"))
    ledger = opened(path)
    scribe = Scribe(ledger, FixedClock(), CountedIds("x"), "")
    with pytest.raises(BackendUnavailableError) as refused:
        await scribe.forget(record)
    assert told(refused.value) == CORRUPT
    await ledger.close()
