"""What a record must have for a filter to pass it: never more than the filter itself asks."""

from __future__ import annotations

import json
import math
from dataclasses import replace
from typing import Any

import apsw
import pytest
from hypothesis import given
from hypothesis import strategies as st

from quipu.ledger.rows import encoded
from quipu.model.record import MemoryType, Provenance, Record
from quipu.rules.filter_needs import Needs, Range, needs
from quipu.rules.filters import compiled, matches, passes
from quipu.testing.strategies import filters, json_objects, records, texts


def have(record: Record, needed: Needs) -> bool:
    """What a ledger asks, of JSON as anybody may have written it."""
    written = [json.dumps(record.metadata, ensure_ascii=is_ascii) for is_ascii in (True, False)]
    tagged = [json.dumps(record.tags, ensure_ascii=is_ascii) for is_ascii in (True, False)]
    columns = {
        "confidence": record.confidence,
        "importance": record.importance,
        "created_at": record.created_at,
    }
    return (
        all(_lies_in(value, getattr(needed, name)) for name, value in columns.items())
        and (needed.number_at is None or _lies_in(_at(record.metadata, needed.number_at), needed.number))
        and needed.source in (None, record.source)
        and all((needed.in_metadata or "") in text for text in written)
        and all((needed.in_tags or "") in text for text in tagged)
    )


def a_record(metadata: dict[str, Any]) -> Record:
    return Record(
        tenant="t", id="mem_1", version=1, store_id="ms_1", agent_id="ana", content="x", metadata=metadata,
        type=MemoryType.SEMANTIC, provenance=Provenance(written_by="ana"), created_at=1, updated_at=1,
    )  # fmt: skip


def _lies_in(value: object, range: Range | None) -> bool:
    return range is None or (isinstance(value, int | float) and range.low <= value <= range.high)


def _at(metadata: Any, path: str) -> object:
    """What a ledger reads there: the members of objects, and nothing else."""
    for name in path.removeprefix("$").replace('"', "").split(".")[1:]:
        metadata = metadata.get(name) if isinstance(metadata, dict) else None
    return metadata


@given(filters(), records())
def test_whatever_passes_has_what_is_needed(filter: dict[str, object], record: Record) -> None:
    if matches(filter, record, "main"):
        assert have(record, needs(compiled(filter)))


@given(texts(min_size=1), texts(min_size=1), texts(min_size=1), json_objects(), records())
def test_a_record_has_what_its_own_values_need(
    said: str, source: str, tag: str, more: dict[str, object], record: Record
) -> None:
    record = replace(record, metadata={**more, "deep": [{"said": said}]}, source=source, tags=(tag, "x"))
    filter = {"metadata.deep.0.said": said, "source": source, "tags": [tag]}
    assert matches(filter, record, "main")
    assert have(record, needs(compiled(filter)))


@given(st.lists(texts(), min_size=1, max_size=4), st.data(), json_objects(), records())
def test_one_of_several_texts_begins_as_all_of_them_do(
    listed: list[str], data: st.DataObject, more: dict[str, object], record: Record
) -> None:
    listed = [f"mem_01{text}" for text in listed]
    record = replace(record, metadata={**more, "of": data.draw(st.sampled_from(listed))})
    filter = {"metadata.of": {"$in": listed}}
    assert matches(filter, record, "main")
    assert have(record, needs(compiled(filter)))


def test_what_several_texts_have_in_common_is_needed() -> None:
    assert needs(compiled({"a.b": {"$in": ["mem_01AB", "mem_01AC"]}})) == Needs(in_metadata='"mem_01A')
    assert needs(compiled({"a": {"$in": ["x", "y"]}})) == Needs()
    assert needs(compiled({"a": {"$in": ["x1", "x\u00fc"]}})) == Needs(), "it may be written in two ways"
    assert needs(compiled({"a": {"$in": ["x", None]}})) == Needs()
    assert needs(compiled({"a": {"$in": ["x1", "x"]}})) == Needs(in_metadata='"x')


