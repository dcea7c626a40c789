"""Graphiti, over the graph database that comes with it: graphiti://<prefix of its graphs>. In a worker.

One graph per tenant, store, agent and user. A record is an edge from the graph's own node to one of the record's, with
the text as its fact and the record's time as `valid_at`; edges are written as they are, so no language model is asked.
`erase` makes a graph anew: the database's files keep what was deleted.
"""

import asyncio
import json
import shutil
import warnings
from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from importlib import import_module
from importlib.metadata import version
from pathlib import Path
from typing import Any, Final
from uuid import NAMESPACE_URL, uuid5

from quipu.embed.port import Embedder
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
from quipu.mirrors.lent_embedder import embedder_of, floats
from quipu.mirrors.vendors.host import HostedBackend

#: Else the database takes 8 TB of address space for each graph, which allows no more than 16.
_MOST_BYTES: Final = 1 << 33
_POOL_BYTES: Final = 1 << 26
#: So many graphs are open at once: each holds memory of its own for as long as it is.
_OPEN: Final = 8
_PROMISES: Final[tuple[Capability, ...]] = (
    *("client_ids", "get_by_id", "list", "update", "nested_metadata"),
    *("vector", "delete_reports_absence", "verbatim"),
)


def make(setup: Setup) -> Backend:
    """The backend that a Graphiti address names."""
    embedder_of(setup)
    adapter.check_parameters(setup)
    environment = {
        "GRAPHITI_TELEMETRY_ENABLED": "false",
        "OPENAI_API_KEY": "none",
        "OPENAI_BASE_URL": adapter.NOBODY_THERE,
    }
    capabilities = Capabilities(promises=frozenset(_PROMISES), score_kind="rrf")
    return HostedBackend(setup, "quipu.mirrors.vendors.graphiti:GraphitiAdapter", capabilities, environment)


@dataclass(frozen=True)
class _Graph:
    name: str
    driver: Any
    graphiti: Any

    @property
    def root(self) -> str:
        return str(uuid5(NAMESPACE_URL, self.name))


class GraphitiAdapter:
    """A graph per container, opened when it is needed. Whoever uses one has the turn: it may be closed after that."""

    vendor, package = "Graphiti", '"graphiti-core[kuzu]" httpx'

    def __init__(self, setup: Setup) -> None:
        self._embedder = embedder_of(setup)
        self._prefix = setup.url.partition("://")[2].strip("/") or "quipu"
        self._folder = setup.folder / "graphs"
        #: The one used last stands last.
        self._graphs: dict[str, _Graph] = {}
        self._turn = asyncio.Lock()
        self._edge: Any = None
        self._node: Any = None

    async def open(self) -> None:
        for package in ("graphiti_core", "kuzu"):  # a missing package is told at the start
            import_module(package)
        self._edge = import_module("graphiti_core.edges").EntityEdge
        self._node = import_module("graphiti_core.nodes").EntityNode
        self._folder.mkdir(parents=True, exist_ok=True)

    def _name(self, one: Container) -> str:
        return adapter.container_name(self._prefix, one)

    async def _graph(self, container: Container, *, makes: bool = False) -> _Graph | None:
        name = self._name(container)
        graph = self._graphs.pop(name, None)
        if graph is None:
            self._check_folder()
            if not makes and not (self._folder / name).exists():
                return None
            while len(self._graphs) >= _OPEN:
                _close(self._graphs.pop(next(iter(self._graphs))))  # the one that was used longest ago
            graph = await asyncio.to_thread(_opened, self._folder / name, self._embedder)
            await graph.driver.execute_query("RETURN 1")
        self._graphs[name] = graph
        return graph

    def _check_folder(self) -> None:
        """Where the folder was taken away, nobody knows what it held: that is not nothing."""
        if not self._folder.is_dir():
            raise FileNotFoundError

    # -- keeping ------------------------------------------------------------------------------------------------------

    async def put(self, copies: Sequence[Copy]) -> Sequence[str]:
        texts = list(dict.fromkeys(copy.content for copy in copies))
        vectors = await self._embedder.embed(texts) if texts else ()
        known = dict(zip(texts, map(floats, vectors), strict=True))
        async with self._turn:
            for copy in copies:
                await self._put(copy, known[copy.content])
        return [_native(copy.record_id) for copy in copies]

    async def _put(self, copy: Copy, vector: list[float]) -> None:
        graph = await self._graph(copy.container, makes=True)
        assert graph is not None
        own = _native(copy.record_id)
        known: dict[str, Any] = {
            "group_id": graph.name,
            "created_at": adapter.date_of(copy.created_at),
        }
        await self._take(graph, [own])  # the words of an older version would stay in the index
        for uuid, name in ((graph.root, "quipu"), (own, copy.record_id)):
            node = self._node(uuid=uuid, name=name, name_embedding=[0.0] * len(vector), **known)
            await node.save(graph.driver)
        edge = self._edge(
            uuid=own,
            name="REMEMBERS",
            fact=copy.content,
            fact_embedding=vector,
            source_node_uuid=graph.root,
            target_node_uuid=own,
            valid_at=known["created_at"],
            attributes={"mark": json.dumps(adapter.mark(copy)), "type": copy.type},
            **known,
        )
        await edge.save(graph.driver)

    async def _edges(self, graph: _Graph | None, names: Sequence[str]) -> list[Any]:
        if graph is None or not names:
            return []
        return list(await self._edge.get_by_uuids(graph.driver, list(names)))

    async def _take(self, graph: _Graph | None, names: Sequence[str]) -> int:
        there = await self._edges(graph, names)
        if graph is not None and there:
            for edge in there:
                await edge.delete(graph.driver)
            await self._node.delete_by_uuids(graph.driver, [edge.uuid for edge in there])
        return len(there)

    async def get(self, places: Sequence[Place]) -> Sequence[Kept]:
        async with self._turn:
            return [
                _kept(edge)
                for container, names in _named(places).items()
                for edge in await self._edges(await self._graph(container), names)
            ]

    async def scan(self, container: Container) -> AsyncIterator[Kept]:
        nothing: Any = import_module("graphiti_core.errors").GroupsEdgesNotFoundError
        async with self._turn:
            graph = await self._graph(container)
            try:
                edges = graph and await self._edge.get_by_group_ids(graph.driver, [graph.name])
            except nothing:
                edges = None
        for edge in edges or ():
            yield _kept(edge)

    async def delete(self, places: Sequence[Place]) -> int:
        async with self._turn:
            return sum(
                [
                    await self._take(await self._graph(container), names)
                    for container, names in _named(places).items()
                ]
            )

    async def erase(self, places: Sequence[Place], remaining: Remaining) -> None:
        """The graph is taken away with its files, and what should stay is written anew."""
        for container in _named(places):
            stay = [copy async for copy in remaining(container)]
            async with self._turn:
                self._check_folder()
                name = self._name(container)
                graph = self._graphs.pop(name, None)
                if graph is not None:
                    _close(graph)
                # The graph and what lies beside it, `.wal` and the like; not one whose name only begins the same.
                for file in (*self._folder.glob(name), *self._folder.glob(f"{name}.*")):
                    shutil.rmtree(file) if file.is_dir() else file.unlink()
            await self.put(stay)

    # -- finding ------------------------------------------------------------------------------------------------------

    async def search(self, query: Query, limit: int) -> Answer:
        found: list[Kept] = []
        async with self._turn:
            for container in adapter.within(query):
                graph = await self._graph(container)
                if graph is not None:
                    config = _search_config(limit)
                    said = await graph.graphiti.search_(query.text, config=config, group_ids=[graph.name])
                    found += map(_kept, said.edges, said.edge_reranker_scores)
        return adapter.answered(query, limit, adapter.best_first(found))

    # -- being there --------------------------------------------------------------------------------------------------

    async def health(self) -> Health:
        return Health(is_up=self._folder.is_dir(), version=version("graphiti-core"))

    async def close(self) -> None:
        async with self._turn:
            while self._graphs:
                _close(self._graphs.popitem()[1])


