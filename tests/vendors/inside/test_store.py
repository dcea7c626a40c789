"""Quipu as a LangGraph store: what LangGraph's own store on PostgreSQL does, and what only Quipu can."""

from __future__ import annotations

import asyncio
from datetime import UTC
from typing import Any, TypedDict

import pytest
from langgraph.graph import END, START, StateGraph
from langgraph.store.base import BaseStore, GetOp, InvalidNamespaceError, PutOp, SearchOp
from langmem import create_manage_memory_tool, create_search_memory_tool

from quipu import sync
from quipu.errors import ConflictError
from quipu.integrations.langgraph import QuipuStore
from quipu.testing.builders import FixedClock

HOME = ("memories", "mara")


# -- the same on both -------------------------------------------------------------------------------------------


def test_an_item_comes_back_whole(either: BaseStore) -> None:
    value = {"text": "Mara is vegetarian", "deep": {"list": [1, 2.5, None, True]}, "n": 3}
    either.put(HOME, "diet", value)
    item = either.get(HOME, "diet")
    assert item is not None
    assert (item.namespace, item.key, item.value) == (HOME, "diet", value)
    assert item.created_at.tzinfo is not None
    assert item.created_at.astimezone(UTC) <= item.updated_at.astimezone(UTC)


def test_what_is_not_there_is_none(either: BaseStore) -> None:
    assert either.get(HOME, "nothing") is None
    either.delete(HOME, "nothing")
    assert either.search(("memories",)) == []
    assert either.list_namespaces() == []


def test_put_again_takes_its_place_and_keeps_when_it_was_made(either: BaseStore) -> None:
    either.put(HOME, "diet", {"text": "vegetarian"})
    first = either.get(HOME, "diet")
    either.put(HOME, "diet", {"text": "vegan"})
    second = either.get(HOME, "diet")
    assert first is not None
    assert second is not None
    assert second.value == {"text": "vegan"}
    assert second.created_at == first.created_at
    assert len(either.search(HOME)) == 1


def test_delete_takes_it_away_and_it_may_come_back(either: BaseStore) -> None:
    either.put(HOME, "diet", {"text": "vegetarian"})
    either.delete(HOME, "diet")
    assert either.get(HOME, "diet") is None
    assert either.search(HOME, query="vegetarian") == []
    either.put(HOME, "diet", {"text": "vegan"})
    assert either.get(HOME, "diet") is not None


def test_a_namespace_is_no_prefix_of_its_neighbour(either: BaseStore) -> None:
    for user in ("u1", "u10", "u%", "u_"):
        either.put(("memories", user), "k", {"text": f"tea for {user}"})
    either.put(("memories", "u1", "deeper"), "k", {"text": "tea deeper"})
    assert {item.namespace for item in either.search(("memories", "u1"))} == {
        ("memories", "u1"),
        ("memories", "u1", "deeper"),
    }
    assert len(either.search(("memories",))) == 5
    found = either.get(("memories", "u1"), "k")
    assert found is not None
    assert found.value == {"text": "tea for u1"}


def test_the_best_comes_first_and_has_a_score(either: BaseStore) -> None:
    either.put(HOME, "violin", {"text": "violins are made of maple"})
    either.put(HOME, "diet", {"text": "the capital of France is Paris"})
    found = either.search(("memories",), query="capital of France", limit=2)
    assert [item.key for item in found] == ["diet", "violin"]
    assert found[0].score is not None
    assert found[0].score > (found[1].score or 0)


def test_what_is_not_indexed_is_not_found_by_a_query(either: BaseStore) -> None:
    either.put(HOME, "diet", {"text": "vegetarian"}, index=False)
    assert either.search(HOME, query="vegetarian") == []
    assert [item.key for item in either.search(HOME)] == ["diet"]


