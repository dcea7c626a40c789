"""The filter language: its meaning case by case, its refusals, and a second evaluator it must agree with."""

from dataclasses import replace
from typing import Any

import pytest

from quipu.errors import InvalidError
from quipu.model.record import PrivacyIntent, Provenance, Record
from quipu.search import filters
from quipu.search.filter_tree import passes as tree_passes
from quipu.search.filters import compiled

RECORD = Record(
    id="mem_A",
    version=2,
    store_id="sto_1",
    agent_id="ana",
    type="episodic",
    content="We met in Cusco.",
    metadata={
        "city": "Cusco",
        "height": 3399,
        "ratio": 1.5,
        "sunny": True,
        "none": None,
        "where": {"district": {"name": "San Blas"}, "zip.code": "08003", "back\\slash": 1},
        "guests": ["Ana", {"name": "Bo"}, 1],
        "type": "travel",
        "in": "reachable",
        "record": {"x": 1},
        "0": "zero",
    },
    tags=("red", "green"),
    confidence=0.5,
    source="user",
    provenance=Provenance(written_by="ana", trust="user", run_id="run-1", subject="Ana", import_id="imp-1"),
    details={"event_time": 1_700_000_000_000, "location": "Cusco", "participants": ["Ana", "Bo"]},
    privacy=PrivacyIntent(consent_id="consent-1", sensitivity="secret"),
    created_at=1_767_225_600_000,  # 2026-01-01T00:00:00Z
    updated_at=1_767_225_600_500,
)


def matches(filter: object, record: Record) -> bool:
    return tree_passes(check(filter), record, "main")


def check(filter: object) -> Any:
    return compiled(filter, plain_names="metadata")  # type: ignore[arg-type]  # wrong shapes are part of the tests


def passes(filter: object) -> bool:
    return matches(filter, RECORD)  # type: ignore[arg-type]  # wrong shapes are part of the tests


def fault(filter: object, pointer: str = "/filter") -> tuple[str, str, str, str]:
    with pytest.raises(InvalidError) as caught:
        compiled(filter, plain_names="metadata", pointer=pointer)  # type: ignore[arg-type]  # wrong shapes are part of the tests
    [only] = caught.value.faults
    assert only.reason == caught.value.reason
    return only.pointer, only.reason, only.accepted, caught.value.message


# Meaning


@pytest.mark.parametrize(
    "filter",
    [
        {},
        {"type": "episodic"},
        {"agent_id": "ana", "store": "main", "source": "user", "confidence": 0.5},
        {"city": "Cusco", "height": 3399.0},
        {"where.district.name": "San Blas"},
        {"where.zip\\.code": "08003"},
        {"where.back\\slash": 1},
        {"where.back\\\\slash": 1},
        {"guests.0": "Ana", "guests.1.name": "Bo"},
        {"0": "zero"},
        {"metadata.type": "travel"},
        {"in": "reachable"},
        {"metadata.record.x": 1, "record": {"x": 1.0}},
        {"guests": ["Ana", {"name": "Bo"}, 1.0]},
        {"where.district": {"name": "San Blas"}},
        {"where.district": {"$eq": {"name": "San Blas"}}},
        {"none": None, "absent": None, "user_id": None},
        {"absent": {"$in": [None]}},
        {"city": {"$ne": "Lima"}, "absent": {"$ne": "Lima"}},
        {"absent": {"$nin": ["x"]}},
        {"city": {"$in": ["Lima", "Cusco"]}},
        {"height": {"$gt": 3000, "$lt": 3400}},
        {"height": {"$gte": 3399, "$lte": 3399}},
        {"city": {"$gt": "Cusca", "$lt": "Lima"}},
        {"none": {"$exists": True}, "absent": {"$exists": False}, "user_id": {"$exists": False}},
        {"guests": {"$contains": {"name": "Bo"}}},
        {"city": {"$contains": "usc"}},
        {"tags": "red"},
        {"tags": ["red", "green"]},
        {"tags": {"$in": ["blue", "red"]}},
        {"tags": {"$nin": ["blue"]}},
        {"tags": {"$ne": ["red", "blue"]}},
        {"tags": {"$contains": "red"}},
        {"tags": {"$exists": True}},
        {"$or": [{"city": "Lima"}, {"city": "Cusco"}], "sunny": True},
        {"$and": [{"city": "Cusco"}, {"sunny": True}]},
        {"$not": {"city": "Lima"}},
        {"created_at": "2026-01-01T00:00:00Z"},
        {"created_at": {"$gte": "2025-12-31T19:00:00-05:00", "$lt": "2026-01-01T00:00:00.0005Z"}},
        {"created_at": {"$in": ["2026-01-01T01:00:00+01:00", 5]}},
    ],
)
def test_what_is_true_of_the_record_matches(filter: object) -> None:
    assert passes(filter)
    assert not passes({"$not": filter} if filter else {"$not": {"type": "episodic"}})


