"""SQL lives in .sql files under names; every name is used; both dialects hold the same names."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.architecture.tree import SOURCE, shown

LEDGER = SOURCE / "ledger"
QUERIES = sorted(LEDGER.glob("*/queries.sql"))
NAME = re.compile(r"^-- ([a-z][a-z0-9_]*) --$", re.M)
STATEMENT = re.compile(
    r"\b(?:SELECT\s|INSERT\s+(?:OR\s+\w+\s+)?INTO\b|REPLACE\s+INTO\b|UPDATE\s+\w+\s+SET\b|DELETE\s+FROM\b"
    r"|CREATE\s+\w+|DROP\s+\w+|ALTER\s+TABLE\b)"
    r"|^\s*(?:select\s|insert\s+into\s|update\s+\w+\s+set\s|delete\s+from\s|create\s+(?:temp|table|index|trigger|view|virtual)\b)"
)


def literals(file: Path) -> Iterator[tuple[int, str]]:
    """The string literals of a program, docstrings aside."""
    tree = ast.parse(file.read_text("utf-8"))
    prose = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in prose:
            yield node.lineno, node.value


def named(file: Path) -> dict[str, str]:
    """Query name -> what stands under it."""
    parts = NAME.split(file.read_text("utf-8"))[1:]
    return dict(zip(parts[::2], parts[1::2], strict=True))


@pytest.mark.parametrize("file", sorted(LEDGER.rglob("*.py")), ids=shown)
def test_no_python_of_the_ledger_holds_sql(file: Path) -> None:
    assert not [(line, text) for line, text in literals(file) if STATEMENT.search(text)]


def test_there_are_queries() -> None:
    assert QUERIES, "no ledger has a queries.sql"


@pytest.mark.parametrize("file", QUERIES, ids=shown)
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


@pytest.mark.parametrize("file", QUERIES, ids=shown)
def test_every_query_is_used(file: Path) -> None:
    used = {text for program in file.parent.rglob("*.py") for _, text in literals(program)}
    unused = named(file).keys() - used
    assert not unused


def test_the_dialects_hold_the_same_names() -> None:
    assert len({frozenset(named(file)) for file in QUERIES}) <= 1
