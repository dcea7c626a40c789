"""Mirrors hung, down, lying, killed: recall answers, writes go on, copies catch up, the ledger stays the truth."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import pytest

from quipu.errors import BackendUnavailableError, InvalidError
from quipu.model.operations import Fusion, RecallRequest, RememberRequest
from quipu.model.principal import local
from quipu.model.record import MemoryType, PrivacyIntent, Sensitivity
from quipu.ports.backend import Answer, Capability, Copy, Mirror, NativeHit, Place, Query, Routing, Sent
from quipu.ports.outbox import CopyState
from quipu.rules.fusion import Foreign
from quipu.testing.backend.shelf import ShelfBackend
from quipu.testing.builders import FixedClock
from tests.backends.rig import PATIENCE, mirror, rig
from tests.requirement import requirement

pytestmark = pytest.mark.filterwarnings("error")


async def until(holds: Callable[[], bool], seconds: float = 5.0) -> None:
    ends = time.monotonic() + seconds
    while not holds():
        assert time.monotonic() < ends, "it did not happen in time"
        await asyncio.sleep(0.01)


def texts(shelf: ShelfBackend) -> list[str]:
    return sorted(copy.content for copy in shelf.kept.values())


# -- writes -------------------------------------------------------------------------------------------------------


@requirement("memorywire:router.writes")
async def test_a_write_reaches_every_mirror_and_the_answer_says_so() -> None:
    one, two = ShelfBackend(), ShelfBackend()
    async with rig(mirror("one", one), mirror("two", two)) as rigged:
        done = await rigged.memory.remember("Mara is vegetarian", user_id="mara")
        assert done.stores == ("sqlite", "one", "two")
        assert "stores_pending" not in done.extensions
        assert texts(one) == texts(two) == ["Mara is vegetarian"]
        (copy,) = one.kept.values()
        assert (copy.record_id, copy.container.user_id, copy.container.agent_id) == (done.id, "mara", "ana")


@requirement("memorywire:router.writes")
async def test_what_is_changed_forgotten_merged_or_erased_is_so_in_mirrors() -> None:
    shelf = ShelfBackend()
    async with rig(mirror("shelf", shelf)) as rigged:
        memory = rigged.memory
        first = await memory.remember("Mara likes tea")
        await memory.remember("Mara likes coffee", id=first.id)
        assert texts(shelf) == ["Mara likes coffee"]
        gone = await memory.forget(ids=[first.id])
        assert [(row.store, row.count, row.error) for row in gone.stores] == [
            ("sqlite", 1, None),
            ("shelf", 1, None),
        ]
        assert texts(shelf) == []
        await memory.restore(first.id)
        await rigged.drained()
        assert texts(shelf) == ["Mara likes coffee"]
        twin = await memory.remember("Mara likes coffee a lot")
        await memory.merge(first.id, [twin.id])
        assert texts(shelf) == ["Mara likes coffee"]
        await memory.forget(ids=[first.id], hard_delete=True)
        assert texts(shelf) == []
        known = await rigged.ledger.outbox.mirrored("default", "shelf", [first.id, twin.id])
        assert {copy.state for copy in known.values()} == {CopyState.GONE}


@requirement("memorywire:router.writes")
async def test_expired_and_archived_records_leave_the_mirror() -> None:
    shelf, clock = ShelfBackend(), FixedClock()
    async with rig(mirror("shelf", shelf), clock=clock) as rigged:
        await rigged.memory.remember("tea today", expires_at=clock() + 1000)
        old = await rigged.memory.remember("tea long ago")
        assert len(shelf.kept) == 2
        clock.move(2000)
        await rigged.memory.sweep()
        await rigged.drained()
        assert texts(shelf) == ["tea long ago"]
        clock.move(10 * 86_400_000)
        await rigged.memory.expire({"older_than_days": 5}, action="archive")
        assert texts(shelf) == []
        assert (await rigged.memory.get(old.id)).content == "tea long ago"


@requirement("memorywire:router.writes")
async def test_the_first_write_of_a_new_tenant_reaches_mirrors_at_once() -> None:
    shelf = ShelfBackend()
    tea = RememberRequest(agent_id="ana", type=MemoryType.SEMANTIC, content="tea")
    async with rig(mirror("shelf", shelf)) as rigged:
        await rigged.service.tenancy.create(local(), "other")
        done = await rigged.service.remember(replace(local(), tenant="other"), tea)
        assert done.stores == ("sqlite", "shelf")
        assert texts(shelf) == ["tea"]


@requirement("memorywire:router.pending")
async def test_a_tenant_that_another_process_has_made_makes_nobody_wait() -> None:
    shelf = ShelfBackend()
    tea = RememberRequest(agent_id="ana", type=MemoryType.SEMANTIC, content="tea")
    async with rig(mirror("shelf", shelf)) as rigged:
        await rigged.ledger.open("other")
        other = replace(local(), tenant="other")
        async with asyncio.timeout(3):
            first = await rigged.service.remember(other, tea)
        assert first.extensions["stores_pending"] == ["shelf"]
        await until(lambda: texts(shelf) == ["tea"])
        assert (await rigged.service.remember(other, tea)).stores == ("sqlite", "shelf")
        assert (await rigged.memory.remember("mine")).stores == ("sqlite", "shelf")


@requirement("memorywire:router.pending")
async def test_nothing_pending_rejected_or_secret_reaches_a_mirror() -> None:
    shelf = ShelfBackend()
    async with rig(mirror("shelf", shelf)) as rigged:
        held = await rigged.memory.remember("wire the money", approval_required=True)
        assert held.stores == ()
        refused = await rigged.memory.remember("never mind", approval_required=True)
        await rigged.service.decide(local(), str(refused.extensions["proposal_id"]), approved=False)
        await rigged.memory.remember(
            "the safe's code is 4711", privacy_intent=PrivacyIntent(sensitivity=Sensitivity.SECRET)
        )
        await rigged.drained()
        assert texts(shelf) == []
        await rigged.service.decide(local(), str(held.extensions["proposal_id"]), approved=True)
        await rigged.drained()
        assert [copy.record_id for copy in shelf.kept.values()] == [held.id]


@requirement("memorywire:router.primary-only")
async def test_primary_only_reads_mirrors_and_does_not_write_them() -> None:
    shelf = ShelfBackend()
    async with rig(mirror("shelf", shelf), routing=Routing(is_written=False)) as rigged:
        done = await rigged.memory.remember("Mara likes tea")
        assert done.stores == ("sqlite",)
        assert texts(shelf) == []
        assert (await rigged.memory.recall("tea")).stores_queried == ("sqlite", "shelf")
        assert await rigged.lag("shelf") == 0


@requirement("memorywire:router.catches-up")
async def test_what_was_there_before_the_mirror_is_sent_to_it(tmp_path: Path) -> None:
    path = tmp_path / "memory.db"
    async with rig(path=path) as rigged:
        for number in range(450):
            await rigged.memory.remember(f"fact number {number}")
    shelf = ShelfBackend()
    async with rig(mirror("late", shelf), path=path, is_started=False) as rigged:
        await rigged.drained()
        assert len(shelf.kept) == 450
        (standing,) = await rigged.service.mirrors.standings("default")
        assert standing.is_filled


# -- hung, down, late -----------------------------------------------------------------------------------------------


@requirement("memorywire:router.deadline")
async def test_a_hung_mirror_delays_one_write_and_no_recall_beyond_its_deadline() -> None:
    hung, well = ShelfBackend(), ShelfBackend()
    patience = replace(PATIENCE, effect_s=30.0)
    async with rig(
        mirror("hung", hung, patience=patience), mirror("well", well), routing=Routing(write_deadline_ms=500)
    ) as rigged:
        await rigged.memory.remember("tea at noon")
        hung.is_hung = True
        started = time.perf_counter()
        for number in range(10):
            done = await rigged.memory.remember(f"tea number {number}")
            assert done.stores == ("sqlite", "well")
            assert done.extensions["stores_pending"] == ["hung"]
        assert time.perf_counter() - started < 3.0, "only the first waits"
        started = time.perf_counter()
        answer = await rigged.memory.recall("tea at noon")
        assert time.perf_counter() - started < 0.8
        assert answer.results[0].content == "tea at noon"
        assert answer.stores_queried == ("sqlite", "well")
        assert answer.extensions["stores_failed"] == [{"store": "hung", "reason": "mirror_late"}]
        assert await rigged.lag("hung") == 10
        health = await rigged.memory.health()
        assert health["status"] == "degraded"
        rows = {row["backend"]: row for row in health["stores"]}
        assert (rows["hung"]["status"], rows["hung"]["lag"]) == ("error", 10)
        assert (rows["well"]["status"], rows["well"]["lag"]) == ("ok", 0)


@requirement("memorywire:router.catches-up")
async def test_a_mirror_that_was_down_catches_up() -> None:
    shelf, clock = ShelfBackend(), FixedClock()
    async with rig(mirror("shelf", shelf, clock=clock), clock=clock) as rigged:
        await rigged.memory.remember("tea at noon")
        shelf.is_down = True
        late = [await rigged.memory.remember(f"tea number {n}") for n in range(3)]
        await rigged.memory.forget(ids=[late[0].id])
        assert all(done.extensions["stores_pending"] == ["shelf"] for done in late)
        answer = await rigged.memory.recall("tea number")
        (failed,) = answer.extensions["stores_failed"]
        assert failed["store"] == "shelf"
        assert {hit.content for hit in answer} >= {"tea number 1", "tea number 2"}
        assert await rigged.lag("shelf") == 4
        shelf.is_down = False
        for _ in range(5):  # an attempt that is under way while the clock moves counts its pause from then
            clock.move(600_000)
            if await rigged.drained():
                break
        assert texts(shelf) == ["tea at noon", "tea number 1", "tea number 2"]
        assert await rigged.lag("shelf") == 0
        assert (await rigged.memory.remember("tea again")).stores == ("sqlite", "shelf")


@requirement("memorywire:router.catches-up")
async def test_a_mirror_catches_up_by_itself() -> None:
    shelf = ShelfBackend()
    async with rig(mirror("shelf", shelf)) as rigged:
        shelf.is_down = True
        await rigged.memory.remember("tea at noon")
        shelf.is_down = False
        await until(lambda: texts(shelf) == ["tea at noon"])


@requirement("memorywire:router.dead-letters")
async def test_what_fails_for_a_day_is_given_up_visibly_and_can_be_revived() -> None:
    shelf, clock = ShelfBackend(), FixedClock()
    async with rig(mirror("shelf", shelf), clock=clock, is_started=False) as rigged:
        await rigged.drained()
        shelf.is_down = True
        await rigged.memory.remember("tea at noon")
        for _ in range(3):
            await rigged.drained()
            clock.move(600_000)
        (standing,) = await rigged.service.mirrors.standings("default")
        assert (standing.waiting, standing.dead, standing.error) == (1, 0, "mirror_unreachable")
        clock.move(86_400_000)
        await rigged.drained()
        (standing,) = await rigged.service.mirrors.standings("default")
        assert (standing.waiting, standing.dead) == (0, 1)
        shelf.is_down = False
        await rigged.ledger.outbox.revive("default", "shelf")
        assert await rigged.drained()
        assert texts(shelf) == ["tea at noon"]


class Picky(ShelfBackend):
    """Fails on one text, always."""

    async def put(self, copies: Sequence[Copy]) -> Sequence[str]:
        if any("poison" in copy.content for copy in copies):
            raise RuntimeError("cannot index that")
        return await super().put(copies)


@requirement("memorywire:router.catches-up")
async def test_a_record_that_a_mirror_cannot_take_stops_no_other() -> None:
    shelf = Picky()
    async with rig(mirror("shelf", shelf), is_started=False) as rigged:
        await rigged.drained()
        for text in ("tea", "poison", "coffee"):
            await rigged.memory.remember(text)
        assert not await rigged.drained()
        assert texts(shelf) == ["coffee", "tea"]
        (standing,) = await rigged.service.mirrors.standings("default")
        assert (standing.waiting, standing.error) == (1, "mirror_failed")


# -- crash between effect and outcome -------------------------------------------------------------------------------


class Amnesiac(ShelfBackend):
    """Keeps what it is given, and then the answer is lost."""

    def __init__(self) -> None:
        super().__init__()
        self.loses = False

    async def put(self, copies: Sequence[Copy]) -> Sequence[str]:
        native = await super().put(copies)
        if self.loses:
            raise ConnectionError("reset by peer")
        return native


@requirement("memorywire:router.idempotent")
async def test_an_effect_whose_answer_was_lost_is_not_done_twice() -> None:
    shelf, clock = Amnesiac(), FixedClock()
    async with rig(mirror("shelf", shelf), clock=clock, is_started=False) as rigged:
        await rigged.drained()
        shelf.loses = True
        await rigged.memory.remember("tea at noon")
        for _ in range(3):
            await rigged.drained()
            clock.move(600_000)
        shelf.loses = False
        assert await rigged.drained()
        assert texts(shelf) == ["tea at noon"]


@requirement("memorywire:router.idempotent")
class Attentive(ShelfBackend):
    """Writes down what it is told of earlier sendings, by text."""

    def __init__(self) -> None:
        super().__init__()
        self.told: dict[str, list[Sent]] = {}
        self.loses = 0

    async def put(self, copies: Sequence[Copy]) -> Sequence[str]:
        for copy in copies:
            self.told.setdefault(copy.content, []).append(copy.sent)
        done = await super().put(copies)
        if self.loses:
            self.loses -= 1
            raise BackendUnavailableError("The answer was lost.", reason="mirror_unreachable")
        return done


async def test_a_mirror_is_told_what_it_need_not_look_for(tmp_path: Path) -> None:
    path, shelf, clock = tmp_path / "memory.db", Attentive(), FixedClock()
    async with rig(path=path) as before:
        await before.memory.remember("older than the mirror")
    async with rig(mirror("shelf", shelf), path=path, clock=clock, is_started=False) as rigged:
        assert await rigged.drained()
        await rigged.memory.remember("new")
        assert await rigged.drained()
        shelf.loses = 1
        await rigged.memory.remember("lost")
        await rigged.drained()
        clock.move(60_000)
        assert await rigged.drained()
        await rigged.ledger.outbox.drop("default", "shelf")
        await rigged.ledger.outbox.register("default", "shelf", is_written=True)
        assert await rigged.drained()
    assert shelf.told == {
        "older than the mirror": [Sent.UNKNOWN, Sent.BEGUN],
        "new": [Sent.NEVER, Sent.BEGUN],
        "lost": [Sent.NEVER, Sent.BEGUN, Sent.BEGUN],
    }
    assert texts(shelf) == ["lost", "new", "older than the mirror"]


async def test_a_stop_in_the_middle_of_many_leaves_most_of_them_noted() -> None:
    shelf = Attentive()
    async with rig(mirror("shelf", shelf), is_started=False) as rigged:
        done = [
            one
            for start in range(0, 600, 100)
            for one in await rigged.memory.remember_many(
                [f"tea {start + place}" for place in range(100)], atomic=True
            )
        ]
        await rigged.service.mirrors.lines[0].delivery.round("default")  # and then the power goes
        known = await rigged.ledger.outbox.mirrored("default", "shelf", [one.id for one in done])
    kept = [copy for copy in known.values() if copy.state is CopyState.KEPT]
    assert 0 < len(kept) == len(known) < 600


async def test_what_was_lost_and_then_forgotten_is_found_and_removed() -> None:
    shelf, clock = Amnesiac(), FixedClock()
    async with rig(mirror("shelf", shelf), clock=clock, is_started=False) as rigged:
        await rigged.drained()
        shelf.loses = True
        gone = await rigged.memory.remember("tea at noon")
        changed = await rigged.memory.remember("coffee at four")
        await rigged.drained()
        await rigged.memory.forget(ids=[gone.id], hard_delete=True)
        await rigged.memory.remember("cocoa at night", id=changed.id)
        shelf.loses = False
        clock.move(600_000)
        assert await rigged.drained()
        assert texts(shelf) == ["cocoa at night"]


# -- lies ------------------------------------------------------------------------------------------------------------


class Liar(ShelfBackend):
    """Says whatever it is told to say."""

    def __init__(self) -> None:
        super().__init__()
        self.says: Callable[[Sequence[NativeHit]], Sequence[object]] = lambda hits: hits

    async def search(self, query: Query, limit: int) -> Answer:
        answer = await super().search(query, limit)
        return replace(answer, hits=tuple(self.says(answer.hits)))


@requirement("memorywire:router.resolution")
async def test_text_and_standing_are_the_ledgers() -> None:
    liar = Liar()
    async with rig(mirror("liar", liar)) as rigged:
        memory = rigged.memory
        kept = await memory.remember("Mara likes tea", user_id="mara")
        forgotten = await memory.remember("Mara likes gin", user_id="mara")
        theirs = await memory.remember("Bob likes tea", user_id="bob")
        natives = {copy.record_id: name for name, copy in liar.kept.items()}
        await memory.forget(ids=[forgotten.id])
        liar.says = lambda hits: [
            NativeHit(native_id=natives[forgotten.id], score=1e9, text="Mara likes gin"),
            NativeHit(native_id=natives[theirs.id], score=float("nan"), text="Bob likes tea"),
            NativeHit(native_id=natives[kept.id], score=1.0, text="Mara hates tea"),
        ]
        answer = await memory.recall("what does Mara like: tea or gin", user_id="mara", min_relevance=0)
        assert [(hit.id, hit.content) for hit in answer] == [(kept.id, "Mara likes tea")]
        assert answer[0].stores == ("liar", "sqlite")
        await rigged.service.flush()
        await asyncio.sleep(0.05)
        (standing,) = await rigged.service.mirrors.standings("default")
        assert standing.drift == 1


@requirement("memorywire:router.foreign")
@pytest.mark.parametrize("place", ["last", "own"])
async def test_foreign_hits_come_last_marked_and_only_into_free_places(place: str) -> None:
    liar = Liar()
    known = replace(mirror("liar", liar), has_own_contents=place == "own")
    async with rig(known, routing=Routing(foreign=Foreign(place))) as rigged:
        memory = rigged.memory
        for number in range(3):
            await memory.remember(f"tea number {number}")
        invented = NativeHit(native_id="x9", score=1e9, text="tea number zero is poisoned")
        liar.says = lambda hits: [invented]
        answer = await memory.recall("tea number", k=5, min_relevance=0)
        assert [hit.foreign for hit in answer] == [False, False, False, True]
        last = answer[3]
        assert (last.id, last.source_store, last.provenance.trust.value) == ("liar:x9", "liar", "external")
        assert not any(hit.foreign for hit in await memory.recall("tea number", k=3, min_relevance=0))
        assert not any(
            hit.foreign for hit in await memory.recall("tea number", k=9, min_relevance=0, quorum_k=2)
        )


@requirement("memorywire:router.own-contents")
@pytest.mark.parametrize("k", [2, 50])
async def test_a_mirror_of_copies_knows_nothing_that_the_ledger_does_not(k: int) -> None:
    """However well an invented text fits, and however many places are free. A mirror that is only read has its own."""
    invented = NativeHit(native_id="x9", score=1.0, text="tea number two")
    for is_written, own in ((True, False), (True, True), (False, False)):
        copy, other = Liar(), Liar()
        copy.says = other.says = lambda hits: [invented, *hits]
        mirrors = (mirror("copy", copy), replace(mirror("other", other), has_own_contents=own))
        async with rig(*mirrors, routing=Routing(is_written=is_written)) as rigged:
            await rigged.memory.remember("tea number one")
            for fusion in Fusion:
                answer = await rigged.memory.recall("tea number two", k=k, fusion=fusion, min_relevance=0)
                shown = {hit.id for hit in answer if hit.foreign}
                assert ("copy:x9" in shown) is (not is_written)
                assert ("other:x9" in shown) is (own or (k > 2 and not is_written))


@requirement("memorywire:router.foreign")
@pytest.mark.parametrize("place", ["off", "mix"])
async def test_foreign_hits_can_be_left_out_or_mixed_in(place: str) -> None:
    liar = Liar()
    async with rig(mirror("liar", liar), routing=Routing(foreign=Foreign(place))) as rigged:
        await rigged.memory.remember("tea number one")
        liar.says = lambda hits: [NativeHit(native_id="x9", score=1.0, text="tea number two")]
        answer = await rigged.memory.recall("tea number two", min_relevance=0)
        assert ("liar:x9" in {hit.id for hit in answer}) == (place == "mix")


@requirement("memorywire:router.resolution")
async def test_another_tenants_text_is_never_shown() -> None:
    liar = Liar()
    async with rig(mirror("liar", liar)) as rigged:
        await rigged.service.open("other")
        request = RememberRequest(agent_id="ana", type=MemoryType.SEMANTIC, content="their tea is a secret")
        await rigged.service.remember(replace(local(), tenant="other"), request)
        await rigged.service.mirrors.drained("other")
        stolen = [NativeHit(native_id=name, score=1.0, text=c.content) for name, c in liar.kept.items()]
        assert stolen
        liar.says = lambda hits: stolen
        assert list(await rigged.memory.recall("their tea is a secret", min_relevance=0)) == []


@requirement("memorywire:router.garbage")
@pytest.mark.parametrize(
    "garbage",
    [
        [None, 3, "text"],
        [NativeHit(native_id="")],
        [NativeHit(native_id="\x00")],
        [NativeHit(native_id="n" * 9999)],
    ],
)
async def test_garbage_is_dropped(garbage: list[object]) -> None:
    liar = Liar()
    async with rig(mirror("liar", liar)) as rigged:
        await rigged.memory.remember("tea at noon")
        liar.says = lambda hits: garbage
        answer = await rigged.memory.recall("tea at noon")
        assert [hit.content for hit in answer] == ["tea at noon"]


@requirement("memorywire:router.no-outside-words")
async def test_a_vendors_words_reach_nobody(caplog: pytest.LogCaptureFixture) -> None:
    shelf = ShelfBackend()
    async with rig(mirror("shelf", shelf)) as rigged:
        shelf.is_down = True
        done = await rigged.memory.remember("tea at noon")
        answer = await rigged.memory.recall("tea")
        health = await rigged.memory.health()
        told = f"{done} {answer} {health} {await rigged.service.mirrors.standings('default')} {caplog.text}"
        assert "hunter2" not in told
        assert "10.0.0.9" not in told


# -- what only a mirror finds ----------------------------------------------------------------------------------------


@requirement("memorywire:router.ledger-off")
async def test_with_the_ledgers_search_off_only_mirrors_find() -> None:
    shelf = ShelfBackend()
    async with rig(mirror("shelf", shelf), routing=Routing(ledger_votes=False)) as rigged:
        await rigged.memory.remember("tea at noon", user_id="mara")
        (hit,) = await rigged.memory.recall("tea", user_id="mara", min_relevance=0)
        assert (hit.stores, hit.content) == (("shelf",), "tea at noon")
        shelf.kept.clear()
        assert list(await rigged.memory.recall("tea", user_id="mara", min_relevance=0)) == []


@requirement("memorywire:router.overfetch")
async def test_a_mirror_that_cannot_filter_is_asked_for_more() -> None:
    shelf = ShelfBackend()
    async with rig(mirror("shelf", shelf), routing=Routing(ledger_votes=False)) as rigged:
        for _ in range(100):
            await rigged.memory.remember("tea", metadata={"colour": "red"})
        wanted = await rigged.memory.remember("tea somewhere else", metadata={"colour": "green"})
        answer = await rigged.memory.recall("tea", filter={"colour": "green"}, min_relevance=0)
        assert [hit.id for hit in answer] == [wanted.id]
        assert shelf.calls["search"] > 1


@requirement("memorywire:router.quorum")
async def test_a_quorum_counts_stores_and_fails_closed() -> None:
    one, two = ShelfBackend(), ShelfBackend()
    async with rig(mirror("one", one), mirror("two", two)) as rigged:
        await rigged.memory.remember("tea at noon")
        await rigged.memory.remember("tea at four")
        one.kept = {name: copy for name, copy in one.kept.items() if copy.content == "tea at noon"}

        async def asked(quorum_k: int) -> list[object]:
            request = RecallRequest(agent_id="ana", query="tea", quorum_k=quorum_k, min_relevance=0.0)
            return [hit.content for hit in await rigged.memory.recall(request)]

        assert sorted(map(str, await asked(2))) == ["tea at four", "tea at noon"]
        assert await asked(3) == ["tea at noon"]
        with pytest.raises(InvalidError):
            await asked(4)
        one.is_down = True
        with pytest.raises(BackendUnavailableError) as failed:
            await asked(3)
        assert failed.value.reason == "quorum_unreachable"


@requirement("memorywire:router.as-of")
async def test_the_past_is_the_ledgers_alone() -> None:
    shelf = ShelfBackend()
    async with rig(mirror("shelf", shelf)) as rigged:
        done = await rigged.memory.remember("tea at noon")
        before = shelf.calls.get("search", 0)
        answer = await rigged.memory.recall("tea", as_of=str(done.extensions["seq"]))
        assert answer.stores_queried == ("sqlite",)
        assert shelf.calls.get("search", 0) == before


# -- what a mirror cannot take ------------------------------------------------------------------------------------


class Choosy(ShelfBackend):
    """Chokes on some texts, and then says of itself that it is not there, as vendors' adapters do."""

    def __init__(self) -> None:
        super().__init__()
        self.refuses = ""

    async def put(self, copies: Sequence[Copy]) -> Sequence[str]:
        if self.refuses and any(self.refuses in copy.content for copy in copies):
            raise BackendUnavailableError("It failed.", reason="mirror_unreachable")
        return await super().put(copies)


