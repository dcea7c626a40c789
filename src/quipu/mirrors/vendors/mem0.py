"""mem0: its vectors in a local Qdrant folder, or in PostgreSQL. In a worker.

mem0://default, mem0://<profile>, mem0+postgresql://user@host/db

One collection per tenant; agent, user and session are mem0's own fields, store and type metadata that it filters by. Texts
go in as they are (`infer=False`), so no language model is asked; mem0 builds a client for one all the same, and it is
pointed at a port where nobody listens. Its history stays in memory: on disk it would keep every deleted text.
"""

from collections.abc import AsyncIterator, Mapping, Sequence
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
    NativeHit,
    Place,
    Query,
    Remaining,
    Setup,
)
from quipu.mirrors.lent_embedder import LentEmbedder, embedder_of, floats
from quipu.mirrors.vendors.host import hosted

#: mem0 trims ids, refuses space within them, and PostgreSQL refuses NUL.
_LEGAL: Final = r"[^\s\x00]+"
#: Nobody listens there.
_NOBODY: Final = "http://127.0.0.1:9/v1"
_PAGE: Final = 1_000
#: Of so many tenants a `Memory` is at hand: each has connections of its own, and a database has only so many for all.
_MOST_TENANTS: Final = 16
_STORE, _USER, _TYPE, _AT = "quipu_store", "quipu_user", "quipu_type", "quipu_at"
_PROMISES: Final[frozenset[Capability]] = frozenset(
    {
        "get_by_id",
        "list",
        "update",
        "nested_metadata",
        "vector",
        "delete_reports_absence",
        "verbatim",
    }
)


def make(setup: Setup) -> Backend:
    """The backend that a mem0 address names."""
    embedder_of(setup)
    if setup.scheme == "mem0":
        adapter.check_parameters(setup)
    # Read once, while mem0 is imported.
    environment = {"MEM0_TELEMETRY": "False", "MEM0_DIR": str(setup.folder), "HF_HUB_OFFLINE": "1"}
    return hosted(setup, "quipu.mirrors.vendors.mem0:Mem0Backend", _promised(setup), environment)


def _promised(setup: Setup) -> Capabilities:
    extra: frozenset[Capability] = frozenset() if setup.scheme == "mem0" else frozenset({"multi_process"})
    return Capabilities(promises=_PROMISES | extra, score_kind="similarity")


class _Vectors:
    """What mem0 asks for vectors. The texts of a batch are embedded at once beforehand."""

    def __init__(self, lent: LentEmbedder) -> None:
        self._lent = lent
        self.known: dict[str, list[float]] = {}

    def embed(self, text: str, memory_action: str | None = None) -> list[float]:
        return self.known.get(text) or self._lent.vectors([text])[0]

    def embed_batch(self, texts: Sequence[str], memory_action: str | None = None) -> list[list[float]]:
        return [self.embed(text) for text in texts]


