"""Fusion under attack, with stubs of memorywire's shape and with real stores."""

from __future__ import annotations

from pathlib import Path

import pytest

from bench import labelled
from bench.fusion_mirrors import real
from bench.fusion_stubs import FEWER_SIZES, SEED, SIZES, Peers, stubs
from quipu.model.operations import Floor, Fusion
from quipu.testing.embedders import WordEmbedder
from tests.requirement import requirement


@requirement("memorywire:router.adversarial")
@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("is_rogue_first", [False, True])
@pytest.mark.parametrize("attack", ["invent", "existing"])
def test_rrf_holds_while_a_majority_is_honest(size: int, is_rogue_first: bool, attack: str) -> None:
    for seed in (SEED, 1, 2, 3):
        found = stubs(Fusion.RRF, size, Peers(attack=attack, is_rogue_first=is_rogue_first), seed)
        assert (found.recall, found.leak, found.displacement) == (1.0, 0.0, 0.0)


@requirement("memorywire:router.adversarial")
@pytest.mark.parametrize("size", FEWER_SIZES)
@pytest.mark.parametrize("cast", [(3, 2), (4, 3), (3, 1), (4, 2)], ids=lambda cast: f"{cast[0]}+{cast[1]}")
@pytest.mark.parametrize("attack", ["invent", "existing"])
def test_rrf_holds_where_several_lie_alike(size: int, cast: tuple[int, int], attack: str) -> None:
    for seed, is_rogue_first in ((SEED, True), (1, False)):
        found = stubs(Fusion.RRF, size, Peers(*cast, attack, is_rogue_first=is_rogue_first), seed)
        assert (found.recall, found.leak, found.displacement) == (1.0, 0.0, 0.0)


@requirement("memorywire:router.adversarial")
def test_the_attacks_with_stubs_are_real_by_the_published_sum() -> None:
    assert stubs(Fusion.RRF, 20, Peers(3, 2, trims=False)).leak > 0.1
    assert stubs(Fusion.RRF, 20, Peers(4, 3, trims=False)).leak > 0.3


@requirement("memorywire:router.adversarial")
def test_the_other_fusions_and_other_majorities_are_as_the_contract_says() -> None:
    assert (stubs(Fusion.WEIGHTED, 25).recall, stubs(Fusion.WEIGHTED, 25).leak) == (1.0, 0.0)
    worst = stubs(Fusion.MAX, 5)
    assert (worst.recall, worst.leak) == (0.5, pytest.approx(0.8))
    beaten = stubs(Fusion.RRF, 50, Peers(benign=2, rogues=3))
    assert (beaten.recall, beaten.leak) == (0.0, 1.0)
    even = stubs(Fusion.RRF, 50, Peers(benign=1, rogues=1))
    assert even.recall == 1.0
    assert 0.4 <= even.leak <= 0.6


@requirement("memorywire:router.adversarial")
@pytest.mark.parametrize("size", SIZES)
def test_the_published_sum_is_there_for_who_wants_it(size: int) -> None:
    found = stubs(Fusion.RRF, size, Peers(trims=False))
    assert (found.recall, found.leak, found.displacement) == (1.0, 0.0, 0.0)
    assert stubs(Fusion.RRF, size, Peers(attack="existing", trims=False)).recall < 0.5


@requirement("memorywire:router.adversarial")
def test_existing_ids_that_a_minority_pushes_take_nothing() -> None:
    for benign, rogues in ((2, 1), (3, 1), (3, 2), (4, 3)):
        assert stubs(Fusion.RRF, 0, Peers(benign, rogues, "existing")).recall == 1.0
    for benign, rogues in ((1, 1), (1, 2), (2, 3)):  # beside a ledger even a majority takes nothing
        assert stubs(Fusion.RRF, 0, Peers(benign, rogues, "existing", has_ledger=True)).recall == 1.0


FACTS = [
    labelled.Fact(f"f{n}", "alice", "semantic", text)
    for n, text in enumerate(
        f"{who} {verb} {what}"
        for who in ("Mara", "Bob", "Ana", "Kim")
        for verb, what in (
            ("drinks", "green tea at noon"),
            ("plays", "violin on sundays"),
            ("works", "in the harbour office"),
            ("owns", "a red bicycle"),
            ("fears", "tall wooden ladders"),
        )
    )
]
QUESTIONS = [
    labelled.Query(f"q{n}", "alice", "exact", fact.text, (fact.id,)) for n, fact in enumerate(FACTS[::3])
]


@requirement("memorywire:router.adversarial")
@pytest.mark.parametrize("attack", ["invent", "scores", "existing", "omitted", "altered", "ghosts"])
@pytest.mark.parametrize("method", list(Fusion))
async def test_real_stores_lose_nothing_and_show_nothing_false(
    tmp_path: Path, attack: str, method: Fusion
) -> None:
    found = await real(
        tmp_path, WordEmbedder(), FACTS, QUESTIONS, method, attack, 20, min_relevance=Floor.OFF
    )
    assert found.recall == 1.0
    assert found.displacement == 0.0
    assert found.leak == 0.0, "not even where a text is written to fit the question"


@requirement("memorywire:router.own-contents")
@pytest.mark.parametrize("method", list(Fusion))
async def test_a_rogue_that_is_said_to_have_contents_of_its_own_fills_free_places_only(
    tmp_path: Path, method: Fusion
) -> None:
    options = {"min_relevance": Floor.OFF, "has_own_contents": True}
    found = await real(tmp_path, WordEmbedder(), FACTS[:3], QUESTIONS[:1], method, "invent", 20, **options)
    assert (found.recall, found.displacement) == (1.0, 0.0)
    assert found.leak > 0, "so the attack is real"


@requirement("memorywire:router.adversarial")
@pytest.mark.parametrize("attack", ["invent", "scores", "existing", "altered", "ghosts"])
async def test_with_a_quorum_or_without_foreign_hits_nothing_leaks(tmp_path: Path, attack: str) -> None:
    found = await real(
        tmp_path,
        WordEmbedder(),
        FACTS,
        QUESTIONS,
        Fusion.RRF,
        attack,
        20,
        min_relevance=Floor.OFF,
        quorum_k=2,
    )
    assert found.leak == 0.0


@requirement("memorywire:router.adversarial")
@pytest.mark.parametrize("attack", ["existing", "omitted"])
@pytest.mark.parametrize("size", [3, 20, 50])
async def test_existing_ids_pushed_by_one_mirror_move_no_right_answer(
    tmp_path: Path, attack: str, size: int
) -> None:
    found = await real(
        tmp_path, WordEmbedder(), FACTS, QUESTIONS, Fusion.RRF, attack, size, min_relevance=Floor.OFF
    )
    assert (found.recall, found.leak, found.displacement) == (1.0, 0.0, 0.0)
