"""Undoing an import: in pieces that can be gone on with, with its vectors, and never more than was its own."""

from __future__ import annotations

import json
from typing import Any

import pytest

from quipu.errors import BackendUnavailableError
from quipu.model.search import Context, Restriction, Scope, Search, Snapshot
from quipu.ports.ledger import Ledger
from quipu.service import import_undoing
from quipu.testing.embedders import WordEmbedder
from tests.exchange.conftest import ADMIN, WRITER, Host
from tests.exchange.test_incremental import goes_on
from tests.exchange.test_tombstones import OWNER, Pair, pair
from tests.requirement import requirement

__all__ = ["pair"]


def ledger_of(host: Host) -> Ledger:
    return host.service._parts.ledger


def facts(count: int) -> str:
    memories = [{"id": f"m{number:03}", "memory": f"Fact number {number}"} for number in range(count)]
    return json.dumps({"results": memories})


async def nearest(host: Host, text: str) -> dict[str, float]:
    """Ids and cosines that a search by vector alone comes back with."""
    ledger, embedder = ledger_of(host), WordEmbedder()
    head = await ledger.head("default")
    found = await ledger.search(
        Search(
            scope=Scope(tenant="default", agent_id="ana"),
            snapshot=Snapshot(None, head.at),
            restriction=Restriction(),
            text="",
            vector=embedder.vector(text),
            limit=50,
            model=embedder.model,
            context=Context(),
        )
    )
    return {one.id: one.cosine for one in found.candidates if one.cosine is not None}


@requirement("moving:import.rollback")
async def test_the_vectors_of_what_is_undone_go_with_it(host: Host) -> None:
    kept = await host.memory.remember("Ana likes figs")
    report = await host.into(facts(3))
    assert set(await nearest(host, "Fact number 1")) == {kept.id, "m000", "m001", "m002"}
    await host.memory.roll_back_import(report.import_id)
    assert set(await nearest(host, "Fact number 1")) == {kept.id}, "no vector finds what is undone"
    before = (await host.service.upkeep.statistics(ADMIN))["vectors"]
    await host.service.upkeep.vacuum(ADMIN, keep_history_days=0)
    after = (await host.service.upkeep.statistics(ADMIN))["vectors"]
    assert (before, after) == (4, 1), "and with its history it leaves the file"


@requirement("moving:import.rollback")
async def test_what_an_import_changed_is_found_by_the_vector_it_had(pair: Pair) -> None:
    edited = await pair.one.memory.remember("Tom likes jam")
    gone = await pair.one.memory.remember("Ana wants figs")
    base, _ = await pair.one.out(owner=OWNER)
    await pair.other.into(base, keys=await pair.one.keys())
    before = await nearest(pair.other, "Tom likes jam")
    assert before[edited.id] == pytest.approx(1.0, abs=1e-4)
    pair.clock.move(1000)
    await pair.one.memory.remember("Bees make honey", id=edited.id)
    await pair.one.memory.forget(ids=[gone.id])
    _, report = await goes_on(pair, base)
    during = await nearest(pair.other, "Tom likes jam")
    assert during[edited.id] < 0.9
    assert gone.id not in during
    await pair.other.memory.roll_back_import(report.import_id)
    assert await nearest(pair.other, "Tom likes jam") == pytest.approx(before, abs=1e-4)


class Breaking:
    """A ledger whose so-manieth commit does not happen."""

    def __init__(self, ledger: Any, after: int) -> None:
        self._ledger, self._left = ledger, after
        self.most_read = 0

    def __getattr__(self, name: str) -> Any:
        return getattr(self._ledger, name)

    async def commit(self, *commits: Any, **given: Any) -> Any:
        self._left -= 1
        if self._left < 0:
            raise BackendUnavailableError("The power is gone.")
        return await self._ledger.commit(*commits, **given)

    async def read(self, tenant: str, ids: Any, *given: Any) -> Any:
        self.most_read = max(self.most_read, len(ids))
        return await self._ledger.read(tenant, ids, *given)


def broken(host: Host, monkeypatch: pytest.MonkeyPatch, after: int) -> Breaking:
    """What undoes imports now stands on a ledger that breaks."""
    imports = host.service.imports
    parts = imports._parts
    breaking = Breaking(parts.ledger, after)
    fields = {name: getattr(parts, name) for name in parts.__slots__}
    made = type(parts)(**{**fields, "ledger": breaking})
    monkeypatch.setattr(imports, "_parts", made)
    monkeypatch.setattr(imports._undoing, "_parts", made)
    return breaking


@requirement("moving:import.rollback")
@pytest.mark.parametrize("after", [0, 1, 3])
async def test_one_that_was_stopped_in_the_middle_is_gone_on_with(
    host: Host, monkeypatch: pytest.MonkeyPatch, after: int
) -> None:
    await host.memory.remember("Was here before")
    before = await host.contents()
    report = await host.into(facts(10))
    monkeypatch.setattr(import_undoing, "STRETCH", 3)
    with monkeypatch.context() as patch:
        breaking = broken(host, patch, after)
        with pytest.raises(BackendUnavailableError):
            await host.memory.roll_back_import(report.import_id)
        assert breaking.most_read == 3, "never more than a stretch is held"
    (state,) = await host.memory.imports()
    assert not state.is_rolled_back, "half of it is not all of it"
    assert len(await host.contents()) == 11 - 3 * after
    undone = await host.memory.roll_back_import(report.import_id)
    assert (undone.forgotten, undone.kept) == (10 - 3 * after, ())
    assert await host.contents() == before
    assert (await host.memory.imports())[0].is_rolled_back
    assert (await host.memory.verify()).holds


@requirement("moving:import.rollback")
async def test_what_waits_is_dropped_in_pieces_and_before_all_is_called_undone(
    host: Host, monkeypatch: pytest.MonkeyPatch
) -> None:
    lines = "\n".join(f"Ana likes the number {number}" for number in range(7))
    report = await host.into(lines, WRITER, format=None)
    assert report.quarantined == 7
    monkeypatch.setattr("quipu.service.import_register._WAITING", 2)
    with monkeypatch.context() as patch:
        broken(host, patch, 0)
        with pytest.raises(BackendUnavailableError):
            await host.memory.roll_back_import(report.import_id)
    assert not (await host.memory.imports())[0].is_rolled_back
    assert (await host.memory.roll_back_import(report.import_id)).withdrawn == 7
    assert await host.memory.proposals() == ()
    assert (await host.memory.imports())[0].is_rolled_back


@requirement("moving:import.rollback")
async def test_what_was_undone_is_not_undone_once_more(pair: Pair) -> None:
    """What an import changed and is again as it was belongs to its owner, whatever is forced."""
    edited = await pair.one.memory.remember("Tom likes jam")
    base, _ = await pair.one.out(owner=OWNER)
    await pair.other.into(base, keys=await pair.one.keys())
    pair.clock.move(1000)
    await pair.one.memory.remember("Tom likes honey", id=edited.id)
    _, report = await goes_on(pair, base)
    assert (await pair.other.memory.roll_back_import(report.import_id)).restored == 1
    for force in (False, True):
        again = await pair.other.memory.roll_back_import(report.import_id, force=force)
        assert (again.forgotten, again.restored, again.kept) == (0, 0, ())
    assert (await pair.other.memory.get(edited.id)).content == "Tom likes jam"
