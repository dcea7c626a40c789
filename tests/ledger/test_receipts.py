"""Receipts of one grant, or of one agent, are found by an index, however long the chain of their owner is."""

from __future__ import annotations

from pathlib import Path

import apsw

from quipu.ledger.queries import queries
from quipu.ledger.sqlite import file

ABOUT = {"tenant": "default", "grant_id": "mgr_1", "before": 1 << 62, "limit": 51}
#: A chain of 4,000 for two hundred grants, in which everything was taken back once.
FILL = """
WITH RECURSIVE number (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM number WHERE n < 4000)
INSERT INTO receipt (tenant, seq, id, type, agent, grant_id, at, body, hash)
SELECT 'default', n, n, iif(n = 2000, 'kill_switch', 'invocation'), 'did:' || (n % 200),
  iif(n = 2000, NULL, 'mgr_' || (n % 200)), n, '{}', n FROM number
"""


def filled() -> apsw.Connection:
    connection = apsw.Connection(":memory:")
    connection.execute(Path(file.__file__).with_name("schema.sql").read_text("utf-8"))
    connection.execute(FILL)
    return connection


def test_those_of_a_grant_are_read_in_order_from_an_index() -> None:
    connection = filled()
    statement = queries("quipu.ledger.sqlite")["receipts_about"]
    plan = [str(row[3]) for row in connection.execute(f"EXPLAIN QUERY PLAN {statement}", ABOUT)]
    assert [line for line in plan if "receipt" in line] == [
        "SEARCH receipt USING INDEX receipt_grant (tenant=? AND grant_id=? AND seq<?)",
        "SEARCH receipt USING INDEX receipt_kill_switch (tenant=? AND seq<?)",
    ]
    assert not [line for line in plan if "TEMP B-TREE" in line], "nothing is sorted"
    found = [row[0] for row in connection.execute(statement, {**ABOUT, "limit": 12})]
    assert found == [*range(3801, 2000, -200), 2000, 1801]
    connection.close()


def test_those_of_an_agent_are_read_in_order_from_an_index() -> None:
    connection, to = filled(), {"tenant": "default", "agent": "did:1", "after": "2001", "limit": 3}
    statement = queries("quipu.ledger.sqlite")["receipts_to"]
    plan = [str(row[3]) for row in connection.execute(f"EXPLAIN QUERY PLAN {statement}", to)]
    assert plan[0] == "SEARCH receipt USING INDEX receipt_agent (tenant=? AND agent=? AND seq>?)"
    assert not [line for line in plan if "SCAN" in line or "TEMP B-TREE" in line], plan
    assert [row[0] for row in connection.execute(statement, to)] == [2201, 2401, 2601]
    connection.close()
