"""Receipts of one grant, or of one agent, are found by an index, however long the chain of their owner is."""

from __future__ import annotations

import psycopg

from quipu.ledger.queries import queries

#: A chain of 20,000 for two hundred grants, in which everything was taken back once.
FILL = """
INSERT INTO receipt (tenant, seq, id, type, agent, grant_id, at, body, hash)
SELECT 'default', n, n::text, CASE WHEN n = 10000 THEN 'kill_switch' ELSE 'invocation' END, 'did:' || (n % 200),
  CASE WHEN n = 10000 THEN NULL ELSE 'mgr_' || (n % 200) END, n, '{}', n::text FROM generate_series(1, 20000) AS n
"""


def test_those_of_a_grant_are_read_in_order_from_an_index(fresh_url: str) -> None:
    about = {"tenant": "default", "grant_id": "mgr_1", "before": 1 << 62, "limit": 51}
    statement = queries("quipu.ledger.postgres")["receipts_about"]
    with psycopg.connect(fresh_url, autocommit=True) as connection:
        connection.execute(FILL)
        connection.execute("ANALYZE receipt")
        told = connection.execute(f"EXPLAIN (COSTS OFF) {statement}".encode(), about)
        plan = "\n".join(row[0] for row in told)
        assert "receipt_grant" in plan, plan
        assert "receipt_kill_switch" in plan, plan
        assert "Seq Scan" not in plan, plan
        found = [row[0] for row in connection.execute(statement.encode(), {**about, "limit": 52})]
    assert found == [*range(19801, 10000, -200), 10000, 9801, 9601][:52]


def test_those_of_an_agent_are_read_in_order_from_an_index(fresh_url: str) -> None:
    to = {"tenant": "default", "agent": "did:1", "after": "10001", "limit": 3}
    statement = queries("quipu.ledger.postgres")["receipts_to"]
    with psycopg.connect(fresh_url, autocommit=True) as connection:
        connection.execute(FILL)
        connection.execute("ANALYZE receipt")
        plan = "\n".join(
            row[0] for row in connection.execute(f"EXPLAIN (COSTS OFF) {statement}".encode(), to)
        )
        assert "receipt_agent" in plan, plan
        assert "Seq Scan" not in plan, plan
        assert [row[0] for row in connection.execute(statement.encode(), to)] == [10201, 10401, 10601]
