"""The cache in front of an embedder."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

import pytest

from quipu.embed.cache import CachedEmbedder
from quipu.errors import BackendUnavailableError
from quipu.ports.embedder import Embedder


class CountingEmbedder:
    """A small embedder whose vectors are the texts, and which keeps what it was asked for."""

    model = "counting"
    dimensions = 1

    def __init__(self) -> None:
        self.asked: list[list[str]] = []
        self.started = asyncio.Event()
        self.gate = asyncio.Event()
        self.gate.set()
        self.is_failing = False
        self.is_closed = False

    async def embed(self, texts: Sequence[str]) -> Sequence[bytes]:
        self.asked.append(list(texts))
        self.started.set()
        await self.gate.wait()
        if self.is_failing:
            raise BackendUnavailableError
        return [text.encode("utf-8", "surrogatepass") for text in texts]

    async def close(self) -> None:
        self.is_closed = True


@pytest.fixture
def inner() -> CountingEmbedder:
    return CountingEmbedder()


async def test_it_is_an_embedder_like_the_one_inside(inner: CountingEmbedder) -> None:
    cached = CachedEmbedder(inner)
    assert isinstance(cached, Embedder)
    assert (cached.model, cached.dimensions) == ("counting", 1)
    assert await cached.embed([]) == []
    await cached.close()
    assert inner.is_closed


async def test_a_text_seen_before_is_not_computed_again(inner: CountingEmbedder) -> None:
    cached = CachedEmbedder(inner)
    assert await cached.embed(["a", "b", "a"]) == [b"a", b"b", b"a"]
    assert await cached.embed(["b", "c"]) == [b"b", b"c"]
    assert inner.asked == [["a", "b"], ["c"]]


async def test_the_least_recently_used_goes_first(inner: CountingEmbedder) -> None:
    cached = CachedEmbedder(inner, size=2)
    for text in ("a", "b", "a", "c", "a", "b"):
        await cached.embed([text])
    assert inner.asked == [["a"], ["b"], ["c"], ["b"]]


async def test_more_texts_than_it_holds_are_all_answered(inner: CountingEmbedder) -> None:
    cached = CachedEmbedder(inner, size=3)
    texts = [str(number) for number in range(50)]
    assert await cached.embed(texts) == [text.encode() for text in texts]
    assert await CachedEmbedder(inner, size=0).embed(texts) == [text.encode() for text in texts]


async def test_equal_texts_at_the_same_time_are_computed_once(inner: CountingEmbedder) -> None:
    cached = CachedEmbedder(inner)
    answers = await asyncio.gather(*(cached.embed(["a", str(number)]) for number in range(3)))
    assert answers == [[b"a", b"0"], [b"a", b"1"], [b"a", b"2"]]
    assert inner.asked == [["a", "0"], ["1"], ["2"]]


async def test_a_caller_who_gives_up_does_not_take_the_vector_from_another(inner: CountingEmbedder) -> None:
    cached = CachedEmbedder(inner)
    inner.gate.clear()
    first = asyncio.create_task(cached.embed(["a"]))
    second = asyncio.create_task(cached.embed(["a"]))
    await inner.started.wait()
    first.cancel()
    await asyncio.wait([first])
    inner.gate.set()
    assert await second == [b"a"]
    assert inner.asked == [["a"]]


async def test_a_failure_reaches_every_caller_and_is_not_kept(inner: CountingEmbedder) -> None:
    cached = CachedEmbedder(inner)
    inner.is_failing = True
    failures = await asyncio.gather(cached.embed(["a"]), cached.embed(["a"]), return_exceptions=True)
    assert [type(failure) for failure in failures] == [BackendUnavailableError] * 2
    inner.is_failing = False
    assert await cached.embed(["a"]) == [b"a"]


async def test_an_evicted_text_is_computed_again(inner: CountingEmbedder) -> None:
    cached = CachedEmbedder(inner)
    await cached.embed(["a", "b"])
    cached.evict("a")
    cached.evict("never seen")
    await cached.embed(["a", "b"])
    assert inner.asked == [["a", "b"], ["a"]]


@pytest.mark.parametrize("everything", [True, False])
async def test_what_is_evicted_while_it_is_computed_does_not_come_back(
    inner: CountingEmbedder, everything: bool
) -> None:
    cached = CachedEmbedder(inner)
    inner.gate.clear()
    asking = asyncio.create_task(cached.embed(["a"]))
    await inner.started.wait()
    cached.clear() if everything else cached.evict("a")
    inner.gate.set()
    assert await asking == [b"a"]
    await cached.embed(["a"])
    assert inner.asked == [["a"], ["a"]]


async def test_the_cache_holds_no_text(inner: CountingEmbedder) -> None:
    cached = CachedEmbedder(inner)
    inner.gate.clear()
    asking = asyncio.create_task(cached.embed(["swordfish", "\ud800"]))
    await inner.started.wait()
    assert "swordfish" not in repr(list(vars(cached)["_under_way"]))
    inner.gate.set()
    await asking
    assert "swordfish" not in repr(list(vars(cached)["_vectors"]))
