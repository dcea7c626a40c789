"""The LangGraph store as a mirror: in memory, on SQLite, on PostgreSQL.

langgraph://memory, langgraph+sqlite:///file, langgraph+postgresql://user@host/db

One item per record: its key is the record's id, its namespace `quipu`, tenant, store, agent, user. What is searched by
stands again at the top of the value, because filters reach no deeper. In a worker, always: on SQLite another `sqlite3`
must take the place of an interpreter's own that cannot load extensions.
"""

from __future__ import annotations

import asyncio
import sqlite3
import sys
from collections.abc import AsyncIterator, Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from importlib import import_module
from pathlib import Path
from typing import Any, TypeVar, cast

from quipu.backends.compacting import compact
from quipu.backends.lending import Lent, embedder_of
from quipu.backends.process import Hosting, hosted
from quipu.errors import BackendUnavailableError, InvalidError
from quipu.ports.backend import (
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
    ScoreKind,
    Setup,
)
from quipu.rules.containers import label

T = TypeVar("T")

#: LangGraph joins labels with dots and knows no empty one.
_LEGAL = r"[^.\x00]+"
_PAGE = 500
_CHECKPOINT = "PRAGMA wal_checkpoint(TRUNCATE)"
_FLAGS = frozenset(
    {
        Capability.CLIENT_IDS,
        Capability.GET_BY_ID,
        Capability.LIST,
        Capability.UPDATE,
        Capability.NESTED_METADATA,
        Capability.VECTOR,
        Capability.DELETE_REPORTS_ABSENCE,
        Capability.VERBATIM,
    }
)
_EXTRA = {
    "memory": frozenset({Capability.HARD_DELETE}),
    "sqlite": frozenset[Capability](),
    "postgresql": frozenset({Capability.MULTI_PROCESS}),
}


def make(setup: Setup) -> Backend:
    """The mirror that a `langgraph` URL names."""
    embedder_of(setup)
    hosting = Hosting(
        adapter="quipu.backends.langgraph:LangGraphBackend",
        capabilities=_promised(_kind(setup)),
        environment={"LANGSMITH_TRACING": "false", "LANGCHAIN_TRACING_V2": "false"},
    )
    return hosted(setup, hosting)


def _kind(setup: Setup) -> str:
    _, _, kind = setup.scheme.partition("+")
    kind = {"": "memory", "postgres": "postgresql"}.get(kind, kind)
    if kind not in _EXTRA or (kind == "memory" and setup.url.partition("://")[2] not in ("", "memory")):
        raise InvalidError.at(
            "/stores",
            "bad_value",
            "There is no such LangGraph store.",
            accepted=[
                "langgraph://memory",
                "langgraph+sqlite:///file",
                "langgraph+postgresql://user@host/db",
            ],
        )
    return kind


def _promised(kind: str) -> Capabilities:
    return Capabilities(flags=_FLAGS | _EXTRA[kind], score_kind=ScoreKind.SIMILARITY)


def _namespace(container: Container) -> tuple[str, ...]:
    parts = (container.tenant, container.store_id, container.agent_id, container.user_id)
    return ("quipu", *(label(part, _LEGAL) for part in parts))


