"""What holds for every filter, profile, level, page and time."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from dataclasses import fields, replace
from itertools import count
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from quipu.crypto.canonical import canonical
from quipu.errors import InvalidError
from quipu.model.grants import Asked, ItemFilter, TextMode
from quipu.model.operations import ForgetRequest
from quipu.rules import grants, grants_items, projection, receipts
from quipu.rules.grants_times import DAY_MS, instant, rfc3339
from quipu.rules.projection import View, layered, leaves, projected
from quipu.rules.projection_profiles import PROFILES, TABLES
from quipu.testing.builders import FixedClock
from tests.oap.hosts import OWNER, Host, pair
from tests.oap.test_vectors import VECTORS
from tests.requirement import requirement

LABELS = ("a", "b", "c")
_LABEL_NUMBERS = count()
names = st.sets(st.sampled_from(LABELS), min_size=1).map(frozenset)
moments_ = st.integers(0, 10).map(lambda n: n * 1000)
filters = st.builds(
    ItemFilter,
    subject_entity_ids=st.none() | st.sets(st.sampled_from(["ent_1", "ent_2"]), min_size=1).map(frozenset),
    kinds=st.none() | st.sets(st.sampled_from(grants_items.KINDS), min_size=1).map(frozenset),
    captured_after=st.none() | moments_,
    captured_before=st.none() | moments_,
    labels_any=st.none() | names,
    labels_all=st.none() | names,
    labels_none=st.none() | names,
    min_confidence=st.none() | st.floats(0, 1),
)
items = st.builds(
    lambda kind, subject, at, labels, sure, content: {
        "item_id": "mem_1",
        "owner_did": "did:web:user.example",
        "scope_id": "personal",
        "kind": kind,
        **({"subject_entity_id": subject} if subject else {}),
        "content": content,
        "provenance": {"captured_at": rfc3339(at), "confidence": sure, "source_receipt": "urn:oap:receipt:1"},
        "labels": sorted(labels),
        "ttl_days": 3,
        "exportable": True,
        "extensions": {"quipu": {"agent_id": "x"}},
    },
    st.sampled_from(grants_items.KINDS),
    st.none() | st.sampled_from(["ent_1", "ent_2"]),
    moments_,
    st.sets(st.sampled_from(LABELS)),
    st.floats(0, 1),
    st.deferred(lambda: contents),
)
words = st.sampled_from(
    ["tue", "Alice", "alice@example.com", "+49 30 123456789", "two words", "x_1", "10.0.0.1", ""]
)
scalars = st.none() | st.booleans() | st.integers(-5, 10**12) | st.floats(-5, 5) | words
keys = st.sampled_from(["day", "email", "phone", "note with spaces", "value", "entity", "Address", "count"])
entities = st.sampled_from(
    [
        VECTORS["projection_contact_v1"]["entity"],
        {"entity_type": "oap.entity.task", "id": "ent_t", "status": "open", "title": "Paint", "extra": 1},
        {"entity_type": "oap.entity.calendar_event", "id": "ent_e", "start": "x", "transparency": "busy", "title": "Hi", "visibility": "private"},
        {"entity_type": "oap.entity.deal", "id": "ent_d", "amount": 4},
        {"entity_type": ["odd"], "id": 7, "secret": "words of a secret"},
    ]
)  # fmt: skip
structures = st.recursive(
    scalars | entities,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(keys, inner, max_size=3),
    max_leaves=8,
)
contents = st.builds(
    lambda text, structured: {"text": text, **({"structured": structured} if structured else {})},
    st.sampled_from(["Plain words.", "Call +49 30 1234567 or write to a@b.example.", ""]),
    st.dictionaries(keys, structures, max_size=3) | entities,
)
views = st.builds(
    View,
    profile=st.sampled_from(sorted(PROFILES)),
    level=st.integers(0, 4),
    labels=names,
    mode=st.sampled_from(list(TextMode)),
    people=st.just({"ent_p": frozenset({"alice"})}),
)


@requirement("oap:filter.algebra")
@given(filters, filters, items)
def test_a_second_filter_only_narrows(one: ItemFilter, other: ItemFilter, item: dict[str, Any]) -> None:
    both = grants.admits(one, item) and grants.admits(other, item)
    assert both <= grants.admits(one, item)
    for part in fields(ItemFilter):
        looser = replace(one, **{part.name: None})
        assert grants.admits(one, item) <= grants.admits(looser, item), part.name
    assert grants.admits(ItemFilter(), item)


@pytest.mark.parametrize(
    ("key", "at", "wanted"),
    [("captured_after", 0, False), ("captured_after", -1, True), ("captured_before", 0, False), ("captured_before", 1, True)],
)  # fmt: skip
def test_bounds_of_capture_are_strict(key: str, at: int, wanted: bool) -> None:
    item = {"kind": "fact", "provenance": {"captured_at": rfc3339(5000), "confidence": 1}, "labels": []}
    assert grants.admits(ItemFilter(**{key: 5000 + at}), item) is wanted


@requirement("oap:filter.refused")
@pytest.mark.parametrize(
    "bad",
    [
        {}, {"all": False}, {"unknown": 1}, {"kinds": ["procedure"]}, {"kinds": []}, {"labels_any": "x"},
        {"labels_any": ["x"] * 1001}, {"labels_any": ["x" * 257]}, {"captured_after": "yesterday"},
        {"captured_after": "2026-01-01T00:00:00+02:00"}, {"captured_after": 5}, {"min_confidence": 2}, [], "x", None,
    ],
)  # fmt: skip
def test_a_filter_that_is_not_understood_is_refused(bad: Any) -> None:
    with pytest.raises(InvalidError):
        grants.parsed_filter(bad, "/filter")


@requirement("oap:projection.levels-grow")
@given(items, views)
def test_a_level_shows_no_more_than_the_next(item: dict[str, Any], view: View) -> None:
    for level in range(4):
        lower = _shown(projected(item, replace(view, level=level)).item)
        higher = _shown(projected(item, replace(view, level=level + 1)).item)
        assert lower <= higher, level


def _shown(item: dict[str, Any]) -> set[Any]:
    """What of the original is shown, as values with the path to them; places in lists may move."""
    original = projection._original({}, item)

    def walk(value: Any, path: tuple[str, ...]) -> Iterator[Any]:
        if isinstance(value, dict) and value:
            for name, part in value.items():
                yield from walk(part, (*path, name))
        elif isinstance(value, list | tuple) and value:
            for part in value:
                yield from walk(part, (*path, "[]"))
        elif value not in ({}, []):
            yield path, repr(value)

    return set(walk(original, ()))


@requirement("oap:projection.intersection")
@given(items, views, views)
def test_layers_intersect_whatever_their_order(item: dict[str, Any], one: View, other: View) -> None:
    both, turned = layered(item, [one, other]), layered(item, [other, one])
    assert both.item == turned.item
    assert layered(item, [one, one]).item == projected(item, one).item
    assert _shown(both.item) <= _shown(projected(item, one).item)
    assert _shown(both.item) <= _shown(projected(item, other).item)


@requirement("oap:projection.counted")
@given(items, views)
def test_what_is_gone_is_counted_and_nothing_is_added(item: dict[str, Any], view: View) -> None:
    left = projected(item, view)
    assert left.removed == len(list(leaves(item))) - len(list(leaves(projection._original(item, left.item))))
    assert left.removed >= 0
    assert projected(item, view).item == left.item, "the same every time"
    if view.level < 4:
        told = str(left.item["content"])
        assert "alice@example.com" not in told or "contact" in str(item["content"])
        assert "Plain words" not in told or view.mode is TextMode.BUILTIN
    else:
        assert not left.is_altered
        assert left.item == item


def test_every_profile_has_a_table_for_each_level() -> None:
    assert all(len(table) == 4 for table in TABLES.values())


@requirement("oap:receipt.tampering")
@given(st.data())
@settings(max_examples=40)
def test_any_change_to_a_log_is_found(data: st.DataObject) -> None:
    log = [dict(entry) for entry in VECTORS["item"]["log"]]
    head = receipts.hashed(log[-1], canonical)
    match data.draw(st.sampled_from(["flip", "remove", "swap", "insert"])):
        case "flip":
            entry = data.draw(st.sampled_from(log))
            name = data.draw(st.sampled_from(sorted(entry)))
            entry[name] = "other" if entry[name] != "other" else "another"
        case "remove":
            log.pop(data.draw(st.integers(0, len(log) - 1)))
        case "swap":
            log[0], log[1] = log[1], log[0]
        case _:
            log.insert(1, dict(log[1]))
    is_found = bool(receipts.log_faults(log, canonical)) or receipts.hashed(log[-1], canonical) != head
    assert is_found


def test_times_are_utc_and_exact() -> None:
    leap = instant("2028-02-29T23:59:59Z")
    assert leap is not None
    assert rfc3339(leap) == "2028-02-29T23:59:59Z"
    assert rfc3339(leap + 1) == "2028-02-29T23:59:59.001Z"
    for bad in ("2027-02-29T00:00:00Z", "2026-01-01", "2026-01-01T00:00:00", "2026-13-01T00:00:00Z", "x"):
        assert instant(bad) is None
    assert instant("2026-03-29T02:30:00Z") == (instant("2026-03-29T01:30:00Z") or 0) + 3_600_000


# -- against a host -----------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def hosts(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Host, Host, FixedClock]]:
    clock = FixedClock()
    with pair(tmp_path_factory.mktemp("pages"), clock=clock) as (a, b):
        yield a, b, clock


@requirement("oap:paging.stable")
@settings(max_examples=8, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.data())
def test_pages_neither_repeat_nor_show_what_was_deleted(
    hosts: tuple[Host, Host, FixedClock], data: st.DataObject
) -> None:
    a, b, clock = hosts
    label = f"page{next(_LABEL_NUMBERS)}"  # the examples share one host: never a label of an earlier one
    known = [a.remember(f"word{n % 3} alpha", tags=(label,)) for n in range(9)]
    grant_id = a.grant(
        b.owner, filter={"labels_any": [label]}, trust_level=4, expires_at=rfc3339(clock() + DAY_MS)
    )
    query = data.draw(st.sampled_from(["", "alpha", "alpha word1"]))
    seen: list[str] = []
    gone: set[str] = set()
    cursor = None
    while True:
        page = b.ask(a, grant_id, query, max_results=2, cursor=cursor)
        found = [item["item_id"] for item in page.items]
        assert not gone & set(found)
        seen += found
        left = [name for name in known if name not in gone]
        name = data.draw(st.sampled_from(left))
        a.at.do(a.at.service.forget(OWNER, ForgetRequest(agent_id="assistant", ids=(name,))))
        gone.add(name)
        a.remember("alpha new", tags=(label,))
        cursor = page.next_cursor
        if cursor is None or len(seen) > 30:
            break
    assert len(seen) == len(set(seen))
    assert set(known) - gone <= set(seen)


@requirement("oap:cap.distinct")
def test_a_cap_counts_different_items_even_when_asked_all_at_once(
    hosts: tuple[Host, Host, FixedClock],
) -> None:
    a, b, clock = hosts
    for n in range(12):
        a.remember(f"Capped {n}.", tags=("capped",), structured={"n": n})
    grant_id = a.grant(
        b.owner, filter={"labels_any": ["capped"]}, max_items=5, expires_at=rfc3339(clock() + DAY_MS)
    )

    async def asked() -> list[Any]:
        asking = b.sharing.borrowing.ask
        queries = [{"query": str(n), "max_results": 4} for n in range(12)]
        return await asyncio.gather(*(asking(OWNER, a.url, grant_id, query) for query in [{}, *queries]))

    answers = b.at.do(asked())
    shown = {item["item_id"] for answer in answers for item in answer.items}
    assert len(shown) == 5
    kept = a.at.do(a.sharing.grants.get(OWNER, grant_id))
    assert (kept.disclosed, kept.uses) == (5, 13)
    again = b.ask(a, grant_id)
    assert {item["item_id"] for item in again.items} == shown, "known ones are still served"
    assert "grant_item_cap_reached" in again.warnings


@requirement("oap:ttl.edges")
def test_an_item_is_gone_the_very_second_it_expires(hosts: tuple[Host, Host, FixedClock]) -> None:
    a, b, clock = hosts
    a.remember("Short.", tags=("short",), expires_at=clock() + 5000)
    grant_id = a.grant(
        b.owner, filter={"labels_any": ["short"]}, trust_level=4, expires_at=rfc3339(clock() + 9000)
    )
    assert len(b.ask(a, grant_id).items) == 1
    token = b.token(a, grant_id)
    clock.move(4999)
    assert len(b.query(a, token).json()["output"]["items"]) == 1
    clock.move(1)
    assert b.query(a, token).json()["output"]["items"] == []
    clock.move(3999)
    assert b.query(a, token).status_code == 200, "the last moment of the grant"
    clock.move(1)
    refused = b.query(a, token)
    assert (refused.status_code, refused.json()["error"]["details"]["reason"]) == (401, "grant_expired")
    assert b.at.do(b.sharing.borrowing.held(OWNER)) == [
        one for one in b.at.do(b.sharing.borrowing.held(OWNER)) if one.grant_id != grant_id
    ]


def test_a_query_asks_for_things_that_exist() -> None:
    assert grants.parsed_query({"query": "x", "cursor": None}) == Asked(
        text="x", body={"query": "x", "cursor": None}
    )
    for bad in ({"query": 5}, {"max_results": 101}, {"max_results": True}, {"kinds": ["x"]}, {"min_score": 2}, {"surprise": 1}, {"include_embeddings": "yes"}, {"filter": {"x": 1}}):  # fmt: skip
        with pytest.raises(InvalidError):
            grants.parsed_query(bad)