class Mem0Backend:
    """One mem0 `Memory` for each of the tenants that were asked for last, over one database."""

    def __init__(self, setup: Setup) -> None:
        self._setup = setup
        self._threads = adapter.VendorThreads("mem0", "mem0ai")
        #: The one used last stands last.
        self._memories: dict[str, Any] = {}
        self._qdrant: Any = None
        self._vectors: Any = None

    @property
    def capabilities(self) -> Capabilities:
        return _promised(self._setup)

    async def open(self) -> None:
        if self._vectors is None:
            vectors = _Vectors(LentEmbedder(embedder_of(self._setup)))
            await self._threads.run(self._reach)
            self._vectors = vectors

    def _reach(self) -> None:
        import_module("mem0")  # a missing package is told at the start
        if self._setup.scheme == "mem0":
            self._qdrant = import_module("qdrant_client").QdrantClient(path=str(self._folder))
        else:
            import_module("psycopg").connect(self._address, connect_timeout=10).close()

    @property
    def _folder(self) -> Path:
        profile = self._setup.url.partition("://")[2].strip("/")
        return self._setup.folder / f"qdrant-{adapter.label(profile or 'default')}"

    @property
    def _address(self) -> str:
        return self._setup.url.removeprefix("mem0+")

    def _memory(self, tenant: str) -> Any:
        memory = self._memories.pop(tenant, None)
        if memory is None:
            while len(self._memories) >= _MOST_TENANTS:
                self._let_go(next(iter(self._memories)))
            memory = self._made(tenant)
        self._memories[tenant] = memory
        return memory

    def _made(self, tenant: str) -> Any:
        client = {"api_key": "none", "openai_base_url": _NOBODY}
        memory: Any = import_module("mem0").Memory.from_config(
            {
                "vector_store": self._vector_store(tenant),
                "embedder": {"provider": "openai", "config": {**client, "model": "quipu"}},
                "llm": {"provider": "openai", "config": {**client, "model": "none"}},
                "history_db_path": ":memory:",
            }
        )
        memory.embedding_model = self._vectors
        return memory

    def _let_go(self, tenant: str) -> None:
        """Its connections too, which mem0 has no word for; the folder's client is everybody's and stays."""
        memory = self._memories.pop(tenant, None)
        for store in (getattr(memory, "vector_store", None), getattr(memory, "_entity_store", None)):
            pool = getattr(store, "connection_pool", None)
            if pool is not None:
                pool.close()

    def _vector_store(self, tenant: str) -> dict[str, Any]:
        dimensions = embedder_of(self._setup).dimensions
        given = {"collection_name": _collection(tenant), "embedding_model_dims": dimensions}
        if self._qdrant is not None:
            return {"provider": "qdrant", "config": {**given, "client": self._qdrant, "on_disk": True}}
        # Exact: an approximate index would choose the nearest before it looks at whose they are.
        exact = {**given, "connection_string": self._address, "hnsw": False, "maxconn": 2}
        return {"provider": "pgvector", "config": exact}

    # -- keeping ------------------------------------------------------------------------------------------------------

    async def put(self, copies: Sequence[Copy]) -> Sequence[str]:
        texts = list({copy.content for copy in copies})
        embedded = await embedder_of(self._setup).embed(texts) if texts else ()
        known = dict(zip(texts, map(floats, embedded), strict=True))

        def put() -> list[str]:
            self._vectors.known = known
            try:
                return [self._put(copy) for copy in copies]
            finally:
                self._vectors.known = {}

        return await self._threads.run(put)

    def _put(self, copy: Copy) -> str:
        memory, home = self._memory(copy.container.tenant), copy.container
        there = copy.native_id if copy.native_id and memory.get(copy.native_id) else self._marked(copy)
        if there is not None:
            memory.update(there, text=copy.content, metadata=_metadata(copy))
            return there
        added = memory.add(
            copy.content,
            agent_id=adapter.label(home.agent_id, _LEGAL),
            user_id=None if home.user_id is None else adapter.label(home.user_id, _LEGAL),
            run_id=None if copy.session_id is None else adapter.label(copy.session_id, _LEGAL),
            metadata=_metadata(copy),
            infer=False,
        )
        return str(added["results"][0]["id"])

    def _marked(self, copy: Copy) -> str | None:
        """The native id under which this record is kept already, by its mark."""
        wanted = {
            "agent_id": adapter.label(copy.container.agent_id, _LEGAL),
            adapter.RECORD: copy.record_id,
        }
        found = self._memory(copy.container.tenant).get_all(filters=wanted, top_k=1)["results"]
        return str(found[0]["id"]) if found else None

    def _read(self, place: Place) -> Any:
        return self._memory(place.container.tenant).get(place.native_id)

    async def get(self, places: Sequence[Place]) -> Sequence[Kept]:
        found = await self._threads.run(lambda: [self._read(place) for place in places])
        return [_kept(item) for item in found if item is not None]

    async def delete(self, places: Sequence[Place]) -> int:
        return await self._threads.run(lambda: sum(self._delete(place) for place in places))

    def _delete(self, place: Place) -> bool:
        if self._read(place) is None:
            return False
        self._memory(place.container.tenant).delete(place.native_id)
        return True

    async def erase(self, places: Sequence[Place], remaining: Remaining) -> None:
        """`delete` takes the rows; this takes the pages that they stood on."""
        await self.delete(places)
        tenants = {place.container.tenant for place in places}
        await self._threads.run(lambda: self._compact(tenants))

    def _compact(self, tenants: set[str]) -> None:
        for tenant in tenants:
            # What mem0 remembers of its own calls is only in this process's memory: it goes with a fresh one.
            self._let_go(tenant)
        if self._qdrant is not None:
            for file in self._folder.rglob("*.sqlite"):
                adapter.compact_sqlite(file)
            return
        with import_module("psycopg").connect(self._address, autocommit=True) as connection:
            adapter.compact_postgres(connection, [_collection(tenant) for tenant in tenants])

    # -- finding ------------------------------------------------------------------------------------------------------

    async def search(self, query: Query, limit: int) -> Answer:
        if not query.text.strip():
            return Answer(hits=(), is_filtered=True)
        found = await self._threads.run(
            lambda: [item for wanted in _filters(query) for item in self._found(query, wanted, limit)]
        )
        ranked = sorted(found, key=lambda item: -float(item["score"]))[:limit]
        hits = [
            NativeHit(
                native_id=str(item["id"]),
                score=float(item["score"]),
                text=str(item["memory"]),
                mark=adapter.mark_in(item.get("metadata")),
            )
            for item in ranked
        ]
        return Answer(hits=tuple(hits), is_filtered=not query.filter, has_more=len(found) >= limit)

    def _found(self, query: Query, wanted: Mapping[str, Any], limit: int) -> list[Any]:
        # Its defaults would hide what is less alike than a tenth, and all but twenty.
        answer = self._memory(query.tenant).search(query.text, filters=wanted, top_k=limit, threshold=0.0)
        return list(answer["results"])

    async def scan(self, container: Container) -> AsyncIterator[Kept]:
        wanted = {
            "agent_id": adapter.label(container.agent_id, _LEGAL),
            _STORE: container.store_id,
            _USER: adapter.label(container.user_id, _LEGAL),
        }

        def listed(limit: int) -> list[Any]:
            return list(self._memory(container.tenant).get_all(filters=wanted, top_k=limit)["results"])

        limit = _PAGE
        while len(items := await self._threads.run(lambda limit=limit: listed(limit))) >= limit:
            limit *= 4  # mem0 has no cursor: ask for more until less comes back
        for item in items:
            yield _kept(item)

    # -- being there --------------------------------------------------------------------------------------------------

    async def health(self) -> Health:
        def touch() -> object:
            return self._reach() if self._qdrant is None else self._qdrant.get_collections()

        await self._threads.run(touch)
        return Health(is_up=True, version=version("mem0ai"))

    async def close(self) -> None:
        def close() -> None:
            for tenant in list(self._memories):
                self._let_go(tenant)
            if self._qdrant is not None:
                self._qdrant.close()

        await self._threads.run(close)
        self._qdrant = self._vectors = None
        self._threads.close()


