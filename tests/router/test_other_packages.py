"""Peers of another package are asked with its models and answer with them; so is a router that is asked with them."""

from collections.abc import Callable
from typing import Any

import pytest

from quipu import InvalidError, Memory, Router
from quipu.errors import UnsupportedError
from tests.router import other_package as theirs
from tests.router.other_package import Neighbourly, Silent, Store

ANY: dict[str, Any] = {"min_relevance": "off", "k": 10}


@pytest.mark.parametrize("kind", [Store, Silent])
async def test_a_write_and_what_follows_reach_a_store_of_another_package(
    kind: type[Store], peers: dict[str, Memory]
) -> None:
    other = kind("other")
    router = Router({"other": other, "a": peers["a"]}, agent_id="ana")
    done = await router.remember(content="Mara likes tea", user_id="mara", metadata={"city": "Oslo"})
    assert (done.id, done.stores) == ("o-1", ("other", "a"))
    second = await router.remember(content="Mara likes green tea", user_id="mara")
    answer = await router.recall(query="tea", **ANY)
    assert {(hit.id, hit.found_by) for hit in answer} == {("o-1", ("a", "other")), ("o-2", ("a", "other"))}
    (hit,) = await router.recall(query="tea", filter={"metadata.city": "Oslo"}, **ANY)
    assert (hit.id, hit.metadata, hit.user_id) == ("o-1", {"city": "Oslo"}, "mara")
    merged = await router.merge(canonical=done.id, duplicates=[second.id])
    assert (merged.merged_count, merged.stores) == (1, ("other", "a"))
    gone = await router.forget(ids=[done.id])
    assert [(row.store, row.count) for row in gone.stores] == [("other", 1), ("a", 1)]
    assert other.rows == {}
    doubtful = await router.remember(content="tea is blue", confidence=0.2)
    expired = await router.expire(policy={"confidence_below": 0.5})
    assert (expired.matched_count, expired.ids) == (1, (doubtful.id,))
    assert other.rows == {}


async def test_only_what_was_said_is_sent_and_in_v0s_words() -> None:
    other = Store("other")
    router = Router({"other": other}, agent_id="ana")
    await router.remember(content="tea", type="episodic", reasoning="because")
    await router.recall(query="tea", explain=True, max_tokens=100, min_relevance=0.0, filter={"tags": ["x"]})
    await router.forget(ids=["o-1"], user_id="mara")
    said = [request.model_dump(mode="json", exclude_none=True) for request in other.asked]
    assert said == [
        {"agent_id": "ana", "type": "episodic", "content": "tea"},
        {"agent_id": "ana", "query": "tea", "filter": {"tags": ["x"]}},
        {"agent_id": "ana", "ids": ["o-1"], "user_id": "mara"},
    ]


@pytest.mark.parametrize(
    ("operation", "given", "says"),
    [
        ("remember", {"content": "tea", "id": "o-1"}, "id"),
        ("remember", {"content": "tea", "tags": ["x"]}, "tags"),
        ("remember", {"content": "tea", "dry_run": True}, "dry_run"),
        ("remember", {"content": "tea", "idempotency_key": "once"}, "idempotency_key"),
        ("remember", {"content": "tea", "expires_at": "30d"}, "expires_at"),
        ("remember", {"content": "tea", "approval_required": True}, "governance"),
        ("remember", {"content": {"name": "m", "initial": "a", "states": ["a"], "transitions": []}, "type": "procedural"}, "procedural"),
        ("recall", {"query": "tea", "session_id": "s"}, "session_id"),
            ("recall", {"query": "tea", "include_superseded": True}, "include_superseded"),
        ("recall", {"query": "tea", "min_relevance": 0.5}, "min_relevance"),
        ("recall", {"query": "tea", "filter": {"importance": 1}}, "filter"),
        ("recall", {"query": "tea", "filter": {"metadata.n": {"$gt": 1}}}, "filter"),
        ("recall", {"query": "tea", "filter": {"metadata.a.b": 1}}, "filter"),
        ("forget", {"ids": ["o-1"], "dry_run": True}, "dry_run"),
        ("expire", {"policy": {"no_recall_in_days": 3}}, "recall_tracking"),
    ],
)  # fmt: skip
async def test_what_it_has_no_place_for_is_never_passed_over(
    peers: dict[str, Memory], operation: str, given: dict[str, Any], says: str
) -> None:
    other = Store("other")
    await other.remember(
        theirs.RememberRequest(agent_id="ana", type=theirs.MemoryType.SEMANTIC, content="tea at noon")
    )
    other.asked.clear()
    with pytest.raises(UnsupportedError) as refused:
        await getattr(Router({"other": other}, agent_id="ana"), operation)(**given)
    assert (refused.value.reason, says in f"{refused.value} {refused.value.hint}") == ("not_promised", True)
    assert other.asked == []
    if "id" not in given and operation != "forget":
        both = await getattr(Router({"other": other, "a": peers["a"]}, agent_id="ana"), operation)(**given)
        assert [one.store for one in both.stores_failed] == ["other"]
        assert other.asked == []


async def test_its_requests_name_an_agent() -> None:
    with pytest.raises(InvalidError) as refused:
        await Router([Store("other")]).recall(query="tea")
    assert refused.value.faults[0].pointer == "/agent_id"


