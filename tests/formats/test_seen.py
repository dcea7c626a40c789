"""What was seen is known again, in little memory."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from quipu.formats.seen import Seen
from quipu.testing.strategies import texts


@given(st.lists(texts(max_size=3)))
def test_it_answers_as_a_set_does(wanted: list[str]) -> None:
    seen, known = Seen(), set[str]()
    for text in wanted:
        assert (text in seen) is (text in known)
        assert seen.add(text) is (text not in known)
        known.add(text)
    assert len(seen) == len(known)


def test_it_grows_and_forgets_nothing() -> None:
    seen = Seen()
    assert all(seen.add(str(number)) for number in range(20_000))
    assert not any(seen.add(str(number)) for number in range(20_000))
    assert len(seen) == 20_000
    assert seen._table.itemsize * len(seen._table) <= 16 * 2 * 20_000