@pytest.mark.parametrize(
    "filter",
    [
        {"height": "3399"},
        {"sunny": 1},
        {"guests.2": True},
        {"guests": {"$contains": True}},
        {"guests": ["Ana", {"name": "Bo"}]},
        {"guests.3": 1},
        {"guests.00": "Ana"},
        {"guests.first": "Ana"},
        {"guests." + "9" * 5000: "Ana"},
        {"city.0": "C"},
        {"where.zip.code": "08003"},
        {"none": {"$ne": None}},
        {"absent": {"$gt": 0}},
        {"sunny": {"$gte": 0}},
        {"height": {"$gt": "0"}},
        {"city": {"$lt": 5}},
        {"city": {"$contains": 5}},
        {"city": {"$contains": "CUSCO"}},
        {"height": {"$contains": 3399}},
        {"tags": ["red", "blue"]},
        {"tags": {"$in": ["blue"]}},
        {"tags": None},
        {"tags": {"$gt": "a"}},
        {"tags.0": "red"},
        {"created_at": {"$contains": "2026"}},
        {"store": "other"},
        {"$or": [{"city": "Lima"}, {"sunny": False}]},
        {"$not": {"$not": {"city": "Lima"}}},
    ],
)
def test_what_is_not_true_of_the_record_does_not_match(filter: object) -> None:
    assert not passes(filter)


@pytest.mark.parametrize(
    "filter",
    [
        {"updated_at": "2026-01-01T00:00:00.500Z"},
        {"event_time": {"$lt": "2026-01-01T00:00Z"}, "location": "Cusco"},
        {"expires_at": None},
        {"participants": {"$contains": "Bo"}},
        {"sensitivity": "secret", "consent_id": "consent-1"},
        {"tier": "long_term", "version": 2, "id": "mem_A", "type": "episodic"},
        {"run_id": "run-1", "import_id": "imp-1", "subject": "Ana"},
        {"trust": "user", "written_by": "ana"},
        {"node_id": None, "captured_at": None, "importance": None, "session_id": None},
        {"metadata.city": "Cusco", "agent_id": "ana"},
        {"$not": {"participants": "Bo"}},
    ],
)
def test_on_our_own_surface_a_plain_name_is_a_field_of_the_record(filter: dict[str, Any]) -> None:
    tree = compiled(filter, plain_names="fields")
    assert tree_passes(tree, RECORD, "main")
    assert filters.matches(filters.canonical(filter, plain_names="fields"), RECORD, "main")


def test_on_the_v0_wire_a_plain_name_is_a_key_of_the_metadata() -> None:
    assert matches({"importance": None, "city": "Cusco"}, RECORD)
    kept = filters.canonical({"city": "Cusco", "$not": {"height": 5}}, plain_names="metadata")
    assert kept == {"metadata.city": "Cusco", "$not": {"metadata.height": 5}}
    assert filters.matches(kept, RECORD, "main")


def test_a_record_without_tags_lacks_the_path() -> None:
    bare = replace(RECORD, tags=())
    assert matches({"tags": None}, bare)
    assert matches({"tags": {"$exists": False}}, bare)
    assert matches({"tags": {"$ne": "red"}}, bare)
    assert not matches({"tags": {"$in": ["red"]}}, bare)


def test_sensitivity_is_internal_where_nothing_was_said() -> None:
    for privacy in (None, PrivacyIntent()):
        plain = replace(RECORD, privacy=privacy)
        assert filters.matches({"sensitivity": "internal", "consent_id": None}, plain, "main")


# Refusals


