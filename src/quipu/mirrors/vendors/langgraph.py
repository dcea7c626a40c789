"""LangGraph's store: in memory, on SQLite, on PostgreSQL. In a worker.

langgraph://memory, langgraph+sqlite:///file, langgraph+postgresql://user@host/db

One item per record: its key is the record's id, its namespace `quipu`, tenant, store, agent, user. What is searched by
stands again at the top of the value, because filters reach no deeper. On SQLite another `sqlite3` must take the place of an
interpreter's own that cannot load extensions.
"""

import sqlite3
import sys
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from importlib import import_module
from importlib.metadata import version
from pathlib import Path
from typing import Any, Final, Literal, cast

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
    NativeHit,
    Place,
    Query,
    Remaining,
    Setup,
)
from quipu.mirrors.lent_embedder import LentEmbedder, embedder_of
from quipu.mirrors.vendors.host import hosted

_Kind = Literal["memory", "sqlite", "postgresql"]
#: LangGraph joins labels with dots and knows no empty one.
_LEGAL: Final = r"[^.\x00]+"
_PAGE: Final = 500
_PROMISES: Final[frozenset[Capability]] = frozenset(
    {
        "client_ids",
        "get_by_id",
        "list",
        "update",
        "nested_metadata",
        "vector",
        "delete_reports_absence",
        "verbatim",
    }
)
_EXTRA: Final[Mapping[_Kind, frozenset[Capability]]] = {
    "memory": frozenset({"hard_delete"}),
    "sqlite": frozenset(),
    "postgresql": frozenset({"multi_process"}),
}
_NAMED: Final[Mapping[str, _Kind]] = {
    "langgraph": "memory",
    "langgraph+sqlite": "sqlite",
    "langgraph+postgresql": "postgresql",
}


def make(setup: Setup) -> Backend:
    """The backend that a LangGraph address names."""
    embedder_of(setup)
    if _NAMED[setup.scheme] != "postgresql":
        adapter.check_parameters(setup)
    if setup.scheme == "langgraph" and setup.url not in ("langgraph://", "langgraph://memory"):
        raise adapter.bad_url(
            "There is no such LangGraph store.",
            "langgraph://memory, langgraph+sqlite:///file or langgraph+postgresql://user@host/db",
        )
    environment = {"LANGSMITH_TRACING": "false", "LANGCHAIN_TRACING_V2": "false"}
    return hosted(
        setup,
        "quipu.mirrors.vendors.langgraph:LangGraphBackend",
        _promised(_NAMED[setup.scheme]),
        environment,
    )


def _promised(kind: _Kind) -> Capabilities:
    return Capabilities(promises=_PROMISES | _EXTRA[kind], score_kind="similarity")


