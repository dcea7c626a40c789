"""What a record must have for a filter to pass it: never more than the filter itself asks."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest
from hypothesis import given

from quipu.model.record import Record
from quipu.rules.filter_needs import Needs, needs
from quipu.rules.filters import compiled, matches
from quipu.testing.strategies import filters, json_objects, records, texts


def have(record: Record, needed: Needs) -> bool:
    """What a ledger asks, of JSON as anybody may have written it."""
    written = [json.dumps(record.metadata, ensure_ascii=is_ascii) for is_ascii in (True, False)]
    tagged = [json.dumps(record.tags, ensure_ascii=is_ascii) for is_ascii in (True, False)]
    return (
        needed.source in (None, record.source)
        and all((needed.in_metadata or "") in text for text in written)
        and all((needed.in_tags or "") in text for text in tagged)
    )


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


@pytest.mark.parametrize("operator", ["$or", "$not"])
def test_nothing_is_needed_of_which_something_else_will_do(operator: str) -> None:
    inner = {"metadata.a": "x", "source": "y", "tags": "z"}
    filter = {operator: [inner] if operator == "$or" else inner}
    assert needs(compiled({"$and": [inner, inner]})) == Needs("y", '"x"', '"z"')
    assert needs(compiled(filter)) == Needs()
    assert needs(None) == Needs()
