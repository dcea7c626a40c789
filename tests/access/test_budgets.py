"""Rates and recall budgets, whatever the order of requests and whichever server answers."""

import asyncio
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from quipu.access.budgets import (
    HOUR_MS,
    RECALL_USES,
    Budgets,
    RecallUse,
    drawn,
    is_current,
    taken_from,
)
from quipu.access.model import TABLES
from quipu.access.operations import WHOAMI
from quipu.errors import BackendUnavailableError, QuotaExceededError, RateLimitedError
from quipu.ledger.driver import Driver
from quipu.ledger.ledger import Ledger
from quipu.memory import operations as memory_operations
from quipu.memory.scope import STORES
from quipu.model.principal import Permission, Principal, local
from quipu.operation import Context, Services
from tests.access.conftest import Access, over, refusal
from tests.fixtures.memories import START, Clock, TestMemory, Untraced, open_memory

BOT = Principal(tenant="default", name="bot", permissions=frozenset(Permission))
STEPS = st.lists(st.integers(0, 120_000), min_size=1, max_size=60)


# -- rates --------------------------------------------------------------------------------------------------------


@given(STEPS, st.integers(1, 30))
def test_no_minute_sees_more_than_twice_the_rate(steps: list[int], rate: int) -> None:
    """A full bucket and what flows in during the minute: no window of a minute can hold more."""
    bucket, now, let_in = None, 1_000_000, list[int]()
    for step in steps:
        now += step
        for _ in range(3):
            bucket, wait = taken_from(bucket, rate, now)
            if wait is None:
                let_in.append(now)
    for start in let_in:
        assert sum(start <= at < start + 60_000 for at in let_in) <= 2 * rate


@given(STEPS, st.integers(1, 600))
def test_who_waits_as_long_as_asked_is_let_in(steps: list[int], rate: int) -> None:
    bucket, now = None, 0
    for step in steps:
        now += step
        bucket, wait = taken_from(bucket, rate, now)
        if wait is not None:
            bucket, wait = taken_from(bucket, rate, now + wait * 1000)
            assert wait is None


async def test_a_credential_that_is_too_fast_waits_and_others_do_not(access: Access) -> None:
    server = over(access.ledger, access.clock, rate=3)
    bot, other = await server.new("bot", rate=2), await server.new("other")
    for _ in range(2):
        await server(WHOAMI, bot)
    with pytest.raises(RateLimitedError) as refused:
        await server(WHOAMI, bot)
    assert refused.value.retry_after_s == 30
    for _ in range(3):
        await server(WHOAMI, other)
    assert await refusal(server(WHOAMI, other)) == ("rate_limited", "request_rate")
    for _ in range(20):
        await server(WHOAMI)  # the person at the file
    access.clock.now += 30_000
    await server(WHOAMI, bot)


# -- recall budgets -------------------------------------------------------------------------------------------------


@given(
    st.lists(st.tuples(st.integers(0, 2 * HOUR_MS), st.integers(1, 300)), max_size=40), st.integers(1, 2000)
)
def test_no_hour_draws_more_than_the_limit(steps: list[tuple[int, int]], limit: int) -> None:
    use, now = RecallUse(principal="bot", agent_id="", since=0, used=0), START
    taken: dict[int, int] = {}
    for step, wanted in steps:
        now += step
        left = limit - taken.get(use.since, 0) if is_current(use.since, now) else limit
        use, count = drawn(use, limit, wanted, now)
        assert count >= min(wanted, left)
        taken[use.since] = taken.get(use.since, 0) + count
        assert taken[use.since] <= limit
        assert use.used == taken[use.since]


def test_an_hour_that_a_wrong_clock_began_is_not_waited_for() -> None:
    use = RecallUse(principal="bot", agent_id="", since=START + 2 * HOUR_MS, used=10)
    assert drawn(use, 10, 4, START) == (replace(use, since=START, used=4), 4)


class Server:
    """One server's budgets, and a context to reserve with."""

    def __init__(self, ledger: Ledger, clock: Clock, **given: Any) -> None:
        self.budgets = Budgets(ledger, rate=0, **{"recall_budget": 0, **given})
        self.clock = clock
        self.services = Services.of((), self.budgets, Untraced())

    async def take(
        self, count: int, spend: int | None = None, who: Principal = BOT, agent: str | None = "ana"
    ) -> int:
        """How many were allowed."""
        ctx = Context(who, self.clock, self.services)
        async with self.budgets.reserved(ctx, agent, count) as allowed:
            assert allowed.is_cut == (allowed.count < count)
            allowed.spend(allowed.count if spend is None else min(spend, allowed.count))
            return allowed.count


