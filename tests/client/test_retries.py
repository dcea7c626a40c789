"""A network that fails: what is repeated, what is not, and that a write happens once."""

from __future__ import annotations

import asyncio
import logging
import random
import socket
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path

import pytest

from quipu import BackendUnavailableError, DeadlineError, InternalError, Memory, NotFoundError, QuipuError
from quipu.errors import InvalidError, QuotaExceededError, RateLimitedError
from quipu.model.journal import Op
from tests.client.conftest import Reaching, watched
from tests.client.proxy import CUT_BEFORE, LOST, PASS, Fate, Proxy, busy, plain
from tests.faces.serving import Served


async def written(memory: Memory) -> list[Op]:
    """What the journal says was done to memories."""
    changes = (Op.REMEMBER, Op.UPDATE, Op.FORGET, Op.MERGE, Op.ARCHIVE, Op.HOLD, Op.CREATE_STORE, Op.DECIDE)
    return [entry.op for entry in await memory.journal(limit=1000) if entry.op in changes]


# -- writes -------------------------------------------------------------------------------------------------------


async def test_a_write_whose_answer_is_lost_is_repeated_and_happens_once(
    proxy: Proxy, server: Served, reaching: Reaching
) -> None:
    memory = reaching(watched(proxy.url, server.admin_token))
    proxy.will(LOST, LOST)
    answer = await memory.remember("tea at noon")
    assert proxy.count("/remember") == 3
    assert answer.is_replayed
    assert await written(memory) == [Op.REMEMBER]
    assert [record.id for record in (await memory.list()).records] == [answer.id]


async def test_a_write_that_never_arrived_is_repeated(
    proxy: Proxy, server: Served, reaching: Reaching
) -> None:
    memory = reaching(watched(proxy.url, server.admin_token))
    proxy.will(CUT_BEFORE, CUT_BEFORE, CUT_BEFORE)
    answer = await memory.remember("tea at noon")
    assert not answer.is_replayed
    assert await written(memory) == [Op.REMEMBER]


@pytest.mark.parametrize("cut_after", [1, 60, 400])
async def test_an_answer_that_breaks_off_in_the_middle_counts_as_lost(
    proxy: Proxy, server: Served, reaching: Reaching, cut_after: int
) -> None:
    memory = reaching(watched(proxy.url, server.admin_token))
    proxy.will(Fate(cut_after=cut_after))
    assert (await memory.remember("tea at noon")).is_replayed
    assert await written(memory) == [Op.REMEMBER]


async def test_every_kind_of_write_survives_a_lost_answer(
    proxy: Proxy, server: Served, reaching: Reaching
) -> None:
    memory = reaching(watched(proxy.url, server.admin_token))
    first = (await memory.remember("tea")).id
    second = (await memory.remember("tea too")).id
    third = (await memory.remember("cake")).id
    before = len(await written(memory))
    proxy.will(LOST)
    await memory.remember("tea at one", id=first, if_version=1)
    proxy.will(LOST)
    assert (await memory.merge(first, [second])).merged_count == 1
    proxy.will(LOST)
    assert (await memory.forget(ids=[third])).forgotten_ids == (third,)
    proxy.will(LOST)
    assert (await memory.expire({"type": "semantic"}, action="archive")).matched_count == 1
    proxy.will(LOST)
    assert (await memory.remember("maybe", approval_required=True)).pending_approval
    assert (await written(memory))[before:] == [Op.UPDATE, Op.MERGE, Op.FORGET, Op.ARCHIVE, Op.HOLD]


async def test_a_batch_whose_answers_are_lost_is_written_once(
    proxy: Proxy, server: Served, reaching: Reaching
) -> None:
    memory = reaching(watched(proxy.url, server.admin_token))
    proxy.will(LOST, PASS, LOST)
    answers = await memory.remember_many([f"fact {number}" for number in range(700)])
    assert proxy.count("/remember/batch") == 4, "two parts, each of them twice"
    ids = [answer.id for answer in answers if not isinstance(answer, QuipuError)]
    assert len(set(ids)) == 700
    page = await memory.list(limit=1000)
    assert {record.id for record in page.records} == set(ids)
    proxy.will(LOST)
    assert len(await memory.remember_many(["a", "b"], atomic=True)) == 2
    assert (await memory.statistics())["live"] == 702


async def test_the_caller_s_own_key_is_the_one_that_is_sent(
    proxy: Proxy, server: Served, reaching: Reaching
) -> None:
    memory = reaching(watched(proxy.url, server.admin_token))
    proxy.will(LOST)
    first = await memory.remember("tea", idempotency_key="mine")
    again = await memory.remember("tea", idempotency_key="mine")
    assert (first.id, again.is_replayed) == (again.id, True)
    with pytest.raises(QuipuError) as refused:
        await memory.remember("cake", idempotency_key="mine")
    assert refused.value.reason == "idempotency_key_mismatch"


