"""Cognee: cognee://<prefix of its datasets>. In a worker.

One dataset per tenant, store, agent and user; one item per record, under an id made from the record's. Cognee finds
nothing until a pipeline has run over what was added, so `put` adds many and runs one that cuts texts and embeds them: no
language model is asked. What Cognee would fetch or read when a text looks like an address is declared to be a text.
"""

import asyncio
import json
import sqlite3
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import closing
from importlib import import_module
from pathlib import Path
from typing import Any, Final, cast
from uuid import NAMESPACE_URL, UUID, uuid5

from quipu.mirrors import adapter
from quipu.mirrors.backend import (
    Answer,
    Backend,
    Capabilities,
    Container,
    Copy,
    Health,
    Kept,
    Place,
    Query,
    Remaining,
    Setup,
)
from quipu.mirrors.lent_embedder import EmbeddingEndpoint, LentEmbedder, embedder_of
from quipu.mirrors.vendors.host import HostedBackend

#: A long record is several chunks: so many times the limit is asked for.
_CHUNKS: Final = 4
_CHUNK_TOKENS: Final = 512
#: What a search raises where nothing is there.
_NOTHING: Final = ("NoDataError", "DatasetNotFoundError", "CollectionNotFoundError")
_CAPABILITIES: Final = Capabilities(
    promises=frozenset(
        {"client_ids", "get_by_id", "list", "nested_metadata", "vector", "delete_reports_absence"}
    ),
    score_kind="distance",
)


def make(setup: Setup) -> Backend:
    """The backend that a Cognee address names."""
    dimensions = embedder_of(setup).dimensions
    adapter.check_parameters(setup)
    folder = setup.folder
    environment = {
        "TELEMETRY_DISABLED": "1",
        "SYSTEM_ROOT_DIRECTORY": str(folder / "system"),
        "DATA_ROOT_DIRECTORY": str(folder / "data"),
        "CACHE_ROOT_DIRECTORY": str(folder / "cache"),
        "COGNEE_LOGS_DIR": str(folder / "logs"),
        "ENABLE_BACKEND_ACCESS_CONTROL": "true",
        "COGNEE_SKIP_CONNECTION_TEST": "true",
        # Else each dataset that is touched starts two processes more.
        "GRAPH_DATABASE_SUBPROCESS_ENABLED": "false",
        "VECTOR_DB_SUBPROCESS_ENABLED": "false",
        "LLM_PROVIDER": "custom",
        "LLM_MODEL": "openai/none",
        "LLM_ENDPOINT": adapter.NOBODY_THERE,
        "LLM_API_KEY": "none",
        "EMBEDDING_PROVIDER": "openai_compatible",
        "EMBEDDING_MODEL": "text-embedding-3-small",  # a name whose tokens are known without asking a hub
        "EMBEDDING_API_KEY": "none",
        "EMBEDDING_DIMENSIONS": str(dimensions),
        "HF_HUB_OFFLINE": "1",
        "LITELLM_LOCAL_MODEL_COST_MAP": "True",  # else a list of prices is fetched while it is imported
        "LOG_LEVEL": "ERROR",
    }
    return HostedBackend(setup, "quipu.mirrors.vendors.cognee:CogneeAdapter", _CAPABILITIES, environment)


