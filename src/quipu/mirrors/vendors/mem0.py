"""mem0: its vectors in a local Qdrant folder, or in PostgreSQL. In a worker.

mem0://default, mem0://<profile>, mem0+postgresql://user@host/db

One collection per tenant; agent, user and session are mem0's own fields, store and type metadata that it filters by. Texts
go in as they are (`infer=False`), so no language model is asked; mem0 builds a client for one all the same, and it is
pointed at a port where nobody listens. Its history stays in memory: on disk it would keep every deleted text.
"""

from collections.abc import Iterator, Mapping, Sequence
from importlib import import_module
from importlib.metadata import version
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

#: mem0 trims ids, refuses space within them, and PostgreSQL refuses NUL.
_LEGAL: Final = r"[^\s\x00]+"
_PAGE: Final = 1_000
#: Of so many tenants a `Memory` is at hand: each has connections of its own, and a database has only so many for all.
_MOST_TENANTS: Final = 16
_STORE, _USER, _TYPE, _AT = "quipu_store", "quipu_user", "quipu_type", "quipu_at"
_PROMISES: Final[tuple[Capability, ...]] = (
    *("get_by_id", "list", "update", "nested_metadata"),
    *("vector", "delete_reports_absence", "verbatim"),
)


def make(setup: Setup) -> Backend:
    """The backend that a mem0 address names."""
    embedder_of(setup)
    promises: set[Capability] = {*_PROMISES}
    if setup.scheme == "mem0":
        adapter.check_parameters(setup)
    else:
        promises.add("multi_process")
    # Read once, while mem0 is imported.
    environment = {"MEM0_TELEMETRY": "False", "MEM0_DIR": str(setup.folder), "HF_HUB_OFFLINE": "1"}
    capabilities = Capabilities(promises=frozenset(promises), score_kind="similarity")
    return HostedBackend(setup, "quipu.mirrors.vendors.mem0:Mem0Adapter", capabilities, environment)


class _Vectors:
    """What mem0 asks for vectors. The texts of a batch are embedded at once beforehand."""

    def __init__(self, lent: LentEmbedder) -> None:
        self.lent = lent
        self.known: dict[str, list[float]] = {}

    def embed(self, text: str, memory_action: str | None = None) -> list[float]:
        return self.known.get(text) or self.lent.vectors([text])[0]

    def embed_batch(self, texts: Sequence[str], memory_action: str | None = None) -> list[list[float]]:
        return [self.embed(text) for text in texts]


