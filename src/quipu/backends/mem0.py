"""mem0 as a mirror: its vectors in a local Qdrant folder, or in PostgreSQL.

mem0://default, mem0://<profile>, mem0+postgresql://user@host/db

One collection per tenant; agent, user and session are mem0's own fields, store and type metadata it filters by. Texts
go in as they are (`infer=False`), so no language model is asked; mem0 builds a client for one all the same, and it is
pointed at a port where nobody listens. Its history stays in memory: on disk it would keep every deleted text.
"""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from importlib import import_module
from typing import Any, TypeVar, cast

from quipu.backends.compacting import compact
from quipu.backends.lending import Lent, embedder_of, floats
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
from quipu.rules.containers import joined, label
from quipu.rules.mirroring_dates import dated

T = TypeVar("T")

#: mem0 trims ids, refuses space within them, and PostgreSQL refuses NUL.
_LEGAL = r"[^\s\x00]+"
_NOBODY = "http://127.0.0.1:9/v1"
_PAGE = 1_000
#: Of so many tenants a `Memory` is at hand: each has connections of its own, and a database has only so many for everybody.
_MOST_TENANTS = 16
_FLAGS = frozenset(
    {
        Capability.GET_BY_ID,
        Capability.LIST,
        Capability.UPDATE,
        Capability.NESTED_METADATA,
        Capability.VECTOR,
        Capability.DELETE_REPORTS_ABSENCE,
        Capability.VERBATIM,
    }
)


def make(setup: Setup) -> Backend:
    """The mirror that a `mem0` URL names."""
    embedder_of(setup)
    if setup.scheme not in ("mem0", "mem0+postgresql"):
        raise InvalidError.at(
            "/stores",
            "bad_value",
            "mem0 keeps its vectors in a folder or in PostgreSQL.",
            accepted=["mem0://<profile>", "mem0+postgresql://user@host/db"],
        )
    hosting = Hosting(
        adapter="quipu.backends.mem0:Mem0Backend",
        capabilities=_promised(setup),
        # Read once, while mem0 is imported.
        environment={"MEM0_TELEMETRY": "False", "MEM0_DIR": str(setup.folder), "HF_HUB_OFFLINE": "1"},
    )
    return hosted(setup, hosting)


def _promised(setup: Setup) -> Capabilities:
    extra = {Capability.MULTI_PROCESS} if setup.scheme != "mem0" else set[Capability]()
    return Capabilities(flags=_FLAGS | extra, score_kind=ScoreKind.SIMILARITY)


class _Embedding:
    """What mem0 asks for vectors. Texts of a batch are embedded at once beforehand."""

    def __init__(self, lent: Lent) -> None:
        self._lent = lent
        self.known: dict[str, list[float]] = {}

    def embed(self, text: str, memory_action: str | None = None) -> list[float]:
        return self.known.get(text) or self._lent.vectors([text])[0]

    def embed_batch(self, texts: Sequence[str], memory_action: str | None = None) -> list[list[float]]:
        return [self.embed(text) for text in texts]