class LangGraphBackend:
    """A `BaseStore` of LangGraph's."""

    def __init__(self, setup: Setup) -> None:
        self._setup = setup
        self._kind: _Kind = _NAMED[setup.scheme]
        self._store: Any = None
        # LangGraph's SQLite store has one connection; PostgreSQL's has a pool.
        self._threads = adapter.VendorThreads(
            "LangGraph's store",
            "langgraph langgraph-checkpoint-sqlite langgraph-checkpoint-postgres",
            4 if self._kind == "postgresql" else 1,
        )
        self._close: Callable[[], object] = lambda: None

    @property
    def capabilities(self) -> Capabilities:
        return _promised(self._kind)

    async def open(self) -> None:
        if self._store is None:
            lent = LentEmbedder(embedder_of(self._setup))
            self._store = await self._threads.run(lambda: self._opened(lent))

    def _opened(self, lent: LentEmbedder) -> Any:
        # `text_fields` is what the SQLite store reads; without it the whole item would be embedded.
        index: dict[str, Any] = {
            "dims": lent.dimensions,
            "embed": lent.vectors,
            "fields": ["text"],
            "text_fields": ["text"],
        }
        if self._kind == "sqlite":
            return self._on_sqlite(index)
        if self._kind == "postgresql":
            return self._on_postgres(index)
        return import_module("langgraph.store.memory").InMemoryStore(index=index)

    def _on_sqlite(self, index: dict[str, Any]) -> Any:
        if not hasattr(sqlite3.Connection, "enable_load_extension"):
            sys.modules["sqlite3"] = import_module("pysqlite3")
        connect: Any = sys.modules["sqlite3"].connect
        connection = connect(self._file, check_same_thread=False, isolation_level=None)
        connection.execute("PRAGMA secure_delete = ON")
        store: Any = import_module("langgraph.store.sqlite").SqliteStore(connection, index=index)
        store.setup()
        self._close = connection.close
        row = connection.execute("SELECT length(embedding) / 4 FROM store_vectors LIMIT 1").fetchone()
        _check_dimensions(row, index["dims"])
        return store

    @property
    def _file(self) -> str:
        path = self._setup.url.partition("://")[2]
        return str(Path(path).expanduser()) if path else str(self._setup.folder / "store.db")

    def _on_postgres(self, index: dict[str, Any]) -> Any:
        # Exact: an approximate index would choose the nearest before it looks at whose they are.
        exact = {**index, "distance_type": "cosine", "ann_index_config": {"kind": "flat"}}
        address = self._setup.url.removeprefix("langgraph+")
        import_module("psycopg").connect(address, connect_timeout=10).close()  # the pool would try for long
        opened: Any = import_module("langgraph.store.postgres").PostgresStore.from_conn_string(
            address, pool_config={"min_size": 1, "max_size": 4}, index=exact
        )
        store = opened.__enter__()
        self._close = lambda: opened.__exit__(None, None, None)
        store.setup()
        with store.conn.connection() as connection:
            row = connection.execute("SELECT vector_dims(embedding) FROM store_vectors LIMIT 1").fetchone()
        _check_dimensions(row and tuple(row.values()), index["dims"])
        return store

    # -- keeping ------------------------------------------------------------------------------------------------------

    async def put(self, copies: Sequence[Copy]) -> Sequence[str]:
        put_op: Any = import_module("langgraph.store.base").PutOp
        for batch in _without_equal_texts(copies):
            ops = [
                put_op(_namespace(one.container), one.record_id, _value(one), index=["text"]) for one in batch
            ]
            await self._threads.run(lambda ops=ops: self._store.batch(ops))
        return [one.record_id for one in copies]

    async def _items(self, places: Sequence[Place]) -> Sequence[Any]:
        get_op: Any = import_module("langgraph.store.base").GetOp
        ops = [get_op(_namespace(place.container), place.native_id, refresh_ttl=False) for place in places]
        return await self._threads.run(lambda: self._store.batch(ops))

    async def get(self, places: Sequence[Place]) -> Sequence[Kept]:
        return [_kept(item) for item in await self._items(places) if item is not None]

    async def delete(self, places: Sequence[Place]) -> int:
        put_op: Any = import_module("langgraph.store.base").PutOp
        items = await self._items(places)
        there = [place for place, item in zip(places, items, strict=True) if item is not None]
        ops = [put_op(_namespace(place.container), place.native_id, None) for place in there]
        await self._threads.run(lambda: self._store.batch(ops))
        return len(there)

    async def erase(self, places: Sequence[Place], remaining: Remaining) -> None:
        """`delete` takes the rows; this takes the pages and logs that they stood on."""
        await self.delete(places)
        await self._threads.run(self._compact)

    def _compact(self) -> None:
        if self._kind == "sqlite":
            checkpoint = "PRAGMA wal_checkpoint(TRUNCATE)"
            for statement in (checkpoint, "VACUUM", checkpoint):
                self._store.conn.execute(statement).fetchall()
        elif self._kind == "postgresql":
            with self._store.conn.connection() as connection:
                # Its rows are mappings, ours are not.
                cursor = connection.cursor(row_factory=import_module("psycopg.rows").tuple_row)
                adapter.compact_postgres(cursor, ("store", "store_vectors"))

    # -- finding ------------------------------------------------------------------------------------------------------

    async def search(self, query: Query, limit: int) -> Answer:
        def found() -> list[Any]:
            return [
                item
                for kind in sorted(query.types) or [None]
                for item in self._store.search(
                    _prefix(query),
                    query=query.text,
                    filter=_filter(query, kind),
                    limit=limit,
                    refresh_ttl=False,
                )
            ]

        items = await self._threads.run(found)
        # Rows without a vector are padded in; they are no hits.
        ranked = sorted((item for item in items if item.score is not None), key=lambda item: -item.score)
        hits = [
            NativeHit(
                native_id=item.key, score=item.score, text=_text(item), mark=adapter.mark_in(item.value)
            )
            for item in ranked[:limit]
        ]
        return Answer(hits=tuple(hits), is_filtered=not query.filter, has_more=len(items) >= limit)

    async def scan(self, container: Container) -> AsyncIterator[Kept]:
        def page(offset: int) -> list[Any]:
            where = _namespace(container)
            return list(self._store.search(where, limit=_PAGE, offset=offset, refresh_ttl=False))

        offset = 0
        while items := await self._threads.run(lambda offset=offset: page(offset)):
            for item in items:
                yield _kept(item)
            offset += _PAGE

    # -- being there --------------------------------------------------------------------------------------------------

    async def health(self) -> Health:
        await self._threads.run(lambda: self._store.search(("quipu",), limit=1))
        return Health(is_up=True, version=version("langgraph-checkpoint"))

    async def close(self) -> None:
        if self._store is not None:
            self._store = None
            await self._threads.run(self._close)
        self._threads.close()


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


def _namespace(container: Container) -> tuple[str, ...]:
    parts = (container.tenant, container.store_id, container.agent_id, container.user_id)
    return ("quipu", *(adapter.label(part, _LEGAL) for part in parts))


def _value(copy: Copy) -> dict[str, Any]:
    _, _, store, agent, user = _namespace(copy.container)
    return {
        **adapter.mark(copy),
        "text": copy.content,
        "type": copy.type,
        "store": store,
        "agent": agent,
        "user": user,
        "session": copy.session_id or "",
        "created_at": copy.created_at,
    }


def _prefix(query: Query) -> tuple[str, ...]:
    prefix = ["quipu", adapter.label(query.tenant, _LEGAL)]
    for part in (query.store_id, query.agent_id, query.user_id):
        if part is None:
            break
        prefix.append(adapter.label(part, _LEGAL))
    return tuple(prefix)


def _filter(query: Query, kind: str | None) -> dict[str, Any]:
    parts = {"store": query.store_id, "agent": query.agent_id, "user": query.user_id}
    wanted: dict[str, Any] = {
        name: adapter.label(part, _LEGAL) for name, part in parts.items() if part is not None
    }
    if kind is not None:
        wanted["type"] = kind
    if query.session_id is not None:
        wanted["session"] = query.session_id
    if query.created_from is not None:
        wanted["created_at"] = {"$gte": query.created_from}
    return wanted


def _text(item: Any) -> str:
    return str(item.value.get("text", ""))


def _kept(item: Any) -> Kept:
    return adapter.kept(item.key, _text(item), cast("Mapping[str, Any]", item.value))
