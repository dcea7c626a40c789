"""What partitions in memory take is counted, with all that is kept of them for their readers, and what does not fit goes."""

from __future__ import annotations

import gc
import random
import struct
import tracemalloc
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import pytest

from quipu.ledger.search.bm25 import corpus_of
from quipu.ledger.search.cache import Loaded, PartitionCache
from quipu.ledger.search.legs import Floats, Nearness
from quipu.ledger.search.partition import Partition
from quipu.ledger.search.seen import _TERMS, Seen
from quipu.ledger.search.source import Known, News, Owner, Vectors
from quipu.model.record import Record
from quipu.model.search import Context, Scope, Snapshot
from quipu.model.value import Json
from quipu.rules import filters

NOW = 1_000
TURNS = Context(previous_words=0.8, next_words=0.4, previous_vector=0.2, next_vector=0.3)
PLAIN = Context()


class Agents:
    """A ledger whose agents each have the same number of records, of random words."""

    def __init__(
        self, size: int, *, words: int = 12, vocabulary: int = 4_000, has_turns: bool = True
    ) -> None:
        self._size, self._words, self._vocabulary, self._has_turns = size, words, vocabulary, has_turns

    def news(self, owner: Owner, known: Known) -> News | None:
        if known.seq:
            return None
        chance = random.Random(owner.name)  # noqa: S311  the same words each time, and nobody's secret
        rows = [self._row(number, chance) for number in range(self._size)]
        return News(1, self._size, Vectors(1, 8), is_whole=True, rows=rows, deaths=(), marks=())

    def _row(self, number: int, chance: random.Random) -> tuple[Any, ...]:
        terms = sorted({1 + int(chance.random() ** 2 * self._vocabulary) for _ in range(self._words)})
        blob = struct.pack(f"<{len(terms)}I", *terms) + bytes(len(terms) * [1])
        vector = np.array([chance.random() for _ in range(8)], "<f4").tobytes()
        session = f"session-{number // 20}" if self._has_turns else None
        return (number + 1, f"mem_{number:022d}", 1, 1, None, None, 1_700_000_000_000 + number, f"user-{number % 7}",
                "main", session, "semantic", "live", chance.random(), f"subject {number % 50}", None, number, blob,
                vector, "agent", None, False)  # fmt: skip

    def metadata(self, tenant: str, rows: Sequence[int]) -> Iterable[Mapping[str, Json]]:
        return [{"topic": f"topic number {row % 300}"} for row in rows]

    def store_names(self, tenant: str) -> Mapping[str, str]:
        return {}

    def records(self, tenant: str, rows: Sequence[int]) -> Iterator[Record]:
        raise NotImplementedError

    def linked(self, tenant: str, ids: Sequence[str], seq: int) -> Mapping[str, set[str]]:
        return {}

    def nearness(self, tenant: str, partition: Partition, vectors: Vectors, query: Floats) -> Nearness:
        raise NotImplementedError


def scope_of(agent: str, user: str | None = None) -> Scope:
    return Scope(tenant="t", agent_id=agent, user_id=user)


def read(
    cache: PartitionCache, source: Agents, agent: str, terms: Iterable[int], context: Context = TURNS
) -> None:
    """What searches for these terms leave behind."""
    with cache.partition(source, scope_of(agent)) as loaded:
        seen = loaded.seen(scope_of(agent), Snapshot(None, NOW))
        corpus = corpus_of(seen, context)
        for term in terms:
            corpus.scored([term], 0.5)
        loaded.partition.told(np.arange(min(3, len(loaded.partition))))


def filtered(cache: PartitionCache, source: Agents, agent: str, value: str) -> None:
    with cache.partition(source, scope_of(agent)) as loaded:
        tree = filters.compiled({"topic": value})

        def fetch(rows: Sequence[int], paths: Sequence[filters.Path]) -> list[list[Json | filters.Missing]]:
            return [[filters.metadata_at(one, path) for path in paths] for one in source.metadata("t", rows)]

        loaded.columns.mask(tree, loaded.partition["row"], fetch)


def took(work: Any) -> int:
    """What is allocated by now that was not before."""
    gc.collect()
    tracemalloc.start()
    try:
        work()
        gc.collect()
        return tracemalloc.get_traced_memory()[0]
    finally:
        tracemalloc.stop()


SHAPES = {
    "small": Agents(300),
    "few words": Agents(800, words=3, has_turns=False),
    "wordy": Agents(150, words=80, vocabulary=30_000),
    "laid out": Agents(2_500),
    "same words": Agents(400, words=60, vocabulary=300),
    "large": Agents(4_200),
}


@pytest.mark.parametrize("shape", SHAPES)
def test_rows_are_counted_as_they_take_memory(shape: str) -> None:
    cache, source = PartitionCache(1 << 40), SHAPES[shape]
    real = took(lambda: read(cache, source, "a", ()))
    assert real / 1.3 < cache.nbytes < 1.3 * real