@pytest.mark.parametrize(
    ("filter", "pointer", "reason"),
    [
        ([], "/filter", "bad_filter"),
        ({1: 2}, "/filter", "bad_filter"),
        ({"$and": []}, "/filter/$and", "bad_filter"),
        ({"$or": {"a": 1}}, "/filter/$or", "bad_filter"),
        ({"$or": [{"a": 1}, 5]}, "/filter/$or/1", "bad_filter"),
        ({"$or": [{"a": 1}, {}]}, "/filter/$or/1", "bad_filter"),
        ({"$not": {}}, "/filter/$not", "bad_filter"),
        ({"$not": []}, "/filter/$not", "bad_filter"),
        ({"a": {"$gt": 1, "b": 2}}, "/filter/a", "bad_filter"),
        ({"a": {"$gt": 1, 5: 2}}, "/filter/a", "bad_filter"),
        ({"a": {"$gt": True}}, "/filter/a/$gt", "bad_filter"),
        ({"a": {"$lte": None}}, "/filter/a/$lte", "bad_filter"),
        ({"a": {"$exists": 1}}, "/filter/a/$exists", "bad_filter"),
        ({"a": {"$in": []}}, "/filter/a/$in", "bad_filter"),
        ({"a": {"$in": "ab"}}, "/filter/a/$in", "bad_filter"),
        ({"a": {"$nin": list(range(1001))}}, "/filter/a/$nin", "bad_filter"),
        ({"tags": []}, "/filter/tags", "bad_filter"),
        ({"tags": 5}, "/filter/tags", "bad_filter"),
        ({"tags": {"$in": ["a", None]}}, "/filter/tags/$in", "bad_filter"),
        ({"created_at": "yesterday"}, "/filter/created_at", "bad_filter"),
        ({"created_at": {"$gt": "2026-01-01"}}, "/filter/created_at/$gt", "bad_filter"),
        ({"created_at": {"$in": [1, "2026-01-01T00:00"]}}, "/filter/created_at/$in/1", "bad_filter"),
        ({"$eq": 1}, "/filter/$eq", "unknown_operator"),
        ({"$nor": [{"a": 1}]}, "/filter/$nor", "unknown_operator"),
        ({"a": {"$not": {"$eq": 1}}}, "/filter/a/$not", "unknown_operator"),
        ({"a": {"$all": [1]}}, "/filter/a/$all", "unknown_operator"),
        ({"a/b~c": {"$regex": "x"}}, "/filter/a~1b~0c/$regex", "unknown_operator"),
        ({"a": 2**63}, "/filter/a", "bad_value"),
        ({"a": {"$gt": -(2**63) - 1}}, "/filter/a/$gt", "bad_value"),
        ({"a": [0, {"b": float("nan")}]}, "/filter/a/1/b", "bad_value"),
        ({"a": {"$contains": float("inf")}}, "/filter/a/$contains", "bad_value"),
        ({"a": {"$in": [1, "\0"]}}, "/filter/a/$in/1", "bad_value"),
        ({"a": {"x": {"\ud800": 1}}}, "/filter/a/x", "bad_value"),
        ({"\ud800": 1}, "/filter", "bad_value"),
        ({"a": {"$\ud800": 1}}, "/filter/a", "bad_value"),
        ({"tags": ["\0"]}, "/filter/tags", "bad_value"),
        ({"a": {1: 2}}, "/filter/a", "bad_value"),
        ({"a": {1, 2}}, "/filter/a", "bad_value"),
        ({"a": object()}, "/filter/a", "bad_value"),
    ],
)
def test_a_bad_filter_is_refused_at_its_place(filter: object, pointer: str, reason: str) -> None:
    assert fault(filter)[:2] == (pointer, reason)


def test_the_pointer_starts_where_the_filter_stands() -> None:
    assert fault({"$and": []}, "/policy/filter")[0] == "/policy/filter/$and"


def test_a_misspelt_operator_is_answered_with_the_right_one() -> None:
    _, _, accepted, message = fault({"a": {"$exist": True}})
    assert "Did you mean $exists?" in message
    assert accepted == ", ".join(filters.OPERATORS)
    _, _, accepted, message = fault({"$ands": [{"a": 1}]})
    assert "Did you mean $and?" in message
    assert accepted == ", ".join(filters.LOGIC)


def test_an_operator_in_the_wrong_place_is_told_where_it_stands() -> None:
    assert "in a test" in fault({"$gt": 5})[3]
    assert "around whole filters" in fault({"a": {"$or": []}})[3]


def test_an_unknown_field_is_answered_with_the_accepted_ones() -> None:
    with pytest.raises(InvalidError) as caught:
        compiled({"importence": 1}, plain_names="fields")
    (only,) = caught.value.faults
    assert (only.pointer, only.reason) == ("/filter/importence", "unknown_field")
    assert "importance" in f"{caught.value.message} {only.accepted}"


def nested(levels: int) -> dict[str, object]:
    filter: dict[str, object] = {"a": 1}
    for _ in range(levels - 1):
        filter = {"$not": filter}
    return filter


def test_a_filter_is_at_most_eight_levels_deep() -> None:
    check(nested(8))  # type: ignore[arg-type]  # built as objects
    assert fault(nested(9))[:2] == ("/filter" + "/$not" * 8, "bad_filter")


def test_a_filter_has_at_most_two_hundred_nodes() -> None:
    check({f"key{number}": number for number in range(200)})
    assert fault({f"key{number}": number for number in range(201)})[0] == "/filter/key200"
    assert fault({"$or": [{"a": {"$gt": 1, "$lt": 2}}] * 100})[0] == "/filter/$or/99/a/$lt"


def test_an_operand_is_at_most_as_deep_as_metadata() -> None:
    value: object = 1
    for _ in range(31):
        value = [value]
    check({"a": value})  # type: ignore[dict-item]  # built as objects
    assert fault({"a": [value]})[1] == "bad_filter"


def test_a_list_of_a_thousand_is_accepted() -> None:
    assert matches({"height": {"$in": list(range(3000, 4000))}}, RECORD)


@pytest.mark.parametrize("text", ["0001-01-01T00:00:00+23:59", "9999-12-31T23:59:59.999999-23:59"])
def test_the_ends_of_the_calendar_are_times_like_any_other(text: str) -> None:
    check({"created_at": {"$gt": text}})
