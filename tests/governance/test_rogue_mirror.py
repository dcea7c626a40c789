"""T3 of the threat model: a mirror that lies, beside an honest one, with the ledger between them and whoever recalls.

The mirrors are real: written to by the service, asked at every recall. The rogue keeps what it is given, so it knows
which ids are real, and it answers with whatever suits it.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Any

import pytest

from quipu.model.operations import Fusion, RememberRequest
from quipu.model.principal import local
from quipu.model.record import MemoryType
from quipu.ports.backend import Answer, NativeHit, Query, Routing
from quipu.rules.fusion import Foreign
from quipu.testing.backend.shelf import ShelfBackend
from tests.backends.rig import Rig, mirror, rig
from tests.requirement import requirement

QUESTION = "which door code does Mara use"
GOLD = "the door code that Mara can use is on the yellow note"
LIE = f"{QUESTION}: the one that the attacker set"
OTHERS = [f"the door number {n} has a code that somebody can use" for n in range(12)]


class RogueShelf(ShelfBackend):
    """A mirror in somebody else's hands."""

    def __init__(self) -> None:
        super().__init__()
        self.attack = "none"
        #: What it has ever been given: it deletes nothing.
        self.ever: dict[str, str] = {}

    async def search(self, query: Query, limit: int) -> Answer:
        honest = await super().search(query, limit)
        self.ever |= {name: copy.content for name, copy in self.kept.items()}
        match self.attack:
            case "flood":
                # Nothing but inventions: it votes for no record that there is.
                lies = [NativeHit(native_id=f"evil{n}", score=1e9, text=LIE) for n in range(limit)]
                return Answer(hits=tuple(lies), is_filtered=True)
            case "invent":
                lies = [NativeHit(native_id=f"evil{n}", score=1e9, text=LIE) for n in range(20)]
            case "bump":
                # Real ids, best for the attacker: everything but the right answer.
                lies = [replace(hit, score=1.0) for hit in honest.hits if hit.text != GOLD]
                return Answer(hits=tuple(lies[:limit]), is_filtered=True)
            case "alter":
                lies = [replace(hit, text=LIE, score=1e9) for hit in honest.hits]
            case "haunt":
                lies = [NativeHit(native_id=name, score=1e9, text=text) for name, text in self.ever.items()]
            case _:
                lies = []
        return Answer(hits=tuple([*lies, *honest.hits][:limit]), is_filtered=True)


@asynccontextmanager
async def poisoned(**routing: Any) -> AsyncGenerator[tuple[Rig, RogueShelf, str]]:
    """A memory with an honest mirror and a rogue, filled; and the id of the right answer."""
    rogue = RogueShelf()
    asked = Routing(write_deadline_ms=5000, **routing)
    async with rig(mirror("a-rogue", rogue), mirror("honest", ShelfBackend()), routing=asked) as made:
        for text in OTHERS:
            await made.memory.remember(text)
        gold = (await made.memory.remember(GOLD)).id
        assert await made.drained()
        assert len(rogue.kept) == len(OTHERS) + 1, "it is a mirror like any other"
        yield made, rogue, gold


async def texts(made: Rig, k: int = 5, **asked: Any) -> list[str]:
    answer = await made.memory.recall(QUESTION, k=k, min_relevance=0, **asked)
    assert {"a-rogue", "honest"} <= set(answer.stores_queried)
    return [str(hit.content) for hit in answer]


@requirement("memorywire:router.adversarial")
@pytest.mark.parametrize("fusion", list(Fusion))
async def test_t3_invented_memories_win_only_where_foreign_hits_are_believed(fusion: Fusion) -> None:
    async with poisoned(foreign=Foreign.MIX) as (made, rogue, _):
        assert (await texts(made, fusion=fusion))[0] == GOLD
        rogue.attack = "invent"
        believed = await texts(made, fusion=fusion)
        # Where scores count, it is an attack; ranks alone hold while most stores are honest.
        assert (LIE in believed) is (fusion is not Fusion.RRF)
        assert LIE not in await texts(made, fusion=fusion, quorum_k=2), "one voice alone is not heard"
    async with poisoned() as (made, rogue, _):
        rogue.attack = "invent"
        shown = await texts(made, fusion=fusion)
        # Its own votes are lost with the lies, so what was equally near may change places; nothing gives way to a lie.
        assert (shown[0], len(shown)) == (GOLD, 5)
        assert set(shown) <= {GOLD, *OTHERS}, "they displace nothing"
        assert LIE not in await texts(made, k=50, fusion=fusion), (
            "a mirror of copies knows nothing of its own"
        )
    async with poisoned(foreign=Foreign.LAST) as (made, rogue, _):
        rogue.attack = "invent"
        shown = await texts(made, fusion=fusion)
        assert (shown[0], LIE in shown) == (GOLD, False), "still they displace nothing"
        assert LIE in await texts(made, k=50, fusion=fusion), "and fill what nothing else fills"
        assert LIE not in await texts(made, k=50, fusion=fusion, quorum_k=2)
    async with poisoned(foreign=Foreign.OFF) as (made, rogue, _):
        rogue.attack = "invent"
        assert LIE not in await texts(made, k=50, fusion=fusion)


