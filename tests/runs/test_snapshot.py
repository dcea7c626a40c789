"""What a run sees was decided in the commit that opened it: whatever happens in whatever order, and by whomever."""

import asyncio
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import count
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from quipu.errors import InvalidError
from quipu.memory.operations import FORGET, RECALL, REMEMBER, UPDATE
from quipu.model.principal import Principal, local
from quipu.operation import AnyOperation
from quipu.runs import operations as ops
from tests.governance.office import Office, open_office
from tests.requirement import requirement

LIFE_MS = 15
STEPS = st.lists(
    st.tuples(
        st.sampled_from(
            ["put", "put_short", "put_in_run", "update", "delete", "erase", "open", "end", "branch", "replay", "tick"]
        ),
        st.integers(0, 7),
    ),
    min_size=4,
    max_size=24,
)  # fmt: skip


@dataclass
class Written:
    """A version of an entry as the model knows it: from one moment of the model to another."""

    id: str
    content: str
    born: int
    died: int | None = None
    expires_at: int | None = None
    is_erased: bool = False


@dataclass
class World:
    """A tenant, and what the model knows of it."""

    office: Office
    who: Principal
    moment: int = 0
    written: list[Written] = field(default_factory=list[Written])
    #: Runs, the moments that they see, and whether they are over.
    runs: dict[str, tuple[int, bool]] = field(default_factory=dict[str, tuple[int, bool]])
    names: Iterator[int] = field(default_factory=count)

    async def __call__(self, operation: AnyOperation, /, **fields: Any) -> Any:
        return await self.office(operation, self.who, **fields)

    def _is_seen(self, one: Written, moment: int) -> bool:
        is_current = one.born <= moment and (one.died is None or one.died > moment)
        is_there = not one.is_erased and (one.expires_at is None or one.expires_at > self.office.clock.now)
        return is_current and is_there

    def expected(self, moment: int) -> list[str]:
        """By what they say: an id says nothing of the version."""
        return sorted(one.content for one in self.written if self._is_seen(one, moment))

    def _alive(self, number: int) -> Written | None:
        return _chosen([one for one in self.written if self._is_seen(one, self.moment)], number)

    def _open_run(self, number: int) -> str | None:
        return _chosen([run for run, (_, is_over) in self.runs.items() if not is_over], number)

    async def step(self, name: str, number: int) -> None:
        self.moment += 1
        await getattr(self, f"do_{name}")(number)

    async def do_put(self, _: int, *, life: int | None = None, **more: Any) -> None:
        content = f"entry number {next(self.names)}"
        until = {} if life is None else {"expires_at": self.office.clock.now + life}
        entry = {"content": content, **until}
        kept = (await self(ops.PUT_ENTRY, memory_ref="agent", entry=entry, **more)).entry
        self.written.append(Written(kept.id, content, self.moment, expires_at=until.get("expires_at")))

    async def do_put_short(self, number: int) -> None:
        await self.do_put(number, life=LIFE_MS)

    async def do_put_in_run(self, number: int) -> None:
        if (run := self._open_run(number)) is not None:
            await self.do_put(number, run_id=run, node_id="n")

    async def do_update(self, number: int) -> None:
        if (one := self._alive(number)) is not None:
            content = f"changed number {next(self.names)}"
            await self(UPDATE, id=one.id, content=content)
            one.died = self.moment
            self.written.append(Written(one.id, content, self.moment, expires_at=one.expires_at))

    async def do_delete(self, number: int) -> None:
        if (one := self._alive(number)) is not None:
            run = self._open_run(number) if number % 2 else None
            by = {} if run is None else {"run_id": run}
            assert (await self(ops.DELETE_ENTRY, memory_ref="agent", id=one.id, **by)).deleted
            one.died = self.moment
        for other in self.written[-2:]:
            if not any(self._is_seen(one, self.moment) for one in self.written if one.id == other.id):
                assert not (await self(ops.DELETE_ENTRY, memory_ref="agent", id=other.id)).deleted

    async def do_erase(self, number: int) -> None:
        if (one := self._alive(number)) is not None:
            await self(FORGET, ids=[one.id], hard_delete=True)
            for other in self.written:
                other.is_erased |= other.id == one.id

    async def do_open(self, _: int) -> None:
        run = await self(ops.OPEN_RUN, workflow_id="w")
        self.runs[run.id] = (self.moment, False)

    async def do_end(self, number: int) -> None:
        if (run := self._open_run(number)) is not None:
            await self(ops.END_RUN, run_id=run)
            self.runs[run] = (self.runs[run][0], True)

    async def do_branch(self, number: int) -> None:
        if (run := _chosen(list(self.runs), number)) is not None:
            made = (await self(ops.FORK_RUN, run_id=run, mode="branch", from_seq=0)).run
            self.runs[made.id] = (self.runs[run][0], False)

    async def do_replay(self, number: int) -> None:
        over = [run for run, (_, is_over) in self.runs.items() if is_over]
        if (run := _chosen(over, number)) is not None:
            made = (await self(ops.FORK_RUN, run_id=run)).run
            logs = [(await self(ops.LIST_RUN_EVENTS, run_id=one)).events for one in (run, made.id)]
            told = [[(one.type, one.payload, one.node_id, one.at) for one in log] for log in logs]
            assert told[0] == told[1]
            self.runs[made.id] = (self.runs[run][0], True)

    async def do_tick(self, number: int) -> None:
        self.office.clock.now += 1 + 4 * number
        await self.office.container.memory.expire.sweep(self.who.tenant, self.office.clock.now)

    async def check(self) -> None:
        assert await self._listed() == self.expected(self.moment)
        for run, (moment, _) in self.runs.items():
            expected = self.expected(moment)
            assert await self._listed(run_id=run) == expected
            found = await self(RECALL, query="entry changed number", k=100, min_relevance="off", as_of=run)
            assert sorted(hit.content for hit in found) == expected
            for one in self.written[-3:]:
                entry = (await self(ops.GET_ENTRY, memory_ref="agent", id=one.id, run_id=run)).entry
                seen = [
                    other.content
                    for other in self.written
                    if other.id == one.id and self._is_seen(other, moment)
                ]
                assert ([] if entry is None else [entry.content]) == seen
            events = (await self(ops.LIST_RUN_EVENTS, run_id=run)).events
            assert [event.sequence for event in events] == list(range(len(events)))
        report = await self.office.container.audit.verifier.tenant(self.who.tenant)
        assert report.faults == ()

    async def _listed(self, **fields: Any) -> list[str]:
        found = await self(ops.LIST_ENTRIES, memory_ref="agent", options={"limit": 500}, **fields)
        return sorted(one.content for one in found.entries)


