"""What a cluster that spreads tables by tenant asks of the schema, read from a real server's own catalogue.

Citus is not part of these tests: no cluster runs here. What it refuses is known, and looked for: a table without the
column it is spread by, a unique key or a reference that leaves that column out, and a sequence shared by machines.
"""

import pytest

from quipu.ledger.postgres.tables import TABLES
from tests.postgres import Server, name_of

#: Names nobody's data, so it stays where it is.
LOCAL = {"quipu_migration"}

_COLUMNS = """
SELECT table_name, is_nullable FROM information_schema.columns
WHERE table_schema = 'public' AND column_name = 'tenant' ORDER BY 1
"""
_UNIQUE = """
SELECT c.relname, i.indexrelid::regclass::text, coalesce(
  (SELECT bool_or(a.attname = 'tenant') FROM pg_attribute AS a WHERE a.attrelid = c.oid AND a.attnum = ANY (i.indkey)), false)
FROM pg_index AS i JOIN pg_class AS c ON c.oid = i.indrelid JOIN pg_namespace AS n ON n.oid = c.relnamespace
WHERE n.nspname = 'public' AND (i.indisunique OR i.indisexclusion)
"""
_REFERENCES = """
SELECT r.conname, coalesce((SELECT bool_or(a.attname = 'tenant') FROM pg_attribute AS a
  WHERE a.attrelid = r.conrelid AND a.attnum = ANY (r.conkey)), false) AND coalesce((SELECT bool_or(a.attname = 'tenant')
  FROM pg_attribute AS a WHERE a.attrelid = r.confrelid AND a.attnum = ANY (r.confkey)), false)
FROM pg_constraint AS r JOIN pg_namespace AS n ON n.oid = r.connamespace WHERE n.nspname = 'public' AND r.contype = 'f'
"""


def _tables(postgres: Server, url: str) -> set[str]:
    rows = postgres.execute("SELECT tablename FROM pg_tables WHERE schemaname = 'public'", name_of(url))
    return {row[0] for row in rows}


def _short_keys(postgres: Server, url: str) -> list[str]:
    """Unique keys that two machines could not each see to."""
    rows = postgres.execute(_UNIQUE, name_of(url))
    return [index for table, index, has_tenant in rows if table not in LOCAL and not has_tenant]


def test_every_table_is_known_and_has_its_tenant(postgres: Server, fresh_url: str) -> None:
    assert _tables(postgres, fresh_url) == {*TABLES, *LOCAL}
    columns = dict(postgres.execute(_COLUMNS, name_of(fresh_url)))
    assert columns == dict.fromkeys(sorted(TABLES), "NO")


def test_every_unique_key_and_every_reference_has_the_tenant(postgres: Server, fresh_url: str) -> None:
    assert len(postgres.execute(_UNIQUE, name_of(fresh_url))) >= len(TABLES), "each table has a key"
    assert _short_keys(postgres, fresh_url) == []
    assert [
        name for name, has_tenant in postgres.execute(_REFERENCES, name_of(fresh_url)) if not has_tenant
    ] == []


def test_no_number_is_counted_by_one_machine_for_all(postgres: Server, fresh_url: str) -> None:
    sequences = postgres.execute(
        "SELECT sequencename FROM pg_sequences WHERE schemaname = 'public'", name_of(fresh_url)
    )
    assert sequences == []


@pytest.mark.parametrize(
    "statement", ["CREATE UNIQUE INDEX short ON token (id)", "CREATE TABLE stray (x int PRIMARY KEY)"]
)
def test_what_could_not_be_spread_would_be_found(postgres: Server, fresh_url: str, statement: str) -> None:
    postgres.execute(statement, name_of(fresh_url))
    assert _short_keys(postgres, fresh_url) != []