async def test_what_cannot_be_repeated_harmlessly_is_not(
    proxy: Proxy, server: Served, reaching: Reaching
) -> None:
    connection = watched(proxy.url, server.admin_token)
    memory = reaching(connection)
    record = (await memory.remember("tea")).id
    await memory.forget(ids=[record])
    for call, address in (
        (lambda: memory.create_store("attic"), "/stores"),
        (lambda: memory.restore(record), "/restore"),
        (lambda: memory.create_token("bot", roles=["agent"]), "/tokens"),
    ):
        proxy.asked.clear()
        proxy.will(LOST)
        with pytest.raises(BackendUnavailableError) as failed:
            await call()
        assert failed.value.reason == "unreachable"
        assert proxy.count(address) == 1
    assert connection.pauses == []
    assert [store.name for store in await memory.list_stores()] == ["main", "attic"]


async def test_what_surely_was_not_done_is_repeated_whatever_it_is(
    proxy: Proxy, server: Served, reaching: Reaching
) -> None:
    memory = reaching(watched(proxy.url, server.admin_token))
    proxy.will(busy(429, "rate_limited"))
    assert (await memory.create_store("attic")).name == "attic"
    proxy.will(busy(503, "backend_unavailable"))
    with pytest.raises(BackendUnavailableError):
        await memory.create_store("cellar")
    assert proxy.count("POST /quipu/v1/stores") == 3


async def test_a_server_that_is_not_there_yet_is_waited_for(server: Served, reaching: Reaching) -> None:
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    late = Proxy(server.port)
    connection = watched(f"http://127.0.0.1:{port}", server.admin_token)

    async def arrive(seconds: float) -> None:
        connection.pauses.append(seconds)
        if len(connection.pauses) == 2:
            await late.listen(port)

    connection.transport.sleep = arrive
    memory = reaching(connection)
    try:
        assert (await memory.create_store("attic")).name == "attic"
    finally:
        await late.close()
    assert len(connection.pauses) == 2


async def test_many_writers_on_a_bad_network_lose_nothing_and_double_nothing(
    proxy: Proxy, server: Served, reaching: Reaching
) -> None:
    memory = reaching(watched(proxy.url, server.admin_token, retries=12))
    chance = random.Random(7)  # noqa: S311  a seeded mishap, not a secret
    mishaps = [
        CUT_BEFORE,
        LOST,
        Fate(cut_after=30),
        busy(503, "backend_unavailable"),
        plain(502),
        *[PASS] * 6,
    ]
    proxy.choose = lambda line: chance.choice(mishaps) if "/remember" in line else None

    async def work(number: int) -> str:
        return (await memory.remember(f"fact {number}")).id

    ids = await asyncio.gather(*(work(number) for number in range(60)))
    proxy.choose = None
    found = (await memory.list(limit=1000)).records
    assert sorted(record.id for record in found) == sorted(ids)
    assert sorted(record.content for record in found) == sorted(f"fact {number}" for number in range(60))
    assert (await memory.verify()).holds


# -- reads, limits, pauses ----------------------------------------------------------------------------------------


async def test_reads_are_repeated_with_growing_pauses(
    proxy: Proxy, server: Served, reaching: Reaching
) -> None:
    connection = watched(proxy.url, server.admin_token)
    memory = reaching(connection)
    proxy.will(LOST, CUT_BEFORE, busy(503, "backend_unavailable"), plain(504))
    assert (await memory.recall("tea")).results == ()
    assert connection.pauses == pytest.approx([0.15, 0.3, 0.6, 1.2])


async def test_what_the_server_asks_for_is_waited_for(
    proxy: Proxy, server: Served, reaching: Reaching
) -> None:
    connection = watched(proxy.url, server.admin_token)
    proxy.will(busy(429, "rate_limited", retry_after=7), busy(503, "backend_unavailable", retry_after=3))
    await reaching(connection).list()
    assert connection.pauses[0] >= 7
    assert connection.pauses[1] >= 3


async def test_a_wait_beyond_the_deadline_is_not_begun(
    proxy: Proxy, server: Served, reaching: Reaching
) -> None:
    connection = watched(proxy.url, server.admin_token, total_s=5)
    proxy.will(busy(429, "rate_limited", retry_after=60))
    with pytest.raises(RateLimitedError) as refused:
        await reaching(connection).list()
    assert refused.value.retry_after == 60
    assert connection.pauses == []