class CogneeAdapter:
    """Cognee's datasets in a folder of ours."""

    vendor, package = "Cognee", "cognee"

    def __init__(self, setup: Setup) -> None:
        self._setup = setup
        self._prefix = setup.url.partition("://")[2].strip("/") or "quipu"
        self._cognee: Any = None
        self._endpoint: EmbeddingEndpoint | None = None
        #: Whoever adds or takes away has it; searches do not wait.
        self._turn = asyncio.Lock()
        #: Name → id.
        self._datasets: dict[str, UUID] = {}

    async def open(self) -> None:
        self._cognee = import_module("cognee")
        # Brings its tokenizer, else one is fetched.
        import_module("litellm.litellm_core_utils.default_encoding")
        self._endpoint = EmbeddingEndpoint(LentEmbedder(embedder_of(self._setup)))
        self._cognee.config.set_embedding_endpoint(self._endpoint.url)
        await import_module("cognee.modules.engine.operations.setup").setup()

    # -- keeping ------------------------------------------------------------------------------------------------------

    async def put(self, copies: Sequence[Copy]) -> Sequence[str]:
        async with self._turn:
            for container, mine in adapter.grouped(copies, lambda copy: copy.container).items():
                await self._add(self._name(container), mine)
        return [str(_native(copy.container, copy.record_id)) for copy in copies]

    async def _add(self, name: str, copies: Sequence[Copy]) -> None:
        there = {row.id for row in await self._rows(name)}
        wanted = {_native(copy.container, copy.record_id): copy for copy in copies}
        items = [_item(native, copy) for native, copy in wanted.items() if native not in there]
        if items:
            _check(await self._cognee.add(items, dataset_name=name))
        # Also what was there: whoever added it may have ended before it could be found.
        await self._index(name, [row for row in await self._rows(name) if row.id in wanted])

    async def _index(self, name: str, rows: list[Any]) -> None:
        """Cut and embed: what makes texts searchable, without a model."""
        task: Any = import_module("cognee.modules.pipelines.tasks.task").Task
        documents: Any = import_module("cognee.tasks.documents")
        cut: Any = {
            "max_chunk_size": _CHUNK_TOKENS,
            "chunker": import_module("cognee.modules.chunking.TextChunker").TextChunker,
        }
        add: Any = import_module("cognee.tasks.storage").add_data_points
        tasks = [
            task(documents.classify_documents, needs_llm=False),
            task(documents.extract_chunks_from_documents, **cut, needs_llm=False),
            task(add, task_config={"batch_size": 100}, needs_llm=False),
        ]
        run = await self._cognee.run_custom_pipeline(
            tasks=tasks, data=rows, dataset=name, pipeline_name="quipu_chunks", skip_connection_test=True
        )
        _check(run)

    async def get(self, places: Sequence[Place]) -> Sequence[Kept]:
        found: list[Kept] = []
        for container, mine in adapter.grouped(places, lambda place: place.container).items():
            wanted = {place.native_id for place in mine}
            found += [_kept(row) for row in await self._rows(self._name(container)) if str(row.id) in wanted]
        return found

    async def scan(self, container: Container) -> AsyncIterator[Kept]:
        for row in await self._rows(self._name(container)):
            yield _kept(row)

    async def delete(self, places: Sequence[Place]) -> int:
        """Items are taken away one by one, which is slow; a dataset that would be left empty goes as a whole."""
        count = 0
        async with self._turn:
            for container, mine in adapter.grouped(places, lambda place: place.container).items():
                name, wanted = self._name(container), {place.native_id for place in mine}
                rows = await self._rows(name)
                there = [row.id for row in rows if str(row.id) in wanted]
                if there and len(there) == len(rows):
                    await self._forget(name)
                else:
                    for item in there:
                        await self._cognee.forget(data_id=item, dataset_id=await self._dataset(name))
                count += len(there)
        return count

    async def _forget(self, name: str) -> None:
        await self._cognee.forget(dataset=name)
        self._datasets.pop(name, None)

    async def erase(self, places: Sequence[Place], remaining: Remaining) -> None:
        """Each dataset is made anew: its old files go, and so does what Cognee noted of runs and searches."""
        for container in dict.fromkeys(place.container for place in places):
            stay, name = [copy async for copy in remaining(container)], self._name(container)
            async with self._turn:
                if await self._dataset(name) is not None:
                    await self._forget(name)
                if stay:
                    await self._add(name, stay)
        await asyncio.to_thread(self._clean)

    def _clean(self) -> None:
        for file in (self._setup.folder / "system").rglob("cognee_db"):
            with closing(sqlite3.connect(file, timeout=30, isolation_level=None)) as connection:
                connection.execute("DELETE FROM results")
                connection.execute("DELETE FROM queries")
            adapter.compact_sqlite(file)

    # -- finding ------------------------------------------------------------------------------------------------------

    async def search(self, query: Query, limit: int) -> Answer:
        chunks: list[Mapping[str, Any]] = []
        items: dict[str, Mapping[str, Any]] = {}
        for name in map(self._name, adapter.within(query)):
            dataset = await self._dataset(name)
            if dataset is not None:
                chunks += await self._chunks(query.text, dataset, _CHUNKS * limit)
                # A chunk knows its item alone.
                items |= {str(row.id): _metadata(row) for row in await self._rows(name)}
        found: list[Kept] = []
        for chunk in sorted(chunks, key=lambda chunk: chunk["score"]):
            native = str(chunk["document_id"])
            found.append(adapter.kept(native, str(chunk["text"]), items.get(native), float(chunk["score"])))
        return adapter.answered(query, limit, found)

    async def _chunks(self, text: str, dataset: UUID, limit: int) -> list[Mapping[str, Any]]:
        kind: Any = import_module("cognee.modules.search.types").SearchType.CHUNKS
        try:
            found = await self._cognee.search(
                query_text=text, query_type=kind, dataset_ids=[dataset], top_k=limit
            )
        except Exception as error:
            if type(error).__name__ in _NOTHING:
                return []
            raise
        return [chunk for one in found for chunk in _unwrapped(one)]

    # -- being there --------------------------------------------------------------------------------------------------

    async def health(self) -> Health:
        await self._cognee.datasets.list_datasets()
        return Health(is_up=True, version=import_module("cognee.version").get_cognee_version())

    async def close(self) -> None:
        if self._endpoint is not None:
            await asyncio.to_thread(self._endpoint.close)

    # -- datasets -----------------------------------------------------------------------------------------------------

    def _name(self, one: Container) -> str:
        return adapter.container_name(self._prefix, one)

    async def _dataset(self, name: str) -> UUID | None:
        if name not in self._datasets:
            found: Any = await self._cognee.datasets.list_datasets()
            self._datasets = {dataset.name: dataset.id for dataset in found}
        return self._datasets.get(name)

    async def _rows(self, name: str) -> list[Any]:
        dataset = await self._dataset(name)
        return [] if dataset is None else list(await self._cognee.datasets.list_data(dataset))


