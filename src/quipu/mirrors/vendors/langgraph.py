"""LangGraph's store: in memory, on SQLite, on PostgreSQL. In a worker.

langgraph://memory, langgraph+sqlite:///file, langgraph+postgresql://user@host/db

One item per record: its key is the record's id, its namespace `quipu`, tenant, store, agent, user. What is searched by
stands again at the top of the value, because filters reach no deeper. On SQLite another `sqlite3` must take the place of an
interpreter's own that cannot load extensions.
"""

import sqlite3
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from importlib import import_module
from importlib.metadata import version
from pathlib import Path
from typing import Any, Final

from quipu.mirrors import adapter
from quipu.mirrors.backend import (
    Answer,
    Backend,
    Capabilities,
    Capability,
    Container,
    Copy,
    Health,
    Kept,
    Place,
    Query,
    Remaining,
    Setup,
)
from quipu.mirrors.lent_embedder import LentEmbedder, embedder_of
from quipu.mirrors.vendors.host import HostedBackend

#: LangGraph joins labels with dots and knows no empty one.
_LEGAL: Final = r"[^.\x00]+"
_PAGE: Final = 500
_PROMISES: Final[tuple[Capability, ...]] = (
    *("client_ids", "get_by_id", "list", "update", "nested_metadata"),
    *("vector", "delete_reports_absence", "verbatim"),
)
#: What it promises besides, by where it keeps its items.
_EXTRA: Final[Mapping[str, frozenset[Capability]]] = {
    "langgraph": frozenset({"hard_delete"}),
    "langgraph+sqlite": frozenset(),
    "langgraph+postgresql": frozenset({"multi_process"}),
}


def make(setup: Setup) -> Backend:
    """The backend that a LangGraph address names."""
    embedder_of(setup)
    if setup.scheme != "langgraph+postgresql":
        adapter.check_parameters(setup)
    if setup.scheme == "langgraph" and setup.url not in ("langgraph://", "langgraph://memory"):
        raise adapter.bad_url(
            "There is no such LangGraph store.",
            "langgraph://memory, langgraph+sqlite:///file or langgraph+postgresql://user@host/db",
        )
    environment = {"LANGSMITH_TRACING": "false", "LANGCHAIN_TRACING_V2": "false"}
    promises = frozenset(_PROMISES) | _EXTRA[setup.scheme]
    capabilities = Capabilities(promises=promises, score_kind="similarity")
    made_by = "quipu.mirrors.vendors.langgraph:LangGraphAdapter"
    return HostedBackend(setup, made_by, capabilities, environment)


