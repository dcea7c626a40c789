"""A network that fails: what is repeated, what is not, and that a write happens once."""

import asyncio
import random

import httpx
import pytest

from quipu.api import Memory
from quipu.client.transport import Patience
from quipu.errors import (
    BackendUnavailableError,
    ConflictError,
    DeadlineError,
    InternalError,
    NotFoundError,
    QuipuError,
    QuotaExceededError,
    RateLimitedError,
)
from tests.client.network import LOST, PASS, UNREACHABLE, Fate, Served, busy, plain


async def contents(memory: Memory) -> list[str]:
    return sorted(str(record.content) for record in (await memory.list(limit=1000)).records)


async def test_a_write_whose_answer_is_lost_is_repeated_and_happens_once(served: Served) -> None:
    memory = served.connect()
    served.network.will(LOST, Fate(arrives=40))
    answer = await memory.remember("tea at noon")
    assert served.network.count("/v1/memories") == 3
    assert answer.replayed
    keys = {request.content for request in served.network.asked}
    assert len(keys) == 1, "the very same request, with the key that it had from the beginning"
    assert await contents(memory) == ["tea at noon"]


async def test_every_kind_of_write_with_a_key_survives_a_lost_answer(served: Served) -> None:
    memory = served.connect()
    first, second, third = [(await memory.remember(text)).id for text in ("tea", "tea too", "cake")]
    served.network.will(LOST)
    assert (await memory.update(first, content="tea at one", if_version=1)).version == 2
    served.network.will(LOST)
    assert (await memory.merge(first, [second])).merged_count == 1
    served.network.will(LOST)
    assert (await memory.forget(ids=[third])).forgotten_ids == (third,)
    served.network.will(LOST)
    assert (await memory.expire({"type": "semantic"}, action="archive")).matched_count == 1
    served.network.will(LOST)
    many = await memory.remember_many([{"content": "a"}, {"content": "b"}])
    assert len(many.results) == 2
    assert await contents(memory) == ["a", "b"]


async def test_the_caller_s_own_key_is_the_one_that_is_sent(served: Served) -> None:
    memory = served.connect()
    served.network.will(LOST)
    first = await memory.remember("tea", idempotency_key="mine")
    again = await memory.remember("tea", idempotency_key="mine")
    assert (first.id, again.replayed) == (again.id, True)
    with pytest.raises(ConflictError) as refused:
        await memory.remember("cake", idempotency_key="mine")
    assert refused.value.reason == "idempotency_key_mismatch"


async def test_what_has_no_key_is_not_repeated_when_nobody_knows_what_became_of_it(served: Served) -> None:
    memory = served.connect()
    served.network.will(LOST)
    with pytest.raises(BackendUnavailableError) as failed:
        await memory.create_store("attic")
    assert failed.value.reason == "unreachable"
    assert served.network.count("/v1/stores") == 1
    assert served.pauses == []
    assert "attic" in [store.name for store in (await memory.list_stores()).stores]


async def test_what_surely_was_not_done_is_repeated_whatever_it_is(served: Served) -> None:
    memory = served.connect()
    served.network.will(UNREACHABLE, busy(429, "rate_limited"))
    assert (await memory.create_store("attic")).name == "attic"
    served.network.will(busy(503, "backend_unavailable"))
    with pytest.raises(BackendUnavailableError):
        await memory.create_store("cellar")
    assert served.network.count("/v1/stores") == 4


async def test_many_writers_on_a_bad_network_lose_nothing_and_double_nothing(served: Served) -> None:
    memory = served.connect(patience=Patience(retries=12))
    chance = random.Random(7)  # noqa: S311  a seeded mishap, not a secret
    mishaps = [UNREACHABLE, LOST, Fate(arrives=30), busy(503, "backend_unavailable"), plain(502), *[PASS] * 6]
    served.network.choose = lambda _: chance.choice(mishaps)
    await asyncio.gather(*(memory.remember(f"fact {number}") for number in range(40)))
    served.network.choose = lambda _: None
    assert await contents(memory) == sorted(f"fact {number}" for number in range(40))


async def test_reads_are_repeated_with_growing_pauses(served: Served) -> None:
    memory = served.connect()
    served.network.will(LOST, UNREACHABLE, busy(503, "backend_unavailable"), plain(504))
    assert (await memory.recall("tea")).results == ()
    assert served.pauses == pytest.approx([0.15, 0.3, 0.6, 1.2])


async def test_what_the_server_asks_for_is_waited_for(served: Served) -> None:
    served.network.will(
        busy(429, "rate_limited", retry_after=7), busy(503, "backend_unavailable", retry_after=3)
    )
    await served.connect().list()
    assert served.pauses[0] >= 7
    assert served.pauses[1] >= 3


async def test_a_wait_beyond_the_deadline_is_not_begun(served: Served) -> None:
    memory = served.connect(patience=Patience(total_s=5))
    served.network.will(busy(429, "rate_limited", retry_after=60))
    with pytest.raises(RateLimitedError) as refused:
        await memory.list()
    assert refused.value.retry_after_s == 60
    assert served.pauses == []


async def test_it_gives_up_after_so_many_repetitions(served: Served) -> None:
    served.network.choose = lambda _: UNREACHABLE
    with pytest.raises(BackendUnavailableError) as failed:
        await served.connect(patience=Patience(retries=3)).list()
    assert len(served.network.asked) == 4
    assert isinstance(failed.value.__cause__, httpx.ConnectError)
    with pytest.raises(BackendUnavailableError):
        await served.connect(patience=Patience(retries=0)).list()
    assert len(served.network.asked) == 5


async def test_a_server_that_never_answers_ends_the_call_in_time(served: Served) -> None:
    served.network.will(Fate(hangs=True))
    memory = served.connect(patience=Patience(total_s=0.05))
    with pytest.raises(DeadlineError) as late:
        await memory.remember("tea")
    assert late.value.reason == "unreachable"


@pytest.mark.parametrize(
    ("fate", "kind"),
    [
        (busy(429, "quota_exceeded", retry_after=1), QuotaExceededError),
        (busy(404, "not_found"), NotFoundError),
        (busy(503, "backend_unavailable", retryable=False), BackendUnavailableError),
        (plain(200, "hello"), InternalError),
        (plain(200, "{}", "application/json"), InternalError),
        (plain(404), InternalError),
        (Fate(answer=httpx.Response(301, headers={"location": "https://evil.example"})), InternalError),
    ],
)
async def test_what_repeating_cannot_help_is_not_repeated(
    served: Served, fate: Fate, kind: type[QuipuError]
) -> None:
    served.network.will(fate)
    with pytest.raises(kind) as refused:
        await served.connect().remember("tea")
    assert len(served.network.asked) == 1
    assert (refused.value.reason == "bad_answer") == (kind is InternalError)
