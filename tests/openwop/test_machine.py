"""Random interleavings of runs, writes, deletes, expiries, erasures, compactions and forks, held against a model.

The model is a list of what was written and when it ended; what a run sees follows from the moment it began.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import count
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from quipu.model.operations import ForgetRequest
from quipu.model.runs import ForkMode, Run
from quipu.service.runs_forking import ForkRequest
from quipu.testing.builders import FixedClock
from tests.openwop.hosts import REF, Host, hosted
from tests.requirement import requirement

#: What may happen, and a number that chooses among what is there.
STEPS = st.lists(
    st.tuples(
        st.sampled_from(
            ["put", "put", "put_in_run", "put_short", "delete", "open", "open", "branch", "replay", "end", "tick",
             "erase", "compact"]
        ),
        st.integers(0, 7),
    ),
    min_size=4,
    max_size=24,
)  # fmt: skip
LIFE_MS = 15
_tenants = count(1)


@dataclass
class Written:
    """An entry as the model knows it: from one moment of the model to another."""

    id: str
    born: int
    died: int | None = None
    expires_at: int | None = None
    is_erased: bool = False
    #: What it was made of.
    sources: tuple[str, ...] = ()


@dataclass
class World:
    """A tenant, and what the model knows of it."""

    host: Host
    moment: int = 0
    written: list[Written] = field(default_factory=list)
    #: Runs, and the moments that they see.
    runs: dict[str, tuple[Run, int]] = field(default_factory=dict)
    names: Iterator[int] = field(default_factory=count)

    def alive(self) -> list[Written]:
        return [one for one in self.written if self._is_seen(one, self.moment)]

    def _is_seen(self, one: Written, moment: int) -> bool:
        is_current = one.born <= moment and (one.died is None or one.died > moment)
        is_there = not one.is_erased and (one.expires_at is None or one.expires_at > self.host.clock())
        return is_current and is_there

    def expected(self, moment: int) -> list[str]:
        return [one.id for one in reversed(self.written) if self._is_seen(one, moment)]

    def chosen(self, things: list[Any], number: int) -> Any:
        return things[number % len(things)] if things else None

    async def step(self, name: str, number: int) -> None:
        self.moment += 1
        await getattr(self, f"do_{name}")(number)

    async def do_put(self, _: int, run: Run | None = None, life: int | None = None) -> None:
        until = None if life is None else self.host.clock() + life
        given: dict[str, Any] = {} if until is None else {"expiresAt": _stamp(until)}
        name = await self.host.put(f"entry number {next(self.names)}", run=run, node_id=run and "n", **given)
        self.written.append(Written(name, self.moment, expires_at=until))

    async def do_put_short(self, number: int) -> None:
        await self.do_put(number, life=LIFE_MS)

    async def do_put_in_run(self, number: int) -> None:
        run = self.chosen([run for run, _ in self.runs.values() if not run.status.is_over], number)
        if run is not None:
            await self.do_put(number, run)
            assert (await self.host.types(run))[-1] == "memory.written"

    async def do_delete(self, number: int) -> None:
        one = self.chosen(self.written, number)
        if one is not None:
            is_there = one in self.alive()
            assert await self.host.delete(one.id) is is_there
            if is_there:
                one.died = self.moment

    async def do_erase(self, number: int) -> None:
        one = self.chosen(self.written, number)
        if one is None:
            return
        request = ForgetRequest(agent_id=REF, ids=(one.id,), hard_delete=True)
        await self.host.service.forget(self.host.principal, request)
        gone = {one.id}
        for other in self.written:
            if other.id in gone or gone & set(other.sources):
                other.is_erased = True
                gone.add(other.id)

    async def do_compact(self, _: int) -> None:
        sources = self.alive()
        made = await self.host.service.runs.deriving.compact(self.host.principal, REF)
        assert (made is None) == (len(sources) < 2)
        if made is None:
            return
        for one in sources:
            one.died = self.moment
        ends = [one.expires_at for one in sources if one.expires_at is not None]
        names = tuple(one.id for one in sources)
        self.written.append(
            Written(made.record.id, self.moment, expires_at=min(ends, default=None), sources=names)
        )

    async def do_open(self, _: int) -> None:
        run = await self.host.open()
        self.runs[run.id] = (run, self.moment)

    async def do_end(self, number: int) -> None:
        run = self.chosen([run for run, _ in self.runs.values() if not run.status.is_over], number)
        if run is not None:
            ended = await self.host.complete(run)
            self.runs[run.id] = (ended, self.runs[run.id][1])

    async def do_branch(self, number: int) -> None:
        found = self.chosen(list(self.runs.values()), number)
        if found is not None:
            run = await self._fork(found[0], ForkMode.BRANCH)
            assert run.view == found[0].view
            self.runs[run.id] = (run, found[1])

    async def do_replay(self, number: int) -> None:
        run = self.chosen([run for run, _ in self.runs.values() if run.status.is_over], number)
        if run is not None:
            before = [version.id for version in await self._versions()]
            copy = await self._fork(run, ForkMode.REPLAY)
            assert [version.id for version in await self._versions()] == before
            source, told = await self.host.events(run), await self.host.events(copy)
            assert [(e.type, e.payload, e.node_id, e.at) for e in told] == [
                (e.type, e.payload, e.node_id, e.at) for e in source
            ]

    async def do_tick(self, number: int) -> None:
        self.host.clock.move(1 + 4 * number)
        await self.host.service.sweep(self.host.principal)

    async def _fork(self, run: Run, mode: ForkMode) -> Run:
        request = ForkRequest(run_id=run.id, mode=mode)
        return (await self.host.service.runs.fork(self.host.principal, request)).run

    async def _versions(self) -> list[Any]:
        ledger = self.host.running.parts.ledger
        return [version async for version in ledger.every_version(self.host.principal.tenant)]

    async def check(self) -> None:
        assert await self.host.list(limit=500) == self.expected(self.moment)
        for run, moment in self.runs.values():
            expected = self.expected(moment)
            assert await self.host.list(run=run, limit=500) == expected
            for one in self.written[-3:]:
                found = await self.host.get(one.id, run=run)
                assert (found is not None) == (one.id in expected)
            ranked = await self.host.list(run=run, limit=500, query="entry number")
            assert sorted(ranked) == sorted(expected)
            events = await self.host.events(run)
            assert [event.sequence for event in events] == list(range(len(events)))


def _stamp(at: int) -> str:
    from quipu.rules.runs_wire import stamp

    return stamp(at)


@requirement("openwop:snapshot.interleavings")
@pytest.mark.parametrize("ledger", ["sqlite", "postgres"])
def test_whatever_happens_in_whatever_order_a_run_sees_what_it_saw_at_its_start(
    ledger: str, request: pytest.FixtureRequest
) -> None:
    url = "sqlite://:memory:" if ledger == "sqlite" else request.getfixturevalue("postgres_url")
    with asyncio.Runner() as runner:
        host = runner.run(hosted(url, FixedClock()))

        async def played(steps: list[tuple[str, int]]) -> None:
            world = World(await host.of(f"world-{next(_tenants)}"))
            for name, number in steps:
                await world.step(name, number)
            await world.check()

        @settings(
            max_examples=40 if ledger == "sqlite" else 15,
            suppress_health_check=list(HealthCheck),
            deadline=None,
        )
        @given(STEPS)
        def play(steps: list[tuple[str, int]]) -> None:
            runner.run(played(steps))

        try:
            play()
        finally:
            runner.run(host.close())
