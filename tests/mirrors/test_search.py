"""Mirrors asked during a recall: what they find is a place in a ranking, and everything else is the ledger's."""

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import pytest

from quipu.config import Settings
from quipu.errors import BackendUnavailableError, InvalidError
from quipu.mirrors.adapter import Mark
from quipu.mirrors.backend import Answer, Kept, Query
from quipu.mirrors.guard import GuardedBackend
from quipu.model.principal import Principal
from tests.mirrors.rig import OWNER, PATIENCE, Rig, eventually, mirror, rig
from tests.mirrors.shelf import ShelfBackend


class Liar(ShelfBackend):
    """Says whatever it is told to say."""

    def __init__(self) -> None:
        super().__init__()
        self.says: Callable[[Sequence[Kept]], Sequence[Any]] = lambda hits: hits

    async def search(self, query: Query, limit: int) -> Answer:
        answer = await super().search(query, limit)
        return replace(answer, hits=tuple(self.says(answer.hits)))


class Watched(ShelfBackend):
    """Notes what it is asked."""

    def __init__(self) -> None:
        super().__init__()
        self.asked: list[Query] = []

    async def search(self, query: Query, limit: int) -> Answer:
        self.asked.append(query)
        return await super().search(query, limit)


async def drift(here: Rig, name: str) -> int:
    return (await here.standing(name)).row.drift


# -- whose text, whose standing ---------------------------------------------------------------------------------------


async def test_text_and_standing_are_the_ledgers() -> None:
    liar = Liar()
    async with rig(mirror("liar", liar)) as here:
        memory = here.memory
        kept = await memory.remember("Mara likes tea", user_id="mara")
        forgotten = await memory.remember("Mara likes gin", user_id="mara")
        theirs = await memory.remember("Bob likes tea", user_id="bob")
        natives = {copy.record_id: name for name, copy in liar.kept.items()}
        marks = {id: Mark(tenant="default", record_id=id, version=1) for id in natives}
        await memory.forget(ids=[forgotten.id])
        liar.says = lambda hits: [
            Kept(native_id=natives[forgotten.id], score=1e9, text="Mara likes gin"),
            Kept(native_id="again", score=1e9, text="Mara likes gin", mark=marks[forgotten.id]),
            Kept(
                native_id=natives[theirs.id], score=float("nan"), text="Bob likes tea", mark=marks[theirs.id]
            ),
            Kept(native_id=natives[kept.id], score=1.0, text="Mara hates tea", mark=marks[kept.id]),
        ]
        answer = await memory.recall("what does Mara like: tea or gin", user_id="mara", min_relevance=0)
        assert [(hit.id, hit.content, hit.foreign) for hit in answer] == [(kept.id, "Mara likes tea", False)]
        assert set(answer[0].found_by) == {"sqlite", "liar"}
        assert answer.stores_queried == ("sqlite", "liar")
        await eventually(lambda: drift(here, "liar"))
        assert await drift(here, "liar") == 1


async def test_a_hit_without_its_mark_is_known_by_its_native_id() -> None:
    liar = Liar()
    async with rig(mirror("liar", liar), ledger_ranks=False) as here:
        await here.memory.remember("Mara likes tea")
        liar.says = lambda hits: [replace(hit, mark=None) for hit in hits]
        assert [hit.content for hit in await here.memory.recall("tea", min_relevance=0)] == ["Mara likes tea"]


async def test_another_tenants_text_is_never_shown() -> None:
    liar = Liar()
    async with rig(replace(mirror("liar", liar), has_own_contents=True)) as here:
        await here.tenant("other").remember("their tea is a secret")
        await here.drained("other")
        (stolen,) = [
            Kept(native_id=name, score=1.0, text=copy.content, mark=copy.mark)
            for name, copy in liar.kept.items()
        ]
        liar.says = lambda hits: [stolen]
        assert list(await here.memory.recall("their tea is a secret", min_relevance=0)) == []
        assert len(await here.tenant("other").recall("their tea is a secret", min_relevance=0)) == 1


async def test_no_query_crosses_tenants() -> None:
    shelf = Watched()
    async with rig(mirror("shelf", shelf)) as here:
        await here.memory.remember("tea")
        await here.tenant("other").remember("tea")
        await here.tenant("other").recall("tea")
        assert {(query.tenant, *(one.tenant for one in query.containers)) for query in shelf.asked} == {
            ("other",) * 2
        }