@pytest.mark.parametrize("context", [PLAIN, TURNS], ids=["plain", "turns"])
@pytest.mark.parametrize("shape", SHAPES)
def test_what_is_kept_for_readers_is_counted_as_it_takes_memory(shape: str, context: Context) -> None:
    cache, source = PartitionCache(1 << 40), SHAPES[shape]
    read(cache, source, "a", (), context)
    before = cache.nbytes
    real = took(lambda: read(cache, source, "a", range(1, 1_200), context))
    assert real > 50_000
    assert real / 1.3 < cache.nbytes - before < 1.3 * real


def test_what_filters_keep_is_counted_as_it_takes_memory() -> None:
    cache, source = PartitionCache(1 << 40), Agents(3_000)
    read(cache, source, "a", ())
    before = cache.nbytes
    real = took(lambda: [filtered(cache, source, "a", f"topic number {one}") for one in range(40)])
    assert real / 1.6 < cache.nbytes - before < 1.6 * real


def test_what_is_let_go_of_is_no_longer_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    """Terms come and go by the hundred: only those that are there count."""
    source = Agents(300)
    once, often = PartitionCache(1 << 40), PartitionCache(1 << 40)
    monkeypatch.setattr("quipu.ledger.search.bm25._HELD", -1_000_000)  # the keyword leg keeps one at a time
    read(once, source, "a", range(1, _TERMS + 1))
    read(often, source, "a", range(_TERMS + 1, 4 * _TERMS + 1))
    with often.partition(source, scope_of("a")) as loaded:
        loaded.partition.postings.forget()
        assert loaded.sights.nbytes == pytest.approx(_parts(loaded), rel=0.15)
    with once.partition(source, scope_of("a")) as loaded:
        loaded.partition.postings.forget()
    assert often.nbytes == pytest.approx(once.nbytes, rel=0.1)


def _parts(loaded: Loaded) -> int:
    """Looked through from end to end."""
    total = 0
    for seen in loaded.sights._known.values():
        total += seen.mask.nbytes + seen.turns.nbytes
        total += sum(350 + rows.nbytes + counts.nbytes for rows, counts in seen._having.values())
    return total


def test_the_bound_holds_where_what_is_kept_outweighs_the_rows() -> None:
    source, terms = Agents(60, words=20), range(1, 500)
    alone = PartitionCache(1 << 40)
    read(alone, source, "agent-0", ())
    rows = alone.nbytes
    read(alone, source, "agent-0", terms)
    assert alone.nbytes > 1.5 * rows  # or this would not show anything
    limit = 4 * alone.nbytes
    cache = PartitionCache(limit)

    def many() -> None:
        for number in range(12):
            read(cache, source, f"agent-{number}", terms)
            assert cache.nbytes <= limit

    assert took(many) < 1.3 * limit
    assert cache.nbytes == sum(loaded.counted for loaded in cache._loaded.values())
    assert [owner.name for owner in cache._loaded][-1] == "agent-11"
    assert 2 <= len(cache._loaded) < 12


def test_what_is_kept_of_the_only_one_goes_before_the_bound_is_passed() -> None:
    source = Agents(120, words=20)
    alone = PartitionCache(1 << 40)
    read(alone, source, "a", ())
    cache = PartitionCache(alone.nbytes + 20_000)
    for start in range(1, 400, 10):
        read(cache, source, "a", range(start, start + 10))
        assert cache.nbytes <= alone.nbytes + 20_000
    assert len(cache._loaded) == 1


def test_rows_that_do_not_fit_by_themselves_stay_with_what_is_kept_of_them() -> None:
    """They are needed either way, and without it every search would be slow besides."""
    cache, source = PartitionCache(1_000), Agents(120)
    read(cache, source, "a", range(1, 50))
    with cache.partition(source, scope_of("a")) as loaded:
        assert loaded.sights.nbytes > 0
    assert cache.nbytes > 1_000


def test_one_that_is_dropped_while_it_is_read_is_not_counted() -> None:
    cache, source = PartitionCache(1 << 40), Agents(50)
    with cache.partition(source, scope_of("a")) as loaded:
        cache.clear()
        loaded.seen(scope_of("a"), Snapshot(None, NOW))
    assert cache.nbytes == 0


def test_readers_are_counted_each(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("quipu.ledger.search.seen._READERS", 3)
    cache, source = PartitionCache(1 << 40), Agents(2_000)
    sizes: list[int] = []
    for number in range(5):
        with cache.partition(source, scope_of("a")) as loaded:
            one = loaded.seen(scope_of("a", f"user-{number}"), Snapshot(None, NOW))
            assert isinstance(one, Seen)
        sizes.append(loaded.sights.nbytes)
    assert sizes == [sizes[0], 2 * sizes[0], 3 * sizes[0], 3 * sizes[0], 3 * sizes[0]]
    assert sizes[0] >= 2_000
