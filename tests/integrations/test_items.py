"""Items of LangGraph's stores, kept as memories. The store itself is tested on the real package."""

import threading
from typing import Any

import pytest

from quipu import sync
from quipu.errors import ConflictError
from quipu.integrations.items import Items
from quipu.testing.embedders import WordEmbedder
from tests.fixtures.memories import Clock

HOME = ("memories", "mara")


@pytest.fixture
def items(blocking: sync.Memory) -> Items:
    return Items(blocking, template=("memories", "{user_id}"))


def put(
    items: Items, key: str, text: str = "tea", /, namespace: tuple[str, ...] = HOME, **value: Any
) -> None:
    items.put(namespace, key, {"text": text, **value}, [text])


def test_an_item_comes_back_whole_and_is_found_by_its_text(items: Items, blocking: sync.Memory) -> None:
    value = {"text": "Mara is vegetarian", "deep": {"list": [1, 2.5, None, True]}}
    items.put(HOME, "diet", value, ["Mara is vegetarian"])
    item = items.get(HOME, "diet")
    assert item is not None
    assert (item.namespace, item.key, item.value) == (HOME, "diet", value)
    (hit,) = blocking.recall("vegetarian", user_id="mara")
    assert hit.content == "Mara is vegetarian"


def test_put_again_takes_its_place_and_keeps_when_it_was_made() -> None:
    clock = Clock()
    with sync.Memory("agent", ":memory:", embedder=WordEmbedder(), clock=clock) as memory:
        items = Items(memory, template=())
        put(items, "diet", "vegetarian")
        clock.now += 1000
        put(items, "diet", "vegan")
        (item,) = items.search(HOME)
        assert item.value == {"text": "vegan"}
        assert item.updated_at - item.created_at == 1000


def test_an_item_lives_as_long_as_it_was_given_and_a_new_put_without_that_lasts() -> None:
    clock = Clock()
    with sync.Memory("agent", ":memory:", embedder=WordEmbedder(), clock=clock) as memory:
        items = Items(memory, template=())
        for key in ("soon", "kept"):
            items.put(HOME, key, {}, ["tea"], ttl=2)
        put(items, "kept")
        clock.now += 119_999
        assert items.get(HOME, "soon") is not None
        clock.now += 1
        assert items.get(HOME, "soon") is None
        assert [item.key for item in items.search(HOME)] == ["kept"]


def test_what_is_deleted_may_come_back(items: Items) -> None:
    put(items, "diet", "vegetarian")
    items.delete(HOME, "diet")
    items.delete(HOME, "nothing")
    assert items.get(HOME, "diet") is None
    assert items.search(HOME, query="vegetarian") == []
    put(items, "diet", "vegan")
    assert items.get(HOME, "diet") is not None


def test_a_namespace_is_no_prefix_of_its_neighbour(items: Items) -> None:
    for user in ("u1", "u10", "u%", "u_"):
        put(items, "k", f"tea for {user}", namespace=("memories", user))
    put(items, "k", "tea deeper", namespace=("memories", "u1", "deeper"))
    within = {item.namespace for item in items.search(("memories", "u1"))}
    assert within == {("memories", "u1"), ("memories", "u1", "deeper")}
    found = items.get(("memories", "u1"), "k")
    assert found is not None
    assert found.value == {"text": "tea for u1"}
    assert len(items.namespaces()) == 5


def test_what_is_not_indexed_is_not_found_by_a_query(items: Items) -> None:
    items.put(HOME, "diet", {}, ["vegetarian"], is_indexed=False)
    assert items.search(HOME, query="vegetarian") == []
    assert [item.key for item in items.search(HOME)] == ["diet"]


@pytest.mark.parametrize(
    ("wanted", "keys"),
    [
        ({"colour": "red"}, {"a"}),
        ({"n": {"$gte": 2}}, {"b", "c"}),
        ({"n": {"$lt": 2}}, {"a"}),
        ({"colour": {"$ne": "red"}}, {"b", "c"}),
        ({"colour": "blue", "n": 3}, {"c"}),
        ({"deep.n": 1}, {"a"}),
        ({"deep": {"n": 1}}, {"a"}),
        ({"colour": "green"}, set()),
    ],
)
def test_filters_are_on_the_value(items: Items, wanted: dict[str, Any], keys: set[str]) -> None:
    for key, colour, n in (("a", "red", 1), ("b", "blue", 2), ("c", "blue", 3)):
        put(items, key, f"tea {key}", colour=colour, n=n, deep={"n": n})
    assert {item.key for item in items.search(HOME, filter=wanted)} == keys
    assert {item.key for item in items.search(HOME, query="tea", filter=wanted)} == keys


def test_pages(items: Items) -> None:
    for n in range(7):
        put(items, f"k{n}", f"tea {n}")
    whole = [item.key for item in items.search(HOME, limit=20)]
    paged = [item.key for start in (0, 3, 6) for item in items.search(HOME, limit=3, offset=start)]
    assert paged == whole
    found = [
        item.key for start in (0, 3, 6) for item in items.search(HOME, query="tea", limit=3, offset=start)
    ]
    assert sorted(found) == sorted(whole)


def test_many_writers_of_one_new_key_make_one_item(items: Items) -> None:
    threads = [threading.Thread(target=put, args=(items, "same", f"tea {n}")) for n in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(items.search(HOME)) == 1


def test_a_held_put_is_told_and_stays_out_of_sight(blocking: sync.Memory) -> None:
    blocking.set_rules([{"id": "ask", "effect": "hold"}])
    told: list[Any] = []
    items = Items(blocking, template=(), on_held=told.append)
    put(items, "diet", "Mara is vegetarian")
    assert items.get(HOME, "diet") is None
    (held,) = told
    (review,) = blocking.list_reviews().reviews
    assert held.proposal_id == review.id
    blocking.decide(review.id, True)
    assert items.get(HOME, "diet") is not None
    with pytest.raises(ConflictError, match="waits for approval"):
        put(Items(blocking, template=(), strict=True), "other")


def test_what_is_deleted_while_it_is_searched_is_left_out(items: Items, blocking: sync.Memory) -> None:
    for key in ("one", "two"):
        put(items, key, f"tea number {key}")
    recall = blocking.recall

    def late(*asked: Any, **given: Any) -> Any:
        hits = recall(*asked, **given)
        blocking.forget(ids=[hits[0].id])  # somebody else, in between
        return hits

    blocking.recall = late  # type: ignore[method-assign]
    assert len(items.search(HOME, query="tea number")) == 1