async def test_only_containers_in_reach_are_asked() -> None:
    """Before the best are chosen: what is beyond it would crowd out what is not."""
    shelf = Watched()
    async with rig(mirror("shelf", shelf)) as here:
        for name in ("mara", "bob"):
            await here.memory.remember("tea", user_id=name)
        await here.memory.create_store("attic")
        await here.memory.remember("tea", user_id="mara", store="attic")
        await here.memory.recall("tea", user_id="mara")
        assert sorted(str(one.user_id) for one in shelf.asked[-1].containers) == ["mara", "mara"]
        limited = here.of(replace(OWNER, review_stores=("main",)))
        await limited.recall("tea", user_id="mara")
        assert len(shelf.asked[-1].containers) == 1


async def test_a_mark_of_another_tenant_names_no_record_of_ours() -> None:
    liar = Liar()
    async with rig(mirror("liar", liar), ledger_ranks=False) as here:
        kept = await here.memory.remember("tea")
        mark = Mark(tenant="other", record_id=kept.id, version=1)
        liar.says = lambda hits: [Kept(native_id="x", score=1.0, text="tea", mark=mark)]
        assert list(await here.memory.recall("tea", min_relevance=0)) == []


@pytest.mark.parametrize(
    "garbage",
    [
        [None, 3, "text"],
        [Kept(native_id="")],
        [Kept(native_id="\x00")],
        [Kept(native_id="n" * 9999)],
        [Kept(native_id="x", mark=Mark(tenant="default", record_id="nobody", version=1))],
        [Kept(native_id="x", mark=Mark(tenant="default", record_id="\x00", version=1))],
    ],
)
async def test_garbage_is_dropped(garbage: list[Any]) -> None:
    liar = Liar()
    async with rig(replace(mirror("liar", liar), has_own_contents=True)) as here:
        await here.memory.remember("tea at noon")
        liar.says = lambda hits: garbage
        answer = await here.memory.recall("tea at noon")
        assert [hit.content for hit in answer] == ["tea at noon"]


async def test_a_vendors_words_reach_nobody(caplog: pytest.LogCaptureFixture) -> None:
    shelf = ShelfBackend()
    async with rig(mirror("shelf", shelf)) as here:
        shelf.is_down = True
        done = await here.memory.remember("tea at noon")
        answer = await here.memory.recall("tea")
        assert [(one.store, one.reason) for one in answer.stores_failed] == [("shelf", "mirror_unreachable")]
        told = (
            f"{done} {answer} {await here.memory.health()} {await here.memory.list_mirrors()} {caplog.text}"
        )
        assert "hunter2" not in told
        assert "10.0.0.9" not in told


# -- foreign hits -----------------------------------------------------------------------------------------------------


async def test_foreign_hits_come_last_marked_and_only_into_free_places() -> None:
    liar = Liar()
    async with rig(replace(mirror("liar", liar), has_own_contents=True)) as here:
        memory = here.memory
        for number in range(3):
            await memory.remember(f"tea number {number}")
        liar.says = lambda hits: [Kept(native_id="x9", score=1e9, text="tea number zero is poisoned")]
        answer = await memory.recall("tea number", k=5, min_relevance=0, explain=True)
        assert [hit.foreign for hit in answer] == [False, False, False, True]
        last = answer[3]
        assert (last.id, last.source_store, last.provenance.trust) == ("liar:x9", "liar", "external")
        assert not any(hit.foreign for hit in await memory.recall("tea number", k=3, min_relevance=0))
        quorum = await memory.recall("tea number", k=9, min_relevance=0, quorum_k=2)
        assert not any(hit.foreign for hit in quorum)
        trusted = await memory.recall("tea number", k=9, min_relevance=0, min_trust="agent")
        assert not any(hit.foreign for hit in trusted)
        sure = await memory.recall("which king reigns over Spain", k=9)
        assert not any(hit.foreign for hit in sure), "judged by us, however sure the mirror is"


@pytest.mark.parametrize("fusion", ["rrf", "max", "weighted"])
async def test_a_mirror_of_copies_knows_nothing_that_the_ledger_does_not(fusion: Any) -> None:
    """However well an invented text fits, and however many places are free."""
    liar = Liar()
    liar.says = lambda hits: [Kept(native_id="x9", score=1.0, text="tea number two"), *hits]
    async with rig(mirror("liar", liar)) as here:
        await here.memory.remember("tea number one")
        answer = await here.memory.recall("tea number two", k=50, fusion=fusion, min_relevance=0)
        assert [hit.content for hit in answer] == ["tea number one"]


