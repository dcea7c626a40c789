"""The outbox: intended with the commit, settled afterwards; and the map from records to native ids."""

from __future__ import annotations

from dataclasses import replace

from quipu.model.search import Scope
from quipu.ports.backend import Container
from quipu.ports.outbox import CopyState, Mirrored, Retry, Settlement
from quipu.testing.builders import Scribe
from quipu.testing.ledger.case import LedgerCase

_HOME = Container(tenant="default", store_id="ms_1", agent_id="ana", user_id="alice")


def _copy(record_id: str, native_id: str | None = None, state: CopyState = CopyState.KEPT) -> Mirrored:
    return Mirrored(record_id=record_id, container=_HOME, version=1, state=state, native_id=native_id)


class MirrorsContract(LedgerCase):
    """What the ledger knows of its mirrors."""

    async def test_without_a_mirror_nothing_is_intended(self, scribe: Scribe) -> None:
        await scribe.put("tea")
        await scribe.ledger.outbox.register(scribe.tenant, "late", is_written=True)
        assert list(await scribe.ledger.outbox.intents(scribe.tenant, "late", scribe.clock(), 10)) == []

    async def test_every_change_of_a_record_is_intended_for_every_mirror(self, scribe: Scribe) -> None:
        outbox, tenant = scribe.ledger.outbox, scribe.tenant
        for name in ("one", "two"):
            await outbox.register(tenant, name, is_written=True)
        await outbox.register(tenant, "read", is_written=False)
        first = await scribe.put("tea")
        second = await scribe.change(first, content="coffee")
        await scribe.touch(first.id)
        gone = await scribe.erase(first.id)
        for name in ("one", "two"):
            intents = await outbox.intents(tenant, name, scribe.clock(), 10)
            assert [intent.seq for intent in intents] == [first.born, second.born, gone.seq]
            assert {intent.record_ids for intent in intents} == {(first.id,)}
            assert {intent.at for intent in intents} == {scribe.clock()}
        assert list(await outbox.intents(tenant, "read", scribe.clock(), 10)) == []
        assert [one.seq for one in await outbox.intents(tenant, "one", scribe.clock(), 1)] == [first.born]

    async def test_what_is_settled_is_done_and_what_failed_waits(self, scribe: Scribe) -> None:
        outbox, tenant, now = scribe.ledger.outbox, scribe.tenant, scribe.clock()
        await outbox.register(tenant, "m", is_written=True)
        done, late, dead = [await scribe.put(f"tea {n}") for n in range(3)]
        await outbox.settle(
            tenant,
            "m",
            Settlement(
                kept=[_copy(done.id, "n1")],
                done=[done.born],
                retries=[
                    Retry(late.born, 1, now + 1000, "mirror_late"),
                    Retry(dead.born, 9, now, "mirror_failed", is_dead=True),
                ],
                error="mirror_late",
            ),
        )
        assert list(await outbox.intents(tenant, "m", now, 10)) == []
        (waiting,) = await outbox.intents(tenant, "m", now + 1000, 10)
        assert (waiting.seq, waiting.attempts) == (late.born, 1)
        (standing,) = await outbox.standings(tenant)
        assert (standing.waiting, standing.dead, standing.error) == (1, 1, "mirror_late")
        assert standing.oldest_at == now
        assert (await outbox.mirrored(tenant, "m", [done.id, late.id])).keys() == {done.id}
        await outbox.revive(tenant, "m")
        assert [one.seq for one in await outbox.intents(tenant, "m", now, 10)] == [late.born, dead.born]
        await outbox.settle(
            tenant, "m", Settlement(done=[late.born, dead.born, dead.born + 99], succeeded_at=now)
        )
        (standing,) = await outbox.standings(tenant)
        assert (standing.waiting, standing.dead, standing.error, standing.succeeded_at) == (0, 0, None, now)

    async def test_one_at_a_time(self, scribe: Scribe) -> None:
        outbox, tenant, now = scribe.ledger.outbox, scribe.tenant, scribe.clock()
        assert not await outbox.claim(tenant, "m", "a", now, now + 100)
        await outbox.register(tenant, "m", is_written=True)
        assert await outbox.claim(tenant, "m", "a", now, now + 100)
        assert not await outbox.claim(tenant, "m", "b", now + 99, now + 200)
        assert await outbox.claim(tenant, "m", "a", now + 50, now + 150)
        assert not await outbox.claim(tenant, "m", "b", now + 149, now + 200)
        assert await outbox.claim(tenant, "m", "b", now + 150, now + 250)

    async def test_the_map_goes_both_ways(self, scribe: Scribe) -> None:
        outbox, tenant = scribe.ledger.outbox, scribe.tenant
        await outbox.sending(
            tenant, "m", [_copy("mem_1", None, CopyState.SENDING), _copy("mem_2", None, CopyState.SENDING)]
        )
        await outbox.settle(tenant, "m", Settlement(kept=[_copy("mem_1", "n1")]))
        assert await outbox.mirrored(tenant, "m", ["mem_1", "mem_2", "mem_3"]) == {
            "mem_1": _copy("mem_1", "n1"),
            "mem_2": _copy("mem_2", None, CopyState.SENDING),
        }
        assert await outbox.mirrored_as(tenant, "m", ["n1", "n2"]) == {"n1": _copy("mem_1", "n1")}
        assert await outbox.mirrored_as(tenant, "other", ["n1"]) == {}
        await outbox.sending(tenant, "m", [_copy("mem_1", None, CopyState.SENDING)])
        assert (await outbox.mirrored(tenant, "m", ["mem_1"]))["mem_1"].native_id == "n1"
        assert [one.record_id for one in await outbox.page(tenant, "m", "mem_1", 10)] == ["mem_2"]

    async def test_what_is_gone_is_still_known_but_not_whose_it_was(self, scribe: Scribe) -> None:
        outbox, tenant = scribe.ledger.outbox, scribe.tenant
        await outbox.settle(tenant, "m", Settlement(kept=[_copy("mem_1", "n1"), _copy("mem_2", "n2")]))
        await outbox.settle(tenant, "m", Settlement(gone=["mem_1", "mem_9"]))
        gone = (await outbox.mirrored_as(tenant, "m", ["n1"]))["n1"]
        assert (gone.record_id, gone.state) == ("mem_1", CopyState.GONE)
        assert gone.container == Container(tenant=tenant, store_id="", agent_id="", user_id=None)
        assert await outbox.containers(Scope(tenant=tenant, agent_id="ana"), "m", 10) == [_HOME]
        await outbox.settle(tenant, "m", Settlement(gone=["mem_2"]))
        assert await outbox.containers(Scope(tenant=tenant, agent_id="ana"), "m", 10) == []

    async def test_containers_of_a_scope(self, scribe: Scribe) -> None:
        outbox, tenant = scribe.ledger.outbox, scribe.tenant
        homes = [
            _HOME,
            replace(_HOME, user_id=None),
            replace(_HOME, user_id=""),
            replace(_HOME, store_id="ms_2"),
            replace(_HOME, agent_id="bob"),
        ]
        await outbox.settle(
            tenant,
            "m",
            Settlement(
                kept=[replace(_copy(f"mem_{n}", f"n{n}"), container=home) for n, home in enumerate(homes)]
            ),
        )

        async def found(**scope: str | None) -> set[Container]:
            asked = Scope(
                tenant=tenant,
                agent_id=scope.get("agent_id"),
                user_id=scope.get("user_id"),
                store_id=scope.get("store_id"),
            )
            return set(await outbox.containers(asked, "m", 10))

        assert await found(agent_id="ana") == set(homes[:4])
        assert await found(agent_id="ana", user_id="alice") == {homes[0], homes[3]}
        assert await found(agent_id="ana", user_id="") == {homes[2]}
        assert await found(store_id="ms_1") == {*homes[:3], homes[4]}
        assert len(await outbox.containers(Scope(tenant=tenant, agent_id="ana"), "m", 2)) == 2

    async def test_mirrors_of_tenants_are_apart(self, scribe: Scribe) -> None:
        outbox = scribe.ledger.outbox
        other = await Scribe.at(scribe.ledger, scribe.clock, tenant="other")
        await outbox.register("other", "m", is_written=True)
        await scribe.put("mine")
        theirs = await other.put("theirs")
        assert await outbox.standings(scribe.tenant) == []
        assert [one.seq for one in await outbox.intents("other", "m", scribe.clock(), 10)] == [theirs.born]
        kept = replace(_copy("mem_t", "n1"), container=replace(_HOME, tenant="other"))
        await outbox.settle("other", "m", Settlement(kept=[kept]))
        assert await outbox.mirrored_as(scribe.tenant, "m", ["n1"]) == {}
        assert await outbox.elsewhere(scribe.tenant, "m", ["n1", "n2"]) == {"n1"}
        assert await outbox.elsewhere("other", "m", ["n1"]) == frozenset()

    async def test_a_mirror_that_is_dropped_leaves_nothing(self, scribe: Scribe) -> None:
        outbox, tenant = scribe.ledger.outbox, scribe.tenant
        await outbox.register(tenant, "m", is_written=True)
        await scribe.put("tea")
        await outbox.settle(tenant, "m", Settlement(kept=[_copy("mem_1", "n1")]))
        await outbox.drop(tenant, "m")
        await scribe.put("tea")
        assert await outbox.standings(tenant) == []
        assert list(await outbox.intents(tenant, "m", scribe.clock(), 10)) == []
        assert await outbox.mirrored(tenant, "m", ["mem_1"]) == {}

    async def test_drift_and_filling_are_noted(self, scribe: Scribe) -> None:
        outbox, tenant = scribe.ledger.outbox, scribe.tenant
        await outbox.register(tenant, "m", is_written=True)
        await outbox.note_drift(tenant, "m", 2)
        await outbox.note_drift(tenant, "m", 1)
        await outbox.note_fill(tenant, "m", "mem_5", is_filled=False)
        (standing,) = await outbox.standings(tenant)
        assert (standing.drift, standing.is_filled, standing.fill_below) == (3, False, "mem_5")
        await outbox.note_fill(tenant, "m", None, is_filled=True)
        await outbox.register(tenant, "m", is_written=False)
        (standing,) = await outbox.standings(tenant)
        assert (standing.is_filled, standing.fill_below, standing.is_written) == (True, None, False)