async def test_a_recall_is_cut_to_what_is_left_and_gives_back_the_rest(access: Access) -> None:
    server = Server(access.ledger, access.clock, recall_budget=10)
    assert await server.take(8, spend=3) == 8
    assert await server.budgets.left(BOT, access.clock()) == 7
    assert await server.take(5) == 5
    assert await server.take(5) == 2, "cut"
    with pytest.raises(QuotaExceededError) as refused:
        await server.take(5)
    wait = refused.value.retry_after_s
    assert wait is not None
    assert 0 < wait <= 3600
    access.clock.now += int(wait * 1000)
    assert await server.take(20) == 10


async def test_what_fails_is_given_back_whole(access: Access) -> None:
    server = Server(access.ledger, access.clock, recall_budget=10)
    ctx = Context(BOT, access.clock, server.services)
    with pytest.raises(ZeroDivisionError):
        async with server.budgets.reserved(ctx, "ana", 10):
            raise ZeroDivisionError
    assert await server.take(10) == 10


async def test_budgets_count_per_credential_and_per_agent(access: Access) -> None:
    server = Server(access.ledger, access.clock, recall_budget=10)
    other = replace(BOT, name="other")
    assert await server.take(6) == 6
    assert await server.take(6, who=other) == 4, "the agent's memories were given to both"
    assert await server.take(9, who=other, agent="bo") == 6, "the credential's own budget"
    assert await refusal(server.take(1, who=other, agent="carl")) == ("quota_exceeded", "recall_budget")
    assert await server.take(9, agent="carl") == 4
    rows = await access.ledger.page(RECALL_USES, "default")
    assert len(rows) == 5  # two credentials, three agents
    assert all(row.used <= 10 for row in rows)
    assert not {"ana", "bo", "carl"} & {row.agent_id for row in rows}, "an agent's name may hold a secret"


async def test_a_credential_may_have_its_own_budget(access: Access) -> None:
    server = Server(access.ledger, access.clock, recall_budget=10)
    large, small = replace(BOT, name="large", recall_budget=30), replace(BOT, name="small", recall_budget=2)
    assert await server.take(50, who=large) == 30
    assert await server.take(5, who=small, agent="bo") == 2
    unlimited = Server(access.ledger, access.clock)
    assert await unlimited.take(1000, who=replace(BOT, name="free")) == 1000
    assert await unlimited.take(5, who=replace(BOT, name="own", recall_budget=2)) == 2
    assert await unlimited.budgets.left(replace(BOT, name="free"), access.clock()) is None


async def test_local_use_is_not_counted_and_writes_nothing(access: Access) -> None:
    server = Server(access.ledger, access.clock, recall_budget=2)
    for _ in range(5):
        assert await server.take(100, who=local()) == 100
    assert await server.take(0) == 0
    assert await access.ledger.page(RECALL_USES, "default") == []


async def test_servers_share_a_budget_and_never_exceed_it(new_driver: Callable[[], Driver]) -> None:
    ledgers = [Ledger(new_driver(), TABLES) for _ in range(2)]
    clock = Clock()
    servers = [Server(one, clock, recall_budget=200) for one in ledgers]

    async def all_it_gets(server: Server) -> int:
        got = 0
        try:
            while True:
                got += await server.take(7)
        except QuotaExceededError:
            return got

    got = await asyncio.gather(*(all_it_gets(servers[number % 2]) for number in range(6)))
    assert sum(got) == 200
    for one in ledgers:
        await one.close()


async def test_what_was_taken_of_an_hour_ends_with_that_hour_on_every_server(access: Access) -> None:
    first, second = (Server(access.ledger, access.clock, recall_budget=500) for _ in range(2))
    await first.take(1)  # the hour begins
    access.clock.now += HOUR_MS // 2
    await second.take(1)  # it takes a part, and has nine left
    access.clock.now += HOUR_MS // 2
    assert await first.take(1000) == 500
    assert await refusal(second.take(9)) == ("quota_exceeded", "recall_budget")


async def test_a_server_takes_parts_so_that_few_recalls_write(access: Access) -> None:
    server = Server(access.ledger, access.clock, recall_budget=20_000)
    revised: list[str] = []
    revise = access.ledger.revise

    async def counted(tenant: str, table: Any, work: Any) -> Any:
        revised.append(tenant)
        return await revise(tenant, table, work)

    object.__setattr__(access.ledger, "revise", counted)
    for _ in range(80):
        assert await server.take(5) == 5
    assert len(revised) == 1


