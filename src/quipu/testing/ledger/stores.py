"""Memory stores: made, listed, shared, taken away."""

from __future__ import annotations

from dataclasses import replace

import pytest

from quipu.errors import ConflictError, NotFoundError
from quipu.model.change import Close, DropStore, OpenStore
from quipu.model.journal import Op
from quipu.model.record import Ending, PrivacyIntent, Tier
from quipu.model.store import MAIN, Store, StoreScope
from quipu.ports.ledger import Ledger
from quipu.testing.builders import FixedClock, Scribe, adding, vector
from quipu.testing.ledger.case import LedgerCase


class StoresContract(LedgerCase):
    """Containers of records."""

    async def test_opening_a_tenant_makes_its_genesis_and_main(
        self, ledger: Ledger, clock: FixedClock
    ) -> None:
        await ledger.open("one")
        clock.move(5)
        await ledger.open("one")
        await ledger.open("two")
        for tenant, at in (("one", clock() - 5), ("two", clock())):
            stores = await ledger.stores(tenant)
            assert [(s.name, s.tenant, s.scope, s.created_at) for s in stores] == [
                (MAIN, tenant, StoreScope.AGENT, at)
            ]
            entries = await ledger.entries(tenant)
            assert [(e.op, e.seq, e.at, e.store) for e in entries] == [(Op.GENESIS, 1, at, stores[0].id)]

    async def test_a_store_comes_back_as_it_was_given(self, scribe: Scribe) -> None:
        store = Store(
            tenant=scribe.tenant,
            id="ms_1",
            name="notes",
            scope=StoreScope.TEAM,
            tier=Tier.SHORT_TERM,
            namespace="n",
            description="d",
            created_at=scribe.clock() + 1,
        )
        await scribe.commit(OpenStore(store=store), op=Op.CREATE_STORE)
        assert (await scribe.ledger.stores(scribe.tenant))[1:] == [store]

    async def test_a_name_is_taken_once_in_a_tenant(self, scribe: Scribe) -> None:
        await scribe.open_store("notes")
        with pytest.raises(ConflictError) as refused:
            await scribe.open_store("notes")
        assert refused.value.reason == "name_taken"
        other = await Scribe.at(scribe.ledger, scribe.clock, tenant="other")
        await other.open_store("notes")

    async def test_a_store_that_holds_records_is_not_dropped(self, scribe: Scribe) -> None:
        store = await scribe.open_store("notes")
        record = await scribe.put("note", store_id=store.id)
        with pytest.raises(ConflictError):
            await scribe.commit(DropStore(store_id=store.id), op=Op.DELETE_STORE)
        close = Close(record=record, ending=Ending.FORGOTTEN)
        await scribe.commit(close, DropStore(store_id=store.id), op=Op.DELETE_STORE)
        assert [s.name for s in await scribe.ledger.stores(scribe.tenant)] == [MAIN]
        assert await scribe.found("note", seq=record.born) == {record.id}
        with pytest.raises(NotFoundError):
            await scribe.put(store_id=store.id)

    async def test_nothing_is_written_into_a_store_dropped_by_the_same_hand(self, scribe: Scribe) -> None:
        store = await scribe.open_store("notes")
        first = scribe.drafted(store_id=store.id)
        with pytest.raises(NotFoundError):
            await scribe.ledger.commit(
                scribe.committing(adding(first)),
                scribe.committing(Close(record=first, ending=Ending.FORGOTTEN), DropStore(store_id=store.id)),
                scribe.committing(adding(scribe.drafted(store_id=store.id))),
            )
        assert await scribe.scanned() == []

    async def test_a_shared_store_is_searched_across_agents(self, scribe: Scribe) -> None:
        team = await scribe.open_store("team", StoreScope.TEAM)
        mine = await scribe.put("word", store_id=team.id, vector=vector(1))
        theirs = await scribe.put("word", store_id=team.id, agent_id="bo", vector=vector(1))
        await scribe.put("word", agent_id="bo", vector=vector(1))
        scope = scribe.scope(None, store_id=team.id, reader="ana")
        found = await scribe.search("word", vector(1), scope=scope)
        assert {c.id for c in found.candidates} == {mine.id, theirs.id}
        assert found.in_reach == 2
        assert await scribe.found("word", scope=scribe.scope("ana", store_id=team.id)) == {mine.id}
        await scribe.forget(theirs)
        assert await scribe.found("word", scope=scope) == {mine.id}
        await scribe.erase(mine.id)
        assert await scribe.found("word", scope=scope) == set()

    async def test_a_shared_record_reaches_those_it_may_be_shared_with(self, scribe: Scribe) -> None:
        team = await scribe.open_store("team", StoreScope.TEAM)
        shares: dict[tuple[str, ...] | None, str] = {}
        for share_with in (None, (), ("bo",), ("bo", "cy"), ("*",)):
            privacy = PrivacyIntent(share_with=share_with)
            shares[share_with] = (await scribe.put("word", store_id=team.id, privacy=privacy)).id

        async def reached(reader: str | None) -> set[tuple[str, ...] | None]:
            ids = await scribe.found("word", scope=scribe.scope(None, store_id=team.id, reader=reader))
            return {share_with for share_with, record_id in shares.items() if record_id in ids}

        assert await reached("ana") == set(shares)
        assert await reached("bo") == {None, ("bo",), ("bo", "cy"), ("*",)}
        assert await reached("cy") == {None, ("bo", "cy"), ("*",)}
        assert await reached("di") == {None, ("*",)}
        assert await reached(None) == {None, ("*",)}

    async def test_a_shared_store_of_another_tenant_is_out_of_reach(self, scribe: Scribe) -> None:
        team = await scribe.open_store("team", StoreScope.TEAM)
        await scribe.put("word", store_id=team.id)
        other = await Scribe.at(scribe.ledger, scribe.clock, tenant="other")
        assert await other.found("word", scope=other.scope(None, store_id=team.id, reader="ana")) == set()
        with pytest.raises(NotFoundError):
            await replace(other, main=team.id).put()
