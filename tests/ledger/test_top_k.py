"""Tens of thousands of nearer records out of reach: a scoped search still comes back with all it was asked for."""

import asyncio
import hashlib
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from quipu.ledger.sqlite.ledger import SqliteLedger
from quipu.model.change import Close, Put
from quipu.model.journal import Op
from quipu.model.record import Ending, MemoryType, PrivacyIntent, Record, Sensitivity, State
from quipu.ports.ledger import Ledger, Space
from quipu.testing.builders import TENANT, CountedIds, FixedClock, Scribe, canonical
from tests.ledger.postgres.opening import opened
from tests.postgres import Server

pytestmark = pytest.mark.slow

DIMENSIONS = 32
MINE = 1_500


@dataclass(frozen=True)
class Size:
    """How many are out of reach, and how many one agent has: more than are compared one by one."""

    hostile: int
    large: int


SIZES = {"file": Size(100_000, 55_000), "database": Size(20_000, 8_000)}


@dataclass(frozen=True)
class Crowd:
    """A ledger, a query, and the records that are in reach of it."""

    opened: Callable[[], Ledger]
    size: Size
    store_id: str
    query: bytes
    ids: Sequence[str]
    vectors: np.ndarray
    #: One agent's, all in its reach.
    large: np.ndarray

    def nearest(self, limit: int) -> list[str]:
        similarities = self.vectors.astype(np.float64) @ np.frombuffer(self.query, "<f4")
        return [self.ids[place] for place in np.argsort(-similarities)[:limit]]


def units(rows: np.ndarray) -> np.ndarray:
    return (rows / np.linalg.norm(rows, axis=1, keepdims=True)).astype("<f4")


def copies(template: Record, name: str, count: int) -> Iterator[Record]:
    """Records that differ in nothing but id and digest."""
    for number in range(count):
        record_id = f"mem_{name}_{number:06d}"
        yield replace(template, id=record_id, digest=hashlib.sha256(record_id.encode()).hexdigest())


def hostile(scribe: Scribe, store_id: str) -> dict[str, Record]:
    """Every way to be out of reach."""
    mine = {"user_id": "u", "session_id": "s", "metadata": {"n": 1}, "store_id": store_id}
    ways: dict[str, dict[str, Any]] = {
        "agents": {"agent_id": "bo"},
        "users": {"user_id": "v"},
        "userless": {"user_id": None},
        "types": {"type": MemoryType.EMOTIONAL},
        "stores": {"store_id": scribe.main},
        "sessions": {"session_id": "t"},
        "metadata": {"metadata": {"n": 2}},
        "old": {"created_at": 5},
        "archived": {"state": State.ARCHIVED},
        "expired": {"expires_at": scribe.clock()},
        "secret": {"privacy": PrivacyIntent(sensitivity=Sensitivity.SECRET)},
        "forgotten": {},
        "replaced": {},
    }
    return {name: scribe.drafted("word word word", **{**mine, **way}) for name, way in ways.items()}


async def written(scribe: Scribe, records: Sequence[Record], vectors: np.ndarray) -> None:
    """Commit the records with their vectors, some thousand at a time."""
    puts = [
        Put(record=record, search_text=record.content, vector=data.tobytes())
        for record, data in zip(records, vectors, strict=True)
    ]
    for start in range(0, len(puts), 5_000):
        await scribe.commit(*puts[start : start + 5_000], op=Op.IMPORT)


async def gathered(opened: Callable[[], Ledger], size: Size) -> Crowd:
    ledger = opened()
    scribe = await Scribe.at(ledger, FixedClock())
    await ledger.adopt_space(TENANT, Space("wide", DIMENSIONS))
    store = await scribe.open_store("mine")
    random = np.random.default_rng(5)
    query = units(random.standard_normal((1, DIMENSIONS)))[0]
    mine = scribe.drafted("a word", user_id="u", session_id="s", metadata={"n": 1}, store_id=store.id)
    records = list(copies(mine, "mine", MINE))
    far = units(random.standard_normal((MINE, DIMENSIONS)) - 0.5 * query)
    await written(scribe, records, far)
    ways = hostile(scribe, store.id)
    each = size.hostile // len(ways) + 1
    for name, template in ways.items():
        near = list(copies(template, name, each))
        await written(scribe, near, units(query + 0.05 * random.standard_normal((each, DIMENSIONS))))
        if name == "forgotten":
            await scribe.commit(*(Close(record=record, ending=Ending.FORGOTTEN) for record in near))
        if name == "replaced":
            away = [replace(record, version=2, store_id=scribe.main) for record in near]
            await scribe.commit(*(Put(record=record, expects=1) for record in away), op=Op.UPDATE)
    large = units(random.standard_normal((size.large, DIMENSIONS)))
    await written(scribe, list(copies(scribe.drafted("a word", agent_id="cy"), "large", size.large)), large)
    await ledger.close()
    return Crowd(opened, size, store.id, query.tobytes(), [record.id for record in records], far, large)