def _chosen(things: list[Any], number: int) -> Any:
    return things[number % len(things)] if things else None


@requirement("openwop:snapshot.interleavings")
def test_whatever_happens_in_whatever_order_a_run_sees_what_it_saw_at_its_start() -> None:
    tenants = count(1)
    with asyncio.Runner() as runner:
        office = runner.run(open_office())

        async def played(steps: list[tuple[str, int]]) -> None:
            world = World(office, local(f"world-{next(tenants)}", agent_id="agent"))
            for name, number in steps:
                await world.step(name, number)
            await world.check()

        @settings(suppress_health_check=list(HealthCheck), deadline=None)
        @given(STEPS)
        def play(steps: list[tuple[str, int]]) -> None:
            runner.run(played(steps))

        try:
            play()
        finally:
            runner.run(office.container.close())


@requirement("openwop:snapshot.interleavings")
async def test_writers_beside_it_put_nothing_below_a_snapshot_that_was_taken(any_office: Office) -> None:
    office = any_office
    is_over = asyncio.Event()

    async def write(who: int) -> None:
        for number in count():
            if is_over.is_set():
                return
            await office(REMEMBER, content=f"{who} {number}")

    async def listed(run: str) -> list[str]:
        request = {"memory_ref": "agent", "options": {"limit": 500}, "run_id": run}
        return [one.id for one in (await office(ops.LIST_ENTRIES, **request)).entries]

    writers = [asyncio.create_task(write(who)) for who in range(4)]
    seen: dict[str, list[str]] = {}
    for _ in range(6):
        run = (await office(ops.OPEN_RUN, workflow_id="w")).id
        seen[run] = await listed(run)
    is_over.set()
    await asyncio.gather(*writers)
    assert len({len(entries) for entries in seen.values()}) > 1, "nobody wrote in between"
    for run, entries in seen.items():
        assert await listed(run) == entries


