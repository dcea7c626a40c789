"""Nearness of passages, and of turns with their neighbours."""

import numpy as np
import pytest

from quipu.model.search import SessionContext
from quipu.search.neighbours import VectorScores
from quipu.search.partition import Partition
from quipu.search.visibility import Visible
from tests.search.fake import DIMENSIONS, Asker, drafted, index_row, unit

QUERY = unit([1.0] + [0.0] * (DIMENSIONS - 1))
#: Half a right angle away from the query, and at a right angle to it.
NEAR, FAR = unit([1.0, 1.0] + [0.0] * (DIMENSIONS - 2)), unit([0.0, 1.0] + [0.0] * (DIMENSIONS - 2))


def scores(*rows: tuple[str, str | None, bytes], context: SessionContext | None = None) -> VectorScores:
    partition = Partition(DIMENSIONS)
    partition.extend(
        [
            index_row(drafted(id=name, session_id=session, born=place + 1, created_at=place), data)
            for place, (name, session, data) in enumerate(rows)
        ]
    )
    visible = Visible(partition, Asker().scope(), 10**9, 0)
    return VectorScores(visible, np.frombuffer(QUERY, "<f4"), context or SessionContext())


def test_the_nearest_passage_speaks_for_a_text_and_more_of_them_cost_a_little() -> None:
    found = scores(("mem_1", None, NEAR), ("mem_2", None, FAR + NEAR + FAR), ("mem_3", None, FAR))
    cosines, ranked, passages = found.judged(np.arange(3))
    assert cosines == pytest.approx([np.sqrt(0.5), np.sqrt(0.5), 0.0], abs=1e-6)
    assert passages == [0, 1, 0]
    assert ranked[0] is not None
    assert ranked[1] is not None
    assert ranked[2] is not None
    assert ranked[0] > ranked[1] > ranked[2]
    assert found.nearest(np.ones(3, np.bool_), 3).tolist()[2] == 2


def test_a_few_rows_have_the_cosines_that_all_have() -> None:
    rows = [(f"mem_{n:02}", None, (FAR + NEAR) if n % 3 == 0 else FAR) for n in range(12)]
    every = scores(*rows).cosines(np.arange(12))
    for some in ([0], [3, 1], [11, 0, 9]):
        assert scores(*rows).cosines(np.array(some)).tolist() == every[some].tolist()


def test_the_first_and_the_last_turn_lose_nothing_by_having_one_neighbour() -> None:
    """All turns are as near as each other, so none may rank above another."""
    context = SessionContext(previous_vector=0.3, next_vector=0.2)
    found = scores(*((f"mem_{n}", "s1", NEAR) for n in range(3)), context=context)
    _, ranked, _ = found.judged(np.arange(3))
    assert ranked == pytest.approx([ranked[0]] * 3)
