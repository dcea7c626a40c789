"""The SQL files and the tables declared by capabilities."""

import json
import re
from pathlib import Path

import rfc8785
from hypothesis import given
from hypothesis import strategies as st

import quipu.ledger
from quipu.bootstrap import TABLES
from quipu.ledger.canonical import canonical, canonical_plain
from quipu.ledger.copy import stored_tables
from quipu.ledger.queries import SQL, SQLITE, schema_statements
from quipu.memory.scope import STORES

SOURCE = Path(quipu.ledger.__file__).parent

_text = st.text(st.characters(exclude_categories=["Cs"]), max_size=20)
_values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**53) + 1, 2**53 - 1)
    | st.floats(allow_nan=False, allow_infinity=False)
    | _text,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(_text, inner, max_size=4),
    max_leaves=20,
)


@given(_values)
def test_canonical_json_is_that_of_the_standard(value: object) -> None:
    assert canonical(value) == rfc8785.dumps(value)


def test_canonical_numbers_are_written_as_the_standard_has_them() -> None:
    for number in (
        1.0,
        -0.0,
        1e21,
        1e20,
        1e-6,
        1e-7,
        0.1,
        123456.789,
        5e-324,
        1.7976931348623157e308,
        333333333.33333329,
        1e22,
    ):
        assert canonical(number) == rfc8785.dumps(number), number


@given(
    st.dictionaries(
        st.text("abcXYZ_019", max_size=5),
        st.integers(-(2**53) + 1, 2**53 - 1) | _text | st.none(),
        max_size=5,
    )
)
def test_the_quick_form_gives_the_same_bytes(value: dict[str, object]) -> None:
    assert canonical_plain(value) == canonical(value)


def test_every_statement_carries_the_tenant() -> None:
    without = [name for name, query in SQL.items() if ":tenant" not in query.text]
    assert without == []


def test_every_table_that_a_statement_looks_into_is_bound_to_the_tenant() -> None:
    """Not only the outer one: what is looked into beside it would cross tenants as well."""
    unbound: list[str] = []
    tables = {table.name for table in stored_tables(schema_statements(SQLITE))}
    for name, query in SQL.items():
        named = re.findall(r"\b(?:FROM|JOIN|UPDATE|INSERT INTO) (\w+)", query.text)
        looked_into = sum(table in tables for table in named)
        bound = len(re.findall(r"\b(?:\w+\.)?tenant (?:=|>) (?::tenant|\w+\.tenant)", query.text))
        bound += query.text.count("(tenant,")  # an INSERT
        if bound < looked_into:
            unbound.append(name)
    assert unbound == []


def test_no_table_has_a_key_without_the_tenant_and_none_is_found_by_a_number_of_the_engine() -> None:
    for statement in schema_statements(SQLITE):
        if statement.startswith("CREATE TABLE"):
            assert re.search(r"PRIMARY KEY \(tenant\b", statement), statement
            assert "WITHOUT ROWID" in statement, statement
        elif statement.startswith("CREATE"):
            assert re.search(r" ON \w+ \(tenant\b", statement), statement
    assert not [name for name, query in SQL.items() if re.search(r"\browid\b", query.text, re.I)]


def test_every_named_query_is_used() -> None:
    code = "\n".join(path.read_text("utf-8") for path in SOURCE.rglob("*.py"))
    kinds = {name for name in SQL for kind in ("agent", "store") if name.endswith(f"_{kind}")}
    unused = [name for name in SQL if f'"{name}"' not in code and name not in kinds]
    assert unused == []


def test_every_table_is_declared_as_it_stands_in_the_schema() -> None:
    created: dict[str, list[str]] = {}
    for statement in schema_statements(SQLITE):
        named = re.match(r"CREATE TABLE (\w+) \((.*)\)", statement, re.S)
        if named:
            created[named[1]] = re.findall(r"^\s*(\w+) (?:TEXT|INTEGER|REAL|BLOB)", named[2], re.M)
    for table in TABLES:
        ledgers = ["salt", "digest", "seq"] if table.is_journaled else []
        assert created[table.name] == ["tenant", *table.columns, *ledgers], table.name


def test_json_texts_round_trip_through_a_table() -> None:
    row = STORES.row(STORES.type(id="ms_1", name="main", created_at=1))
    assert STORES.value(tuple(row.values())).name == "main"
    assert json.dumps(row)