@pytest.mark.parametrize(
    ("wanted", "keys"),
    [
        ({"colour": "red"}, {"a"}),
        ({"n": {"$gte": 2}}, {"b", "c"}),
        ({"n": {"$gt": 2}}, {"c"}),
        ({"n": {"$lt": 2}}, {"a"}),
        ({"colour": {"$ne": "red"}}, {"b", "c"}),
        ({"colour": "blue", "n": 3}, {"c"}),
        ({"colour": "green"}, set()),
    ],
)
def test_filters(either: BaseStore, wanted: dict[str, Any], keys: set[str]) -> None:
    for key, colour, n in (("a", "red", 1), ("b", "blue", 2), ("c", "blue", 3)):
        either.put(HOME, key, {"text": f"tea {key}", "colour": colour, "n": n})
    assert {item.key for item in either.search(HOME, filter=wanted)} == keys
    assert {item.key for item in either.search(HOME, query="tea", filter=wanted)} == keys


def test_pages(either: BaseStore) -> None:
    for n in range(7):
        either.put(HOME, f"k{n}", {"text": f"tea {n}"})
    whole = [item.key for item in either.search(HOME, limit=20)]
    assert sorted(whole) == [f"k{n}" for n in range(7)]
    paged = [item.key for start in (0, 3, 6) for item in either.search(HOME, limit=3, offset=start)]
    assert sorted(paged) == sorted(whole)


def test_namespaces(either: BaseStore) -> None:
    for namespace in (("a", "b", "c"), ("a", "b", "d"), ("a", "x", "c"), ("z",)):
        either.put(namespace, "k", {"text": "tea"})
    assert either.list_namespaces(prefix=("a", "b")) == [("a", "b", "c"), ("a", "b", "d")]
    assert either.list_namespaces(suffix=("c",)) == [("a", "b", "c"), ("a", "x", "c")]
    assert either.list_namespaces(prefix=("a", "*", "c")) == [("a", "b", "c"), ("a", "x", "c")]
    assert either.list_namespaces(max_depth=2) == [("a", "b"), ("a", "x"), ("z",)]
    assert either.list_namespaces(limit=2, offset=1) == [("a", "b", "d"), ("a", "x", "c")]


def test_a_batch_reads_before_it_writes_and_the_last_put_counts(either: BaseStore) -> None:
    either.put(HOME, "k", {"text": "old"})
    got, _, _, found = either.batch(
        [
            GetOp(HOME, "k"),
            PutOp(HOME, "k", {"text": "new"}),
            PutOp(HOME, "k", {"text": "newest"}),
            SearchOp(HOME),
        ]
    )
    assert got.value == {"text": "old"}
    assert [item.value for item in found] == [{"text": "old"}]
    assert either.get(HOME, "k").value == {"text": "newest"}


@pytest.mark.parametrize("namespace", [(), ("",), ("a.b",), ("langgraph", "x")])
def test_namespaces_that_are_refused(either: BaseStore, namespace: tuple[str, ...]) -> None:
    with pytest.raises(InvalidNamespaceError):
        either.put(namespace, "k", {"text": "tea"})


# -- only Quipu -------------------------------------------------------------------------------------------------


async def test_the_other_colour(store: QuipuStore) -> None:
    await store.aput(HOME, "diet", {"text": "Mara is vegetarian"})
    await asyncio.gather(*(store.aput(HOME, "same", {"text": f"tea {n}"}) for n in range(8)))
    assert (await store.aget(HOME, "diet")).value == {"text": "Mara is vegetarian"}
    assert len(await store.asearch(HOME)) == 2, "eight writers of one key made one item"


def test_deeper_filters(store: QuipuStore) -> None:
    store.put(HOME, "a", {"text": "tea", "deep": {"n": 1}, "tags": ["x", "y"]})
    store.put(HOME, "b", {"text": "tea", "deep": {"n": 2}, "tags": ["z"]})
    for wanted in (
        {"deep.n": 1},
        {"deep": {"n": 1}},
        {"tags": {"$contains": "y"}},
        {"deep.n": {"$in": [0, 1]}},
    ):
        assert [item.key for item in store.search(HOME, filter=wanted)] == ["a"], wanted