class Mem0Adapter:
    """One mem0 `Memory` for each of the tenants that were asked for last, over one database."""

    vendor, package = "mem0", "mem0ai"

    def __init__(self, setup: Setup) -> None:
        self._vectors = _Vectors(LentEmbedder(embedder_of(setup)))
        #: The one used last stands last.
        self._memories: dict[str, Any] = {}
        self._qdrant: Any = None
        self._address = setup.url.removeprefix("mem0+")
        profile = setup.url.partition("://")[2].strip("/")
        self._folder = setup.folder / f"qdrant-{adapter.label(profile or 'default')}"
        self._is_local = setup.scheme == "mem0"

    def open(self) -> None:
        import_module("mem0")  # a missing package is told at the start
        if self._is_local:
            self._qdrant = import_module("qdrant_client").QdrantClient(path=str(self._folder))
        else:
            self._reach()

    def _reach(self) -> None:
        import_module("psycopg").connect(self._address, connect_timeout=10).close()

    def _memory(self, tenant: str) -> Any:
        memory = self._memories.pop(tenant, None)
        if memory is None:
            while len(self._memories) >= _MOST_TENANTS:
                self._let_go(next(iter(self._memories)))
            nobody = {"api_key": "none", "openai_base_url": adapter.NOBODY_THERE}
            config = {
                "vector_store": self._vector_store(tenant),
                "embedder": {"provider": "openai", "config": {**nobody, "model": "quipu"}},
                "llm": {"provider": "openai", "config": {**nobody, "model": "none"}},
                "history_db_path": ":memory:",
            }
            memory = import_module("mem0").Memory.from_config(config)
            memory.embedding_model = self._vectors
        self._memories[tenant] = memory
        return memory

    def _vector_store(self, tenant: str) -> dict[str, Any]:
        given = {
            "collection_name": _collection(tenant),
            "embedding_model_dims": self._vectors.lent.dimensions,
        }
        if self._is_local:
            return {"provider": "qdrant", "config": {**given, "client": self._qdrant, "on_disk": True}}
        # Exact: an approximate index would choose the nearest before it looks at whose they are.
        exact = {**given, "connection_string": self._address, "hnsw": False, "maxconn": 2}
        return {"provider": "pgvector", "config": exact}

    def _let_go(self, tenant: str) -> None:
        """Its connections too, which mem0 has no word for; the folder's client is everybody's and stays."""
        memory = self._memories.pop(tenant, None)
        for store in (getattr(memory, "vector_store", None), getattr(memory, "_entity_store", None)):
            pool = getattr(store, "connection_pool", None)
            if pool is not None:
                pool.close()

    # -- keeping ------------------------------------------------------------------------------------------------------

    def put(self, copies: Sequence[Copy]) -> Sequence[str]:
        texts = list({copy.content for copy in copies})
        self._vectors.known = dict(zip(texts, self._vectors.lent.vectors(texts), strict=True))
        try:
            return [self._put(copy) for copy in copies]
        finally:
            self._vectors.known = {}

    def _put(self, copy: Copy) -> str:
        memory, home = self._memory(copy.container.tenant), copy.container
        there = copy.native_id if copy.native_id and memory.get(copy.native_id) else None
        if there is None:
            marked = {"agent_id": _id(home.agent_id), adapter.RECORD: copy.record_id}
            there = next((one["id"] for one in memory.get_all(filters=marked, top_k=1)["results"]), None)
        if there is not None:
            memory.update(there, text=copy.content, metadata=_metadata(copy))
            return str(there)
        added = memory.add(
            copy.content,
            agent_id=_id(home.agent_id),
            user_id=None if home.user_id is None else _id(home.user_id),
            run_id=None if copy.session_id is None else _id(copy.session_id),
            metadata=_metadata(copy),
            infer=False,
        )
        return str(added["results"][0]["id"])

    def _read(self, place: Place) -> Any:
        return self._memory(place.container.tenant).get(place.native_id)

    def get(self, places: Sequence[Place]) -> Sequence[Kept]:
        return [_kept(item) for place in places if (item := self._read(place)) is not None]

    def scan(self, container: Container) -> Iterator[Kept]:
        user = _id(container.user_id)
        wanted = {"agent_id": _id(container.agent_id), _STORE: container.store_id, _USER: user}
        memory, limit = self._memory(container.tenant), _PAGE
        while len(items := memory.get_all(filters=wanted, top_k=limit)["results"]) >= limit:
            limit *= 4  # mem0 has no cursor: ask for more until less comes back
        return map(_kept, items)

    def delete(self, places: Sequence[Place]) -> int:
        there = [place for place in places if self._read(place) is not None]
        for place in there:
            self._memory(place.container.tenant).delete(place.native_id)
        return len(there)

    def erase(self, places: Sequence[Place], remaining: Remaining) -> None:
        """`delete` takes the rows; this takes the pages that they stood on."""
        self.delete(places)
        tenants = {place.container.tenant for place in places}
        for tenant in tenants:
            # What mem0 remembers of its own calls is only in this process's memory: it goes with a fresh one.
            self._let_go(tenant)
        if self._is_local:
            for file in self._folder.rglob("*.sqlite"):
                adapter.compact_sqlite(file)
            return
        with import_module("psycopg").connect(self._address, autocommit=True) as connection:
            adapter.compact_postgres(connection, map(_collection, tenants))

    # -- finding ------------------------------------------------------------------------------------------------------

    def search(self, query: Query, limit: int) -> Answer:
        found: list[Kept] = []
        if query.text.strip():
            memory = self._memory(query.tenant)
            for wanted in _filters(query):
                # Its defaults would hide what is less alike than a tenth, and all but twenty.
                answer = memory.search(query.text, filters=wanted, top_k=limit, threshold=0.0)
                found += [_kept(item, float(item["score"])) for item in answer["results"]]
        applied = ("types", "session_id", "created_from")
        return adapter.answered(query, limit, adapter.best_first(found), applied=applied)

    # -- being there --------------------------------------------------------------------------------------------------

    def health(self) -> Health:
        if self._is_local:
            self._qdrant.get_collections()
        else:
            self._reach()
        return Health(is_up=True, version=version("mem0ai"))

    def close(self) -> None:
        for tenant in list(self._memories):
            self._let_go(tenant)
        if self._qdrant is not None:
            self._qdrant.close()


def _collection(tenant: str) -> str:
    return adapter.joined(["quipu", tenant], longest=40)


def _id(name: str | None) -> str:
    return adapter.label(name, _LEGAL)


def _filters(query: Query) -> list[dict[str, Any]]:
    """One per agent: mem0 searches for one at a time."""
    wanted: dict[str, Any] = {}
    if query.user_id is not None:
        wanted[_USER] = _id(query.user_id)
    if query.store_id is not None:
        wanted[_STORE] = query.store_id
    if query.session_id is not None:
        wanted["run_id"] = _id(query.session_id)
    if query.types:
        wanted[_TYPE] = {"in": sorted(query.types)}
    if query.created_from is not None:
        wanted[_AT] = {"gte": query.created_from}
    in_reach = dict.fromkeys(one.agent_id for one in adapter.within(query))
    agents = in_reach if query.agent_id is None else [query.agent_id]
    return [{"agent_id": _id(agent), **wanted} for agent in agents]


def _metadata(copy: Copy) -> dict[str, Any]:
    return {
        **adapter.mark(copy),
        _STORE: copy.container.store_id,
        _USER: _id(copy.container.user_id),
        _TYPE: copy.type,
        _AT: copy.created_at,
        "created_at": adapter.date_of(copy.created_at).isoformat(timespec="milliseconds"),
    }


def _kept(item: Mapping[str, Any], score: float | None = None) -> Kept:
    return adapter.kept(str(item["id"]), str(item["memory"]), item.get("metadata"), score)
