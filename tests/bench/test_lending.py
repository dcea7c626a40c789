"""How a query under a grant is compared with a plain recall: by the quietest quarter of the run, and by every row."""

from __future__ import annotations

from typing import Any

import pytest

from bench.lending import compared
from bench.targets import TARGETS

_BUSY, _QUIET = [(50.0, 1.0)] * 20, [(2.0, 1.0)] * 20


def test_what_the_machine_did_beside_is_left_out() -> None:
    found = compared(_BUSY + _QUIET + _BUSY * 2, _BUSY + [(3.0, 0.5)] * 20 + [(60.0, 0.5)] * 40)
    assert found["ratio"] == pytest.approx(1.5)
    assert found["block_ratio"] == pytest.approx(1.5)
    assert found["processor_ratio"] == pytest.approx(0.5)
    assert found["recall"]["n"] == found["query"]["n"] == 20


def test_a_slow_answer_now_and_then_is_in_the_means_and_not_in_the_medians() -> None:
    spiky = ([(2.0, 1.0)] * 19 + [(42.0, 1.0)]) * 2
    found = compared(_QUIET * 2, spiky)
    assert found["ratio"] == pytest.approx(1)
    assert found["block_ratio"] == pytest.approx(2)


def test_the_worst_row_decides() -> None:
    (target,) = [one for one in TARGETS if "under a grant" in one.what]
    rows: dict[str, Any] = {
        search: {level: {"ratio": 1.0} for level in ("level_1", "level_4")}
        for search in ("embedded", "words")
    }
    assert target.is_met(target.read({"lending": rows}))
    rows["words"]["level_4"] = {"ratio": 1.6}
    assert target.read({"lending": rows}) == 1.6
    assert not target.is_met(1.6)
