"""Graphiti as a mirror, over the graph database that comes with it: graphiti://<prefix of its graphs>. In a worker.

One graph per tenant, store, agent and user. A record is an edge from the graph's own node to one of the record's,
with the text as its fact and the record's time as `valid_at`; edges are written as they are, so no language model is
asked. `erase` makes a graph anew: the database's files keep what was deleted.
"""

from __future__ import annotations

import asyncio
import json
import shutil
import warnings
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from importlib import import_module
from typing import Any
from uuid import NAMESPACE_URL, uuid5

from quipu.backends.lending import embedder_of, floats
from quipu.backends.process import Hosting, hosted
from quipu.errors import BackendUnavailableError
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
from quipu.rules.containers import joined
from quipu.rules.mirroring_dates import dated

_MOST_BYTES = 1 << 33
_POOL = 1 << 26
#: How many graphs are open at once: each holds memory of its own for as long as it is.
_OPEN = 8
_PROMISED = Capabilities(
    flags=frozenset(
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
    ),
    score_kind=ScoreKind.RRF,
)


def make(setup: Setup) -> Backend:
    """The mirror that a `graphiti` URL names."""
    embedder_of(setup)
    environment = {
        "GRAPHITI_TELEMETRY_ENABLED": "false",
        "OPENAI_API_KEY": "none",
        "OPENAI_BASE_URL": "http://127.0.0.1:9/v1",
    }
    adapter = "quipu.backends.graphiti:GraphitiBackend"
    return hosted(setup, Hosting(adapter=adapter, capabilities=_PROMISED, environment=environment))


@dataclass(frozen=True)
class _Graph:
    name: str
    driver: Any
    graphiti: Any

    @property
    def root(self) -> str:
        return str(uuid5(NAMESPACE_URL, self.name))


