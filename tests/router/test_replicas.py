"""What a router of replicas shows: what most of them vouch for and what it wrote; and what happens without."""

from collections.abc import Callable
from typing import Any

import pytest

from quipu import Memory, Router
from quipu.memory.model import Hit, RecallResponse
from quipu.router.hits import agreed, is_asked_for, is_vouched, liars
from quipu.search.fusion import Fused
from tests.router.puppet import Puppet, altered

POISON = "poison"
TEXTS = [
    f"{who} {what}"
    for who in ("Mara", "Bob", "Ana")
    for what in ("drinks tea", "plays violin", "owns a boat")
]
ALL: dict[str, Any] = {"k": 50, "min_relevance": "off"}


@pytest.fixture
def five(memories: Callable[[str], dict[str, Memory]]) -> dict[str, Puppet]:
    return {name: Puppet(memory) for name, memory in memories("abcde").items()}


@pytest.fixture
def three(five: dict[str, Puppet]) -> dict[str, Puppet]:
    return {name: five[name] for name in "abc"}


async def filled(peers: dict[str, Puppet], **options: Any) -> tuple[Router, Hit]:
    """A router that has written everything, and a hit to make lies of."""
    router = Router(peers, agent_id="ana", **{"replicas": True, **options})
    for text in TEXTS:
        await router.remember(content=text)
    return router, (await asked(router))[0]


async def asked(router: Router, query: str = TEXTS[0], **given: Any) -> RecallResponse:
    return await router.recall(query=query, **{**ALL, **given})


def told(answer: RecallResponse) -> list[str]:
    return [str(hit.content) for hit in answer]


@pytest.mark.parametrize("size", [1, 5, 20, 100, 1000])
async def test_two_of_five_that_lie_alike_get_nothing_in(five: dict[str, Puppet], size: int) -> None:
    router, like = await filled(five)
    calm = await asked(router)
    assert sorted(told(calm)) == sorted(TEXTS)
    for name in "ab":
        five[name].invent(like, size)
    assert told(await asked(router)) == told(calm), "free places stay free"
    for name in "ab":  # lies instead of what is true, and so many that nobody reads them
        five[name].says = lambda _: [
            altered(like, id=f"mem_x{n}", content=f"{POISON} {n}") for n in range(10 * size)
        ]
    answer = await asked(router)
    assert sorted(told(answer)) == sorted(TEXTS)
    assert answer.unvouched == min(10 * size, 200)


async def test_where_honest_peers_find_nothing_nothing_is_shown(three: dict[str, Puppet]) -> None:
    router, like = await filled(three)
    three["a"].invent(like, 5)
    answer = await asked(router, "tea", user_id="nobody we know")
    assert (told(answer), answer.unvouched) == ([], 5)


async def test_it_helps_no_liar_that_another_peer_is_silent(three: dict[str, Puppet]) -> None:
    router, like = await filled(three)
    three["a"].invent(like, 5)
    three["b"].fails = True
    assert sorted(told(await asked(router))) == sorted(TEXTS)
    three["a"].says = lambda _: []
    assert sorted(told(await asked(router))) == sorted(TEXTS), "nor does it take away"


async def test_a_memory_that_one_peer_alone_took_is_shown_by_that_one(three: dict[str, Puppet]) -> None:
    router, like = await filled(three)
    three["a"].fails = three["c"].fails = True
    alone = await router.remember(content="Kim fears ladders")
    assert alone.stores == ("b",)
    three["a"].fails = three["c"].fails = False
    three["a"].says = lambda hits: [altered(like, id=alone.id, content=POISON), *hits]
    answer = await asked(router, "Kim fears ladders")
    (hit,) = [hit for hit in answer if hit.id == alone.id]
    assert (hit.content, hit.found_by) == ("Kim fears ladders", ("b",))
    assert POISON not in told(answer)


async def test_what_was_forgotten_is_not_brought_back_by_one_that_kept_it(three: dict[str, Puppet]) -> None:
    router, like = await filled(three)
    theirs = (await router.copies(like.id))["a"]
    await router.forget(ids=[like.id])
    three["a"].says = lambda hits: [altered(like, id=theirs), *hits]
    assert like.content not in told(await asked(router))


async def test_a_false_text_is_no_voice_for_the_true_one(three: dict[str, Puppet]) -> None:
    """Of three one alone has a memory still, and another shows its id with another text: nobody vouches for either."""
    router, like = await filled(three)
    rare = await router.remember(content="Mara drinks tea and so on")
    natives = await router.copies(rare.id)
    await three["c"].inner.forget(ids=[natives["c"]])
    three["a"].says = lambda hits: (
        [altered(like, id=natives["a"], content=POISON)] + [hit for hit in hits if hit.id != natives["a"]]
    )
    answer = await asked(router, explain=True)
    assert rare.id not in {hit.id for hit in answer}, "one voice is not enough"
    assert answer.unvouched == 1
    assert POISON not in told(answer)