class LangGraphBackend:
    """A `BaseStore` of LangGraph's, opened from the URL or handed in."""

    def __init__(self, setup: Setup, store: Any = None) -> None:
        self._setup = setup
        self._store: Any = store
        self._kind = _kind(setup)
        self._is_ours = store is None
        # LangGraph's SQLite store has one connection; PostgreSQL's has a pool.
        self._threads = ThreadPoolExecutor(4 if self._kind == "postgresql" else 1)
        self._closing: Callable[[], object] | None = None

    @property
    def capabilities(self) -> Capabilities:
        return _promised(self._kind)

    async def open(self) -> None:
        if self._store is None:
            lent = Lent(embedder_of(self._setup))
            self._store = await self._run(lambda: self._opened(lent))

    def _opened(self, lent: Lent) -> Any:
        # `text_fields` is what the SQLite store reads; without it the whole item would be embedded.
        index: dict[str, Any] = {
            "dims": lent.dimensions,
            "embed": lent.vectors,
            "fields": ["text"],
            "text_fields": ["text"],
        }
        match self._kind:
            case "sqlite":
                return self._on_sqlite(index)
            case "postgresql":
                return self._on_postgres(index)
            case _:
                InMemoryStore: Any = import_module("langgraph.store.memory").InMemoryStore

                return InMemoryStore(index=cast(Any, index))

    def _on_sqlite(self, index: dict[str, Any]) -> Any:
        if not hasattr(sqlite3.Connection, "enable_load_extension"):
            pysqlite3: Any = import_module("pysqlite3")

            sys.modules["sqlite3"] = pysqlite3
        connect: Any = sys.modules["sqlite3"].connect
        SqliteStore: Any = import_module("langgraph.store.sqlite").SqliteStore

        connection = connect(self._file(), check_same_thread=False, isolation_level=None)
        connection.execute("PRAGMA secure_delete = ON")
        store = SqliteStore(connection, index=cast(Any, index))
        store.setup()
        self._closing = connection.close
        return store

    def _file(self) -> str:
        path = self._setup.url.partition("://")[2].partition("?")[0]
        return str(Path(path).expanduser()) if path else str(self._setup.folder / "store.db")

    def _on_postgres(self, index: dict[str, Any]) -> Any:
        import psycopg

        PostgresStore: Any = import_module("langgraph.store.postgres").PostgresStore

        # Exact: an approximate index would choose the nearest before it looks at whose they are.
        exact = {**index, "distance_type": "cosine", "ann_index_config": {"kind": "flat"}}
        address = self._setup.url.removeprefix("langgraph+")
        psycopg.connect(address, connect_timeout=10).close()  # the pool would try for half a minute
        opened = PostgresStore.from_conn_string(
            address, pool_config={"min_size": 1, "max_size": 4}, index=cast(Any, exact)
        )
        store = opened.__enter__()
        self._closing = lambda: opened.__exit__(None, None, None)
        store.setup()
        return store

    async def _run(self, work: Callable[[], T]) -> T:
        try:
            return await asyncio.get_running_loop().run_in_executor(self._threads, work)
        except ImportError as error:
            raise BackendUnavailableError(
                "LangGraph's store is not installed for the mirror's interpreter.",
                reason="missing_extra",
                hint="pip install langgraph langgraph-checkpoint-sqlite langgraph-checkpoint-postgres",
            ) from error
        except Exception as error:
            raise BackendUnavailableError(
                "The LangGraph store failed.", reason="mirror_unreachable"
            ) from error

    # -- keeping ------------------------------------------------------------------------------------------------

    async def put(self, copies: Sequence[Copy]) -> Sequence[str]:
        PutOp: Any = import_module("langgraph.store.base").PutOp

        for batch in _apart(copies):
            ops = [
                PutOp(_namespace(one.container), one.record_id, _value(one), index=["text"]) for one in batch
            ]
            await self._run(lambda ops=ops: self._store.batch(ops))
        return [one.record_id for one in copies]

    async def get(self, places: Sequence[Place]) -> Sequence[Kept]:
        return [_kept(item) for item in await self._items(places) if item is not None]

    async def _items(self, places: Sequence[Place]) -> Sequence[Any]:
        GetOp: Any = import_module("langgraph.store.base").GetOp

        ops = [GetOp(_namespace(place.container), place.native_id, refresh_ttl=False) for place in places]
        return await self._run(lambda: self._store.batch(ops))

    async def delete(self, places: Sequence[Place]) -> int:
        PutOp: Any = import_module("langgraph.store.base").PutOp

        there = [place for place, item in zip(places, await self._items(places), strict=True) if item]
        ops = [PutOp(_namespace(place.container), place.native_id, None) for place in there]
        await self._run(lambda: self._store.batch(ops))
        return len(there)

    async def erase(self, places: Sequence[Place], remaining: Remaining) -> None:
        """`delete` took the rows; this takes the pages and logs they stood on."""
        await self.delete(places)
        await self._run(self._compact)

    def _compact(self) -> None:
        if self._kind == "sqlite":
            for statement in (_CHECKPOINT, "VACUUM", _CHECKPOINT):
                self._store.conn.execute(statement).fetchall()
        elif self._kind == "postgresql":
            with self._store.conn.connection() as connection:
                # Its rows are dictionaries, ours are not.
                cursor = connection.cursor(row_factory=import_module("psycopg.rows").tuple_row)
                compact(cursor, ("store", "store_vectors"))

    # -- finding ------------------------------------------------------------------------------------------------

    async def search(self, query: Query, limit: int) -> Answer:
        found: list[Any] = []
        for kind in sorted(query.types) or [None]:
            given = _filter(query, kind)
            found += await self._run(
                lambda given=given: self._store.search(
                    _prefix(query), query=query.text, filter=given, limit=limit, refresh_ttl=False
                )
            )
        # Rows without a vector are padded in; they are no hits.
        ranked = sorted((item for item in found if item.score is not None), key=lambda item: -item.score)
        hits = [
            NativeHit(native_id=item.key, score=item.score, text=_text(item), metadata=_metadata(item))
            for item in ranked[:limit]
        ]
        return Answer(hits=tuple(hits), is_filtered=not query.filter, has_more=len(found) >= limit)

    async def scan(self, container: Container) -> AsyncIterator[Kept]:
        offset = 0
        while True:
            items: list[Any] = await self._run(
                lambda offset=offset: self._store.search(
                    _namespace(container), limit=_PAGE, offset=offset, refresh_ttl=False
                )
            )
            for item in items:
                yield _kept(item)
            if len(items) < _PAGE:
                return
            offset += _PAGE

    async def health(self) -> Health:
        from importlib.metadata import version

        await self._run(lambda: self._store.search(("quipu",), limit=1))
        return Health(is_up=True, version=version("langgraph-checkpoint"))

    async def close(self) -> None:
        if self._is_ours and self._closing is not None:
            await self._run(self._closing)
            self._store, self._closing = None, None
        self._threads.shutdown()