def test_it_is_a_memory_like_any_other(store: QuipuStore, memory: sync.Memory) -> None:
    store.put(HOME, "diet", {"text": "Mara is vegetarian"})
    (hit,) = memory.recall("vegetarian", user_id="mara")
    assert hit.content == "Mara is vegetarian"
    store.put(HOME, "diet", {"text": "Mara is vegan"})
    assert [version.record.content for version in memory.history(hit.id)] == [
        "Mara is vegetarian",
        "Mara is vegan",
    ]
    memory.forget(ids=[hit.id], hard_delete=True)
    assert store.get(HOME, "diet") is None


def test_an_item_lives_as_long_as_it_was_given(store: QuipuStore, clock: FixedClock) -> None:
    store.put(HOME, "soon", {"text": "tea"}, ttl=2)
    clock.move(119_999)
    assert store.get(HOME, "soon") is not None
    clock.move(1)
    assert store.get(HOME, "soon") is None
    assert store.search(HOME) == []


def test_a_held_write_is_told_and_stays_out_of_sight(memory: sync.Memory, clock: FixedClock) -> None:
    memory.set_rules({"rules": [{"id": "ask", "effect": "hold"}]})
    told: list[Any] = []
    store = QuipuStore(memory, fields=["text"], on_held=told.append, clock=clock)
    store.put(HOME, "diet", {"text": "Mara is vegetarian"})
    assert store.get(HOME, "diet") is None
    (held,) = told
    (proposal,) = memory.proposals()
    memory.decide(proposal.id, approved=True)
    item = store.get(HOME, "diet")
    assert item is not None
    assert held.pending_approval
    with pytest.raises(ConflictError):
        QuipuStore(memory, strict=True, clock=clock).put(HOME, "other", {"text": "tea"})


def test_what_is_deleted_while_it_is_searched_is_left_out(
    memory: sync.Memory, store: QuipuStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    for key in ("one", "two"):
        store.put(HOME, key, {"text": f"tea number {key}"})
    inner = memory.memory
    recall = inner.recall

    async def recalled_late(*asked: Any, **given: Any) -> Any:
        hits = await recall(*asked, **given)
        await inner.forget(ids=[hits[0].id])  # somebody else, in between
        return hits

    monkeypatch.setattr(inner, "recall", recalled_late)
    (left,) = store.search(HOME, query="tea number")
    assert left.key in ("one", "two")


def test_an_item_of_a_time_that_no_date_can_name(store: QuipuStore, clock: FixedClock) -> None:
    clock.move(8_000_000_000_000_000)
    store.put(HOME, "late", {"text": "tea"})
    item = store.get(HOME, "late")
    assert item is not None
    assert item.created_at.year == 9999
    assert [found.key for found in store.search(HOME)] == ["late"]


class Asked(TypedDict):
    question: str
    answer: str


def test_a_graph_of_langgraph_uses_it(store: QuipuStore) -> None:
    def answer(state: Asked, *, store: BaseStore) -> dict[str, str]:
        store.put(HOME, "asked", {"text": state["question"]})
        return {"answer": store.search(("memories",), query="what does Mara eat", limit=1)[0].value["text"]}

    store.put(HOME, "diet", {"text": "Mara does eat no meat"})
    graph = StateGraph(Asked)
    graph.add_node("answer", answer)
    graph.add_edge(START, "answer")
    graph.add_edge("answer", END)
    said = graph.compile(store=store).invoke({"question": "dinner?", "answer": ""})
    assert said["answer"] == "Mara does eat no meat"
    assert store.get(HOME, "asked") is not None


def test_the_tools_of_langmem_work_on_it(memory: sync.Memory, clock: FixedClock) -> None:
    store = QuipuStore(memory, fields=["content"], clock=clock)
    manage = create_manage_memory_tool(namespace=HOME, store=store)
    find = create_search_memory_tool(namespace=HOME, store=store)
    manage.invoke({"content": "Mara is vegetarian", "action": "create"})
    (item,) = store.search(HOME)
    assert item.value["content"] == "Mara is vegetarian"
    assert "vegetarian" in str(find.invoke({"query": "vegetarian"}))
    manage.invoke({"content": "Mara is vegan", "action": "update", "id": item.key})
    assert store.get(HOME, item.key).value["content"] == "Mara is vegan"
    manage.invoke({"action": "delete", "id": item.key})
    assert store.get(HOME, item.key) is None