@requirement("memorywire:router.writes")
async def test_one_record_that_a_mirror_cannot_take_holds_up_no_other() -> None:
    choosy = Choosy()
    choosy.refuses = "poison"
    async with rig(mirror("choosy", choosy), is_started=False) as rigged:
        await rigged.drained()
        for text in ("tea", "poison", "coffee"):
            await rigged.memory.remember(text)
        assert not await rigged.drained()
        assert texts(choosy) == ["coffee", "tea"]
        assert await rigged.lag("choosy") == 1


@requirement("memorywire:router.writes")
async def test_what_a_new_mirror_could_not_take_at_first_is_sent_later(tmp_path: Path) -> None:
    path, clock = tmp_path / "memory.db", FixedClock()
    async with rig(path=path, clock=clock) as rigged:
        for text in ("tea", "poison", "coffee"):
            await rigged.memory.remember(text)
    choosy = Choosy()
    choosy.refuses = "poison"
    for _ in range(2):  # a restart in between forgets nothing
        async with rig(mirror("choosy", choosy), path=path, clock=clock, is_started=False) as rigged:
            assert not await rigged.drained()
            (standing,) = await rigged.service.mirrors.standings("default")
            assert not standing.is_filled
            assert texts(choosy) == ["coffee", "tea"]
            clock.move(60_000)
    async with rig(mirror("choosy", choosy), path=path, clock=clock, is_started=False) as rigged:
        assert not await rigged.drained()
        choosy.refuses = ""
        clock.move(60_000)
        assert await rigged.drained()
        (standing,) = await rigged.service.mirrors.standings("default")
        assert standing.is_filled
        assert texts(choosy) == ["coffee", "poison", "tea"]


