"""The fast way to canonical bytes gives what RFC 8785's reference implementation gives."""

from enum import StrEnum
from typing import Any

import pytest
import rfc8785
from hypothesis import given
from hypothesis import strategies as st

from quipu.crypto.canonical import canonical
from quipu.testing import strategies


class Word(StrEnum):
    TEA = "tea"


def both(value: Any) -> tuple[bytes | None, bytes | None]:
    return attempted(canonical, value), attempted(rfc8785.dumps, value)


def attempted(encode: Any, value: Any) -> bytes | None:
    try:
        return encode(value)
    except ValueError:
        return None


@given(strategies.json_values(max_leaves=20))
def test_any_json_value_has_the_bytes_of_the_reference(value: Any) -> None:
    fast, reference = both(value)
    assert fast == reference


@given(
    st.recursive(st.text() | st.integers(), lambda inner: st.dictionaries(st.text(), inner) | st.lists(inner))
)
def test_any_text_and_any_key_has_the_bytes_of_the_reference(value: Any) -> None:
    fast, reference = both(value)
    assert fast == reference


@pytest.mark.parametrize(
    "value",
    [
        0,
        -0.0,
        1.0,
        1e21,
        1e-7,
        333333333.33333329,
        5e-324,
        2**53 - 1,
        -(2**53) + 1,
        True,
        '\u20ac$\u000f\nA\'B"\\\\"/',
        "\x7f\u2028\u0000",
        {"\u20ac": 1, "\r": 2, "1": 3, "\U0001f600": 4, "\ufb33": 5, "\u0080": 6, "\u00f6": 7},
        {"\U0001f600": 1, "\uff5e": 2},
        {"b": 1, "a": [{}, [], ()]},
        Word.TEA,
        {"op": Word.TEA},
    ],
)
def test_difficult_values_have_the_bytes_of_the_reference(value: Any) -> None:
    fast, reference = both(value)
    assert fast == reference
    assert fast is not None


@pytest.mark.parametrize(
    "value",
    [2**53, -(2**53), float("nan"), float("inf"), "\ud800", {"\udfff": 1}, {1: 2}, b"bytes", object()],
)
def test_what_is_no_json_has_no_bytes(value: Any) -> None:
    assert both(value) == (None, None)