class LangGraphAdapter:
    """A `BaseStore` of LangGraph's."""

    vendor = "LangGraph's store"
    package = "langgraph langgraph-checkpoint-sqlite langgraph-checkpoint-postgres"

    def __init__(self, setup: Setup) -> None:
        self._setup = setup
        self._lent = LentEmbedder(embedder_of(setup))
        # LangGraph's SQLite store has one connection; PostgreSQL's has a pool.
        self.threads = 4 if setup.scheme == "langgraph+postgresql" else 1
        self._store: Any = None
        self._ops: Any = None
        self._close: Callable[[], object] = lambda: None

    def open(self) -> None:
        self._ops = import_module("langgraph.store.base")
        # `text_fields` is what the SQLite store reads; without it the whole item would be embedded.
        fields = {"fields": ["text"], "text_fields": ["text"]}
        index = {"dims": self._lent.dimensions, "embed": self._lent.vectors, **fields}
        match self._setup.scheme:
            case "langgraph+sqlite":
                self._store = self._on_sqlite(index)
            case "langgraph+postgresql":
                self._store = self._on_postgres(index)
            case _:
                self._store = import_module("langgraph.store.memory").InMemoryStore(index=index)

    def _on_sqlite(self, index: dict[str, Any]) -> Any:
        if not hasattr(sqlite3.Connection, "enable_load_extension"):
            sys.modules["sqlite3"] = import_module("pysqlite3")
        path = self._setup.url.partition("://")[2]
        file = Path(path).expanduser() if path else self._setup.folder / "store.db"
        connect: Any = sys.modules["sqlite3"].connect
        connection = connect(str(file), check_same_thread=False, isolation_level=None)
        connection.execute("PRAGMA secure_delete = ON")
        store: Any = import_module("langgraph.store.sqlite").SqliteStore(connection, index=index)
        store.setup()
        self._close = connection.close
        row = connection.execute("SELECT length(embedding) / 4 FROM store_vectors LIMIT 1").fetchone()
        _check_dimensions(row, index["dims"])
        return store

    def _on_postgres(self, index: dict[str, Any]) -> Any:
        # Exact: an approximate index would choose the nearest before it looks at whose they are.
        exact = {**index, "distance_type": "cosine", "ann_index_config": {"kind": "flat"}}
        address = self._setup.url.removeprefix("langgraph+")
        import_module("psycopg").connect(address, connect_timeout=10).close()  # the pool would try for long
        opened: Any = import_module("langgraph.store.postgres").PostgresStore.from_conn_string(
            address, pool_config={"min_size": 1, "max_size": self.threads}, index=exact
        )
        store = opened.__enter__()
        self._close = lambda: opened.__exit__(None, None, None)
        store.setup()
        with store.conn.connection() as connection:
            row = connection.execute("SELECT vector_dims(embedding) FROM store_vectors LIMIT 1").fetchone()
        _check_dimensions(row and tuple(row.values()), index["dims"])
        return store

    # -- keeping ------------------------------------------------------------------------------------------------------

    def put(self, copies: Sequence[Copy]) -> Sequence[str]:
        for batch in _without_equal_texts(copies):
            self._store.batch(
                [
                    self._ops.PutOp(_namespace(copy.container), copy.record_id, _value(copy), index=["text"])
                    for copy in batch
                ]
            )
        return [copy.record_id for copy in copies]

    def _items(self, places: Sequence[Place]) -> Sequence[Any]:
        places_of = [(_namespace(place.container), place.native_id) for place in places]
        return self._store.batch([self._ops.GetOp(*place, refresh_ttl=False) for place in places_of])

    def get(self, places: Sequence[Place]) -> Sequence[Kept]:
        return [_kept(item) for item in self._items(places) if item is not None]

    def scan(self, container: Container) -> Iterator[Kept]:
        where, offset = _namespace(container), 0
        while items := self._store.search(where, limit=_PAGE, offset=offset, refresh_ttl=False):
            yield from map(_kept, items)
            offset += _PAGE

    def delete(self, places: Sequence[Place]) -> int:
        there = [item for item in self._items(places) if item is not None]
        self._store.batch([self._ops.PutOp(item.namespace, item.key, None) for item in there])
        return len(there)

    def erase(self, places: Sequence[Place], remaining: Remaining) -> None:
        """`delete` takes the rows; this takes the pages and logs that they stood on."""
        self.delete(places)
        if self._setup.scheme == "langgraph+sqlite":
            checkpoint = "PRAGMA wal_checkpoint(TRUNCATE)"
            for statement in (checkpoint, "VACUUM", checkpoint):
                self._store.conn.execute(statement).fetchall()
        elif self._setup.scheme == "langgraph+postgresql":
            with self._store.conn.connection() as connection:
                # Its rows are mappings, ours are not.
                cursor = connection.cursor(row_factory=import_module("psycopg.rows").tuple_row)
                adapter.compact_postgres(cursor, ("store", "store_vectors"))

    # -- finding ------------------------------------------------------------------------------------------------------

    def search(self, query: Query, limit: int) -> Answer:
        found: list[Kept] = []
        for kind in sorted(query.types) or [None]:
            wanted: Any = {"query": query.text, "filter": _filter(query, kind), "limit": limit}
            items = self._store.search(_prefix(query), **wanted, refresh_ttl=False)
            # Rows without a vector are padded in; they are no hits.
            found += [_kept(item) for item in items if item.score is not None]
        applied = ("types", "session_id", "created_from")
        return adapter.answered(query, limit, adapter.best_first(found), applied=applied)

    # -- being there --------------------------------------------------------------------------------------------------

    def health(self) -> Health:
        self._store.search(("quipu",), limit=1)
        return Health(is_up=True, version=version("langgraph-checkpoint"))

    def close(self) -> None:
        self._close()


def _check_dimensions(row: Sequence[int] | None, dimensions: int) -> None:
    """A store that was made with another model takes what is put on SQLite, and then every search fails."""
    if row is not None and row[0] != dimensions:
        raise adapter.unavailable(
            "This LangGraph store was made with another embedding model.",
            "embedding_mismatch",
            "Name another file or database, and run `quipu mirror resync`.",
        )


def _without_equal_texts(copies: Sequence[Copy]) -> list[list[Copy]]:
    """Batches in which no text stands twice: the store in memory fails on those that do."""
    batches: list[dict[str, Copy]] = []
    for copy in copies:
        batch = next((one for one in batches if copy.content not in one), None)
        if batch is None:
            batches.append(batch := {})
        batch[copy.content] = copy
    return [list(batch.values()) for batch in batches]


def _label(part: str | None) -> str:
    return adapter.label(part, _LEGAL)


def _namespace(one: Container) -> tuple[str, ...]:
    return ("quipu", *map(_label, (one.tenant, one.store_id, one.agent_id, one.user_id)))


def _value(copy: Copy) -> dict[str, Any]:
    _, _, store, agent, user = _namespace(copy.container)
    return {
        **adapter.mark(copy),
        **{"text": copy.content, "type": copy.type, "store": store, "agent": agent, "user": user},
        **{"session": copy.session_id or "", "created_at": copy.created_at},
    }


def _prefix(query: Query) -> tuple[str, ...]:
    prefix = ["quipu", _label(query.tenant)]
    for part in (query.store_id, query.agent_id, query.user_id):
        if part is None:
            break
        prefix.append(_label(part))
    return tuple(prefix)


def _filter(query: Query, kind: str | None) -> dict[str, Any]:
    parts = {"store": query.store_id, "agent": query.agent_id, "user": query.user_id}
    wanted: dict[str, Any] = {name: _label(part) for name, part in parts.items() if part is not None}
    if kind is not None:
        wanted["type"] = kind
    if query.session_id is not None:
        wanted["session"] = query.session_id
    if query.created_from is not None:
        wanted["created_at"] = {"$gte": query.created_from}
    return wanted


def _kept(item: Any) -> Kept:
    """Of what was looked up an item has no score."""
    text = str(item.value.get("text", ""))
    return adapter.kept(item.key, text, item.value, getattr(item, "score", None))
