"""SQL lives in .sql files under names; every name is used; both dialects hold the same names."""

import ast
import re
from functools import cache
from pathlib import Path

import pytest

from tests.architecture.tree import SOURCE, shown

LEDGER = SOURCE / "ledger"
QUERIES = sorted(LEDGER.glob("*/queries.sql"))
#: What only one dialect needs has a file of its own.
NAMED = sorted({*QUERIES, *LEDGER.glob("*/server.sql"), *LEDGER.glob("*/portable.sql")})
#: What PostgreSQL learns once for a whole transaction, SQLite asks one by one; and what SQLite keeps at hand in the one
#: process that writes, where PostgreSQL has many.
ONE_BY_ONE = {"store_exists", "merged_into", "nature", "tables", "ground", "guarded"}
#: Statements of an operator, about all tenants.
OPERATORS = {"tenants", "orphan_vectors", "drop_orphan_vectors", "mirrored_elsewhere"}
NAME = re.compile(r"^-- ([a-z][a-z0-9_]*) --$", re.M)
STATEMENT = re.compile(
    r"\b(?:SELECT\s|INSERT\s+(?:OR\s+\w+\s+)?INTO\b|REPLACE\s+INTO\b|UPDATE\s+\w+\s+SET\b|DELETE\s+FROM\b"
    r"|CREATE\s+\w+|DROP\s+\w+|ALTER\s+TABLE\b)"
    r"|^\s*(?:select\s|insert\s+into\s|update\s+\w+\s+set\s|delete\s+from\s|create\s+(?:temp|table|index|trigger|view|virtual)\b)"
)


@cache
def literals(file: Path) -> list[tuple[int, str]]:
    """The string literals of a program, docstrings aside."""
    nodes = list(ast.walk(ast.parse(file.read_text("utf-8"))))
    prose = {id(node.value) for node in nodes if isinstance(node, ast.Expr)}
    texts = [node for node in nodes if isinstance(node, ast.Constant) and id(node) not in prose]
    return [(node.lineno, node.value) for node in texts if isinstance(node.value, str)]


def named(file: Path) -> dict[str, str]:
    """Query name -> what stands under it."""
    parts = NAME.split(file.read_text("utf-8"))[1:]
    return dict(zip(parts[::2], parts[1::2], strict=True))


@pytest.mark.parametrize("file", sorted(LEDGER.rglob("*.py")), ids=shown)
def test_no_python_of_the_ledger_holds_sql(file: Path) -> None:
    assert not [(line, text) for line, text in literals(file) if STATEMENT.search(text)]


def test_there_are_queries() -> None:
    assert QUERIES, "no ledger has a queries.sql"


@pytest.mark.parametrize("file", NAMED, ids=shown)
def test_a_query_has_a_name_a_sentence_and_a_statement(file: Path) -> None:
    names = NAME.findall(file.read_text("utf-8"))
    assert len(names) == len(set(names)), "a name is given twice"
    for name, text in named(file).items():
        lines = text.strip().splitlines()
        assert lines, f"{name} is empty"
        assert re.match(r"-- \S", lines[0]), f"{name} does not say what it does"
        assert [line for line in lines if line.strip() and not line.startswith("--")], (
            f"{name} has no statement"
        )


@pytest.mark.parametrize("file", NAMED, ids=shown)
def test_every_query_is_used(file: Path) -> None:
    programs = [*file.parent.rglob("*.py"), *LEDGER.glob("*.py")]
    used = {text for program in programs for _, text in literals(program)}
    unused = named(file).keys() - used
    assert not unused


def test_the_dialects_hold_the_same_names() -> None:
    names = {file.parent.name: named(file).keys() for file in QUERIES}
    assert names.keys() == {"sqlite", "postgres"}
    assert names["sqlite"] - ONE_BY_ONE == names["postgres"]
    assert names["sqlite"] >= ONE_BY_ONE


def tables(dialect: str) -> set[str]:
    """Tables that hold something of a tenant's."""
    schema = (LEDGER / dialect / "schema.sql").read_text("utf-8")
    parts = re.split(r"^CREATE TABLE (\w+) \(", schema, flags=re.M)[1:]
    return {
        name
        for name, body in zip(parts[::2], parts[1::2], strict=True)
        if re.search(r"^  tenant text", body.partition("\n)")[0], re.M)
    }


def untied(statement: str, known: set[str]) -> list[str]:
    """The tables that a statement reads or changes without saying whose rows are meant."""
    text = re.sub(r"--[^\n]*", "", statement)
    if text.lstrip().startswith(("INSERT", "COPY")) and "SELECT" not in text:
        return [] if re.match(r"\s*(?:INSERT INTO|COPY) \w+(?: AS \w+)? \((?:row, )?tenant", text) else [text]
    used = re.findall(r"\b(?:FROM|JOIN|UPDATE|INTO)\s+(\w+)", text)
    used = [name for name in used if name in known]
    tied = len(re.findall(r"\btenant = (?:%\(tenant\)s|\w+\.tenant)|\(tenant, ", text))
    return used[tied:]


@pytest.mark.parametrize(
    "file", [LEDGER / "postgres" / "queries.sql", LEDGER / "postgres" / "server.sql"], ids=shown
)
def test_no_statement_crosses_tenants(file: Path) -> None:
    known = tables("postgres")
    assert {"record", "journal", "token"} <= known
    loose = {name: untied(text, known) for name, text in named(file).items()}
    operators = OPERATORS | {"note_step", "widths", "read_vectors", "near_index", "near_indexes"}
    assert {name: found for name, found in loose.items() if found and name not in operators} == {}


def test_a_statement_that_crosses_tenants_would_be_found() -> None:
    known = {"record", "mark"}
    assert untied("SELECT * FROM record WHERE id = %(id)s", known)
    assert untied(
        "SELECT * FROM record AS r JOIN mark AS m ON m.id = r.id WHERE r.tenant = %(tenant)s", known
    )
    assert untied("DELETE FROM mark", known)
    assert not untied("DELETE FROM mark WHERE tenant = %(tenant)s", known)