def _check(run: Any) -> None:
    """Cognee does not raise what became of an item: it stands in what a run returns, by dataset."""
    outcomes: Any = cast("Mapping[Any, Any]", run).values() if isinstance(run, Mapping) else [run]
    if any(getattr(one, "status", None) == "PipelineRunErrored" for one in outcomes):
        raise adapter.unavailable("Cognee failed.")


def _item(native: UUID, copy: Copy) -> Any:
    kind: Any = import_module("cognee.tasks.ingestion.data_item").DataItem

    class Item(kind):
        """Cognee keeps what an item looks like in a log of its runs: not its text."""

        def __repr__(self) -> str:
            return f"item {native}"

        __str__ = __repr__

    return Item(
        data=copy.content,
        label=copy.record_id,
        external_metadata=adapter.mark(copy),
        data_id=native,
        literal_text=True,
    )


def _native(container: Container, record_id: str) -> UUID:
    """Cognee keeps ids for all datasets together, and two tenants may have records of one id."""
    return uuid5(NAMESPACE_URL, f"{container.tenant}\0{record_id}")


def _unwrapped(found: Any) -> list[Mapping[str, Any]]:
    """With access control on, the answers of a dataset come wrapped together."""
    said = cast("Mapping[str, Any]", found if isinstance(found, Mapping) else getattr(found, "__dict__", {}))
    if "search_result" in said:
        return [chunk for one in said["search_result"] for chunk in _unwrapped(one)]
    return [said] if "document_id" in said else []


def _metadata(row: Any) -> Mapping[str, Any]:
    stored: Any = row.external_metadata
    return json.loads(stored) if isinstance(stored, str) and stored else stored or {}


def _kept(row: Any) -> Kept:
    place = Path(str(row.raw_data_location).removeprefix("file://"))
    text = place.read_text(encoding="utf-8") if place.is_file() else ""
    return adapter.kept(str(row.id), text, _metadata(row))
