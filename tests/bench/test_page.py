"""The page and its plots, of outcomes that are known."""

from xml.etree import ElementTree

from bench.recall.measures import Outcome
from bench.recall.page import Results, Timings, page, plots


def _results() -> Results:
    good = [Outcome("x", True, (0,), kept_places=(0,), best=0.9, judged=((0.9, True),))] * 20
    bad = [Outcome("x", True, (None,), best=0.9)] * 20
    half = [*good[:10], *(Outcome("x", True, (1,), kept_places=(1,), judged=((0.2, False),)),) * 10]
    return Results(
        outcomes={
            "won": {"BM25": bad, "MiniLM": bad, "Quipu": good},
            "lost": {"MiniLM": bad, "BM25": good, "Quipu": half},
            "even": {"BM25": good, "Quipu": good},
        },
        timings={
            "won": {
                "Quipu": Timings(
                    500, [4.0, 6.0, 5.0], [1.0, 3.0, 2.0], {"1": [5.0], "8": [9.0], "64": [70.0]}, 250.0
                )
            }
        },
        simple=["MiniLM", "BM25"],
    )


def test_the_page_says_for_every_set_whether_it_is_ahead_of_the_best_simple_method() -> None:
    lines = page(_results(), "a machine").splitlines()
    said = [line for line in lines if "| @1 |" in line and "[" in line and line.count("|") == 7]
    assert said == [
        "| won | @1 | MiniLM 0.000 | 1.000 | +1.000 [+1.000, +1.000] | ahead |",
        "| lost | @1 | BM25 1.000 | 0.500 | -0.500 [-0.700, -0.300] | **behind** |",
        "| even | @1 | BM25 1.000 | 1.000 | +0.000 [+0.000, +0.000] | level |",
    ]


def test_the_page_has_calibration_and_latency_in_numbers() -> None:
    text = page(_results(), "a machine")
    assert "| 0.9 to 1.0 | 1.00 (20) | 1.00 (10) | 1.00 (20) |" in text
    assert "| 0.2 to 0.3 |  | 0.00 (10) |  |" in text
    assert "| won | Quipu | 500 | 5.0 / 5.9 | 2.0 / 2.9 | 500 |" in text
    assert "| won | Quipu | 5.0 / 5.0 | 9.0 / 9.0 | 70.0 / 70.0 |" in text


def test_the_plots_are_pictures_with_a_line_for_each_set_and_bars_for_each_part() -> None:
    drawn = plots(_results())
    assert set(drawn) == {"recall-calibration.svg", "recall-latency.svg"}
    calibration, latency = (ElementTree.fromstring(drawn[name]) for name in sorted(drawn))  # noqa: S314  our own
    points = [one.attrib["points"].split() for one in calibration.findall("{*}polyline")]
    # Relevance 0.95 lies 0.95 of 400 to the right, and all of those are right: at the top. Ten are enough, nine are not.
    assert points == [["440.0,30.0"], ["160.0,430.0", "440.0,30.0"], ["440.0,30.0"]]
    bars = [float(one.attrib["width"]) for one in latency.findall("{*}rect")[1:]]
    assert len(bars) == 3
    assert bars[0] > bars[2] > bars[1]