async def test_a_stream_does_not_wait_longer_for_its_beginning_than_a_call(
    proxy: Proxy, server: Served, reaching: Reaching
) -> None:
    connection = watched(proxy.url, server.admin_token, total_s=5)
    memory = reaching(connection)
    turned_away = busy(503, "backend_unavailable", retry_after=3_600)
    proxy.choose = lambda line: turned_away if "/verify" in line else None
    with pytest.raises(BackendUnavailableError) as refused:
        await memory.verify()
    assert refused.value.retry_after == 3_600
    assert connection.pauses == []


async def test_a_spent_budget_is_told_at_once(proxy: Proxy, server: Served, reaching: Reaching) -> None:
    proxy.will(busy(429, "quota_exceeded", retry_after=1))
    with pytest.raises(QuotaExceededError):
        await reaching(watched(proxy.url, server.admin_token)).recall("tea")
    assert len(proxy.asked) == 1


async def test_it_gives_up_after_so_many_repetitions(
    proxy: Proxy, server: Served, reaching: Reaching
) -> None:
    proxy.choose = lambda _: CUT_BEFORE
    with pytest.raises(BackendUnavailableError) as failed:
        await reaching(watched(proxy.url, server.admin_token, retries=3)).list()
    assert len(proxy.asked) == 4
    assert failed.value.reason == "unreachable"
    assert isinstance(failed.value.__cause__, Exception)
    with pytest.raises(BackendUnavailableError):
        await reaching(watched(proxy.url, server.admin_token, retries=0)).list()
    assert len(proxy.asked) == 5


async def test_a_slow_server_ends_the_call_in_time(proxy: Proxy, server: Served, reaching: Reaching) -> None:
    proxy.choose = lambda _: Fate(delay_s=30)
    began = time.monotonic()
    with pytest.raises(DeadlineError) as late:
        await reaching(watched(proxy.url, server.admin_token, total_s=1)).remember("tea")
    assert late.value.reason == "unreachable"
    with pytest.raises(DeadlineError):
        await reaching(watched(proxy.url, server.admin_token, read_s=0.1, retries=1)).list()
    assert time.monotonic() - began < 10
    assert len(proxy.asked) == 3


async def test_what_is_wrong_is_not_repeated(proxy: Proxy, server: Served, reaching: Reaching) -> None:
    memory = reaching(watched(proxy.url, server.admin_token))
    with pytest.raises(NotFoundError):
        await memory.get("mem_unknown")
    assert len(proxy.asked) == 1


