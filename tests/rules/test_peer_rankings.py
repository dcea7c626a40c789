"""What a router makes of rankings that its peers have weighed already, and whom it believes about links."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from quipu.model.outcomes import Hit
from quipu.model.record import MemoryType, Provenance, Tier
from quipu.rules import fusion, hops
from quipu.rules.fusion_trimmed import liars
from quipu.rules.peer_rankings import Claim, Near, as_searched, hop, near, weighed

HIT = Hit(
    id="a",
    type=MemoryType.SEMANTIC,
    content="tea",
    score=1.0,
    relevance=0.5,
    rank=1,
    metadata={},
    created_at=0,
    updated_at=0,
    supporting=(),
    source_store="s",
    provenance=Provenance(written_by="ana"),
    source=None,
    version=1,
    agent_id="ana",
    user_id=None,
    session_id=None,
    store="main",
    tier=Tier.LONG_TERM,
    confidence=1.0,
    importance=None,
    tags=(),
    expires_at=None,
    stores=("s",),
    details={},
)


def hit(id: str, score: float, **fields: Any) -> Hit:
    return replace(HIT, id=id, score=score, **fields)


weights = st.tuples(
    st.floats(0, 1), st.booleans(), st.one_of(st.none(), st.integers(1, 3))
)  # confidence, demoted, distance


@given(st.lists(weights, max_size=12))
def test_what_a_memory_weighed_is_taken_back_exactly(items: list[tuple[float, bool, int | None]]) -> None:
    found = [
        hit(f"{place:02}", 0.0, confidence=sure, demoted=low, why=None if far is None else {"hop": far})
        for place, (sure, low, far) in enumerate(items)
    ]
    scored = [
        replace(one, score=weighed(1 / (fusion.RRF_CONSTANT + place), one, hop(one)))
        for place, one in enumerate(found)
    ]
    sent = sorted(scored, key=lambda one: (-one.score, one.id))
    assert [one.id for one in as_searched(sent)] == [one.id for one in found]


def test_an_order_that_is_not_by_score_is_the_peers_own() -> None:
    rising = [hit("a", 0.1, confidence=0.5), hit("b", 0.9)]
    assert as_searched(rising) == rising
    strange = [hit("a", float("nan"), confidence=0.5), hit("b", 0.9)]
    assert [one.id for one in as_searched(strange)] == ["a", "b"]
    plain = [hit("b", 1.0), hit("a", 1.0)]
    assert as_searched(plain) == plain, "nothing was weighed, so nothing is moved"


@pytest.mark.parametrize(("told", "counts"), [(0.5, 0.9), (7.0, 1.0), (-3.0, 0.8), (float("nan"), 0.8)])
def test_a_confidence_that_is_none_lifts_nothing(told: float, counts: float) -> None:
    assert weighed(1.0, hit("a", 1.0, confidence=told), None) == pytest.approx(counts)


@pytest.mark.parametrize("told", [0, 4, -1, True, "1", 1.0, None])
def test_only_a_distance_is_one(told: object) -> None:
    assert hop(hit("a", 1.0, why={"hop": told})) is None
    assert hop(hit("a", 1.0, why={"hop": 2})) == 2


claims = st.builds(
    Claim,
    st.one_of(st.none(), st.integers(1, 3)),
    st.lists(st.sampled_from(["x", "y", "z", "w"]), unique=True, max_size=4).map(tuple),
)


@given(st.integers(3, 7), st.data())
def test_while_most_are_honest_no_lie_brings_a_hit_nearer_or_names_another(peers: int, data: Any) -> None:
    """Honest peers tell alike. Whatever at most f others say, nothing is nearer than the truth, nor named beside it."""
    f = liars(peers)
    truth = data.draw(claims)
    lies = data.draw(st.lists(claims, max_size=f))
    believed = near([truth] * (peers - len(lies)) + lies, {"x", "y", "z"}, f + 1)
    true = near([truth], {"x", "y", "z"}, 1)
    assert set(believed.supporting) == set(true.supporting)
    assert believed.distance is None or (true.distance is not None and believed.distance <= 3)
    nearness = [9 if one.distance is None else one.distance for one in (believed, true)]
    assert nearness[0] >= nearness[1]


def test_what_is_not_shown_supports_nothing() -> None:
    assert near([Claim(1, ("hidden", "x"))], {"x"}, 1) == Near(None, ("x",)), (
        "the distance was the hidden one's"
    )
    assert near([Claim(1, ("hidden",))], {"x"}, 1) == Near()
    many = tuple(f"m{number:02}" for number in range(20))
    assert near([Claim(2, many)], set(many), 1) == Near(2, many[: hops.MAX_SUPPORTING])
