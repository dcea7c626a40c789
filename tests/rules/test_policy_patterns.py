"""Patterns that never run away say the same as Python's own, and say it in linear time."""

from __future__ import annotations

import re
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from quipu.errors import InvalidError
from quipu.rules.policy_patterns import pattern
from tests.corpora.noise import drawn

_ATOMS = st.sampled_from(
    ["a", "b", "ab", ".", "[ab]", "[^a]", "\\d", "\\w", "\\s", "\\b", "^", "$", "c1", "\\."]
)
_COUNTS = st.sampled_from(["", "*", "+", "?", "{2}", "{1,2}", "{0,1}", "{2,}", "{0}"])


def _repeated(inner: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    return st.one_of(
        st.lists(inner, min_size=1, max_size=3).map("".join),
        st.tuples(inner, inner).map("|".join).map("({})".format),
        st.tuples(inner, _COUNTS).map(lambda both: f"(?:{both[0]}){both[1]}"),
    )


_PATTERNS = st.recursive(_ATOMS, _repeated, max_leaves=6).filter(lambda text: 0 < len(text) <= 120)


@given(_PATTERNS, st.text("abc1 .\n", max_size=12))
def test_it_matches_what_python_matches(text: str, searched: str) -> None:
    # `$` of Python also matches before a last newline; ours is the end and nothing else.
    meant = text.replace("$", "\\Z")
    assert pattern(text).is_in(searched) is bool(re.search(meant, searched))


@pytest.mark.parametrize(
    ("text", "searched", "is_in"),
    [
        ("(?i)wire transfer", "a WIRE Transfer", True),
        ("wire transfer", "a WIRE Transfer", False),
        ("(?i)[a-c]x", "BX", True),
        ("\\bpass(word|phrase)?\\b", "my passphrase!", True),
        ("\\bpass(word|phrase)?\\b", "passes", False),
        ("[]x]", "]", True),
        ("[a\\]-]", "-", True),
        ("", "", None),
        ("grüß+e", "viele grüßße", True),
    ],
)
def test_what_it_takes(text: str, searched: str, is_in: bool | None) -> None:
    if is_in is None:
        with pytest.raises(InvalidError):
            pattern(text)
    else:
        assert pattern(text).is_in(searched) is is_in


@pytest.mark.parametrize(
    "text",
    ["(", ")", "a**", "*a", "(?=a)", "(?P<n>a)", "\\1", "(a)\\1", "[a", "[z-a]", "a{3,2}", "a{500}", "a{x}",
     "((a{200}){200})", "\\", "(?i", "a" * 201, "(" * 30 + "a" + ")" * 30, "\\Z", "a{2"],
)  # fmt: skip
def test_what_it_refuses_and_where(text: str) -> None:
    with pytest.raises(InvalidError) as refused:
        pattern(text, "/rules/0/when/content_regex")
    assert refused.value.faults[0].pointer == "/rules/0/when/content_regex"


@pytest.mark.parametrize("text", ["(a+)+$", "(a|a)*b", "(a|aa)+c", "a*a*a*a*a*b", "(.*a){12}x"])
def test_no_pattern_runs_away(text: str) -> None:
    found = pattern(text)
    started = time.perf_counter()
    assert not found.is_in("a" * 100_000 + "!")
    assert time.perf_counter() - started < 5


@pytest.mark.parametrize("text", ["x.{190}q", "(?:[xy].{150}){1,2}q", "\\b[xyz]{0,190}q", "(?:x|y|z){90}q"])
def test_what_counts_far_is_quick_too_where_a_match_may_have_begun_anywhere(text: str) -> None:
    """A long text may stand in any of the states that were counted: which of them differs with every character."""
    searched = drawn("far", 250_000, "xyz")
    found = pattern(text)
    started = time.perf_counter()
    assert not found.is_in(searched)
    assert time.perf_counter() - started < 4


def test_deep_patterns_are_read_quickly() -> None:
    started = time.perf_counter()
    pattern("(" * 18 + "a" + ")?" * 18)
    pattern("(" * 18 + "a" + ")+" * 18)
    assert time.perf_counter() - started < 1