async def test_who_asks_with_models_of_another_package_is_answered_in_them(peers: dict[str, Memory]) -> None:
    router = Router({"other": Store("other"), "a": peers["a"]})
    kept = await router.remember(
        theirs.RememberRequest(
            agent_id="ana", type=theirs.MemoryType.SEMANTIC, content="tea at noon", metadata={"n": 1}
        )
    )
    assert type(kept) is theirs.RememberResponse
    # A plain name in their filter is a key of the metadata.
    found = await router.recall(theirs.RecallRequest(agent_id="ana", query="tea", filter={"n": 1}, k=3))
    assert type(found) is theirs.RecallResponse
    assert [(hit.id, hit.type) for hit in found.results] == [(kept.id, theirs.MemoryType.SEMANTIC)]
    nulls = theirs.ExpireRequest(agent_id="ana", policy=theirs.ExpirePolicy(confidence_below=0.5))
    assert type(await router.expire(nulls)) is theirs.ExpireResponse
    for empty in (None, theirs.ExpirePolicy()):
        with pytest.raises(ValueError, match="expire") as refused:
            await router.expire(theirs.ExpireRequest(agent_id="ana", policy=empty))
        assert isinstance(refused.value, InvalidError)
        assert refused.value.reason == "empty_policy"
    gone = await router.forget(theirs.ForgetRequest(agent_id="ana", ids=[kept.id]))
    assert type(gone) is theirs.ForgetResponse
    assert [row.count for row in gone.stores] == [1, 1]


async def test_an_id_that_others_have_for_something_else_is_not_forgotten_there() -> None:
    """Two stores that count from one: what the router calls o-1 is the first one's."""
    first, second = Store("first"), Store("second")
    for store, text in ((first, "tea of the first"), (second, "tea of the second")):
        await store.remember(
            theirs.RememberRequest(agent_id="ana", type=theirs.MemoryType.SEMANTIC, content=text)
        )
    router = Router({"first": first, "second": second}, agent_id="ana")
    hits = {str(hit.content): hit.id for hit in await router.recall(query="tea", **ANY)}
    assert hits == {"tea of the first": "o-1", "tea of the second": "second:o-1"}
    gone = await router.forget(ids=["o-1"])
    assert gone.forgotten_ids == ("o-1",)
    assert (len(first.rows), len(second.rows)) == (0, 1)
    gone = await router.forget(ids=["second:o-1"])
    assert (gone.forgotten_ids, len(second.rows)) == (("second:o-1",), 0)


async def test_scores_are_believed_as_they_are_told_and_what_is_no_number_counts_nothing() -> None:
    first, second = Store("first"), Store("second")
    for store, text in ((first, "tea"), (second, "tea of the second")):
        await store.remember(
            theirs.RememberRequest(agent_id="ana", type=theirs.MemoryType.SEMANTIC, content=text)
        )
    scores = {"first": 2.5, "second": 7.25}

    def scored(store: Store) -> None:
        inner = store.recall

        async def recall(req: theirs.RecallRequest) -> theirs.RecallResponse:
            answer = await inner(req)
            for hit in answer.results:
                hit.score = scores[store.name]
            return answer

        store.recall = recall  # type: ignore[method-assign]  a store whose scores are not from 0 to 1

    scored(first)
    scored(second)
    router = Router({"first": first, "second": second}, agent_id="ana", weights={"first": 4.0})

    async def told(fusion: str) -> list[tuple[str, float]]:
        answer = await router.recall(query="tea", fusion=fusion, **ANY)
        return [(hit.id, hit.score) for hit in answer]

    assert await told("max") == [("second:o-1", 7.25), ("o-1", 2.5)]
    assert await told("weighted") == [("o-1", 10.0), ("second:o-1", 7.25)]
    scores["second"] = float("nan")
    assert await told("max") == [("o-1", 2.5), ("second:o-1", 0.0)]


async def test_links_are_asked_of_a_peer_that_tells_its_neighbours() -> None:
    other = Neighbourly("other")
    for text in ("tea at noon", "tea at four", "tea at six"):
        await other.remember(
            theirs.RememberRequest(agent_id="ana", type=theirs.MemoryType.SEMANTIC, content=text)
        )
    other.links = {"o-3": [("o-1", 2), ("o-9", 1)], "o-1": [("o-3", 2)]}
    router = Router({"other": other}, agent_id="ana")
    calm = {hit.id: hit for hit in await router.recall(query="tea", **ANY)}
    lifted = {hit.id: hit for hit in await router.recall(query="tea", hops=2, explain=True, **ANY)}
    for id, factor in (("o-1", 1 + 0.1 / 3), ("o-2", 1.0), ("o-3", 1 + 0.1 / 3)):
        assert lifted[id].score == pytest.approx(calm[id].score * factor)
    assert lifted["o-3"].supporting == ("o-1",), "only hits of the answer; nothing new is brought in"
    assert lifted["o-3"].why is not None
    assert lifted["o-3"].why["hop"] == 2
    near = {hit.id: hit for hit in await router.recall(query="tea", hops=1, **ANY)}
    assert {id: hit.score for id, hit in near.items()} == {id: hit.score for id, hit in calm.items()}


async def test_links_and_doubt_of_another_package_are_lost_on_no_one(
    memories: Callable[[str], dict[str, Memory]],
) -> None:
    """Where a peer weighs nothing, the memory beside it still does."""
    two = memories("a")
    router = Router({"other": Store("other"), **two}, agent_id="ana")
    sure = await router.remember(content="tea at noon")
    await router.remember(content="tea at noon daily", confidence=0.1)
    answer = await router.recall(query="tea at noon", **ANY)
    assert answer[0].id == sure.id
    assert answer[1].confidence == 0.1
