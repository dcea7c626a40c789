"""Vectors too many for memory: asked of pgvector, by a scan or along an index, with every restriction before the best."""

from collections.abc import AsyncIterator

import numpy as np
import pytest

from quipu.ledger.postgres import nearness, running
from quipu.ledger.postgres.database import Place
from quipu.model.record import MemoryType
from quipu.testing.builders import SPACE, TENANT, CountedIds, FixedClock, Scribe, adding, cosine, vector
from tests.ledger.postgres.opening import opened
from tests.postgres import Server, name_of

QUERY = vector("query")


@pytest.fixture
def few(monkeypatch: pytest.MonkeyPatch) -> None:
    """A handful counts as many."""
    monkeypatch.setattr(nearness, "_FETCHED", 10)


@pytest.fixture
async def scribe(postgres_url: str) -> AsyncIterator[Scribe]:
    """No partition of this one may hold vectors."""
    ledger = opened(postgres_url, held_bytes=0)
    scribe = await Scribe.at(ledger, FixedClock(), CountedIds("n"))
    await ledger.adopt_space(TENANT, SPACE)
    yield scribe
    await ledger.close()


@pytest.fixture
async def index(scribe: Scribe, postgres: Server) -> AsyncIterator[None]:
    """With an index over the vectors."""
    url = postgres.shared
    place = Place(url)
    assert await running.index(place) == ["embedding_near_8"]
    assert (await running.status(place)).indexes == ["embedding_near_8"]
    yield
    postgres.execute("DROP INDEX embedding_near_8", name_of(url))


async def filled(scribe: Scribe, count: int = 400) -> list[tuple[str, bytes]]:
    """Records of which every fourth is a feeling, and none of the nearest is."""
    given = [(f"mem_{n:04d}", vector(n)) for n in range(count)]
    ordered = sorted(given, key=lambda pair: -cosine(QUERY, pair[1]))
    kinds = {
        name: MemoryType.EMOTIONAL if place >= 3 * count // 4 else MemoryType.SEMANTIC
        for place, (name, _) in enumerate(ordered)
    }
    drafts = {name: scribe.drafted("text", id=name, type=kinds[name]) for name, _ in given}
    await scribe.commit(*(adding(drafts[name], vector=data) for name, data in given))
    return ordered


@pytest.mark.usefixtures("few")
async def test_a_scan_is_exact(scribe: Scribe) -> None:
    ordered = [name for name, _ in await filled(scribe)]
    for limit in (1, 7, 300):
        assert await scribe.ranked(QUERY, limit=limit) == ordered[:limit]


@pytest.mark.usefixtures("few", "index")
async def test_the_nearest_come_along_the_index(scribe: Scribe, postgres: Server) -> None:
    def scans() -> int:
        asked = "SELECT idx_scan FROM pg_stat_user_indexes WHERE indexrelname = 'embedding_near_8'"
        return postgres.execute(asked, name_of(postgres.shared))[0][0]

    ordered = [name for name, _ in await filled(scribe)]
    before = scans()
    assert await scribe.ranked(QUERY, limit=5) == ordered[:5]
    await scribe.ledger.close()
    assert scans() > before


@pytest.mark.usefixtures("few", "index")
async def test_a_restriction_holds_before_the_nearest_are_chosen_along_the_index(scribe: Scribe) -> None:
    ordered = [name for name, _ in await filled(scribe)]
    asked = {"types": frozenset({MemoryType.EMOTIONAL})}
    assert await scribe.ranked(QUERY, limit=5, **asked) == ordered[300:305]
    assert await scribe.ranked(QUERY, limit=100, **asked) == ordered[300:]


@pytest.mark.usefixtures("few", "index")
async def test_too_few_from_the_index_are_asked_for_again_exactly(
    scribe: Scribe, monkeypatch: pytest.MonkeyPatch
) -> None:
    ordered = [name for name, _ in await filled(scribe)]
    asked: list[int] = []

    def blind(self: nearness.Lookup, query: bytes, bits: bytes, limit: int) -> list[int]:
        asked.append(limit)
        return []

    monkeypatch.setattr(nearness.Lookup, "by_index", blind)
    assert await scribe.ranked(QUERY, limit=5) == ordered[:5]
    assert asked


@pytest.mark.usefixtures("few")
async def test_a_few_among_many_are_named_one_by_one(scribe: Scribe) -> None:
    await filled(scribe)
    mine = [await scribe.put("text", user_id="u", vector=vector(f"mine {n}")) for n in range(30)]
    far = sorted(mine, key=lambda record: -cosine(QUERY, vector(f"mine {mine.index(record)}")))
    scope = scribe.scope(user_id="u")
    assert await scribe.ranked(QUERY, scope=scope, limit=9) == [record.id for record in far[:9]]


async def test_a_partition_lets_go_of_its_vectors_when_they_become_too_many(postgres_url: str) -> None:
    ledger = opened(postgres_url, held_bytes=100 * 4 * SPACE.dimensions)
    scribe = await Scribe.at(ledger, FixedClock(), CountedIds("n"))
    await ledger.adopt_space(TENANT, SPACE)
    given: list[tuple[str, bytes]] = []
    holding: list[bool] = []
    for round_ in range(4):
        drafts = [scribe.drafted("text", id=f"mem_{round_}_{n:03d}") for n in range(40)]
        await scribe.commit(*(adding(draft, vector=vector(draft.id)) for draft in drafts))
        given += [(draft.id, vector(draft.id)) for draft in drafts]
        ordered = sorted(given, key=lambda pair: -cosine(QUERY, pair[1]))
        for _ in range(2):
            assert await scribe.ranked(QUERY, limit=7) == [name for name, _ in ordered[:7]]
        (loaded,) = ledger._searching.finder._cache._loaded.values()
        holding.append(loaded.partition.vectors is not None)
    assert holding == [True, True, True, False], "it is seen when the next news come"
    await ledger.close()


def test_bits_are_counted_as_the_database_counts_them(postgres: Server) -> None:
    numbers = np.array([0, 3, 8, 17, 4095])
    bits = nearness._bits(numbers)
    found = postgres.execute(
        "SELECT n FROM generate_series(0, 4095) AS n WHERE get_bit(%(bits)s::bytea, n) = 1", bits=bits
    )
    assert [row[0] for row in found] == numbers.tolist()