async def test_a_server_that_stops_gives_back_what_it_has_not_given_out(access: Access) -> None:
    clock = access.clock
    first, second = (Server(access.ledger, clock, recall_budget=500) for _ in range(2))
    assert await first.take(3) == 3
    row = await access.ledger.get(RECALL_USES, "default", "bot", "")
    assert row is not None
    assert row.used == 10
    await first.budgets.close()
    row = await access.ledger.get(RECALL_USES, "default", "bot", "")
    assert row is not None
    assert row.used == 3
    assert await second.take(1000) == 497


async def test_while_the_ledger_cannot_be_written_a_server_counts_for_itself(access: Access) -> None:
    """A full disk stops writes, not reads."""
    server = Server(access.ledger, access.clock, recall_budget=10)
    assert await server.take(3) == 3

    async def full(*_: Any) -> Any:
        raise BackendUnavailableError(reason="disk_full")

    object.__setattr__(access.ledger, "revise", full)
    assert await server.take(4) == 4
    assert await server.take(9) == 3
    assert await refusal(server.take(1)) == ("quota_exceeded", "recall_budget")


async def test_many_recalls_at_once_are_not_refused_while_there_is_budget(access: Access) -> None:
    server = Server(access.ledger, access.clock, recall_budget=1000)
    other = replace(BOT, name="other")
    got = await asyncio.gather(
        *(server.take(10, who=BOT if number % 2 else other, agent="ana") for number in range(100))
    )
    assert got == [10] * 100


@given(
    st.lists(
        st.tuples(
            st.integers(0, 1),
            st.integers(1, 40),
            st.integers(0, 40),
            st.sampled_from([0, 0, 0, 60_000, HOUR_MS]),
        ),
        max_size=30,
    )
)
def test_in_no_hour_more_is_spent_than_the_budget(asked: list[tuple[int, int, int, int]]) -> None:
    async def run() -> None:
        from quipu.ledger.sqlite.driver import SqliteDriver

        ledger = Ledger(SqliteDriver(":memory:"), TABLES)
        clock = Clock()
        servers = [Server(ledger, clock, recall_budget=100) for _ in range(2)]
        spent: dict[int, int] = {}
        for server, count, spend, later in asked:
            clock.now += later
            try:
                allowed = await servers[server].take(count, spend)
            except QuotaExceededError:
                continue
            row = await ledger.get(RECALL_USES, "default", "bot", "")
            assert row is not None
            spent[row.since] = spent.get(row.since, 0) + min(spend, allowed)
            assert spent[row.since] <= 100
        await ledger.close()

    asyncio.run(run())


# -- with memory ------------------------------------------------------------------------------------------------------


def with_budget(memory: TestMemory, count: int) -> TestMemory:
    """The same memory behind a budget for whoever is not local."""
    budgets = Budgets(memory.ledger, rate=0, recall_budget=count)
    service = replace(
        memory.service,
        recall=replace(memory.service.recall, budget=budgets),
        read=(read := replace(memory.service.read, budget=budgets)),
        related=replace(memory.service.related, read=read),
    )
    return replace(memory, service=service, services=Services.of(service.bindings, budgets, Untraced()))


async def test_recall_get_list_and_history_draw_on_one_budget() -> None:
    memory = with_budget(open_memory(tables=(STORES, *TABLES)), 6)
    ids = [
        (await memory(memory_operations.REMEMBER, content=f"tea number {number}")).id for number in range(4)
    ]
    bot = memory.named(name="bot")
    recall = {"query": "tea number", "min_relevance": 0.0}
    answer = await memory(memory_operations.RECALL, bot, k=3, **recall)
    assert (len(answer.results), answer.budget_cut) == (3, False)
    await memory(memory_operations.GET, bot, id=ids[0])
    answer = await memory(memory_operations.RECALL, bot, k=3, **recall)
    assert (len(answer.results), answer.budget_cut) == (2, True)
    for operation, fields in (
        (memory_operations.RECALL, recall),
        (memory_operations.GET, {"id": ids[0]}),
        (memory_operations.LIST, {}),
        (memory_operations.HISTORY, {"id": ids[0]}),
        (memory_operations.RELATED, {"id": ids[0]}),
    ):
        assert await refusal(memory(operation, bot, **fields)) == ("quota_exceeded", "recall_budget")
    assert len((await memory(memory_operations.RECALL, k=3, **recall)).results) == 3, "local use goes on"
    await memory.close()