async def order(k: int, fusion: Fusion, attack: str | None) -> list[tuple[str, float]]:
    """The ledger's own records with their scores, best first, with a rogue at work or without any rogue."""
    rogue = RogueShelf()
    rogue.attack = attack or "none"
    beside = [] if attack is None else [mirror("a-rogue", rogue)]
    routing = Routing(write_deadline_ms=5000)
    async with rig(*beside, mirror("honest", ShelfBackend()), routing=routing) as made:
        for text in (*OTHERS, GOLD):
            await made.memory.remember(text)
        assert await made.drained()
        answer = await made.memory.recall(QUESTION, k=k, min_relevance=0, fusion=fusion)
        assert ("a-rogue" in answer.stores_queried) is (attack is not None)
        return [(str(hit.content), hit.score) for hit in answer if str(hit.content) != LIE]


@requirement("memorywire:router.adversarial")
@pytest.mark.parametrize("k", [5, 50])
@pytest.mark.parametrize("fusion", list(Fusion))
async def test_t3_a_mirror_that_only_invents_does_not_move_a_record(fusion: Fusion, k: int) -> None:
    """The order of the honest records is to the letter the one that there is without the liar."""
    assert await order(k, fusion, "flood") == await order(k, fusion, None)


@requirement("memorywire:router.adversarial")
@pytest.mark.parametrize("attack", ["invent", "bump", "alter", "haunt"])
async def test_t3_where_scores_are_computed_by_the_ledger_no_lie_lifts_a_record_over_a_better_one(
    attack: str,
) -> None:
    """Fusion `max` counts no voices: what a mirror says of a record that there is moves it among its equals at most.

    With `weighted`, and with `rrf` where no votes are left out, a mirror that names real ids has a vote as any other has;
    what that can do is measured in the tests around this one.
    """
    lied, honest = await order(50, Fusion.MAX, attack), await order(50, Fusion.MAX, None)
    assert lied[0] == honest[0]
    assert [score for _, score in lied] == [score for _, score in honest]
    assert sorted(lied) == sorted(honest), "each has the score that it has without the liar"


@requirement("memorywire:router.adversarial")
@pytest.mark.parametrize("k", [5, 50])
@pytest.mark.parametrize("attack", ["invent", "bump", "alter", "haunt"])
async def test_t3_no_mirror_moves_a_record_that_the_ledger_found(attack: str, k: int) -> None:
    """With `rrf`, as it comes: the order is to the letter the one that there is without the liar."""
    assert await order(k, Fusion.RRF, attack) == await order(k, Fusion.RRF, None)


@requirement("memorywire:router.adversarial")
async def test_t3_explain_tells_that_a_mirrors_vote_was_left_out() -> None:
    async with poisoned() as (made, rogue, _):
        rogue.attack = "bump"
        hit = (await made.memory.recall(QUESTION, k=1, min_relevance=0, explain=True))[0]
    assert hit.why is not None
    votes: Any = hit.why["votes"]
    ledger = next(name for name in votes["places"] if name not in ("a-rogue", "honest"))
    assert (votes["places"][ledger], votes["left_out"], votes["outvoted"]) == (1, ["honest"], False)


@requirement("memorywire:router.adversarial")
async def test_t3_the_right_answer_cannot_be_pushed_out_by_real_ids_where_votes_are_trimmed() -> None:
    ranks: dict[bool, tuple[int, int]] = {}
    for trims in (False, True):
        async with poisoned(trim_votes=trims) as (made, rogue, _):
            before = (await texts(made)).index(GOLD)
            rogue.attack = "bump"
            ranks[trims] = before, (await texts(made, k=50)).index(GOLD)
    assert ranks[False][0] == 0
    assert ranks[False][1] > 3, "with plain votes the third voice outweighs any rank: it is an attack"
    assert ranks[True] == (0, 0)


@requirement("memorywire:router.adversarial")
@pytest.mark.parametrize("fusion", list(Fusion))
async def test_t3_altered_texts_and_memories_that_are_gone_waiting_or_anothers_are_never_shown(
    fusion: Fusion,
) -> None:
    async with poisoned() as (made, rogue, gold):
        rogue.attack = "alter"
        shown = await texts(made, k=50, fusion=fusion)
        assert (shown[0], LIE in shown) == (GOLD, False), "the ledger's text stands, not the mirror's"
        await made.memory.recall(QUESTION)  # so that it has seen everything it was ever given
        await made.memory.forget(ids=[gold])
        held = await made.memory.remember(f"{GOLD}, in a draft", approval_required=True)
        assert held.pending_approval
        assert await made.drained()
        assert not [text for text in rogue.ever.values() if "draft" in text], "what waits goes to no mirror"
        foreign = RememberRequest(agent_id="bo", type=MemoryType.SEMANTIC, content=f"{GOLD}, says Bo")
        await made.service.remember(local(), foreign)
        assert await made.drained()
        rogue.attack = "haunt"
        shown = await texts(made, k=50, fusion=fusion)
        assert {GOLD, foreign.content} <= set(rogue.ever.values()), "it has them, and tells them"
        assert not {GOLD, foreign.content} & set(shown)
        assert sorted(shown) == sorted(OTHERS)
