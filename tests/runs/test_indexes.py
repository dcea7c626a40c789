"""Lists of runs by what they are asked for read the rows that they show, however many others there are."""

from typing import Any

import pytest

from quipu.ledger.queries import Query
from quipu.ledger.reader import Reader
from quipu.runs.model import RUNS, Run
from tests.governance.office import Office

OVER, LEFT = 3_000, 3


@pytest.mark.parametrize(
    ("equal", "index"),
    [
        ({"status": "running"}, "run_by_status"),
        ({"status": "running", "agent_id": "agent"}, "run_by_status"),
        ({"is_expired": 0}, "run_expired"),
        ({"source_run_id": "run_00000000"}, "run_source"),
    ],
)
@pytest.mark.parametrize("newest_first", [True, False])
async def test_a_list_of_some_runs_does_not_read_all_of_them(
    any_office: Office, equal: dict[str, Any], index: str, newest_first: bool
) -> None:
    explained = "EXPLAIN QUERY PLAN" if any_office.container.ledger.name == "sqlite" else "EXPLAIN"
    page = RUNS.page(tuple(equal), is_first=False, newest_first=newest_first)

    def work(reader: Reader) -> tuple[list[str], tuple[()]]:
        rows = [_row(number) for number in range(OVER + LEFT)]
        reader.cursor.run_many(RUNS.upsert, rows)
        reader.cursor.run(Query("ANALYZE run"))
        given = {"tenant": "default", "limit": 50, "after_id": "run_00001500", **equal}
        plan = reader.cursor.rows(Query(f"{explained} {page.text}"), **given)
        return [str(line[-1]) for line in plan], ()

    plan = await any_office.container.ledger.locked("default", work)
    assert index in "\n".join(plan), plan


def _row(number: int) -> dict[str, Any]:
    """A run that is over and whose history is gone; a few are not."""
    is_left = number >= OVER
    run = Run(
        id=f"run_{number:08}",
        workflow_id="w",
        status="running" if is_left else "completed",
        driver="external",
        agent_id="agent",
        opened_by="test",
        taken_at=1,
        created_at=1,
        ended_at=None if is_left else 2,
        source_run_id="run_00000000" if is_left else None,
        is_expired=not is_left,
    )
    return {"tenant": "default", **RUNS.row(run), "salt": b"", "digest": b"", "seq": 0}
