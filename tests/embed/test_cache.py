"""The cache in front of an embedder."""

import asyncio
import gc
from collections.abc import Sequence

import pytest

from quipu.embed.cache import CachedEmbedder
from quipu.embed.port import Role
from quipu.errors import BackendUnavailableError


class CountingEmbedder:
    """An embedder whose vectors are the texts, and which keeps what it was asked for."""

    model = "counting"
    dimensions = 1
    calibration = None

    def __init__(self) -> None:
        self.calls: list[list[str]] = []
        self.has_started = asyncio.Event()
        self.gate = asyncio.Event()
        self.gate.set()
        self.is_failing = False
        self.is_cleared = False
        self.is_closed = False

    async def embed(self, texts: Sequence[str], role: Role = "document") -> Sequence[bytes]:
        self.calls.append(list(texts))
        self.has_started.set()
        await self.gate.wait()
        if self.is_failing:
            raise BackendUnavailableError
        return [text.encode("utf-8", "surrogatepass") for text in texts]

    def clear(self) -> None:
        self.is_cleared = True

    async def close(self) -> None:
        self.is_closed = True


@pytest.fixture
def inner() -> CountingEmbedder:
    return CountingEmbedder()


async def test_it_has_the_name_of_the_embedder_inside_and_closes_it(inner: CountingEmbedder) -> None:
    cached = CachedEmbedder(inner)
    assert (cached.model, cached.dimensions) == ("counting", 1)
    assert await cached.embed([]) == []
    await cached.close()
    await cached.close()
    assert inner.is_closed


async def test_a_text_seen_before_is_not_computed_again(inner: CountingEmbedder) -> None:
    cached = CachedEmbedder(inner)
    assert await cached.embed(["a", "b", "a"]) == [b"a", b"b", b"a"]
    assert await cached.embed(["b", "c"]) == [b"b", b"c"]
    assert inner.calls == [["a", "b"], ["c"]]


async def test_the_least_recently_used_goes_first(inner: CountingEmbedder) -> None:
    cached = CachedEmbedder(inner, size=2)
    for text in ("a", "b", "a", "c", "a", "b"):
        await cached.embed([text])
    assert inner.calls == [["a"], ["b"], ["c"], ["b"]]


async def test_more_texts_than_it_holds_are_all_answered(inner: CountingEmbedder) -> None:
    texts = [str(number) for number in range(50)]
    for size in (3, 0):
        assert await CachedEmbedder(inner, size).embed(texts) == [text.encode() for text in texts]


async def test_equal_texts_at_the_same_time_are_computed_once(inner: CountingEmbedder) -> None:
    cached = CachedEmbedder(inner)
    answers = await asyncio.gather(*(cached.embed(["a", str(number)]) for number in range(3)))
    assert answers == [[b"a", b"0"], [b"a", b"1"], [b"a", b"2"]]
    assert inner.calls == [["a", "0"], ["1"], ["2"]]


async def test_a_caller_who_gives_up_does_not_take_the_vector_from_another(inner: CountingEmbedder) -> None:
    cached = CachedEmbedder(inner)
    inner.gate.clear()
    first = asyncio.create_task(cached.embed(["a"]))
    second = asyncio.create_task(cached.embed(["a"]))
    await inner.has_started.wait()
    first.cancel()
    await asyncio.wait([first])
    assert first.cancelled()
    inner.gate.set()
    assert await second == [b"a"]
    assert inner.calls == [["a"]]


async def test_a_failure_reaches_every_caller_and_is_not_kept(inner: CountingEmbedder) -> None:
    cached = CachedEmbedder(inner)
    inner.is_failing = True
    failures = await asyncio.gather(cached.embed(["a"]), cached.embed(["a"]), return_exceptions=True)
    assert [type(failure) for failure in failures] == [BackendUnavailableError] * 2
    inner.is_failing = False
    assert await cached.embed(["a"]) == [b"a"]


async def test_a_failure_that_nobody_waits_for_is_not_logged(
    inner: CountingEmbedder, caplog: pytest.LogCaptureFixture
) -> None:
    cached = CachedEmbedder(inner)
    inner.gate.clear()
    inner.is_failing = True
    waiting = asyncio.create_task(cached.embed(["a"]))
    await inner.has_started.wait()
    waiting.cancel()
    await asyncio.wait([waiting])
    inner.gate.set()
    await asyncio.wait(set(vars(cached)["_running"]))
    gc.collect()
    assert caplog.records == []


async def test_after_clearing_every_text_is_computed_again(inner: CountingEmbedder) -> None:
    cached = CachedEmbedder(inner)
    await cached.embed(["a", "b"])
    cached.clear()
    assert inner.is_cleared
    await cached.embed(["a", "b"])
    assert inner.calls == [["a", "b"], ["a", "b"]]


async def test_what_is_cleared_while_it_is_computed_does_not_come_back(inner: CountingEmbedder) -> None:
    cached = CachedEmbedder(inner)
    inner.gate.clear()
    waiting = asyncio.create_task(cached.embed(["a"]))
    await inner.has_started.wait()
    cached.clear()
    later = asyncio.create_task(cached.embed(["a"]))
    inner.gate.set()
    assert await waiting == [b"a"]
    assert await later == [b"a"]
    assert inner.calls == [["a"], ["a"]]
    cached.clear()
    await cached.embed(["a"])
    assert len(inner.calls) == 3


async def test_clearing_leaves_nothing_behind(inner: CountingEmbedder) -> None:
    cached = CachedEmbedder(inner)
    await cached.embed(["a", "b"])
    inner.gate.clear()
    inner.has_started.clear()
    waiting = asyncio.create_task(cached.embed(["c"]))
    await inner.has_started.wait()
    cached.clear()
    inner.gate.set()
    await waiting
    assert [vars(cached)[name] for name in ("_vectors", "_current", "_running")] == [{}, {}, set()]


async def test_who_waits_when_it_is_closed_gets_an_error_and_no_cancellation(inner: CountingEmbedder) -> None:
    cached = CachedEmbedder(inner)
    inner.gate.clear()
    waiting = asyncio.create_task(cached.embed(["a"]))
    await inner.has_started.wait()
    await cached.close()
    with pytest.raises(BackendUnavailableError) as closed:
        await waiting
    assert closed.value.reason == "closed"


async def test_the_cache_holds_no_text(inner: CountingEmbedder) -> None:
    cached = CachedEmbedder(inner)
    inner.gate.clear()
    waiting = asyncio.create_task(cached.embed(["swordfish", "\ud800"]))
    await inner.has_started.wait()
    assert "swordfish" not in repr(list(vars(cached)["_current"]))
    inner.gate.set()
    await waiting
    assert "swordfish" not in repr(list(vars(cached)["_vectors"]))


async def test_a_text_as_a_query_is_another_than_as_a_document() -> None:
    class Prefixing(CountingEmbedder):
        async def embed(self, texts: Sequence[str], role: Role = "document") -> Sequence[bytes]:
            return await super().embed([f"{role}: {text}" for text in texts])

    cached = CachedEmbedder(Prefixing())
    assert await cached.embed(["tea"], "query") == [b"query: tea"]
    assert await cached.embed(["tea"]) == [b"document: tea"]
    assert await cached.embed(["tea"], "query") == [b"query: tea"]