@pytest.mark.parametrize(
    "restriction",
    [{"filter": {"tags": "home"}}, {"types": ["episodic"]}, {"session_id": "s"}, {"fresher_than_days": 1}],
)
async def test_a_foreign_hit_that_no_restriction_was_applied_to_is_not_shown(
    restriction: dict[str, Any],
) -> None:
    liar = Liar()
    liar.says = lambda hits: [Kept(native_id="x9", score=1.0, text="tea number two")]
    async with rig(replace(mirror("liar", liar), has_own_contents=True)) as here:
        await here.memory.remember("tea number one")
        assert len(await here.memory.recall("tea number two", min_relevance=0)) == 2
        limited = await here.memory.recall("tea number two", min_relevance=0, **restriction)
        assert not any(hit.foreign for hit in limited)


async def test_a_credential_that_sees_some_stores_sees_no_foreign_hit() -> None:
    liar = Liar()
    liar.says = lambda hits: [Kept(native_id="x9", score=1.0, text="tea number two")]
    limited: Principal = replace(OWNER, review_stores=("main",))
    async with rig(replace(mirror("liar", liar), has_own_contents=True)) as here:
        await here.memory.create_store("hidden")
        await here.memory.remember("tea number one")
        assert len(await here.memory.recall("tea number two", min_relevance=0)) == 2
        assert len(await here.of(limited).recall("tea number two", min_relevance=0)) == 1


# -- what only a mirror finds -----------------------------------------------------------------------------------------


async def test_with_the_ledgers_ranking_off_only_mirrors_find() -> None:
    shelf = ShelfBackend()
    async with rig(mirror("shelf", shelf), ledger_ranks=False) as here:
        await here.memory.remember("tea at noon", user_id="mara")
        (hit,) = await here.memory.recall("tea", user_id="mara", min_relevance=0)
        assert (hit.found_by, hit.content) == (("shelf",), "tea at noon")
        shelf.kept.clear()
        assert list(await here.memory.recall("tea", user_id="mara", min_relevance=0)) == []


async def test_a_record_that_only_a_mirror_finds_is_shown_behind_ours_as_the_ledger_has_it() -> None:
    liar = Liar()
    async with rig(mirror("liar", liar), embedder="none") as here:
        tea = await here.memory.remember("tea at noon")
        hidden = await here.memory.remember("quite another thing")
        copy = next(copy for copy in liar.kept.values() if copy.record_id == hidden.id)
        liar.says = lambda hits: [
            Kept(native_id=copy.native_id or "", score=1.0, text=copy.content, mark=copy.mark)
        ]
        answer = await here.memory.recall("tea", min_relevance=0)
        assert [(hit.id, hit.found_by) for hit in answer] == [(tea.id, ("sqlite",)), (hidden.id, ("liar",))]
        filtered = await here.memory.recall("tea", min_relevance=0, filter={"tags": "x"})
        assert list(filtered) == [], "a restriction is the ledger's to apply"


async def test_a_mirror_that_cannot_filter_is_asked_for_more() -> None:
    shelf = ShelfBackend()
    async with rig(mirror("shelf", shelf), ledger_ranks=False) as here:
        red = [{"content": f"tea {n}", "metadata": {"colour": "red"}} for n in range(100)]
        await here.memory.remember_many(red, atomic=True)
        wanted = await here.memory.remember("tea somewhere else", metadata={"colour": "green"})
        await here.drained()
        answer = await here.memory.recall("tea", filter={"metadata.colour": "green"}, min_relevance=0)
        assert [hit.id for hit in answer] == [wanted.id]
        assert shelf.calls["search"] > 1


# -- votes and quorum -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("votes", "first"), [("tiebreak", "ours"), ("count", "theirs")])
async def test_mirrors_break_ties_or_their_votes_count(votes: Any, first: str) -> None:
    settings = Settings(mirror_write_deadline_ms=30_000, mirror_votes=votes)
    one, two = Liar(), Liar()
    async with rig(mirror("one", one), mirror("two", two), settings=settings) as here:
        best = await here.memory.remember("green tea at noon")
        other = await here.memory.remember("tea somewhere, at some time of some day")
        for liar in (one, two):
            liar.says = lambda hits: sorted(
                hits, key=lambda hit: hit.mark is None or hit.mark.record_id != other.id
            )
        answer = await here.memory.recall("green tea at noon", min_relevance=0)
        assert answer[0].id == {"ours": best.id, "theirs": other.id}[first]
        assert answer[0].found_by[0] in ("sqlite", "one")


