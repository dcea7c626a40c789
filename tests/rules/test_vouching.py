"""Who must stand behind what a router shows, and that no minority gets anything in by itself."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from quipu.model.operations import Fusion
from quipu.rules.fusion import Fused, Vote, fused
from quipu.rules.fusion_trimmed import liars
from quipu.rules.vouching import Vouching, is_asked_for, vouched
from tests.requirement import requirement


def votes(*ids: str) -> list[Vote]:
    return [Vote(id=id, similarity=0.5, relevance=0.5) for id in ids]


def ids(items: Sequence[Fused]) -> list[str]:
    return [item.id for item in items]


LISTS = {"a": votes("x", "mine"), "b": votes("x", "two"), "c": votes("two", "x", "lone")}
ORDER = fused(LISTS, Fusion.RRF)


@requirement("memorywire:router.vouching")
def test_what_a_minority_shows_alone_is_left_out_and_counted() -> None:
    found = vouched(ORDER, Vouching(listed=3, answered=3))
    assert (ids(found.known), found.foreign, found.left_out) == (["x", "two"], (), 2)
    assert found.order == found.known


@requirement("memorywire:router.vouching")
def test_what_the_router_wrote_needs_no_more_than_all_that_took_it() -> None:
    found = vouched(ORDER, Vouching(listed=3, answered=3, holders={"mine": 1, "lone": 3}))
    assert (ids(found.order), found.left_out) == (["x", "two", "mine"], 1)


@requirement("memorywire:router.own-contents")
def test_what_a_peer_with_contents_of_its_own_shows_comes_last_and_is_foreign() -> None:
    found = vouched(ORDER, Vouching(listed=3, answered=3, own=frozenset({"a"})))
    assert (ids(found.known), ids(found.foreign), found.left_out) == (["x", "two"], ["mine"], 1)


@requirement("memorywire:router.vouching")
@pytest.mark.parametrize(
    ("listed", "answered", "unknown", "written"), [(3, 3, 2, 2), (3, 2, 2, 1), (3, 1, 1, 1), (5, 3, 3, 2)]
)
def test_how_many_vouchers_are_needed_when_peers_are_silent(
    listed: int, answered: int, unknown: int, written: int
) -> None:
    """What nobody wrote needs most of those listed; what was written most of those that answered."""
    vouching = Vouching(listed, answered, holders={"known": answered})
    for count in range(1, answered + 1):
        lists = {f"p{n}": votes("known", "new") for n in range(count)}
        shown = ids(vouched(fused(lists, Fusion.RRF), vouching).known)
        assert ("new" in shown) == (count >= unknown)
        assert ("known" in shown) == (count >= written)


def test_two_peers_and_the_fusions_that_believe_scores_ask_for_no_vouchers() -> None:
    assert is_asked_for(3, Fusion.RRF)
    assert not is_asked_for(2, Fusion.RRF)
    assert not any(is_asked_for(9, method) for method in (Fusion.MAX, Fusion.WEIGHTED))
    assert vouched(ORDER, None).order == tuple(ORDER)


# Properties: whatever at most f of n peers say, and wherever they stand

SHARED = "abcdefghijkl"
TRUE = st.lists(st.sampled_from(SHARED), unique=True, max_size=10)


@dataclass(frozen=True)
class Attack:
    """What honest peers say, and what the liars say beside them."""

    honest: Mapping[str, list[str]]
    lies: Mapping[str, list[str]]

    @property
    def lists(self) -> dict[str, list[Vote]]:
        return {name: votes(*said) for name, said in (*self.lies.items(), *self.honest.items())}

    @property
    def shown(self) -> list[Fused]:
        """What a router that wrote nothing of it would show."""
        listed = len(self.honest) + len(self.lies)
        return list(vouched(fused(self.lists, Fusion.RRF), Vouching(listed, listed)).order)

    def ranks(self, id: str) -> list[int]:
        """The item's places with honest peers, best first."""
        return sorted(said.index(id) for said in self.honest.values() if id in said)


@st.composite
def attacks(draw: st.DrawFn, *, agreeing: bool = False) -> Attack:
    """Liars invent, push, repeat, leave out, collude or each lie otherwise, and have any names."""
    size = draw(st.integers(3, 7))
    bad = draw(st.integers(0, liars(size)))
    names = draw(st.permutations([f"n{number}" for number in range(size)]))
    same = draw(TRUE)
    honest = {name: same if agreeing else draw(TRUE) for name in names[bad:]}
    lie = st.lists(st.sampled_from([*SHARED, "fake-1", "fake-2", "fake-3"]), max_size=15)
    together = draw(lie)
    lies = {name: together if draw(st.booleans()) else draw(lie) for name in names[:bad]}
    return Attack(honest, lies)


@requirement("memorywire:router.adversarial")
@given(attacks())
def test_nothing_is_shown_that_only_liars_vouch_for(attack: Attack) -> None:
    assert all(attack.ranks(item.id) for item in attack.shown)


@requirement("memorywire:router.adversarial")
@given(attacks())
def test_what_a_majority_finds_is_never_lost(attack: Attack) -> None:
    """What f + 1 honest peers show is shown, whatever the liars leave out."""
    needed = liars(len(attack.honest) + len(attack.lies)) + 1
    shown = set(ids(attack.shown))
    assert {id for id in SHARED if len(attack.ranks(id)) >= needed} <= shown


@requirement("memorywire:router.adversarial")
@given(attacks())
def test_a_place_lies_between_honest_places(attack: Attack) -> None:
    """Never better than the best honest place, never worse than the (f + 1)th best honest one."""
    f = liars(len(attack.honest) + len(attack.lies))
    for item in attack.shown:
        ranks = attack.ranks(item.id)
        assert item.score <= 1 / (60 + ranks[0])
        if len(ranks) > f:
            assert item.score >= 1 / (60 + ranks[f])


@requirement("memorywire:router.adversarial")
@given(attacks())
def test_no_lie_turns_round_what_honest_peers_are_clear_about(attack: Attack) -> None:
    """One item stands before another if f + 1 honest peers put it higher than any honest peer puts the other."""
    f = liars(len(attack.honest) + len(attack.lies))
    place = {id: number for number, id in enumerate(ids(attack.shown))}
    for one in place:
        for other in place:
            mine = attack.ranks(one)
            if len(mine) > f and mine[f] < attack.ranks(other)[0]:
                assert place[one] < place[other]


@requirement("memorywire:router.adversarial")
@given(attacks(agreeing=True))
def test_a_majority_that_agrees_is_shown_to_the_letter(attack: Attack) -> None:
    (said, *_) = attack.honest.values()
    assert ids(attack.shown) == said
    assert all(before.score > after.score for before, after in pairwise(attack.shown))


@requirement("memorywire:router.adversarial")
def test_a_flood_of_lies_is_as_good_as_none() -> None:
    flood = [f"fake-{number}" for number in range(10_000)]
    said = list(SHARED)
    honest = {"b": said, "c": said, "d": said[::-1]}
    attack = Attack(honest, {"a": flood + said[::-1], "e": flood})
    assert set(ids(attack.shown)) == set(SHARED)
    assert ids(attack.shown) == ids(Attack(honest, {"a": [], "e": []}).shown)