@pytest.mark.parametrize(
    "fate",
    [
        Fate(answer=b"HTTP/1.1 200 OK\r\ncontent-length: 5\r\nconnection: close\r\n\r\nhello"),
        Fate(answer=b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\nconnection: close\r\n\r\n{}"),
        Fate(answer=b"HTTP/1.1 301 X\r\nlocation: https://evil.example\r\ncontent-length: 0\r\n\r\n"),
        plain(404),
    ],
)
async def test_an_answer_that_is_none_of_ours_is_said_to_be_so(
    proxy: Proxy, server: Served, reaching: Reaching, fate: Fate
) -> None:
    proxy.will(fate)
    with pytest.raises(InternalError) as odd:
        await reaching(watched(proxy.url, server.admin_token)).remember("tea")
    assert odd.value.reason == "bad_answer"
    assert len(proxy.asked) == 1


async def test_an_answer_that_lacks_what_was_asked_for_is_said_to_be_so(
    proxy: Proxy, server: Served, reaching: Reaching
) -> None:
    memory = reaching(watched(proxy.url, server.admin_token))
    head = b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: %d\r\nconnection: close\r\n\r\n"
    bodies = (
        b"{}",
        b"[]",
        b"7",
        b'{"stores": [{"id": 7}]}',
        b'{"results": [{"index": 0}]}',
        b'{"operation": "odd"}',
    )
    for body in bodies:
        answer = Fate(answer=head % len(body) + body)
        proxy.choose = lambda _, answer=answer: answer
        for call in (
            memory.list_stores(),
            memory.recall("x"),
            memory.remember_many(["x"]),
            memory.decide("prp_x", approved=True),
            memory.verify(),
            memory.list(),
        ):
            with pytest.raises(InternalError) as odd:
                await call
            assert odd.value.reason == "bad_answer"


async def test_a_batch_that_fails_half_way_tells_what_was_written(
    proxy: Proxy, server: Served, reaching: Reaching
) -> None:
    memory = reaching(watched(proxy.url, server.admin_token, retries=1))
    proxy.choose = lambda line: CUT_BEFORE if "/batch" in line and proxy.count("/batch") > 1 else None
    answers = await memory.remember_many([f"fact {number}" for number in range(1_200)])
    assert [isinstance(answer, QuipuError) for answer in answers] == [False] * 500 + [True] * 700
    assert (await memory.statistics())["live"] == 500


async def test_a_stretch_of_the_journal_may_be_longer_than_a_page(reaching: Reaching) -> None:
    memory = reaching()
    await memory.remember_many([f"fact {number}" for number in range(1_100)])
    entries = await memory.journal(limit=5_000)
    assert [entry.seq for entry in entries] == list(range(1, len(entries) + 1))
    assert len(entries) > 1_100
    assert len(await memory.journal(after=50, limit=1_010)) == 1_010


async def test_a_stopped_server_says_so_and_health_is_no_exception(
    proxy: Proxy, server: Served, reaching: Reaching
) -> None:
    memory = reaching(watched(proxy.url, server.admin_token, retries=1))
    error = b'{"status":"error","backend":"quipu","stores":[]}'
    head = (
        b"HTTP/1.1 503 X\r\ncontent-type: application/json\r\ncontent-length: %d\r\nconnection: close\r\n\r\n"
    )
    proxy.will(Fate(answer=head % len(error) + error), plain(503))
    assert (await memory.health())["status"] == "error"
    with pytest.raises(BackendUnavailableError):
        await memory.health()


# -- the token ----------------------------------------------------------------------------------------------------


async def test_the_token_is_nowhere_but_in_its_header(
    proxy: Proxy, server: Served, reaching: Reaching, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    connection = watched(proxy.url, server.admin_token, retries=1)
    memory = reaching(connection)
    await memory.remember("tea")
    issued = await memory.create_token("bot", roles=["agent"])
    assert issued.text not in repr(issued)
    proxy.choose = lambda _: CUT_BEFORE
    with pytest.raises(QuipuError) as failed:
        await memory.list()
    error: BaseException | None = failed.value
    told: list[str] = [repr(memory), repr(connection.transport), repr(await connection.open())]
    while error is not None:
        told += [str(error), repr(error), repr(vars(error))]
        error = error.__cause__
    secret = server.admin_token.split("_", 2)[2]
    assert secret not in "".join(told)
    assert secret not in caplog.text
    assert server.admin_token not in caplog.text
    assert issued.text not in caplog.text


@pytest.mark.parametrize("token", ["with space", "line\nbreak", "umläut", "\x00"])
def test_a_token_that_no_header_can_carry_is_refused_and_not_repeated(token: str) -> None:
    with pytest.raises(InvalidError) as refused:
        watched("http://127.0.0.1:1", token)
    assert token not in f"{refused.value} {refused.value.hint}"


#: What answers everything with one and the same: another program, a portal that wants one to sign in.
STRANGERS = [
    b"<h1>Welcome</h1>",
    b"{}",
    b"[]",
    b'"ok"',
    b"null",
    b'{"error": 5}',
    b'{"result": 5}',
    b'{"status": 5}',
    b'{"capabilities": 5}',
]


@pytest.fixture
async def stranger() -> AsyncIterator[tuple[Proxy, Memory]]:
    """One of them, with no server behind it, and a memory that was sent there."""
    async with Proxy(port=0) as proxy:
        memory = Memory("ana", connection=watched(proxy.url, "x", retries=0))
        yield proxy, memory
        await memory.close()


@pytest.mark.parametrize("text", STRANGERS, ids=bytes.decode)
@pytest.mark.parametrize("call", ["backup", "changes", "describe", "health", "export_journal", "verify"])
async def test_who_answers_everything_alike_is_not_taken_for_a_server(
    stranger: tuple[Proxy, Memory], tmp_path: Path, call: str, text: bytes
) -> None:
    proxy, memory = stranger
    media_type = b"text/html" if text.startswith(b"<") else b"application/json"
    proxy.choose = lambda _: plain(200, text, media_type)

    async def followed() -> None:
        async for _ in memory.changes(since=0):
            pass

    calls: dict[str, Callable[[], Awaitable[object]]] = {
        "backup": lambda: memory.backup(tmp_path / "copy.db"),
        "changes": followed,
        "describe": memory.describe,
        "health": memory.health,
        "export_journal": lambda: memory.export_journal(tmp_path / "journal"),
        "verify": memory.verify,
    }
    async with asyncio.timeout(10):
        with pytest.raises(InternalError) as refused:
            await calls[call]()
    assert refused.value.reason == "bad_answer"
    assert await asyncio.to_thread(lambda: list(tmp_path.iterdir())) == []