def _collection(tenant: str) -> str:
    return adapter.joined(["quipu", tenant], longest=40)


def _filters(query: Query) -> list[dict[str, Any]]:
    """One per agent: mem0 searches for one at a time."""
    wanted: dict[str, Any] = {}
    if query.user_id is not None:
        wanted[_USER] = adapter.label(query.user_id, _LEGAL)
    if query.store_id is not None:
        wanted[_STORE] = query.store_id
    if query.session_id is not None:
        wanted["run_id"] = adapter.label(query.session_id, _LEGAL)
    if query.types:
        wanted[_TYPE] = {"in": sorted(query.types)}
    if query.created_from is not None:
        wanted[_AT] = {"gte": query.created_from}
    in_reach = dict.fromkeys(one.agent_id for one in adapter.within(query))
    agents = in_reach if query.agent_id is None else [query.agent_id]
    return [{"agent_id": adapter.label(agent, _LEGAL), **wanted} for agent in agents]


def _metadata(copy: Copy) -> dict[str, Any]:
    return {
        **adapter.mark(copy),
        _STORE: copy.container.store_id,
        _USER: adapter.label(copy.container.user_id, _LEGAL),
        _TYPE: copy.type,
        _AT: copy.created_at,
        "created_at": adapter.date_of(copy.created_at).isoformat(timespec="milliseconds"),
    }


def _kept(item: Mapping[str, Any]) -> Kept:
    return adapter.kept(str(item["id"]), str(item["memory"]), item.get("metadata"))