def _opened(path: Path, embedder: Embedder) -> _Graph:
    kuzu: Any = import_module("kuzu")
    driver_kind: Any = import_module("graphiti_core.driver.kuzu_driver").KuzuDriver
    is_new = not path.exists()
    whole, kuzu.Database = (
        kuzu.Database,
        partial(kuzu.Database, max_db_size=_MOST_BYTES, buffer_pool_size=_POOL_BYTES),
    )
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)
            driver: Any = driver_kind(db=str(path))
    finally:
        kuzu.Database = whole
    driver._database = ""  # the driver leaves it out, and a search reads it
    # Its own preparation does nothing on this database.
    statements = ["INSTALL fts", "LOAD EXTENSION fts"]
    if is_new:
        provider: Any = import_module("graphiti_core.driver.driver").GraphProvider.KUZU
        statements += import_module("graphiti_core.graph_queries").get_fulltext_indices(provider)
    connection = kuzu.Connection(driver.db)
    for statement in statements:
        connection.execute(statement)
    connection.close()
    return _Graph(path.name, driver, _graphiti(driver, embedder))


def _graphiti(driver: Any, embedder: Embedder) -> Any:
    """With all of its clients ours: those that it made itself would ask outside."""
    encoder_kind: Any = import_module("graphiti_core.cross_encoder.client").CrossEncoderClient
    embedder_kind: Any = import_module("graphiti_core.embedder.client").EmbedderClient
    nobody: Any = import_module("graphiti_core.llm_client.config").LLMConfig(
        api_key="none", base_url=adapter.NOBODY_THERE, model="none"
    )

    class Lent(embedder_kind):
        async def create(self, input_data: Any) -> list[float]:
            text = input_data if isinstance(input_data, str) else input_data[0]
            return floats((await embedder.embed([text]))[0])

    class Unranked(encoder_kind):
        async def rank(self, query: str, passages: list[str]) -> list[tuple[str, float]]:
            return [(passage, 1.0) for passage in passages]

    client: Any = import_module("graphiti_core.llm_client.openai_generic_client").OpenAIGenericClient
    return import_module("graphiti_core").Graphiti(
        graph_driver=driver, llm_client=client(nobody), embedder=Lent(), cross_encoder=Unranked()
    )


def _search_config(limit: int) -> Any:
    settings: Any = import_module("graphiti_core.search.search_config")
    methods = settings.EdgeSearchMethod
    edges = settings.EdgeSearchConfig(
        search_methods=[methods.bm25, methods.cosine_similarity],
        reranker=settings.EdgeReranker.rrf,
        sim_min_score=-1.0,
    )
    return settings.SearchConfig(edge_config=edges, limit=limit)


def _close(graph: _Graph) -> None:
    graph.driver.client.close()
    graph.driver.db.close()


def _native(record_id: str) -> str:
    return str(uuid5(NAMESPACE_URL, record_id))


def _named(places: Sequence[Place]) -> dict[Container, list[str]]:
    grouped = adapter.grouped(places, lambda place: place.container)
    return {container: [place.native_id for place in mine] for container, mine in grouped.items()}


def _kept(edge: Any, score: float | None = None) -> Kept:
    said: Mapping[str, Any] = edge.attributes or {}
    return adapter.kept(edge.uuid, edge.fact, json.loads(said.get("mark") or "{}"), score)