async def test_who_contradicts_is_named_and_does_not_vote(three: dict[str, Puppet]) -> None:
    router, like = await filled(three)
    three["a"].says = lambda hits: [altered(hit, content=POISON) for hit in hits]
    (hit,) = await asked(router, k=1, explain=True)
    assert (hit.id, hit.content, hit.found_by) == (like.id, like.content, ("b", "c"))
    assert hit.why is not None
    assert hit.why["votes"] == {"places": {"b": 1, "c": 1}, "other_text": ["a"]}


@pytest.mark.parametrize("options", [{"replicas": False}, {"fusion": "max"}, {"fusion": "weighted"}])
async def test_without_it_and_where_scores_are_believed_every_peer_is_heard(
    three: dict[str, Puppet], options: dict[str, Any]
) -> None:
    """Plain fusion is the default: peers may hold different things."""
    router, like = await filled(three, **options)
    three["a"].invent(like, 2)
    answer = await asked(router)
    assert {f"{POISON} 0", f"{POISON} 1"} <= set(told(answer)), "so the attack is real"
    assert answer.unvouched == 0


async def test_plain_fusion_is_the_default_and_peers_with_contents_of_their_own_are_all_heard(
    three: dict[str, Puppet],
) -> None:
    for name, peer in three.items():
        await peer.inner.remember(f"tea of {name}")
    router = Router(three, agent_id="ana")
    await router.remember(content="tea for all")
    assert sorted(told(await asked(router, "tea"))) == ["tea for all", "tea of a", "tea of b", "tea of c"]
    copies = await asked(Router(three, agent_id="ana", replicas=True), "tea")
    assert (told(copies), copies.unvouched) == (["tea for all"], 3)


async def test_a_first_peer_that_gives_every_memory_one_id_makes_nothing_disappear(
    three: dict[str, Puppet],
) -> None:
    three["a"].names = lambda _: "mem_always"
    router, _ = await filled(three)
    assert sorted(told(await asked(router))) == sorted(TEXTS)
    again = {"content": "Kim fears ladders", "idempotency_key": "once"}
    first, second = await router.remember(**again), await router.remember(**again)
    assert first.id == second.id, "what was written before keeps its id"


async def test_a_peer_that_claims_the_routers_own_id_is_not_believed(three: dict[str, Puppet]) -> None:
    router, like = await filled(three)
    del three["b"], three["c"]
    await three["a"].inner.forget(ids=[(await router.copies(like.id))["a"]])
    three["a"].says = lambda hits: [altered(like, id=like.id, content=POISON), *hits]
    # The router's id is a's own id, as the first that took it: so let it be another peer's.
    late = Router({"z": three["a"]}, agent_id="ana", ids=router._naming._ids)
    (first, *_) = await asked(late)
    assert (first.content, first.id) == (POISON, f"z:{like.id}")
    assert (await late.copies(first.id)) == {"z": like.id}, "and by that name it can be forgotten"


async def test_who_tells_the_true_text_and_lies_about_the_rest_is_not_quoted(
    three: dict[str, Puppet],
) -> None:
    router, _ = await filled(three)
    three["a"].says = lambda hits: [
        altered(hit, user_id="somebody else", metadata={"trusted": True}, type="episodic") for hit in hits
    ]
    for hit in await asked(router):
        assert (hit.user_id, hit.metadata, hit.type) == (None, {}, "semantic")


@pytest.mark.parametrize("lies", [{"confidence": 0.1}, {"demoted": True}, {}])
async def test_a_minority_that_claims_links_doubt_or_demotion_moves_nothing(
    three: dict[str, Puppet], lies: dict[str, Any]
) -> None:
    router, _ = await filled(three)

    async def seen() -> list[tuple[object, ...]]:
        answer = await asked(router, hops=1)
        return [(hit.id, hit.score, hit.supporting, hit.demoted) for hit in answer]

    calm = await seen()

    def lie(hits: list[Hit]) -> list[Hit]:
        ids = tuple(hit.id for hit in hits)
        return [altered(hit, supporting=ids, why={"hop": 1}, **lies) for hit in hits]

    three["a"].says = lie
    assert await seen() == calm


def item(id: str, *backends: str) -> Fused:
    return Fused(id, 0.0, backends, 0.0, False, ())


def test_how_many_must_vouch() -> None:
    assert [liars(peers) for peers in range(1, 8)] == [0, 0, 1, 1, 2, 2, 3]
    assert [is_asked_for(peers, "rrf") for peers in (1, 2, 3)] == [False, False, True]
    assert not is_asked_for(5, "max")
    assert not is_vouched(item("x", "a", "b"), listed=5, answered=5)
    assert is_vouched(item("x", "a", "b", "c"), listed=5, answered=5)
    assert not is_vouched(item("x", "a"), listed=5, answered=2)
    assert is_vouched(item("x", "a", "b"), listed=5, answered=2)
    assert is_vouched(item("x", "b"), listed=5, answered=5, holders=1)
    assert is_vouched(item("x", "a", "b"), listed=5, answered=3, holders=5)
    assert agreed(["x", "y", "y"]) == 1
    assert agreed(["x", "y"]) == 0