async def test_a_quorum_counts_stores_and_fails_closed() -> None:
    one, two = ShelfBackend(), ShelfBackend()
    async with rig(mirror("one", one), mirror("two", two)) as here:
        await here.memory.remember("tea at noon")
        await here.memory.remember("tea at four")
        one.kept = {name: copy for name, copy in one.kept.items() if copy.content == "tea at noon"}

        async def asked(quorum_k: int) -> list[str]:
            return sorted(
                hit.text for hit in await here.memory.recall("tea", quorum_k=quorum_k, min_relevance=0)
            )

        assert await asked(2) == ["tea at four", "tea at noon"]
        assert await asked(3) == ["tea at noon"]
        with pytest.raises(InvalidError):
            await asked(4)
        one.is_down = True
        with pytest.raises(BackendUnavailableError) as failed:
            await asked(3)
        assert failed.value.reason == "quorum_unreachable"


# -- time -------------------------------------------------------------------------------------------------------------


async def test_the_past_is_the_ledgers_alone() -> None:
    shelf = ShelfBackend()
    async with rig(mirror("shelf", shelf)) as here:
        done = await here.memory.remember("tea at noon")
        answer = await here.memory.recall("tea", as_of=str(done.seq))
        assert (answer.stores_queried, shelf.calls.get("search")) == (("sqlite",), None)


async def test_a_hung_mirror_holds_up_no_recall_beyond_its_deadline() -> None:
    hung, well = ShelfBackend(), ShelfBackend()
    slow = mirror("hung", hung)
    settings = Settings(mirror_write_deadline_ms=30_000, recall_deadline_ms=2_000)
    async with rig(slow, mirror("well", well), settings=settings) as here:
        await here.memory.remember("tea at noon")
        hung.is_hung = True
        async with asyncio.timeout(20):
            answer = await here.memory.recall("tea at noon")
        assert [hit.text for hit in answer] == ["tea at noon"]
        assert [(one.store, one.reason) for one in answer.stores_failed] == [("hung", "mirror_late")]
        assert answer.stores_queried == ("sqlite", "well")
        hurried = await here.memory.recall("tea at noon", deadline_ms=1_500)
        assert len(hurried) == 1, "the rest of the work has its time"


async def test_a_deadline_ends_the_waiting_for_a_mirror_and_not_its_opening() -> None:
    class Slow(ShelfBackend):
        may_end, opened = asyncio.Event(), 0

        async def open(self) -> None:
            self.opened += 1
            await self.may_end.wait()

    slow, query = Slow(), Query(tenant="acme", agent_id="ana", text="tea")
    guarded = GuardedBackend("slow", slow, patience=replace(PATIENCE, search_s=1.0))
    with pytest.raises(BackendUnavailableError) as late:
        await guarded.search(query, 1)
    assert late.value.reason == "mirror_late"
    slow.may_end.set()
    assert (await guarded.search(query, 1)).hits == ()
    assert slow.opened == 1
    await guarded.close()


async def test_what_is_written_beside_a_recall_is_not_half_in_it() -> None:
    """Found, ranked and shown is one state, also where mirrors take their time in between."""

    class Slow(ShelfBackend):
        def __init__(self) -> None:
            super().__init__()
            self.began, self.may_end = asyncio.Event(), asyncio.Event()

        async def search(self, query: Query, limit: int) -> Answer:
            self.began.set()
            await self.may_end.wait()
            return await super().search(query, limit)

    slow = Slow()
    async with rig(mirror("slow", slow)) as here:
        tea = await here.memory.remember("tea at noon")
        recalling = asyncio.create_task(here.memory.recall("tea", min_relevance=0))
        await slow.began.wait()
        await here.memory.update(tea.id, content="tea at four")
        await here.memory.remember("tea for two")
        slow.may_end.set()
        answer = await recalling
        assert [hit.text for hit in answer] == ["tea at noon"]
        assert answer.seq == tea.seq
        slow.began.clear()
        slow.may_end.clear()
        recalling = asyncio.create_task(here.memory.recall("tea", min_relevance=0))
        await slow.began.wait()
        await here.memory.forget(ids=[tea.id], hard_delete=True)
        slow.may_end.set()
        assert [hit.text for hit in await recalling] == ["tea for two"], "an erasure beats a snapshot"