@pytest.fixture(scope="module")
def database(postgres: Server) -> Iterator[tuple[str, Crowd]]:
    """A crowd in a database, gathered once for both ways to search it; the tests only read."""
    url = postgres.database()
    yield url, asyncio.run(gathered(lambda: opened(url), SIZES["database"]))
    postgres.drop(url)


@pytest.fixture(scope="module", params=["file", "database", "scans"])
def crowd(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Crowd:
    if request.param == "file":
        path: Path = tmp_path_factory.mktemp("crowd") / "memory.db"
        return asyncio.run(
            gathered(
                lambda: SqliteLedger(path, clock=FixedClock(), mint_id=CountedIds(), canonical=canonical),
                SIZES["file"],
            )
        )
    url, gathered_there = request.getfixturevalue("database")
    if request.param == "database":
        return gathered_there
    return replace(gathered_there, opened=lambda: opened(url, held_bytes=0))


@pytest.fixture
async def scribe(crowd: Crowd) -> AsyncIterator[Scribe]:
    ledger = crowd.opened()
    yield await Scribe.at(ledger, FixedClock())
    await ledger.close()


async def test_a_scoped_search_returns_all_its_k_and_exactly_the_nearest(
    crowd: Crowd, scribe: Scribe
) -> None:
    assert (await scribe.ledger.statistics(TENANT))["versions"] > crowd.size.hostile
    asked: dict[str, Any] = {
        "scope": scribe.scope(user_id="u", store_id=crowd.store_id),
        "session_id": "s",
        "types": frozenset({MemoryType.SEMANTIC}),
        "filter": {"n": 1},
        "created_from": 6,
        "without_sensitivity": frozenset({"secret"}),
    }
    for limit in (5, 1_000):
        assert await scribe.ranked(crowd.query, limit=limit, **asked) == crowd.nearest(limit)
        by_words = await scribe.search("word", limit=limit, **asked)
        assert len(by_words.candidates) == limit
        assert {candidate.id for candidate in by_words.candidates} <= set(crowd.ids)


@pytest.mark.parametrize(
    ("name", "asked"),
    [
        ("users", {"user_id": "v"}),
        ("types", {"types": frozenset({MemoryType.EMOTIONAL})}),
        ("sessions", {"session_id": "t"}),
        ("metadata", {"filter": {"n": 2}}),
        ("agents", {"agent": "bo"}),
    ],
)
async def test_each_restriction_alone_finds_its_own(
    crowd: Crowd, scribe: Scribe, name: str, asked: dict[str, Any]
) -> None:
    asked = dict(asked)
    scope = scribe.scope(asked.pop("agent", "ana"), user_id=asked.pop("user_id", None))
    found = await scribe.ranked(crowd.query, limit=1_000, scope=scope, **asked)
    assert len(found) == 1_000
    assert all(record_id.startswith(f"mem_{name}_") for record_id in found)


async def test_a_large_scope_finds_each_record_by_its_own_vector(crowd: Crowd, scribe: Scribe) -> None:
    scope = scribe.scope("cy")
    for number in range(0, crowd.size.large, crowd.size.large // 40):
        found = await scribe.ranked(crowd.large[number].tobytes(), scope=scope, limit=1)
        assert found == [f"mem_large_{number:06d}"]


async def test_a_large_scope_returns_all_its_k(crowd: Crowd, scribe: Scribe) -> None:
    for limit in (5, 1_000):
        assert len(await scribe.ranked(crowd.query, scope=scribe.scope("cy"), limit=limit)) == limit
        assert len(await scribe.found("word", scope=scribe.scope("cy"), limit=limit)) == limit
