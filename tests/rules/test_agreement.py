"""Of several versions the one that most tell; of equally many, the first."""

from __future__ import annotations

from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from quipu.rules.agreement import agreed


def test_one_liar_that_stands_first_is_outvoted() -> None:
    assert agreed(["poison", "tea", "tea"]) == 1


def test_of_equally_many_the_first_is_believed() -> None:
    assert agreed(["tea", "coffee"]) == 0
    assert agreed(["b", "a", "c", "a", "b"]) == 0


def test_one_alone_is_believed() -> None:
    assert agreed(["tea"]) == 0


@given(st.lists(st.sampled_from("abc"), min_size=1, max_size=9))
def test_nothing_told_by_fewer_is_ever_chosen(versions: list[str]) -> None:
    chosen = versions[agreed(versions)]
    counts = Counter(versions)
    assert counts[chosen] == max(counts.values())
    assert versions.index(chosen) == agreed(versions)
