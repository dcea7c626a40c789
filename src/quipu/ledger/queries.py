"""Named queries in shared SQL, and the small table of what a dialect spells differently."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from importlib.resources import files


@dataclass(frozen=True, slots=True)
class Query:
    """SQL in the shared spelling. Made only from .sql files and by `Table`, never from what a caller said."""

    text: str


def named_queries(package: str, file: str) -> dict[str, Query]:
    """The queries of a .sql file: `-- name: what`, comment lines that say why, the statement."""
    text = files(package).joinpath(file).read_text("utf-8")
    found = re.findall(r"^-- name: (\w+)\n(.*?)(?=^-- name:|\Z)", text, re.M | re.S)
    bodies = {name: re.sub(r"^--.*$", "", body, flags=re.M) for name, body in found}
    return {name: Query(" ".join(body.split()).removesuffix(";")) for name, body in bodies.items()}


@dataclass(frozen=True)
class Dialect:
    """How one engine spells what the shared SQL leaves open."""

    name: str
    #: `$word` in the shared SQL.
    words: Mapping[str, str]
    #: What `:name` becomes: one value.
    value: str
    #: What `IN $name` becomes: a list of values.
    listed: str
    _known: dict[Query, str] = field(default_factory=dict[Query, str])

    def sql(self, query: Query) -> str:
        found = self._known.get(query)
        if found is None:
            found = self._known[query] = self.translated(query.text)
        return found

    def translated(self, text: str) -> str:
        text = re.sub(r"\bIN \$(\w+)", lambda match: self.listed.format(match[1]), text)
        text = re.sub(r"\$(\w+)", lambda match: self.words[match[1]], text)
        return re.sub(r"(?<![:\w]):([a-z]\w*)", lambda match: self.value.format(match[1]), text).strip()


#: All named queries that both engines share.
SQL: Mapping[str, Query] = named_queries("quipu.ledger", "sql/records.sql")
# fmt: off
#: What is read of a version, in this order.
RECORD_COLUMNS = (
    "id", "version", "born", "died", "ending", "merged_into", "emptied", "store_id", "agent_id", "user_id",
    "session_id", "type", "tier", "state", "content", "metadata", "tags", "links", "confidence",
    "importance", "source", "provenance", "details", "privacy", "created_at", "updated_at", "expires_at",
    "key", "valid_from", "valid_until", "salt", "digest",
)
# fmt: on
_RECORD = ", ".join(f"r.{column}" for column in RECORD_COLUMNS)

SQLITE = Dialect(
    name="sqlite",
    words={
        **{"text": "TEXT", "int": "INTEGER", "real": "REAL", "blob": "BLOB"},
        **{"table_end": "STRICT, WITHOUT ROWID", "lock": "", "record": _RECORD},
    },
    value=":{}",
    listed="IN (SELECT value FROM json_each(:{}))",
)
POSTGRES = Dialect(
    name="postgresql",
    words={
        **{"text": 'text COLLATE "C"', "int": "bigint", "real": "double precision", "blob": "bytea"},
        **{"table_end": "", "lock": "FOR UPDATE", "record": _RECORD},
    },
    value="%({})s",
    listed="= ANY(%({})s)",
)


def schema_statements(dialect: Dialect) -> list[str]:
    """The tables and indexes of a new database."""
    text = files("quipu.ledger").joinpath("sql/schema.sql").read_text("utf-8")
    plain = re.sub(r"^\s*--.*$", "", text, flags=re.M)
    return [dialect.translated(statement) for statement in plain.split(";") if statement.strip()]
