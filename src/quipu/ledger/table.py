"""A capability's rows: declared once as a dataclass, with plain SQL made from it. No joins, no ORM."""

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields
from functools import cached_property
from typing import TYPE_CHECKING, Any, Generic, TypeAlias, TypeVar, get_type_hints

from quipu.ledger.queries import Query

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

Value: TypeAlias = str | int | float | bytes | None
Values: TypeAlias = dict[str, Value]
Key: TypeAlias = tuple[Value, ...]
Row: TypeAlias = tuple[Any, ...]

T = TypeVar("T", bound="DataclassInstance")
#: Columns that the ledger adds to a journaled row.
LEDGER_COLUMNS = ("salt", "digest", "seq")


@dataclass(frozen=True, eq=False)
class Table(Generic[T]):
    """Rows of one kind. Journaled rows are written by `Keep` and `Drop` and named by digest in the entry;
    operational rows (positions, leases, sessions) are written by `Ledger.update` and stand in no entry.
    """

    name: str
    type: type[T]
    key: tuple[str, ...]
    #: Columns that hold record ids: erasing the record empties `erasable`, or drops the row where nothing is erasable.
    names: tuple[str, ...] = ()
    erasable: tuple[str, ...] = ()
    #: Columns, beside the key, of which no two rows of a tenant may have the same.
    unique: tuple[str, ...] = ()
    #: A change moves the position that writes must have been checked at (secrets, rules).
    guards: bool = False
    #: This column gets the entry's position when the row is first kept.
    stamps: str | None = None
    is_journaled: bool = True

    @cached_property
    def columns(self) -> tuple[str, ...]:
        return tuple(field.name for field in fields(self.type))

    @cached_property
    def _codecs(self) -> Mapping[str, tuple[Callable[[Any], Value], Callable[[Any], Any]]]:
        hints = get_type_hints(self.type)
        return {name: _codec(hints[name]) for name in self.columns}

    def row(self, value: T) -> Values:
        return {name: self._codecs[name][0](getattr(value, name)) for name in self.columns}

    def value(self, row: Row) -> T:
        make: Any = self.type
        codecs = self._codecs
        return make(**{name: codecs[name][1](item) for name, item in zip(self.columns, row, strict=False)})

    def key_of(self, value: T) -> Key:
        return tuple(self._codecs[name][0](getattr(value, name)) for name in self.key)

    def named(self, key: Key) -> Values:
        return dict(zip(self.key, key, strict=True))

    @cached_property
    def get(self) -> Query:
        return self._select(self._read, _equal(self.key))

    @cached_property
    def states(self) -> Query:
        """Keys and positions of the rows that some commits name; a few more where a key has several columns."""
        return self._select((*self.key, "seq"), [f"{name} IN ${name}" for name in self.key])

    @cached_property
    def every(self) -> Query:
        """All rows of a tenant with the ledger's own columns, for verification and copying."""
        return Query(f"{self._select(self._read, []).text} ORDER BY {', '.join(self.key)}")

    def page(self, equal: tuple[str, ...], *, is_first: bool, newest_first: bool = False) -> Query:
        """Rows in the order of their key, after a key unless it is the first page."""
        if not set(equal) <= set(self.columns):
            raise ValueError(f"{self.name} has no such column")
        sign, order = ("<", " DESC") if newest_first else (">", "")
        after = f"({', '.join(self.key)}) {sign} ({', '.join(f':after_{name}' for name in self.key)})"
        query = self._select(self._read, [*_equal(equal), *([] if is_first else [after])])
        return Query(f"{query.text} ORDER BY {', '.join(name + order for name in self.key)} LIMIT :limit")

    def matching(self, column: str) -> Query:
        """Rows whose column is one of a list."""
        if column not in self.columns:
            raise ValueError(f"{self.name} has no such column")
        return self._select(self._read, [f"{column} IN $wanted"])

    def count(self, equal: tuple[str, ...]) -> Query:
        return self._select(("count(*)",), _equal(equal))

    def least(self, column: str, equal: tuple[str, ...]) -> Query:
        if column not in self.columns:
            raise ValueError(f"{self.name} has no such column")
        return self._select((f"min({column})",), _equal(equal))

    @cached_property
    def upsert(self) -> Query:
        names = ("tenant", *self._read)
        rest = [f"{name} = excluded.{name}" for name in self._read if name not in self.key]
        update = f"UPDATE SET {', '.join(rest)}" if rest else "NOTHING"
        return Query(
            f"INSERT INTO {self.name} ({', '.join(names)}) VALUES ({', '.join(f':{name}' for name in names)}) "  # noqa: S608  names of columns, from our own classes
            f"ON CONFLICT (tenant, {', '.join(self.key)}) DO {update}"
        )

    @cached_property
    def claim(self) -> Query:
        """Take a row, unless somebody else holds it still."""
        start = f"UPDATE {self.name} SET holder = :holder, held_until = :until WHERE tenant = :tenant"  # noqa: S608  a table's name
        free = "(holder IS NULL OR holder = :holder OR held_until <= :now)"
        return Query(" AND ".join([start, *_equal(self.key), free]))

    @cached_property
    def empties(self) -> tuple[Query, ...]:
        """For each column that holds record ids: take what is erasable out of the rows that name a record."""
        if not self.erasable:
            return ()
        gone = ", ".join(
            f"{name} = NULL" for name in (*self.erasable, *(["salt"] if self.is_journaled else []))
        )
        return tuple(
            Query(f"UPDATE {self.name} SET {gone} WHERE tenant = :tenant AND {name} = :record_id")  # noqa: S608  names from our own classes
            for name in self.names
        )

    @cached_property
    def holders(self) -> tuple[tuple[str, Query], ...]:
        """For each unique column: who has one of some values."""
        return tuple(
            (column, self._select((*self.key, column), [f"{column} IN $wanted"])) for column in self.unique
        )

    @cached_property
    def naming(self) -> tuple[Query, ...]:
        """For each column that holds record ids: the keys of the rows that name some records."""
        return tuple(self._select((name, *self.key), [f"{name} IN $wanted"]) for name in self.names)

    @cached_property
    def delete(self) -> Query:
        return Query(" AND ".join([f"DELETE FROM {self.name} WHERE tenant = :tenant", *_equal(self.key)]))  # noqa: S608  a table's name

    @property
    def _read(self) -> tuple[str, ...]:
        return (*self.columns, *LEDGER_COLUMNS) if self.is_journaled else self.columns

    def _select(self, columns: tuple[str, ...], conditions: list[str]) -> Query:
        start = f"SELECT {', '.join(columns)} FROM {self.name} WHERE tenant = :tenant"  # noqa: S608  names from our own classes
        return Query(" AND ".join([start, *conditions]))


def _equal(names: tuple[str, ...]) -> list[str]:
    return [f"{name} = :{name}" for name in names]


def _same(value: Any) -> Any:
    return value


def _codec(hint: Any) -> tuple[Callable[[Any], Value], Callable[[Any], Any]]:
    """How a field is kept: plain values as they are, booleans as 0 and 1, everything else as JSON text."""
    arms = [arm for arm in getattr(hint, "__args__", ()) if arm is not type(None)]
    is_optional = type(None) in getattr(hint, "__args__", ()) and getattr(hint, "__origin__", None) is None
    plain = arms[0] if is_optional and len(arms) == 1 else hint
    origin = getattr(plain, "__origin__", plain)
    if origin is bool:
        return _optional(int), _optional(bool)
    if origin is tuple:
        return _optional(lambda value: _json(list(value))), _optional(lambda text: tuple(json.loads(text)))
    if isinstance(origin, type) and issubclass(origin, Mapping):
        return _optional(_json), _optional(json.loads)
    return _same, _same


def _json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, sort_keys=True, separators=(",", ":"))


def _optional(convert: Callable[[Any], Any]) -> Callable[[Any], Any]:
    return lambda value: None if value is None else convert(value)