class Mem0Backend:
    """One mem0 `Memory` for each of the tenants last asked for, over one database."""

    def __init__(self, setup: Setup) -> None:
        self._setup = setup
        self._profile = setup.url.partition("://")[2].partition("?")[0] if setup.scheme == "mem0" else "quipu"
        self._threads = ThreadPoolExecutor(1)
        #: The one last used stands last.
        self._memories: dict[str, Any] = {}
        self._qdrant: Any = None
        self._embedding: _Embedding | None = None

    @property
    def capabilities(self) -> Capabilities:
        return _promised(self._setup)

    async def open(self) -> None:
        if self._embedding is None:
            embedding = _Embedding(Lent(embedder_of(self._setup)))
            await self._run(self._reach)
            self._embedding = embedding

    def _reach(self) -> None:
        import_module("mem0")  # a missing package is told at the start
        if self._setup.scheme == "mem0":
            QdrantClient: Any = import_module("qdrant_client").QdrantClient

            self._qdrant = QdrantClient(path=str(self._folder))
        else:
            import psycopg

            psycopg.connect(self._address, connect_timeout=10).close()

    @property
    def _folder(self) -> Any:
        return self._setup.folder / f"qdrant-{label(self._profile or 'default')}"

    @property
    def _address(self) -> str:
        return self._setup.url.removeprefix("mem0+")

    def _memory(self, tenant: str) -> Any:
        """The tenant's; made when it is needed and not at hand."""
        memory = self._memories.pop(tenant, None)
        if memory is None:
            while len(self._memories) >= _MOST_TENANTS:
                self._let_go(next(iter(self._memories)))
            memory = self._made(tenant)
        self._memories[tenant] = memory
        return memory

    def _made(self, tenant: str) -> Any:
        Memory: Any = import_module("mem0").Memory

        embedding = self._embedding
        assert embedding is not None  # noqa: S101  opened before it is called
        client = {"api_key": "none", "openai_base_url": _NOBODY}
        config = {
            "vector_store": self._vectors(tenant),
            "embedder": {"provider": "openai", "config": {**client, "model": "quipu"}},
            "llm": {"provider": "openai", "config": {**client, "model": "none"}},
            "history_db_path": ":memory:",
        }
        memory = Memory.from_config(config)
        memory.embedding_model = cast(Any, embedding)
        return memory

    def _let_go(self, tenant: str) -> None:
        """Its connections too, which mem0 has no word for; the folder's client is everybody's and stays."""
        memory = self._memories.pop(tenant, None)
        for store in (getattr(memory, "vector_store", None), getattr(memory, "_entity_store", None)):
            pool = getattr(store, "connection_pool", None)
            if pool is not None:
                pool.close()

    def _vectors(self, tenant: str) -> dict[str, Any]:
        lent = embedder_of(self._setup)
        given = {"collection_name": _collection(tenant), "embedding_model_dims": lent.dimensions}
        if self._qdrant is not None:
            return {"provider": "qdrant", "config": {**given, "client": self._qdrant, "on_disk": True}}
        # Exact: an approximate index would choose the nearest before it looks at whose they are.
        exact = {**given, "connection_string": self._address, "hnsw": False, "maxconn": 2}
        return {"provider": "pgvector", "config": exact}

    async def _run(self, work: Callable[[], T]) -> T:
        try:
            return await asyncio.get_running_loop().run_in_executor(self._threads, work)
        except ImportError as error:
            raise BackendUnavailableError(
                "mem0 is not installed for the mirror's interpreter.",
                reason="missing_extra",
                hint="pip install mem0ai",
            ) from error
        except Exception as error:
            raise BackendUnavailableError("mem0 failed.", reason="mirror_unreachable") from error

    # -- keeping ------------------------------------------------------------------------------------------------

    async def put(self, copies: Sequence[Copy]) -> Sequence[str]:
        assert self._embedding is not None  # noqa: S101  opened before it is called
        texts = list({copy.content for copy in copies})
        vectors = await embedder_of(self._setup).embed(texts) if texts else ()
        known = dict(zip(texts, map(floats, vectors), strict=True))
        return await self._run(lambda: self._put(copies, known))

    def _put(self, copies: Sequence[Copy], known: dict[str, list[float]]) -> list[str]:
        assert self._embedding is not None  # noqa: S101  opened before it is called
        self._embedding.known = known
        try:
            return [self._put_one(copy) for copy in copies]
        finally:
            self._embedding.known = {}

    def _put_one(self, copy: Copy) -> str:
        memory = self._memory(copy.container.tenant)
        there = copy.native_id if copy.native_id and memory.get(copy.native_id) else self._marked(copy)
        if there is None:
            home = copy.container
            added = memory.add(
                copy.content,
                agent_id=label(home.agent_id, _LEGAL),
                user_id=None if home.user_id is None else label(home.user_id, _LEGAL),
                run_id=None if copy.session_id is None else label(copy.session_id, _LEGAL),
                metadata=_metadata(copy),
                infer=False,
            )
            return str(added["results"][0]["id"])
        memory.update(there, text=copy.content, metadata=_metadata(copy))
        return there

    def _marked(self, copy: Copy) -> str | None:
        """The native id under which this record is kept already, by the mark written beside it."""
        wanted = {"agent_id": label(copy.container.agent_id, _LEGAL), "ext_id": copy.record_id}
        found = self._memory(copy.container.tenant).get_all(filters=wanted, top_k=1)["results"]
        return str(found[0]["id"]) if found else None

    async def get(self, places: Sequence[Place]) -> Sequence[Kept]:
        found = await self._run(lambda: [self._read(place) for place in places])
        return [_kept(item) for item in found if item is not None]

    def _read(self, place: Place) -> Any:
        return self._memory(place.container.tenant).get(place.native_id)

    async def delete(self, places: Sequence[Place]) -> int:
        return await self._run(lambda: sum(self._delete(place) for place in places))

    def _delete(self, place: Place) -> bool:
        if self._read(place) is None:
            return False
        self._memory(place.container.tenant).delete(place.native_id)
        return True

    async def erase(self, places: Sequence[Place], remaining: Remaining) -> None:
        """`delete` took the rows; this takes the pages they stood on."""
        await self.delete(places)
        tenants = dict.fromkeys(place.container.tenant for place in places)
        await self._run(lambda: [self._compact(tenant) for tenant in tenants])

    def _compact(self, tenant: str) -> None:
        # What mem0 remembers of its own calls is only in this process's memory: it goes with a fresh one.
        self._let_go(tenant)
        if self._qdrant is not None:
            for file in self._folder.rglob("*.sqlite"):
                with closing(sqlite3.connect(file)) as connection:
                    connection.execute("VACUUM")
            return
        import psycopg

        with psycopg.connect(self._address, autocommit=True) as connection:
            compact(connection, [_collection(tenant)])

    # -- finding ------------------------------------------------------------------------------------------------

    async def search(self, query: Query, limit: int) -> Answer:
        if not query.text.strip():
            return Answer(hits=(), is_filtered=not query.filter)
        agents = [query.agent_id] if query.agent_id is not None else _agents(query)
        found: list[Any] = []
        for agent in agents:
            wanted = _filters(query, agent)
            found += await self._run(
                lambda wanted=wanted: self._memory(query.tenant).search(
                    query.text, filters=wanted, top_k=limit, threshold=0.0
                )["results"]
            )
        ranked = sorted(found, key=lambda item: -float(item["score"]))[:limit]
        hits = [
            NativeHit(
                native_id=str(item["id"]),
                score=float(item["score"]),
                text=str(item["memory"]),
                metadata=_kept(item).metadata,
            )
            for item in ranked
        ]
        return Answer(hits=tuple(hits), is_filtered=not query.filter, has_more=len(found) >= limit)

    async def scan(self, container: Container) -> AsyncIterator[Kept]:
        wanted = {
            "agent_id": label(container.agent_id, _LEGAL),
            "q_store": container.store_id,
            "q_user": label(container.user_id, _LEGAL),
        }
        limit = _PAGE
        while True:  # mem0 has no cursor: ask for more until less comes back
            items = await self._run(
                lambda limit=limit: self._memory(container.tenant).get_all(filters=wanted, top_k=limit)[
                    "results"
                ]
            )
            if len(items) < limit:
                break
            limit *= 4
        for item in items:
            yield _kept(item)

    async def health(self) -> Health:
        from importlib.metadata import version

        def touch() -> object:
            if self._qdrant is not None:
                return self._qdrant.get_collections()
            return self._reach()

        await self._run(touch)
        return Health(is_up=True, version=version("mem0ai"))

    async def close(self) -> None:
        await self._run(lambda: [self._let_go(tenant) for tenant in list(self._memories)])
        if self._qdrant is not None:
            await self._run(self._qdrant.close)
        self._qdrant, self._embedding = None, None
        self._threads.shutdown()