class GraphitiBackend:
    """A graph per container, opened when it is needed. Whoever uses one has the turn: it may be closed after that."""

    def __init__(self, setup: Setup) -> None:
        self._setup = setup
        self._prefix = setup.url.partition("://")[2].partition("?")[0].strip("/") or "quipu"
        self._graphs: dict[str, _Graph] = {}
        self._turn = asyncio.Lock()

    @property
    def capabilities(self) -> Capabilities:
        return _PROMISED

    async def open(self) -> None:
        with _failing():
            import_module("graphiti_core")  # a missing package is told at the start
            import_module("kuzu")  # a missing package is told at the start

            self._folder.mkdir(parents=True, exist_ok=True)

    @property
    def _folder(self) -> Any:
        return self._setup.folder / "graphs"

    def _name(self, one: Container) -> str:
        return joined([self._prefix, one.tenant, one.store_id, one.agent_id, one.user_id], longest=120)

    async def _graph(self, container: Container, *, makes: bool = False) -> _Graph | None:
        name = self._name(container)
        graph = self._graphs.pop(name, None)
        if graph is None:
            self._check_folder()
            if not makes and not (self._folder / name).exists():
                return None
            while len(self._graphs) >= _OPEN:
                await _close(self._graphs.pop(next(iter(self._graphs))))  # the one that was used longest ago
            graph = await asyncio.to_thread(self._opened, name)
            await graph.driver.execute_query("RETURN 1")
        self._graphs[name] = graph
        return graph

    def _check_folder(self) -> None:
        """Where it is not open, or its folder was taken away, nobody knows what it holds: that is not nothing."""
        if not self._folder.is_dir():
            raise FileNotFoundError

    def _opened(self, name: str) -> _Graph:
        kuzu: Any = import_module("kuzu")
        Graphiti: Any = import_module("graphiti_core").Graphiti
        CrossEncoderClient: Any = import_module("graphiti_core.cross_encoder.client").CrossEncoderClient
        GraphProvider: Any = import_module("graphiti_core.driver.driver").GraphProvider
        KuzuDriver: Any = import_module("graphiti_core.driver.kuzu_driver").KuzuDriver
        EmbedderClient: Any = import_module("graphiti_core.embedder.client").EmbedderClient
        get_fulltext_indices: Any = import_module("graphiti_core.graph_queries").get_fulltext_indices
        LLMConfig: Any = import_module("graphiti_core.llm_client.config").LLMConfig
        OpenAIGenericClient: Any = import_module(
            "graphiti_core.llm_client.openai_generic_client"
        ).OpenAIGenericClient

        embedder = embedder_of(self._setup)

        class Lent(EmbedderClient):
            async def create(self, input_data: Any) -> list[float]:
                text = input_data if isinstance(input_data, str) else input_data[0]
                return floats((await embedder.embed([text]))[0])

        class Unranked(CrossEncoderClient):
            async def rank(self, query: str, passages: list[str]) -> list[tuple[str, float]]:
                return [(passage, 1.0) for passage in passages]

        is_new = not (self._folder / name).exists()
        # The driver takes the database's default of 8 TB of address space for each, which allows no more than 16.
        whole, kuzu.Database = (
            kuzu.Database,
            partial(kuzu.Database, max_db_size=_MOST_BYTES, buffer_pool_size=_POOL),
        )
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", DeprecationWarning)
                driver = KuzuDriver(db=str(self._folder / name))
        finally:
            kuzu.Database = whole
        driver._database = ""  # the driver leaves it out, and a search reads it
        with_index = kuzu.Connection(driver.db)
        for statement in ("INSTALL fts", "LOAD EXTENSION fts"):
            with_index.execute(statement)
        if is_new:
            for statement in get_fulltext_indices(GraphProvider.KUZU):
                with_index.execute(statement)
        with_index.close()
        nobody = LLMConfig(api_key="none", base_url="http://127.0.0.1:9/v1", model="none")
        graphiti = Graphiti(
            graph_driver=driver,
            llm_client=OpenAIGenericClient(nobody),
            embedder=Lent(),
            cross_encoder=Unranked(),
        )
        return _Graph(name, driver, graphiti)

    # -- keeping ------------------------------------------------------------------------------------------------

    async def put(self, copies: Sequence[Copy]) -> Sequence[str]:
        texts = list(dict.fromkeys(copy.content for copy in copies))
        vectors = await embedder_of(self._setup).embed(texts) if texts else ()
        known = dict(zip(texts, map(floats, vectors), strict=True))
        with _failing():
            async with self._turn:
                for copy in copies:
                    await self._put(copy, known[copy.content])
        return [_native(copy.record_id) for copy in copies]

    async def _put(self, copy: Copy, vector: list[float]) -> None:
        EntityEdge: Any = import_module("graphiti_core.edges").EntityEdge
        EntityNode: Any = import_module("graphiti_core.nodes").EntityNode

        graph = await self._graph(copy.container, makes=True)
        assert graph is not None  # noqa: S101  it was made
        made, own = dated(copy.created_at), _native(copy.record_id)
        await self._take(graph, [own])  # the words of an older version would stay in the index
        nothing = [0.0] * len(vector)
        for uuid, name in ((graph.root, "quipu"), (own, copy.record_id)):
            node = EntityNode(
                uuid=uuid, name=name, group_id=graph.name, created_at=made, name_embedding=nothing
            )
            await node.save(graph.driver)
        told = {
            "record_id": copy.record_id,
            "version": copy.version,
            "type": str(copy.type),
            "metadata": json.dumps(dict(copy.metadata)),
        }
        edge = EntityEdge(
            uuid=own,
            name="REMEMBERS",
            fact=copy.content,
            fact_embedding=vector,
            group_id=graph.name,
            source_node_uuid=graph.root,
            target_node_uuid=own,
            created_at=made,
            valid_at=made,
            attributes=told,
        )
        await edge.save(graph.driver)

    async def _edges(self, graph: _Graph | None, names: Sequence[str]) -> list[Any]:
        EntityEdge: Any = import_module("graphiti_core.edges").EntityEdge

        return [] if graph is None or not names else await EntityEdge.get_by_uuids(graph.driver, list(names))

    async def _take(self, graph: _Graph, names: Sequence[str]) -> int:
        EntityNode: Any = import_module("graphiti_core.nodes").EntityNode

        there = await self._edges(graph, names)
        for edge in there:
            await edge.delete(graph.driver)
        if there:
            await EntityNode.delete_by_uuids(graph.driver, [edge.uuid for edge in there])
        return len(there)

    async def get(self, places: Sequence[Place]) -> Sequence[Kept]:
        found: list[Kept] = []
        with _failing():
            async with self._turn:
                for container, names in _grouped(places).items():
                    found += [_kept(edge) for edge in await self._edges(await self._graph(container), names)]
        return found

    async def delete(self, places: Sequence[Place]) -> int:
        count = 0
        with _failing():
            async with self._turn:
                for container, names in _grouped(places).items():
                    graph = await self._graph(container)
                    count += 0 if graph is None else await self._take(graph, names)
        return count

    async def erase(self, places: Sequence[Place], remaining: Remaining) -> None:
        """The graph is taken away with its files, and what should stay is written anew."""
        for container in _grouped(places):
            stay = [copy async for copy in remaining(container)]
            with _failing():
                async with self._turn:
                    self._check_folder()
                    graph = self._graphs.pop(self._name(container), None)
                    if graph is not None:
                        await _close(graph)
                    for file in self._files(container):
                        shutil.rmtree(file) if file.is_dir() else file.unlink()
            await self.put(stay)

    def _files(self, container: Container) -> list[Any]:
        """The graph and what lies beside it, `.wal` and the like; not a graph whose name only begins the same."""
        name = self._name(container)
        return [*self._folder.glob(name), *self._folder.glob(f"{name}.*")]

    # -- finding ------------------------------------------------------------------------------------------------

    async def search(self, query: Query, limit: int) -> Answer:
        settings: Any = import_module("graphiti_core.search.search_config")

        kinds = settings.EdgeSearchMethod
        edges: Any = settings.EdgeSearchConfig(
            search_methods=[kinds.bm25, kinds.cosine_similarity],
            reranker=settings.EdgeReranker.rrf,
            sim_min_score=-1.0,
        )
        found: list[tuple[float, Any]] = []
        with _failing():
            async with self._turn:
                for container in query.containers:
                    graph = await self._graph(container) if _within(container, query) else None
                    if graph is not None:
                        config = settings.SearchConfig(edge_config=edges, limit=limit)
                        answer = await graph.graphiti.search_(
                            query.text, config=config, group_ids=[graph.name]
                        )
                        found += zip(answer.edge_reranker_scores, answer.edges, strict=True)
        found.sort(key=lambda one: -one[0])
        hits = [
            NativeHit(native_id=edge.uuid, score=score, text=edge.fact, metadata=_kept(edge).metadata)
            for score, edge in found[:limit]
        ]
        is_filtered = not (query.filter or query.types or query.session_id or query.created_from)
        return Answer(hits=tuple(hits), is_filtered=is_filtered, has_more=len(found) >= limit)

    async def scan(self, container: Container) -> AsyncIterator[Kept]:
        EntityEdge: Any = import_module("graphiti_core.edges").EntityEdge
        GroupsEdgesNotFoundError: Any = import_module("graphiti_core.errors").GroupsEdgesNotFoundError

        async with self._turn:
            graph = await self._graph(container)
            if graph is None:
                return
            try:
                edges = await EntityEdge.get_by_group_ids(graph.driver, [graph.name])
            except GroupsEdgesNotFoundError:
                return
        for edge in edges:
            yield _kept(edge)

    async def health(self) -> Health:
        from importlib.metadata import version

        return Health(is_up=self._folder.is_dir(), version=version("graphiti-core"))

    async def close(self) -> None:
        async with self._turn:
            graphs, self._graphs = self._graphs, {}
            for graph in graphs.values():
                await _close(graph)


