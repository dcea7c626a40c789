"""Any history, through two ledgers on one file or database, against a model that is a few dictionaries."""

import asyncio
import uuid
from collections.abc import Callable, Coroutine, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, TypeVar

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule, run_state_machine_as_test

from quipu.errors import ConflictError
from quipu.ledger.commit import Close, Demote, Drop, Erase, Keep, Put, Touch
from quipu.ledger.driver import Driver
from quipu.ledger.index import Known, Owner
from quipu.ledger.ledger import Ledger
from quipu.memory.scope import STORES
from quipu.model.search import Selection, Snapshot
from quipu.model.store import Store
from quipu.search.cache import Loaded
from tests.ledger.builders import commit, faults, put

R = TypeVar("R")
IDS = ["mem_1", "mem_2"]
STORE_IDS = ["ms_1", "ms_2"]
AGENT = Owner("agent", is_store=False)

_ids, _texts = st.sampled_from(IDS), st.sampled_from(("one", "two", "three"))
CHANGES: st.SearchStrategy[Any] = st.one_of(
    st.builds(
        lambda name, text, expects: put(name, text, expects, terms=b"12345"), _ids, _texts, st.integers(0, 2)
    ),
    st.builds(
        lambda name, expects: Close(id=name, expects=expects, ending="forgotten"), _ids, st.integers(1, 2)
    ),
    st.builds(lambda name: Erase(id=name), _ids),
    st.builds(lambda name, expects: Demote(id=name, expects=expects), _ids, st.integers(1, 2)),
    st.builds(lambda name, at: Touch(ids=(name,), at=at), _ids, st.integers(1, 9)),
    st.builds(
        lambda name, label, expects: Keep(STORES, Store(id=name, name=label, created_at=1), expects),
        st.sampled_from(STORE_IDS),
        st.sampled_from(("a", "b")),
        st.sampled_from((None, None, 0)),
    ),
    st.builds(lambda name: Drop(STORES, (name,)), st.sampled_from(STORE_IDS)),
)
CALLERS = st.lists(st.lists(CHANGES, min_size=1, max_size=3), min_size=1, max_size=4)


@dataclass
class Version:
    content: str
    born: int
    died: int | None = None
    is_erased: bool = False


@dataclass
class Model:
    """What should stand."""

    seq: int = 0
    versions: dict[str, list[Version]] = field(default_factory=dict[str, list[Version]])
    stores: dict[str, tuple[str, int]] = field(default_factory=dict[str, tuple[str, int]])
    demoted: set[str] = field(default_factory=set[str])
    recalls: dict[str, tuple[int, int]] = field(default_factory=dict[str, tuple[int, int]])
    horizon: int = 0

    def after(self, changes: Sequence[Any]) -> "Model":
        versions = {name: [Version(**vars(one)) for one in many] for name, many in self.versions.items()}
        new = Model(
            self.seq + 1, versions, dict(self.stores), set(self.demoted), dict(self.recalls), self.horizon
        )
        for change in changes:
            new.apply(change)
        return new

    def current(self, name: str, expects: int) -> Version:
        known = self.versions.get(name, [])
        if not known or known[-1].died is not None or len(known) != expects:
            raise ConflictError("no")
        return known[-1]

    def apply(self, change: Any) -> None:
        match change:
            case Put():
                known = self.versions.setdefault(change.record.id, [])
                if len(known) != change.expects or (known and known[-1].is_erased):
                    raise ConflictError("no")
                if known and known[-1].died is None:
                    known[-1].died = self.seq
                known.append(Version(change.record.content, self.seq))
                self.demoted.discard(change.record.id)
            case Close():
                self.current(change.id, change.expects).died = self.seq
            case Erase():
                for version in self.versions.get(change.id, []):
                    version.content, version.is_erased = "", True
                    version.died = version.died or self.seq
                self.demoted.discard(change.id)
                self.recalls.pop(change.id, None)
            case Demote():
                self.current(change.id, change.expects)
                self.demoted.add(change.id)
            case Touch():
                for name in change.ids:
                    known = self.versions.get(name)
                    if known and not known[-1].is_erased:
                        times, last = self.recalls.get(name, (0, 0))
                        self.recalls[name] = (times + 1, max(last, change.at))
            case Keep():
                held = {name: key for key, (name, _) in self.stores.items()}
                store = change.value
                if change.expects == 0 and store.id in self.stores:
                    raise ConflictError("no")
                if held.get(store.name, store.id) != store.id:
                    raise ConflictError("no")
                self.stores[store.id] = (store.name, self.seq)
            case Drop():
                if self.stores.pop(change.key[0], None) is None:
                    raise ConflictError("no")
            case _:
                raise AssertionError(change)

    def at(self, seq: int) -> dict[str, str]:
        return {
            name: version.content
            for name, many in self.versions.items()
            for version in many
            if version.born <= seq < (version.died or seq + 1) and not version.is_erased
        }

    def prune(self, horizon: int) -> None:
        self.seq += 1
        self.horizon = max(self.horizon, horizon)
        for many in self.versions.values():
            for version in many[:-1]:  # only what was replaced; the newest of each record stays
                is_replaced = version.died is not None and version is not many[-1]
                if is_replaced and (version.died or 0) <= horizon and _was_replaced(many, version):
                    version.content, version.is_erased = "", True


def _was_replaced(many: Sequence[Version], version: Version) -> bool:
    """It ended because the next one began, not by being forgotten."""
    return many[many.index(version) + 1].born == version.died


