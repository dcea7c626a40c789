"""The glance at texts and free JSON: what it lets by has no fault."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from quipu.model.limits import Limits
from quipu.rules import values
from quipu.testing.strategies import texts

ODD = st.sampled_from(["", "\x00", "a\x00b", "\ud800", "é", "x" * 9, "\x01" * 256, 7, None, b"a"])


@given(text=st.one_of(texts(), ODD), most=st.integers(1, 12))
def test_a_text_that_is_right_at_a_glance_is_right(text: object, most: int) -> None:
    if values.is_plain(text, most):
        assert not list(values.text_faults("/content", text, most, least=1))
        assert not list(values.name_faults("/agent_id", text, Limits(name_length=most), least=1))


MEMBERS: Any = st.dictionaries(
    st.one_of(texts(), st.text("\x01ab", max_size=256)),
    st.one_of(
        st.none(),
        st.booleans(),
        st.integers(-(2**64), 2**64),
        st.floats(),
        texts(),
        st.text("\x01", min_size=200, max_size=300),
        st.lists(st.integers(), max_size=1),
        ODD,
    ),
    max_size=3,
)


@given(value=MEMBERS, size=st.integers(2, 12_000), depth=st.integers(0, 2))
def test_free_json_that_is_right_at_a_glance_is_right(value: Any, size: int, depth: int) -> None:
    limits = Limits(metadata_bytes=size, metadata_depth=depth)
    if values.is_plain_object(value, limits):
        assert not list(values.json_faults("/metadata", value, limits))


def test_what_most_requests_hold_is_right_at_a_glance() -> None:
    assert values.is_plain("Ana likes tea.", 1 << 20)
    assert values.is_plain_object({"number": 7, "speaker": "ana", "is_new": True, "next": None}, Limits())
    assert not values.is_plain_object({"words": ["a"]}, Limits())
    assert not values.is_plain_object({"name": "Zoë"}, Limits())


def test_what_only_looks_plain_is_looked_at_closely() -> None:
    assert not values.is_plain_object({"number": 2**63}, Limits())
    assert not values.is_plain_object({"number": 7}, Limits(metadata_depth=0))
    worst = {"\x01" * 256: "\x01" * 256}  # each is written as six characters
    assert list(values.json_faults("/metadata", worst, Limits(metadata_bytes=3_000)))
    assert not values.is_plain_object(worst, Limits(metadata_bytes=3_000))