async def _close(graph: _Graph) -> None:
    graph.driver.client.close()
    graph.driver.db.close()


@contextmanager
def _failing() -> Any:
    try:
        yield
    except ImportError as error:
        raise BackendUnavailableError(
            "Graphiti is not installed for the mirror's interpreter.",
            reason="missing_extra",
            hint="pip install graphiti-core[kuzu] httpx",
        ) from error
    except Exception as error:
        raise BackendUnavailableError("Graphiti failed.", reason="mirror_unreachable") from error


def _native(record_id: str) -> str:
    return str(uuid5(NAMESPACE_URL, record_id))


def _grouped(places: Sequence[Place]) -> dict[Container, list[str]]:
    grouped: dict[Container, list[str]] = {}
    for place in places:
        grouped.setdefault(place.container, []).append(place.native_id)
    return grouped


def _within(one: Container, query: Query) -> bool:
    return (
        one.tenant == query.tenant
        and query.agent_id in (None, one.agent_id)
        and query.user_id in (None, one.user_id)
        and query.store_id in (None, one.store_id)
    )


def _kept(edge: Any) -> Kept:
    told: Mapping[str, Any] = edge.attributes or {}
    return Kept(
        native_id=edge.uuid,
        text=edge.fact,
        record_id=told.get("record_id"),
        version=told.get("version"),
        metadata=json.loads(told.get("metadata") or "{}"),
    )