@pytest.mark.parametrize("operator", ["$or", "$not"])
def test_nothing_is_needed_of_which_something_else_will_do(operator: str) -> None:
    inner = {"metadata.a": "x", "source": "y", "tags": "z"}
    filter = {operator: [inner] if operator == "$or" else inner}
    assert needs(compiled({"$and": [inner, inner]})) == Needs("y", '"x"', '"z"')
    assert needs(compiled(filter)) == Needs()
    assert needs(None) == Needs()


NUMBERS = (
    st.integers(-(2**63), 2**63 - 1) | st.integers(-3, 3) | st.floats(allow_nan=False, allow_infinity=False)
)
NAMES = st.sampled_from(
    ["a", "b", "a.b", "a.0", "b.a", "metadata.a", "record.importance", "confidence", "created_at"]
)
VALUES: Any = st.recursive(
    NUMBERS | st.booleans() | st.none() | st.sampled_from(["1", "x"]),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.sampled_from("ab0"), inner, max_size=2),
    max_leaves=4,
)


@given(NAMES, NUMBERS, NUMBERS, st.dictionaries(st.sampled_from("ab"), VALUES), records())
def test_numbers_that_pass_lie_where_they_must(
    path: str, low: float, high: float, metadata: dict[str, object], record: Record
) -> None:
    record = replace(record, metadata=metadata)
    for test in ({"$gte": low}, {"$lt": low}, {"$gt": low, "$lte": high}, low, {"$in": [low, high]}):
        filter = {path: test}
        if matches(filter, record, "main"):
            assert have(record, needs(compiled(filter)))


def test_the_numbers_that_are_needed_are_those_of_the_filter() -> None:
    needed = needs(
        compiled({"a.b": {"$gt": 3, "$lt": 8}, "confidence": {"$lt": 0.5}, "$and": [{"a.b": {"$gt": 5}}]})
    )
    assert needed.number_at == '$."a"."b"'
    assert needed.number is not None
    assert (needed.number.low, needed.number.high) == (pytest.approx(5), pytest.approx(8))
    assert needed.number.low < 5 < 8 < needed.number.high
    assert needed.confidence is not None
    assert needed.confidence.high == pytest.approx(0.5)
    assert needed.confidence.low == -math.inf


@pytest.mark.parametrize(
    "filter",
    [{"a": {"$gt": "3"}}, {"a": True}, {"a": None}, {"a": {"$in": [1, None]}}, {"a.0": 1}, {"a\\.b": 1},
     {"a b": {"$gt": 1}}, {"a": {"$ne": 1}}, {"a": {"$exists": True}}, {"a": {"$contains": 1}}],
)  # fmt: skip
def test_no_number_is_needed_where_something_else_passes(filter: dict[str, object]) -> None:
    assert needs(compiled(filter)) == Needs()


@given(st.lists(st.dictionaries(st.sampled_from("ab"), VALUES), min_size=1, max_size=5), NUMBERS, NUMBERS)
def test_sqlite_reads_numbers_out_of_metadata_as_the_filter_does(
    listed: list[dict[str, object]], low: float, high: float
) -> None:
    """The bounds and the place are those of the filter; what SQLite leaves out, the filter leaves out."""
    connection = apsw.Connection(":memory:")
    for path in ("a", "a.b"):
        for test in ({"$gte": low}, {"$lte": low}, {"$gte": low, "$lte": high}, low):
            tree = compiled({path: test})
            needed = needs(tree)
            assert needed.number is not None
            for metadata in listed:
                record = a_record(metadata)
                values = (encoded(metadata), needed.number_at, needed.number.low, needed.number.high)
                is_left = connection.execute("SELECT json_extract(?, ?) BETWEEN ? AND ?", values).get
                assert is_left or not passes(tree, record, "main")
