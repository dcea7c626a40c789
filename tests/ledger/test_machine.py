"""Random histories: each ledger, through two objects on one file or database, against a model in plain Python."""

import asyncio
import shutil
import tempfile
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any, Protocol, TypeVar

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

from quipu.ledger.sqlite.ledger import SqliteLedger
from quipu.model.change import Close, Erase, Put
from quipu.model.journal import Op
from quipu.model.record import Ending, MemoryType, Record, State
from quipu.ports.ledger import Indexed, Ledger
from quipu.rules.texts import search_text
from quipu.testing.builders import SPACE, TENANT, CountedIds, FixedClock, Scribe, adding, canonical, vector
from quipu.testing.model import ModelLedger
from tests.ledger.postgres.opening import opened
from tests.postgres import Server

T = TypeVar("T")


class Place(Protocol):
    """Where a history is written."""

    def opened(self, clock: FixedClock, mark: str) -> Ledger: ...

    def leave(self) -> None: ...


AGENTS = ("ana", "bo")
USERS = (None, "u", "v")


class Histories(RuleBasedStateMachine):
    """Every rule changes both sides; every read must agree."""

    def __init__(self, place: Place) -> None:
        super().__init__()
        self.place = place
        self.runner = asyncio.Runner()
        self.clock = FixedClock()
        self.ids = CountedIds("r")
        self.model = ModelLedger()
        self.seq = 0
        self.drawn = 0
        self.scribes = [self.run(self.opened(number)) for number in range(2)]

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        return self.runner.run(work)

    async def opened(self, number: int) -> Scribe:
        ledger = self.place.opened(self.clock, str(number))
        return await Scribe.at(ledger, self.clock, self.ids)

    def teardown(self) -> None:
        try:
            self.look_back_at_every_position()
            self.check_files()
        finally:
            for scribe in self.scribes:
                self.run(scribe.ledger.close())
            self.runner.close()
            self.place.leave()

    def fresh_vector(self) -> bytes:
        self.drawn += 1
        return vector(self.drawn)

    def pick(self, data: st.DataObject, wanted: Callable[[Record], bool]) -> Record | None:
        """One of the records whose newest version is as wanted."""
        newest = [self.model.newest(record_id).record for record_id in self.model.ids]
        fitting = [record for record in newest if wanted(record)]
        return data.draw(st.sampled_from(fitting)) if fitting else None

    # -- rules --------------------------------------------------------------------------------------------------

    @initialize()
    def adopt(self) -> None:
        self.run(self.scribes[0].ledger.adopt_space(TENANT, SPACE))
        self.seq = 1

    @rule(
        which=st.integers(0, 1),
        agent=st.sampled_from(AGENTS),
        user=st.sampled_from(USERS),
        kind=st.sampled_from(MemoryType),
        life=st.sampled_from((None, 1, 2, 3)),
        has_vector=st.booleans(),
        number=st.integers(0, 2),
    )
    def remember(
        self,
        which: int,
        agent: str,
        user: str | None,
        kind: MemoryType,
        life: int | None,
        has_vector: bool,
        number: int,
    ) -> None:
        scribe = self.scribes[which]
        record = scribe.drafted(
            '"a word"',
            agent_id=agent,
            user_id=user,
            type=kind,
            metadata={"n": number},
            expires_at=None if life is None else self.clock() + life,
        )
        data = self.fresh_vector() if has_vector else None
        done = self.run(scribe.commit(adding(record, vector=data)))
        self.model.put(done.seq, record, data)
        self.seq = done.seq

    @precondition(lambda self: self.model.versions)
    @rule(which=st.integers(0, 1), data=st.data(), state=st.sampled_from((State.LIVE, State.ARCHIVED)))
    def change_or_restore(self, which: int, data: st.DataObject, state: State) -> None:
        before = self.pick(data, lambda record: not record.is_emptied)
        if before is None:
            return
        scribe = self.scribes[which]
        record = scribe.next_version(before, state=state, content='"another word"')
        given = self.fresh_vector() if state is State.LIVE else None
        done = self.run(scribe.commit(adding(record, vector=given, expects=before.version), op=Op.UPDATE))
        self.model.put(done.seq, record, given)
        self.seq = done.seq

    @precondition(lambda self: self.model.versions)
    @rule(which=st.integers(0, 1), data=st.data(), number=st.integers(0, 2))
    def change_beside_the_text(self, which: int, data: st.DataObject, number: int) -> None:
        before = self.pick(data, lambda record: not record.is_emptied and record.state is State.LIVE)
        if before is None:
            return
        scribe = self.scribes[which]
        record = scribe.next_version(before, metadata={"n": number})
        put = Put(record=record, expects=before.version, keeps_index=True)
        done = self.run(scribe.commit(put, op=Op.UPDATE))
        self.model.put(done.seq, record, None, keeps_index=True)
        self.seq = done.seq

    @precondition(lambda self: self.model.versions)
    @rule(
        which=st.integers(0, 1),
        data=st.data(),
        ending=st.sampled_from((Ending.FORGOTTEN, Ending.EXPIRED, Ending.MERGED)),
    )
    def close(self, which: int, data: st.DataObject, ending: Ending) -> None:
        record = self.pick(data, lambda record: record.died is None)
        if record is None:
            return
        into = self.model.ids[0] if ending is Ending.MERGED else None
        change = Close(record=record, ending=ending, merged_into=into)
        self.seq = self.run(self.scribes[which].commit(change, op=Op.FORGET)).seq
        self.model.close(self.seq, record.id, ending, into)

    @precondition(lambda self: self.model.versions)
    @rule(which=st.integers(0, 1), data=st.data())
    def erase(self, which: int, data: st.DataObject) -> None:
        record_id = data.draw(st.sampled_from(self.model.ids))
        self.seq = self.run(self.scribes[which].commit(Erase(id=record_id), op=Op.ERASE)).seq
        self.model.erase(self.seq, record_id)

    @precondition(lambda self: self.model.versions)
    @rule(which=st.integers(0, 1), data=st.data())
    def demote(self, which: int, data: st.DataObject) -> None:
        record = self.pick(data, lambda record: record.died is None)
        if record is not None:
            self.seq = self.run(self.scribes[which].demote(record)).seq
            self.model.demote(record.id)

    @precondition(lambda self: self.model.versions)
    @rule(which=st.integers(0, 1), data=st.data())
    def touch(self, which: int, data: st.DataObject) -> None:
        record_id = data.draw(st.sampled_from(self.model.ids))
        self.seq = self.run(self.scribes[which].touch(record_id)).seq
        self.model.touch(record_id, self.clock())

    @rule(which=st.integers(0, 1), data=st.data())
    def prune(self, which: int, data: st.DataObject) -> None:
        horizon = data.draw(st.integers(self.model.horizon, self.seq))
        pruned = self.run(self.scribes[which].ledger.prune(TENANT, horizon))
        self.seq += 1
        assert pruned == self.model.prune(horizon)

    @rule(milliseconds=st.integers(-1, 2))
    def move_the_clock(self, milliseconds: int) -> None:
        self.clock.move(milliseconds)

    @rule(which=st.integers(0, 1))
    def reopen(self, which: int) -> None:
        self.run(self.scribes[which].ledger.close())
        self.scribes[which] = self.run(self.opened(which))

    @rule(which=st.integers(0, 1), data=st.data())
    def look_back(self, which: int, data: st.DataObject) -> None:
        if self.seq >= self.model.horizon:
            self.compare_at(
                self.scribes[which], data.draw(st.integers(self.model.horizon, self.seq)), limits=(1, 3)
            )

    # -- comparisons --------------------------------------------------------------------------------------------

    @invariant()
    def the_present_agrees(self) -> None:
        scribe = self.scribes[self.drawn % 2]
        assert self.run(scribe.ledger.head(TENANT)).seq == max(self.seq, 1)
        for states in ({State.LIVE}, {State.FORGOTTEN, State.ARCHIVED}, set(State)):
            scanned = self.run(scribe.scanned(states=frozenset(states)))
            assert scanned == self.model.scanned(states, self.clock())
        assert self.run(scribe.ledger.marks(TENANT, self.model.ids)) == self.model.marks
        self.compare_at(scribe, None, limits=(2, 1000))

    def compare_at(self, scribe: Scribe, seq: int | None, limits: tuple[int, ...]) -> None:
        """A walk and searches at a position, with and without what narrows them."""
        now = self.clock()
        place = self.seq if seq is None else seq
        query = vector("query")
        for agent in AGENTS:
            for user in ("u", None):
                seen = self.model.visible(agent, place, now, user)
                scope = scribe.scope(agent, user_id=user)
                for limit in limits:
                    ranked = self.run(scribe.ranked(query, scope=scope, seq=seq, limit=limit))
                    assert ranked == self.model.nearest(query, seen, limit)
            found = self.run(scribe.search("word", scope=scribe.scope(agent), seq=seq, limit=1000))
            marks = self.model.marks
            assert {(c.id, c.version, c.is_demoted) for c in found.candidates} == {
                (v.record.id, v.record.version, v.record.id in marks and marks[v.record.id].is_demoted)
                for v in seen
            }
            assert found.in_reach == len(seen)
            narrow: dict[str, Any] = {"types": frozenset({MemoryType.SEMANTIC}), "filter": {"n": 1}}
            ranked = self.run(scribe.ranked(query, scope=scribe.scope(agent), seq=seq, limit=1, **narrow))
            fitting = [v for v in seen if v.record.type is MemoryType.SEMANTIC]
            fitting = [v for v in fitting if v.record.metadata == {"n": 1}]
            assert ranked == self.model.nearest(query, fitting, 1)
            scanned = self.run(scribe.scanned(agent_id=agent, seq=seq))
            assert scanned == sorted((v.record.id for v in seen), reverse=True)

    def look_back_at_every_position(self) -> None:
        for scribe in self.scribes:
            for record_id in self.model.ids:
                versions = [version.record for version in self.model.of(record_id)]
                assert self.run(scribe.ledger.versions(TENANT, record_id)) == versions
            for seq in range(self.model.horizon, self.seq + 1):
                self.compare_at(scribe, seq, limits=(2,))
                read = self.run(scribe.ledger.read(TENANT, self.model.ids, seq))
                assert read == {v.record.id: v.record for v in self.model.at(seq)}

    def check_files(self) -> None:
        for scribe in self.scribes:
            assert self.run(scribe.audit()) == []
        ledger = self.scribes[0].ledger
        assert self.run(ledger.integrity_faults()) == []
        expected = [
            Indexed(
                record=v.record,
                search_text=search_text(v.record) if v.is_searchable and not v.record.is_emptied else None,
            )
            for v in self.model.versions
        ]
        assert self.run(ledger.index_faults(TENANT, expected)) == []


class File:
    """A file that is gone afterwards."""

    def __init__(self) -> None:
        self._folder = Path(tempfile.mkdtemp())

    def opened(self, clock: FixedClock, mark: str) -> Ledger:
        path = self._folder / "memory.db"
        return SqliteLedger(path, clock=clock, mint_id=CountedIds(mark), canonical=canonical)

    def leave(self) -> None:
        shutil.rmtree(self._folder)


class Database:
    """A database that the next history finds empty."""

    def __init__(self, server: Server) -> None:
        self._url = server.cleared()

    def opened(self, clock: FixedClock, mark: str) -> Ledger:
        return opened(self._url, clock, mark)

    def leave(self) -> None:
        """It is cleared when it is next used."""


def run(place: Callable[[], Place], examples: int) -> None:
    chosen = settings(max_examples=examples, stateful_step_count=30)
    run_state_machine_as_test(lambda: Histories(place()), settings=chosen)


@pytest.mark.timeout(900)  # only a failure takes long: it is made as short as it can be
def test_histories_in_a_file() -> None:
    run(File, 25)


@pytest.mark.timeout(900)
def test_histories_in_a_database(postgres: Server) -> None:
    run(lambda: Database(postgres), 8)
