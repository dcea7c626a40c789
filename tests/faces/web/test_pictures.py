"""The arithmetic of the pictures: nothing leaves its frame, and nothing is left out."""

from hypothesis import given
from hypothesis import strategies as st

from quipu.faces.web import pictures

TOLD = {
    "cosine": 0.51,
    "coverage": 0.6,
    "blend": {"keyword": 2.0, "vector": 1.0, "subject": 0.0, "turn": -1.5, "session": 0.5},
}
NUMBERS = st.dictionaries(st.sampled_from(["semantic", "episodic", "x"]), st.integers(0, 10**7), min_size=1)


def test_what_helped_stands_right_of_the_middle_and_what_hurt_left() -> None:
    shown = pictures.why(TOLD, pictures.reach_of([TOLD]))
    places = {part.kind: (part.x, round(part.x + part.width, 2)) for part in shown.parts}
    assert places == {
        "vector": (100, 128.57),
        "keyword": (128.57, 185.71),
        "turn": (57.14, 100),
        "session": (185.71, 200),
    }
    assert shown.sentence == "words +2.00, meaning +1.00, session +0.50, turn −1.50"
    assert (shown.cosine, shown.coverage) == (0.51, 0.6)


def test_all_hits_are_drawn_to_one_measure() -> None:
    weak = {"blend": {"vector": 0.35}}
    reach = pictures.reach_of([TOLD, weak, None])
    assert [part.width for part in pictures.why(weak, reach).parts] == [10]


@given(
    st.lists(
        st.dictionaries(st.sampled_from(sorted(TOLD["blend"])), st.floats(-50, 50)), min_size=1, max_size=5
    )
)
def test_no_bar_leaves_its_frame(blends: list[dict[str, float]]) -> None:
    told = [{"blend": blend} for blend in blends]
    reach = pictures.reach_of(told)
    for one in told:
        for part in pictures.why(one, reach).parts:
            assert -0.1 <= part.x <= part.x + part.width <= 200.1


@given(NUMBERS)
def test_knots_are_the_digits(numbers: dict[str, int]) -> None:
    for cord in pictures.pendants(numbers, 360):
        most = 10**pictures.DIGITS - 1
        assert int("".join(map(str, cord.digits))) == min(cord.number, most)
        assert len(cord.knots) == sum(cord.digits)
        assert sorted(cord.knots) == list(cord.knots)
        assert all(pictures.CORD_TOP < knot < cord.end for knot in cord.knots)
        assert 0 < cord.x < 360


def test_no_activity_has_no_picture() -> None:
    assert pictures.activity([], 1000, ("read",)) is None


@given(
    st.lists(st.tuples(st.integers(0, 10**12), st.sampled_from(["read", "write"])), min_size=1, max_size=200)
)
def test_every_moment_is_in_a_bar_and_every_bar_in_the_frame(happened: list[tuple[int, str]]) -> None:
    now = max(at for at, _ in happened)
    shown = pictures.activity(happened, now, ("read", "write"), height=56)
    assert shown is not None
    assert sum(bar.total for bar in shown.bars) == len(happened)
    assert len(shown.bars) <= 49
    for bar in shown.bars:
        assert 0 <= bar.x < shown.width
        assert all(-0.5 <= top <= top + height <= 56.5 for _, top, height in bar.pieces)