def _apart(copies: Sequence[Copy]) -> list[list[Copy]]:
    """Batches in which no text stands twice: the store in memory fails on those that do."""
    batches: list[dict[str, Copy]] = []
    for copy in copies:
        batch = next((one for one in batches if copy.content not in one), None)
        if batch is None:
            batches.append(batch := dict[str, Copy]())
        batch[copy.content] = copy
    return [list(batch.values()) for batch in batches]


def _value(copy: Copy) -> dict[str, Any]:
    _, _, store, agent, user = _namespace(copy.container)
    return {
        "text": copy.content,
        "record_id": copy.record_id,
        "version": copy.version,
        "type": str(copy.type),
        "store": store,
        "agent": agent,
        "user": user,
        "session": copy.session_id or "",
        "created_at": copy.created_at,
        "metadata": dict(copy.metadata),
        "tags": list(copy.tags),
    }


def _prefix(query: Query) -> tuple[str, ...]:
    prefix = ["quipu", label(query.tenant, _LEGAL)]
    for part in (query.store_id, query.agent_id, query.user_id):
        if part is None:
            break
        prefix.append(label(part, _LEGAL))
    return tuple(prefix)


def _filter(query: Query, kind: str | None) -> dict[str, Any]:
    parts = {"store": query.store_id, "agent": query.agent_id, "user": query.user_id}
    wanted: dict[str, Any] = {name: label(part, _LEGAL) for name, part in parts.items() if part is not None}
    if kind is not None:
        wanted["type"] = str(kind)
    if query.session_id is not None:
        wanted["session"] = query.session_id
    if query.created_from is not None:
        wanted["created_at"] = {"$gte": query.created_from}
    return wanted


def _text(item: Any) -> str:
    return str(item.value.get("text", ""))


def _metadata(item: Any) -> dict[str, Any]:
    metadata = item.value.get("metadata")
    return cast("dict[str, Any]", metadata) if isinstance(metadata, dict) else {}


def _kept(item: Any) -> Kept:
    return Kept(
        native_id=item.key,
        text=_text(item),
        record_id=item.value.get("record_id"),
        version=item.value.get("version"),
        metadata=_metadata(item),
    )
