"""What a query finds under a grant, and in which order, is what a look at every item finds."""

from __future__ import annotations

from itertools import islice
from types import SimpleNamespace
from typing import Any, cast

from hypothesis import given
from hypothesis import strategies as st

from quipu.model.grants import Asked
from quipu.rules.projection_ranking import share
from quipu.service.disclosing_coverage import Coverage, Place, Seen

WORDS = ("tea", "pot", "red", "sun", "map")
#: Record id → (id on the wire, words). Ids on the wire are foreign here: they sort otherwise, and two may be the same.
ITEMS = st.dictionaries(
    st.sampled_from([f"mem_{place}" for place in range(12)]),
    st.tuples(st.sampled_from("zyxwvu"), st.frozensets(st.sampled_from(WORDS))),
    max_size=12,
)


def seen(record_id: str, item_id: str, words: frozenset[str]) -> Seen:
    record = SimpleNamespace(id=record_id, expired=lambda _now: False)
    return Seen(cast("Any", record), {}, cast("Any", None), words, item_id, 0)


def looked_through(
    items: dict[str, tuple[str, frozenset[str]]], wanted: frozenset[str], least: float
) -> list[tuple[float, str]]:
    """The slow way."""
    scored = [(share(len(words & wanted), len(wanted)), name) for name, words in items.values()]
    return sorted((-score, name) for score, name in scored if score >= max(least, 0.01))


@given(ITEMS, st.frozensets(st.sampled_from((*WORDS, "fog")), min_size=1), st.sampled_from([0, 0.4, 0.67, 1]))
def test_what_is_found_is_what_a_look_at_everything_finds(
    items: dict[str, tuple[str, frozenset[str]]], wanted: frozenset[str], least: float
) -> None:
    covered = Coverage(Place(1, None), {})
    covered.add(seen(record_id, *item) for record_id, item in items.items())
    asked = Asked(body={}, text=" ".join(wanted), min_score=least)
    found = list(covered.ranked(asked, 0))
    assert [one.order for one in found] == looked_through(items, wanted, least)
    assert len({one.seen.record.id for one in found}) == len(found), "each once"
    assert [one.order for one in islice(covered.ranked(asked, 0), 2)] == [one.order for one in found[:2]]


@given(ITEMS, st.data())
def test_what_was_dropped_is_found_no_more(
    items: dict[str, tuple[str, frozenset[str]]], data: st.DataObject
) -> None:
    covered = Coverage(Place(1, None), {})
    covered.add(seen(record_id, *item) for record_id, item in items.items())
    gone = data.draw(st.sets(st.sampled_from(sorted(items)))) if items else set[str]()
    covered.drop(gone)
    left = {name: item for name, item in items.items() if name not in gone}
    found = covered.ranked(Asked(body={}, text=" ".join(WORDS)), 0)
    assert [one.order for one in found] == looked_through(left, frozenset(WORDS), 0)