def _collection(tenant: str) -> str:
    return joined(["quipu", tenant], longest=40)


def _agents(query: Query) -> list[str]:
    """mem0 searches for one agent at a time."""
    return list(dict.fromkeys(container.agent_id for container in query.containers))


def _filters(query: Query, agent: str) -> dict[str, Any]:
    wanted: dict[str, Any] = {"agent_id": label(agent, _LEGAL)}
    if query.user_id is not None:
        wanted["q_user"] = label(query.user_id, _LEGAL)
    if query.store_id is not None:
        wanted["q_store"] = query.store_id
    if query.session_id is not None:
        wanted["run_id"] = label(query.session_id, _LEGAL)
    if query.types:
        wanted["q_type"] = {"in": sorted(str(kind) for kind in query.types)}
    if query.created_from is not None:
        wanted["q_at"] = {"gte": query.created_from}
    return wanted


def _metadata(copy: Copy) -> dict[str, Any]:
    """The record's own goes under one key, for mem0 swallows some names."""
    return {
        "ext_id": copy.record_id,
        "q_version": copy.version,
        "q_store": copy.container.store_id,
        "q_user": label(copy.container.user_id, _LEGAL),
        "q_type": str(copy.type),
        "q_at": copy.created_at,
        "created_at": dated(copy.created_at).isoformat(),
        "q_metadata": dict(copy.metadata),
        "q_tags": list(copy.tags),
    }


def _kept(item: Mapping[str, Any]) -> Kept:
    said: Mapping[str, Any] = item.get("metadata") or {}
    return Kept(
        native_id=str(item["id"]),
        text=str(item["memory"]),
        record_id=said.get("ext_id"),
        version=said.get("q_version"),
        metadata=said.get("q_metadata") or {},
    )
