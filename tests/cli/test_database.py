"""`quipu db`, and every other command with memory in PostgreSQL."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from quipu import bootstrap
from quipu.errors import InvalidError
from tests.cli.conftest import Cli
from tests.postgres import Server, name_of


def test_a_database_is_made_ready_looked_at_and_used(cli: Cli, empty_url: str) -> None:
    status = cli.json("db", "status", empty_url, code=1)
    assert (status["version"], status["ready"]) == (None, False)
    assert cli.json("db", "init", empty_url) == {"steps": status["newest"]}
    assert cli.json("db", "init", empty_url) == {"steps": 0}
    assert cli.json("db", "migrate", empty_url) == {"steps": 0}
    found = cli.json("db", "status", empty_url)
    assert (found["version"], found["ready"], found["tenants"]) == (status["newest"], True, 0)
    assert "PostgreSQL 18" in cli.said("db", "status", empty_url)
    assert "ready already" in cli.said("db", "init", empty_url)


@pytest.fixture
def stored(cli: Cli, empty_url: str, monkeypatch: pytest.MonkeyPatch) -> str:
    """Every command works on a database from here on."""
    monkeypatch.setenv("QUIPU_STORE", empty_url)
    return empty_url


def test_commands_work_on_a_database_as_on_a_file(cli: Cli, stored: str, tmp_path: Path) -> None:
    assert "Made a memory: postgresql://" in cli.said("init")
    assert "Memory is there: postgresql://" in cli.said("init")
    name = cli.remember("Mara is vegetarian")
    other = cli.remember("Ilir prefers trains")
    assert [hit["id"] for hit in cli.json("recall", "what does Mara eat?")["results"]] == [name]
    cli.said("forget", "--id", other, "--hard", "--yes")
    assert {row["id"] for row in cli.json("list")["records"]} == {name}
    assert cli.said("vacuum")
    assert cli.said("verify").startswith("Holds")
    copy = tmp_path / "copy.db"
    cli.said("backup", str(copy))
    assert {row["id"] for row in cli.json("list", "--store-url", f"sqlite://{copy}")["records"]} == {name}
    checks = {check["name"]: check for check in cli.json("doctor")["checks"]}
    assert checks["database"]["status"] == checks["schema"]["status"] == checks["key"]["status"] == "ok"
    assert checks["integrity"]["status"] == "ok"


def test_the_key_that_signs_is_kept_under_the_databases_name(cli: Cli, stored: str, tmp_path: Path) -> None:
    cli.remember("one")
    (key,) = (tmp_path / "data" / "quipu" / "postgresql").glob("*.key")
    assert key.name.startswith(name_of(stored))
    assert key.stat().st_mode & 0o077 == 0
    assert cli.said("verify").startswith("Holds"), "the next process has the same key"


def test_a_memory_moves_from_a_file_into_a_database_with_its_keys(
    cli: Cli, empty_url: str, tmp_path: Path
) -> None:
    source = tmp_path / "memory.db"
    name = cli.remember("Mara is vegetarian")
    cli.said("forget", "--id", cli.remember("gone"))
    before = cli.json("audit", "log", "--limit", "50")
    assert cli.said("verify").startswith("Holds")
    done = cli.json("db", "copy", str(source), empty_url)
    assert (done["tenants"], done["entries"]) == (1, before["head"])
    assert len(done["keys"]) == 1
    after = cli.json("audit", "log", "--limit", "50", "--store-url", empty_url)
    assert after["entries"][: before["head"]] == before["entries"]
    assert cli.said("verify", "--store-url", empty_url).startswith("Holds"), "the same key signs on"
    assert [hit["id"] for hit in cli.json("recall", "Mara", "--store-url", empty_url)["results"]] == [name]
    problem = cli.problem("db", "copy", str(source), empty_url)
    assert problem["reason"] == "not_empty"
    back = tmp_path / "back.db"
    said = cli.said("db", "copy", empty_url, f"sqlite://{back}")
    assert "the chain verifies" in said
    assert cli.said("verify", "--store-url", f"sqlite://{back}").startswith("Holds")


def test_what_is_no_database_is_refused(cli: Cli, tmp_path: Path) -> None:
    for words in (
        ("db", "init"),
        ("db", "migrate"),
        ("db", "status"),
        ("db", "distribute"),
        ("db", "index"),
        ("db", "status", f"sqlite://{tmp_path / 'memory.db'}"),
    ):
        problem = cli.problem(*words)
        assert problem["reason"] == "bad_value"
        assert "postgresql://" in json.dumps(problem)
    problem = cli.problem("db", "status", "postgresql://nobody:secret-password@127.0.0.1:1/x", code=2)
    assert problem["reason"] == "unreachable"
    assert "secret-password" not in json.dumps(problem)
    problem = cli.problem("remember", "x", "--store-url", "postgresql://localhost/x?sslmod=require")
    assert "sslmod" in json.dumps(problem)
    assert cli.problem("db", "copy", "sqlite://:memory:", "postgresql://localhost/x")["reason"] == "bad_value"


def test_tables_are_spread_by_tenant_where_there_is_something_that_spreads(
    cli: Cli, postgres: Server, empty_url: str
) -> None:
    cli.said("db", "init", empty_url)
    assert cli.problem("db", "distribute", empty_url)["reason"] == "no_citus"
    name = name_of(empty_url)
    # What Citus offers, as far as the command needs it; it notes what it was asked for.
    postgres.execute(
        """
        CREATE TABLE asked (n serial, what text);
        CREATE TABLE pg_dist_partition (logicalrelid regclass, partmethod "char");
        CREATE FUNCTION create_distributed_table(t regclass, col text, colocate_with text) RETURNS void
        LANGUAGE sql AS $$
          INSERT INTO asked (what) VALUES (format('%s by %s beside %s', t, col, colocate_with));
          INSERT INTO pg_dist_partition VALUES (t, 'h');
        $$;
        CREATE FUNCTION truncate_local_data_after_distributing_table(t regclass) RETURNS void
        LANGUAGE sql AS $$ INSERT INTO asked (what) VALUES (format('clear %s', t)); $$;
        """,
        name,
    )
    done = cli.json("db", "distribute", empty_url)["tables"]
    asked = [row[0] for row in postgres.execute("SELECT what FROM asked ORDER BY n", name)]
    assert asked[0] == "tenant by tenant beside default"
    assert asked[1 : len(done)] == [f"{table} by tenant beside tenant" for table in done[1:]]
    assert {f"clear {table}" for table in done} == set(asked[len(done) :])
    tables = postgres.execute(
        "SELECT table_name FROM information_schema.columns WHERE column_name = 'tenant' AND table_schema = 'public'",
        name,
    )
    assert {row[0] for row in tables} == set(done), "every table that holds something of a tenant's"
    assert cli.json("db", "distribute", empty_url)["tables"] == []
    with pytest.raises(Exception, match="append-only"):
        postgres.execute("TRUNCATE journal", name)


def test_an_index_is_built_for_the_vectors_there_are(cli: Cli, empty_url: str) -> None:
    cli.said("db", "init", empty_url)
    assert cli.json("db", "index", empty_url) == {"indexes": []}
    assert "no vectors" in cli.said("db", "index", empty_url)


def test_without_the_extra_the_command_that_installs_it_is_named(tmp_path: Path) -> None:
    program = (
        "import sys; sys.modules['psycopg'] = None\n"
        "from quipu import bootstrap\n"
        "from quipu.config import Config\n"
        "try:\n    bootstrap.open_ledger(bootstrap.address('postgresql://localhost/x'), Config())\n"
        "except Exception as error:\n    print(error.code, error.reason, error.hint)\n"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.split() == [
        "unsupported",
        "missing_extra",
        "pip",
        "install",
        "'quipu-memory[postgres]'",
    ]


# -- addresses ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("url", "name", "database", "schema"),
    [
        ("postgresql://u@h/d", "postgresql", "postgresql://u@h/d", None),
        ("postgres://u:p@h:5433/d", "postgres", "postgresql://u:p@h:5433/d", None),
        ("pgvector://u@h/d", "pgvector", "postgresql://u@h/d", None),
        ("pgvector+postgres://u@h/d", "pgvector+postgres", "postgresql://u@h/d", None),
        ("PostgreSQL://h/d?name=main&sslmode=require", "main", "postgresql://h/d?sslmode=require", None),
        (
            "postgresql:///d?host=/run/pg&schema=quipu",
            "postgresql",
            "postgresql:///d?host=%2Frun%2Fpg",
            "quipu",
        ),
        ("pgvector://default", "pgvector", "postgresql://env@host/db", None),
        ("pgvector+postgres://default?schema=s", "pgvector+postgres", "postgresql://env@host/db", "s"),
    ],
)
def test_addresses_of_databases(
    monkeypatch: pytest.MonkeyPatch, url: str, name: str, database: str, schema: str | None
) -> None:
    monkeypatch.setenv("DATABASE_URL", "postgres://env@host/db")
    found = bootstrap.address(url)
    assert (found.name, found.path, found.database, found.schema) == (name, None, database, schema)
    assert "p@" not in repr(found)
    assert ":p@" not in found.shown


@pytest.mark.parametrize(
    "url",
    ["postgresql://h:port/d", "postgresql://h/d?schema=No%20Way", "postgresql://h/d?schema=", "mysql://h/d"],
)
def test_addresses_that_make_no_sense(url: str) -> None:
    with pytest.raises(InvalidError) as refused:
        bootstrap.address(url)
    assert refused.value.reason == "bad_value"


def test_the_default_database_has_to_be_set(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("DATABASE_URL", raising=False)
    with pytest.raises(InvalidError, match="DATABASE_URL"):
        bootstrap.address("pgvector://default")


def test_a_database_has_one_key_whoever_gets_in() -> None:
    keys = {
        str(bootstrap.address(url).beside(".key"))
        for url in (
            "postgresql://ana:one@h/d",
            "postgres://bo:two@h:5432/d?sslmode=require",
            "pgvector://h/d?connect_timeout=3",
        )
    }
    assert len(keys) == 1
    others = {str(bootstrap.address(url).beside(".key")) for url in ("postgresql://h/e", "postgresql://i/d")}
    assert len(keys | others) == 3