@requirement("openwop:snapshot.order")
async def test_equal_times_of_creation_do_not_blur_a_snapshot(office: Office) -> None:
    """The clock of these tests stands still."""
    put = lambda text: office(ops.PUT_ENTRY, memory_ref="agent", entry={"content": text})  # noqa: E731
    first, second = [(await put(text)).entry.id for text in ("one", "two")]
    run = (await office(ops.OPEN_RUN, workflow_id="w")).id
    third = (await put("three")).entry.id

    async def ids(**fields: Any) -> list[str]:
        return [one.id for one in (await office(ops.LIST_ENTRIES, memory_ref="agent", **fields)).entries]

    assert await ids(run_id=run) == [second, first]
    assert await ids() == [third, second, first]
    page = await office(ops.LIST_ENTRIES, memory_ref="agent", options={"limit": 2})
    more = await office(ops.LIST_ENTRIES, memory_ref="agent", cursor=page.next_cursor)
    assert [one.id for one in (*page.entries, *more.entries)] == [third, second, first]


@requirement("openwop:snapshot.expiry")
async def test_expiry_reaches_into_a_run_its_replay_and_its_branch_to_the_millisecond(office: Office) -> None:
    until = office.clock.now + 100
    entry = {"content": "gone soon", "expires_at": until}
    kept = (await office(ops.PUT_ENTRY, memory_ref="agent", entry=entry)).entry
    assert kept.expires_at == until
    run = (await office(ops.OPEN_RUN, workflow_id="w")).id
    await office(ops.END_RUN, run_id=run)
    runs = [run, (await office(ops.FORK_RUN, run_id=run)).run.id]
    runs.append((await office(ops.FORK_RUN, run_id=run, mode="branch", from_seq=0)).run.id)

    async def seen(run: str) -> list[bool]:
        listed = (await office(ops.LIST_ENTRIES, memory_ref="agent", run_id=run)).entries
        got = (await office(ops.GET_ENTRY, memory_ref="agent", id=kept.id, run_id=run)).entry
        recalled = [hit.id for hit in await office(RECALL, query="gone soon", as_of=run)]
        return [bool(listed), got is not None, kept.id in recalled]

    office.clock.now = until - 1
    assert [await seen(run) for run in runs] == [[True] * 3] * 3
    office.clock.now = until
    assert [await seen(run) for run in runs] == [[False] * 3] * 3


@requirement("openwop:erasure")
async def test_what_is_erased_is_in_no_snapshot_variable_fork_tag_and_repeated_answer(
    any_office: Office,
) -> None:
    office = any_office
    put = {"memory_ref": "agent", "entry": {"content": "the secret recipe", "tags": ["recipe"]}}
    run = (await office(ops.OPEN_RUN, workflow_id="w")).id
    request = {**put, "run_id": run, "idempotency_key": "once"}
    kept = (await office(ops.PUT_ENTRY, **request)).entry
    shown = {"id": kept.id, "content": kept.content}
    await office(
        ops.RECORD_NODE, run_id=run, node_id="n", status="completed", variables={"read": shown, "other": 1}
    )
    await office(ops.END_RUN, run_id=run)
    replay = (await office(ops.FORK_RUN, run_id=run)).run.id
    later = (await office(ops.OPEN_RUN, workflow_id="w")).id
    assert "recipe" in str((await office(ops.LIST_RUN_EVENTS, run_id=run)).to_dict())
    await office(FORGET, ids=[kept.id], hard_delete=True)
    branch = (await office(ops.FORK_RUN, run_id=run, mode="branch", from_seq=4)).run.id
    for one in (run, replay, branch, later):
        view = await office(ops.GET_RUN, run_id=one)
        told = [view, await office(ops.LIST_RUN_EVENTS, run_id=one)]
        told.append(await office(ops.LIST_ENTRIES, memory_ref="agent", run_id=one))
        assert "recipe" not in str([part.to_dict() for part in told]), one
        if one != later:
            assert view.variables == {"read": None, "other": 1}
    with pytest.raises(InvalidError) as refused:  # the answer that was kept under the key is gone as well
        await office(ops.PUT_ENTRY, **request)
    assert refused.value.reason == "run_over"
    assert (await office.container.audit.verifier.tenant("default")).faults == ()
