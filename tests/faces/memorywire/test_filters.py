"""The published filter schema and the rule that reads filters say the same."""

from typing import Any

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from quipu.errors import InvalidError
from quipu.rules.filters import MAX_DEPTH, checked
from tests.faces.memorywire.shapes import ODD, bodies, near_misses, problems
from tests.requirement import requirement


def accepted(body: dict[str, Any]) -> bool:
    try:
        checked(body)
    except InvalidError:
        return False
    return True


def levels(value: object) -> int:
    """How many objects and lists stand inside each other; no schema can bound that."""
    inner = list(value.values()) if isinstance(value, dict) else value if isinstance(value, list) else None
    return 0 if inner is None else 1 + max(map(levels, inner), default=0)


@requirement("memorywire:schema.filter")
@given(body=bodies("filter"))
def test_a_filter_on_metadata_that_the_schema_allows_is_accepted(body: dict[str, Any]) -> None:
    assert problems("filter", body) == []
    assume(levels(body) <= MAX_DEPTH)
    assert accepted(body)


@requirement("memorywire:schema.filter")
@given(body=near_misses("filter"))
def test_a_near_miss_of_a_filter_is_accepted_exactly_when_the_schema_allows_it(body: dict[str, Any]) -> None:
    assert accepted(body) == (not problems("filter", body))


@requirement("memorywire:schema.filter")
@pytest.mark.parametrize("name", ["$and", "$or", "$not", "$nor", "key", "key.deeper", "metadata.type", ""])
@given(value=st.sampled_from([*ODD, [{}], [{"a": 1}], {"$eq": 1}, {"$and": 1}, {"a": {"$gt": None}}]))
def test_a_key_takes_the_same_odd_values_as_its_schema(name: str, value: object) -> None:
    assert accepted({name: value}) == (not problems("filter", {name: value}))


@requirement("memorywire:schema.filter")
@pytest.mark.parametrize(
    "body",
    [
        {"type": "semantic", "user_id": None, "source": {"$ne": "user"}, "confidence": {"$gte": 0.5}},
        {"tags": "a"},
        {"tags": ["a", "b"]},
        {"tags": {"$in": ["a"]}},
        {"created_at": {"$lt": "2026-01-01T00:00:00Z"}},
        {"record.importance": {"$gt": 0.5}, "record.consent_id": "c"},
    ],
    ids=str,
)
def test_a_filter_on_fields_of_the_record_is_good_by_both(body: dict[str, Any]) -> None:
    assert accepted(body)
    assert problems("filter", body) == []
