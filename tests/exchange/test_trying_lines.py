"""A dry run of lines tells what the import would do, and nothing else (contract memorywire 3.6)."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import pytest

from quipu import Memory
from quipu.errors import QuipuError
from quipu.model.operations import Line, RememberRequest
from quipu.model.outcomes import ImportedLine, ImportSummary
from quipu.model.record import MemoryType
from quipu.service.memory import MemoryService
from quipu.testing.builders import FixedClock
from quipu.testing.embedders import WordEmbedder
from tests.exchange.conftest import ADMIN, WRITER, Host, Hosted, Principal
from tests.postgres import Server


@pytest.fixture(params=["a file", "a database"])
async def place(request: pytest.FixtureRequest, hosted: Hosted, clock: FixedClock) -> AsyncIterator[Host]:
    if request.param == "a file":
        yield await hosted()
        return
    server: Server = request.getfixturevalue("postgres")
    url = server.database(is_empty=True)
    memory = Memory(agent_id="ana", stores=url, embedder=WordEmbedder(), clock=clock)
    service = await memory._service()
    assert isinstance(service, MemoryService)
    yield Host(memory, service)
    await memory.close()
    server.drop(url)


def line(text: str, id: str | None = None, **given: Any) -> Line:
    request = RememberRequest(agent_id="ana", type=MemoryType.SEMANTIC, content=text, **given)
    return Line(request, record_id=id)


async def both(
    host: Host, lines: list[Line], who: Principal = ADMIN
) -> tuple[list[ImportedLine], list[ImportedLine]]:
    """What a dry run tells of lines, and what then became of them."""
    told: list[list[ImportedLine]] = []
    for dry_run in (True, False):
        found: list[ImportedLine] = []

        async def numbered() -> Any:
            for number, one in enumerate(lines, 1):
                yield number, one

        async for one in host.service.exchange.imported(who, numbered(), dry_run=dry_run):
            found += () if isinstance(one, ImportSummary) else one
        told.append(found)
    tried, done = told
    return tried, done


def reason(one: ImportedLine) -> str | None:
    return one.error.reason if isinstance(one.error, QuipuError) else None


async def test_ids_that_are_taken_are_told_before(place: Host) -> None:
    kept = await place.memory.remember("Tom likes jam")
    # More than one transaction: an id may be taken by a line of another one.
    between = [line(f"Bee {number}") for number in range(600)]
    lines = [line("Tom likes jam", kept.id), line("One", "mem_one"), *between, line("Two", "mem_one")]
    tried, done = await both(place, [*lines, line("Three", "mem_three")])
    asked = [(one.line, one.other_id) for one in tried if one.other_id is not None]
    assert asked == [(1, kept.id), (603, "mem_one")]
    assert asked == [(one.line, one.other_id) for one in done if one.other_id is not None]
    assert all(one.id is None and one.error is None for one in tried), "a dry run writes nothing"


async def test_what_is_stored_already_is_not_counted_as_new(place: Host) -> None:
    lines: list[Any] = [{"content": f"Bee {number}", "idempotency_key": f"k{number}"} for number in range(3)]
    assert (await place.memory.import_records(lines, dry_run=True)).stored == 3
    assert (await place.memory.import_records(lines)).stored == 3
    tried = await place.memory.import_records([*lines, {"content": "Wasp"}], dry_run=True)
    assert (tried.read, tried.stored, tried.failed) == (4, 1, 0)
    other = [{**one, "content": "Hornet"} for one in lines]
    tried, done = [await place.memory.import_records(other, dry_run=dry) for dry in (True, False)]
    assert tried.errors == done.errors
    assert (tried.failed, done.failed) == (3, 3)
    assert len(await place.contents()) == 3


@pytest.mark.parametrize("who", [ADMIN, WRITER], ids=["one whose lines come in", "one whose lines wait"])
async def test_a_store_that_is_not_there_is_told_before(place: Host, who: Principal) -> None:
    tried, done = await both(place, [line("x", store="nowhere"), line("y")], who)
    assert [reason(one) for one in tried] == [reason(one) for one in done] == ["store", None]
    assert [one.is_held for one in tried] == [one.is_held for one in done] == [False, who is WRITER]