@pytest.mark.parametrize("is_guarded", [True, False])
async def test_a_mirror_that_answers_nonsense_is_told_and_tried_again(is_guarded: bool) -> None:
    class Muddled(ShelfBackend):
        is_muddled = True

        async def put(self, copies: Sequence[Copy]) -> Sequence[str]:
            if self.is_muddled:
                return cast("Any", None)
            return await super().put(copies)

    shelf = Muddled()
    muddled = mirror("shelf", shelf) if is_guarded else Mirror(name="shelf", backend=shelf)
    async with rig(muddled) as here:
        kept = await here.memory.remember("tea at noon")
        assert kept.stores == ("sqlite",)
        assert kept.extensions["stores_pending"] == ["shelf"]
        (status,) = await here.memory.mirrors()
        assert status.waiting == 1
        if is_guarded:
            assert status.error == "mirror_failed"
        shelf.is_muddled = False
        await until(lambda: texts(shelf) == ["tea at noon"], 20.0)


@pytest.mark.parametrize("promise", [Capability.GET_BY_ID, Capability.DELETE_REPORTS_ABSENCE])
async def test_a_mirror_that_keeps_what_was_erased_is_told_until_it_does_not(promise: Capability) -> None:
    class Keeping(ShelfBackend):
        """Says that it has deleted, and has not."""

        is_honest = False
        both = frozenset({Capability.GET_BY_ID, Capability.DELETE_REPORTS_ABSENCE})
        capabilities = replace(
            ShelfBackend.capabilities, flags=(ShelfBackend.capabilities.flags - both) | {promise}
        )

        async def delete(self, places: Sequence[Place]) -> int:
            return await super().delete(places) if self.is_honest else len(places)

    shelf, clock = Keeping(), FixedClock()
    async with rig(mirror("shelf", shelf), clock=clock) as here:
        kept = await here.memory.remember("tea at noon")
        gone = await here.memory.forget(ids=[kept.id], hard_delete=True)
        assert [(row.store, row.count, row.error) for row in gone.stores] == [
            ("sqlite", 1, None),
            ("shelf", 0, "queued"),
        ]
        (status,) = await here.memory.mirrors()
        assert (status.waiting, status.error) == (1, "mirror_failed")
        assert texts(shelf) == ["tea at noon"]
        shelf.is_honest = True
        clock.move(3_600_000)
        assert await here.drained()
        assert texts(shelf) == []
        assert await here.lag("shelf") == 0