class Histories(RuleBasedStateMachine):
    """Every rule changes both sides; every read must agree."""

    ledgers: ClassVar[Sequence[Ledger]]
    runner: ClassVar[asyncio.Runner]

    def __init__(self) -> None:
        super().__init__()
        self.tenant, self.model = f"t{uuid.uuid4().hex}", Model()
        self.turn = 0
        #: What somebody who searches keeps in memory, followed by position.
        self.followers = [Loaded() for _ in self.ledgers]

    def run(self, work: Coroutine[Any, Any, R]) -> R:
        return self.runner.run(work)

    @property
    def ledger(self) -> Ledger:
        self.turn += 1
        return self.ledgers[self.turn % len(self.ledgers)]

    @rule(callers=CALLERS)
    def write(self, callers: list[list[Any]]) -> None:
        ledger = self.ledger

        async def together() -> list[Any]:
            commits = [commit(*changes, tenant=self.tenant) for changes in callers]
            return await asyncio.gather(*map(ledger.commit, commits), return_exceptions=True)

        for changes, told in zip(callers, self.run(together()), strict=True):
            try:
                self.model = self.model.after(changes)
            except ConflictError:
                assert isinstance(told, ConflictError), told
            else:
                assert told[0].seq == self.model.seq

    @rule(callers=st.lists(CHANGES, min_size=2, max_size=3))
    def write_all_or_none(self, callers: list[Any]) -> None:
        model = self.model
        try:
            for change in callers:
                model = model.after([change])
        except ConflictError:
            with pytest.raises(ConflictError):
                self.run(self.ledger.commit(*(commit(change, tenant=self.tenant) for change in callers)))
        else:
            done = self.run(self.ledger.commit(*(commit(change, tenant=self.tenant) for change in callers)))
            assert done[-1].seq == model.seq
            self.model = model

    @rule(back=st.integers(0, 6))
    def look_back(self, back: int) -> None:
        seq = max(self.model.horizon, self.model.seq - back)
        found = self.run(self.ledger.records(self.tenant, IDS, seq))
        assert {name: record.content for name, record in found.items()} == self.model.at(seq)

    @rule(back=st.integers(1, 8))
    def prune(self, back: int) -> None:
        horizon = max(0, self.model.seq - back)
        self.run(self.ledger.prune(self.tenant, horizon, "tester", 1000))
        self.model.prune(horizon)

    @invariant()
    def everything_stands_as_the_model_has_it(self) -> None:
        ledger = self.ledger
        kept = self.run(ledger.kept_page(STORES, self.tenant))
        assert {one.value.id: (one.value.name, one.seq) for one in kept} == self.model.stores
        for name, many in self.model.versions.items():
            versions = self.run(ledger.versions(self.tenant, name))
            assert [(one.content, one.born, one.died, one.is_emptied) for one in versions] == [
                (one.content, one.born, one.died, one.is_erased) for one in many
            ]
        marks = self.run(ledger.marks(self.tenant, IDS))
        assert {name for name, mark in marks.items() if mark.is_demoted} == self.model.demoted
        assert {
            name: (mark.recall_count, mark.last_recalled_at)
            for name, mark in marks.items()
            if mark.recall_count
        } == self.model.recalls
        walked = Selection(tenant=self.tenant)
        assert self.run(_ids_of(ledger, walked)) == sorted(self.model.at(self.model.seq), reverse=True)

    @invariant()
    def whoever_follows_has_what_whoever_reads_anew_has(self) -> None:
        """Rows, deaths, demotions: position by position, or all at once."""
        place = self.turn % len(self.ledgers)
        follower, ledger = self.followers[place], self.ledgers[place]
        news = self.run(ledger.read(self.tenant, lambda reader: reader.news(AGENT, follower.known)))
        if news is not None:
            follower.take_in(news)
        fresh = Loaded()
        whole = self.run(ledger.read(self.tenant, lambda reader: reader.news(AGENT, Known())))
        if whole is not None:
            fresh.take_in(whole)
        expected = {
            (name, number): (version.born, version.died, name in self.model.demoted)
            for name, many in self.model.versions.items()
            for number, version in enumerate(many, start=1)
            if not version.is_erased
        }
        assert _rows(fresh) == expected
        # What was pruned meanwhile may stand in memory until something else changes: no read goes back there.
        assert {key: row for key, row in _rows(follower).items() if key in expected} == expected

    def teardown(self) -> None:
        for ledger in self.ledgers:
            assert self.run(faults(ledger, self.tenant)) == []


async def _ids_of(ledger: Ledger, selection: Selection) -> list[str]:
    return [one.id async for one in ledger.scan(selection, Snapshot(None, 1))]


def _rows(loaded: Loaded) -> dict[tuple[str, int], tuple[int, int | None, bool]]:
    partition = loaded.partition
    keys = partition.keys(slice(None))
    born, died = partition["born"].tolist(), partition["died"].tolist()
    demoted = partition["is_demoted"].tolist()
    return {
        key: (born[row], None if died[row] > 2**60 else died[row], demoted[row])
        for row, key in enumerate(keys)
    }


@pytest.fixture
def prepared(new_driver: Callable[[], Driver], tables: Sequence[Any]) -> Iterator[None]:
    with asyncio.Runner() as Histories.runner:
        Histories.ledgers = [Ledger(new_driver(), tables) for _ in range(2)]
        yield
        for ledger in Histories.ledgers:
            Histories.runner.run(ledger.close())


@pytest.mark.usefixtures("prepared")
@pytest.mark.timeout(600)  # only a failure takes long: it is made as short as it can be
def test_histories(engine: str) -> None:
    examples = 12 if engine == "sqlite" else 6
    run_state_machine_as_test(Histories, settings=settings(max_examples=examples, stateful_step_count=20))
