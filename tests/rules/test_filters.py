"""The filter language: its meaning case by case, its refusals, and a second evaluator it must agree with."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from quipu.errors import InvalidError
from quipu.model.record import MemoryType, PrivacyIntent, Provenance, Record, Sensitivity, Trust
from quipu.rules import filters
from quipu.rules.filters import MISSING, Path, compiled, holds, matches
from quipu.testing.strategies import filters as drawn_filters
from quipu.testing.strategies import json_values, records

RECORD = Record(
    tenant="tenant-1",
    id="mem_A",
    version=2,
    store_id="sto_1",
    agent_id="ana",
    type=MemoryType.EPISODIC,
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
    provenance=Provenance(
        written_by="ana", trust=Trust.USER, run_id="run-1", subject="Ana", import_id="imp-1"
    ),
    details={"event_time": 1_700_000_000_000, "location": "Cusco", "participants": ["Ana", "Bo"]},
    privacy=PrivacyIntent(consent_id="consent-1", sensitivity=Sensitivity.SECRET),
    created_at=1_767_225_600_000,  # 2026-01-01T00:00:00Z
    updated_at=1_767_225_600_500,
)


def passes(filter: object) -> bool:
    return matches(filter, RECORD, "main")  # type: ignore[arg-type]  # wrong shapes are part of the tests


def fault(filter: object, pointer: str = "/filter") -> tuple[str, str, tuple[str, ...], str]:
    with pytest.raises(InvalidError) as caught:
        filters.checked(filter, pointer)  # type: ignore[arg-type]  # wrong shapes are part of the tests
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
        {"record.updated_at": "2026-01-01T00:00:00.500Z"},
        {"record.event_time": {"$lt": "2026-01-01T00:00Z"}, "record.location": "Cusco"},
        {"record.expires_at": None},
        {"record.participants": {"$contains": "Bo"}},
        {"record.sensitivity": "secret", "record.consent_id": "consent-1"},
        {"record.tier": "long_term", "record.version": 2, "record.id": "mem_A", "record.type": "episodic"},
        {"record.run_id": "run-1", "record.import_id": "imp-1", "record.subject": "Ana"},
        {"record.trust": "user", "record.written_by": "ana"},
        {"record.node_id": None, "record.captured_at": None, "record.importance": None, "session_id": None},
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
        {"record.participants": "Bo"},
        {"store": "other"},
        {"$or": [{"city": "Lima"}, {"sunny": False}]},
        {"$not": {"$not": {"city": "Lima"}}},
    ],
)
def test_what_is_not_true_of_the_record_does_not_match(filter: object) -> None:
    assert not passes(filter)


def test_a_record_without_tags_lacks_the_path() -> None:
    bare = replace(RECORD, tags=())
    assert matches({"tags": None}, bare, "main")
    assert matches({"tags": {"$exists": False}}, bare, "main")
    assert matches({"tags": {"$ne": "red"}}, bare, "main")
    assert not matches({"tags": {"$in": ["red"]}}, bare, "main")


def test_sensitivity_is_internal_where_nothing_was_said() -> None:
    for privacy in (None, PrivacyIntent()):
        plain = replace(RECORD, privacy=privacy)
        assert matches({"record.sensitivity": "internal", "record.consent_id": None}, plain, "main")


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
        ({"record.colour": 1}, "/filter/record.colour", "bad_filter"),
        ({"record.participants.0": 1}, "/filter/record.participants.0", "bad_filter"),
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
    assert accepted == filters.OPERATORS
    _, _, accepted, message = fault({"$ands": [{"a": 1}]})
    assert "Did you mean $and?" in message
    assert accepted == filters.LOGIC


def test_an_operator_in_the_wrong_place_is_told_where_it_stands() -> None:
    assert "in a test" in fault({"$gt": 5})[3]
    assert "around whole filters" in fault({"a": {"$or": []}})[3]


def test_an_unknown_record_field_is_answered_with_the_accepted_ones() -> None:
    _, _, accepted, message = fault({"record.importence": 1})
    assert "Did you mean record.importance?" in message
    assert {"record.importance", "record.event_time", "record.sensitivity", "record.valence"} <= set(accepted)
    assert "Did you mean" not in fault({"record.zzzzzz": 1})[3]


def nested(levels: int) -> dict[str, object]:
    filter: dict[str, object] = {"a": 1}
    for _ in range(levels - 1):
        filter = {"$not": filter}
    return filter


def test_a_filter_is_at_most_eight_levels_deep() -> None:
    filters.checked(nested(8))  # type: ignore[arg-type]  # built as objects
    assert fault(nested(9))[:2] == ("/filter" + "/$not" * 8, "bad_filter")


def test_a_filter_has_at_most_two_hundred_nodes() -> None:
    filters.checked({f"key{number}": number for number in range(200)})
    assert fault({f"key{number}": number for number in range(201)})[0] == "/filter/key200"
    assert fault({"$or": [{"a": {"$gt": 1, "$lt": 2}}] * 100})[0] == "/filter/$or/99/a/$lt"


def test_an_operand_is_at_most_as_deep_as_metadata() -> None:
    value: object = 1
    for _ in range(31):
        value = [value]
    filters.checked({"a": value})  # type: ignore[dict-item]  # built as objects
    assert fault({"a": [value]})[1] == "bad_filter"


def test_a_list_of_a_thousand_is_accepted() -> None:
    assert matches({"height": {"$in": list(range(3000, 4000))}}, RECORD, "main")


@pytest.mark.parametrize("text", ["0001-01-01T00:00:00+23:59", "9999-12-31T23:59:59.999999-23:59"])
def test_the_ends_of_the_calendar_are_times_like_any_other(text: str) -> None:
    filters.checked({"created_at": {"$gt": text}})


# The tree


def test_a_tree_tells_what_it_looks_at() -> None:
    tree = compiled({"$or": [{"a.b": 1}, {"$not": {"tags": ["x"]}}], "record.tier": {"$ne": "short_term"}})
    assert filters.paths(tree) == {Path(None, ("a", "b")), Path("tags"), Path("tier")}
    assert filters.paths(compiled({})) == set()


def test_a_tree_can_be_hashed() -> None:
    filter = {"a": {"$in": [{"b": [1]}, None]}, "tags": ["x"], "$or": [{"c": True}]}
    assert len({compiled(filter), compiled(filter)}) == 1


def test_operators_of_one_path_all_hold() -> None:
    tree = compiled({"a": {"$gt": 1, "$ne": 2}})
    assert tree == filters.All(
        (
            filters.Test(Path(None, ("a",)), filters.Operator.GT, 1),
            filters.Not(filters.Test(Path(None, ("a",)), filters.Operator.EQ, 2)),
        )
    )


@given(drawn_filters(), records())
def test_leaf_by_leaf_over_the_values_gives_what_matches_gives(
    filter: dict[str, object], record: Record
) -> None:
    """What a columnar search does: one answer per path and value, combined by the tree."""
    tree = compiled(filter)
    column = {path: filters.value_at(record, path, "main") for path in filters.paths(tree)}

    def combined(tree: filters.Tree) -> bool:
        match tree:
            case filters.All(parts):
                return all(combined(part) for part in parts)
            case filters.Any(parts):
                return any(combined(part) for part in parts)
            case filters.Not(part):
                return not combined(part)
            case filters.Test():
                return holds(tree, column[tree.path])

    assert combined(tree) == matches(filter, record, "main")


@given(json_values(), json_values())
def test_tokens_are_equal_exactly_when_the_values_are(left: object, right: object) -> None:
    assert (filters.token(left) == filters.token(right)) == same(left, right)  # type: ignore[arg-type]  any JSON value will do
    assert filters.token(left) == filters.token(left)  # type: ignore[arg-type]  any JSON value will do


@pytest.mark.parametrize("operator", list(filters.Operator))
def test_a_missing_value_is_only_null_or_absent(operator: filters.Operator) -> None:
    operands = {
        "$exists": False,
        "$in": frozenset({None}),
        "$eq": None,
        "$all": frozenset({"a"}),
        "$any": frozenset({"a"}),
    }
    test = filters.Test(Path(None, ("a",)), operator, operands.get(operator, 1))
    assert holds(test, MISSING) == (operator in ("$exists", "$in", "$eq"))


# Keys


def test_a_key_does_not_depend_on_how_the_filter_is_written() -> None:
    assert filters.key({"a": 1, "b": [1.0, -0.0]}) == filters.key({"b": (1, 0), "a": 1.0})
    assert len({filters.key({"a": value}) for value in (1, True, "1", 1.5, None, [1], {"1": 1})}) == 7


@given(drawn_filters(), drawn_filters(), records())
def test_filters_with_the_same_key_match_the_same(
    one: dict[str, object], other: dict[str, object], record: Record
) -> None:
    rewritten = dict(reversed(one.items()))
    assert filters.key(one) == filters.key(rewritten)
    assert matches(one, record, "main") == matches(rewritten, record, "main")
    if filters.key(one) == filters.key(other):
        assert matches(one, record, "main") == matches(other, record, "main")


# Against a second evaluator, which reads the filter as it stands and knows nothing of trees and tokens


@given(drawn_filters(), records())
@example({"a": {"$in": [True]}}, replace(RECORD, metadata={"a": 1}))
@example({"a.b": 1}, replace(RECORD, metadata={"a.b": 1, "a": {"b": 2}}))
def test_the_language_agrees_with_a_naive_evaluator(filter: dict[str, object], record: Record) -> None:
    assert matches(filter, record, "main") == naive(filter, record)


@given(st.data(), records())
def test_every_kept_value_is_found_by_its_own_path(data: st.DataObject, record: Record) -> None:
    for name, value in record.metadata.items():
        path = "metadata." + name.replace("\\", "\\\\").replace(".", "\\.")
        assert matches({path: {"$eq": value}}, record, "main")
        assert not matches({path: {"$ne": value}}, record, "main")
        assert matches({path: {"$exists": True}}, record, "main")


ABSENT = object()


def naive(filter: dict, record: Record) -> bool:
    for name, test in filter.items():
        if name == "$and":
            ok = all(naive(part, record) for part in test)
        elif name == "$or":
            ok = any(naive(part, record) for part in test)
        elif name == "$not":
            ok = not naive(test, record)
        else:
            is_operators = isinstance(test, dict) and any(key.startswith("$") for key in test)
            ok = all(
                leaf(name, operator, operand, look_up(name, record))
                for operator, operand in (test.items() if is_operators else [("$eq", test)])
            )
        if not ok:
            return False
    return True


def look_up(name: str, record: Record) -> object:
    own = {
        "type": str(record.type), "user_id": record.user_id, "session_id": record.session_id, "store": "main",
        "source": record.source, "agent_id": record.agent_id, "confidence": record.confidence,
        "created_at": record.created_at, "tags": list(record.tags) or None, "record.importance": record.importance,
        "record.updated_at": record.updated_at, "record.expires_at": record.expires_at,
        "record.version": record.version, "record.tier": str(record.tier),
        "record.event_time": record.details.get("event_time"),
        "record.participants": record.details.get("participants"),
        "record.sensitivity": str((record.privacy and record.privacy.sensitivity) or "internal"),
    }  # fmt: skip
    if name in own:
        return ABSENT if own[name] is None else own[name]
    value: object = record.metadata
    for step in steps(name[9:] if name.startswith("metadata.") else name):
        try:
            value = (
                value[int(step)]
                if isinstance(value, list)
                else value[step]
                if isinstance(value, dict)
                else ABSENT
            )
        except (KeyError, IndexError, ValueError):
            return ABSENT
    return value


def steps(name: str) -> list[str]:
    found, current, rest = [], "", list(name)
    while rest:
        letter = rest.pop(0)
        if letter == "\\" and rest and rest[0] in ".\\":
            current += rest.pop(0)
        elif letter == ".":
            found.append(current)
            current = ""
        else:
            current += letter
    return [*found, current]


def leaf(name: str, operator: str, operand: object, value: object) -> bool:
    if operator in ("$ne", "$nin"):
        return not leaf(name, {"$ne": "$eq", "$nin": "$in"}[operator], operand, value)
    if operator == "$exists":
        return (value is not ABSENT) == operand
    if operator == "$contains":
        if isinstance(value, str):
            return isinstance(operand, str) and value.find(operand) >= 0
        return isinstance(value, list) and any(same(item, operand) for item in value)
    if name == "tags" and operator in ("$eq", "$in") and operand is not None:
        wanted = operand if isinstance(operand, list) else [operand]
        has = [tag in (value if isinstance(value, list) else []) for tag in wanted]
        return all(has) if operator == "$eq" else any(has)
    if operator == "$in":
        return any(leaf(name, "$eq", item, value) for item in operand)
    if (name.endswith("_at") or name == "record.event_time") and isinstance(operand, str):
        operand = round(datetime.fromisoformat(operand).timestamp() * 1000)
    if operator == "$eq":
        return same(None if value is ABSENT else value, operand)
    numbers = all(type(each) in (int, float) for each in (value, operand))
    if not numbers and not (isinstance(value, str) and isinstance(operand, str)):
        return False
    return {
        "$gt": value > operand,
        "$gte": value >= operand,
        "$lt": value < operand,
        "$lte": value <= operand,
    }[operator]


def same(left: object, right: object) -> bool:
    if isinstance(left, bool) or isinstance(right, bool) or left is None or right is None:
        return left is right
    if isinstance(left, dict) and isinstance(right, dict):
        return left.keys() == right.keys() and all(same(left[key], right[key]) for key in left)
    if isinstance(left, list) and isinstance(right, list):
        return len(left) == len(right) and all(map(same, left, right))
    return isinstance(left, dict | list) == isinstance(right, dict | list) and left == right
