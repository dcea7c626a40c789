"""Cognee as a mirror: cognee://<prefix of its datasets>. In a worker, always.

One dataset per tenant, store, agent and user; one item per record, under an id made from the record's. Cognee finds
nothing until a pipeline has run over what was added, so `put` adds many and runs one that cuts texts and embeds them:
no language model is asked. What Cognee would fetch or read when a text looks like an address is told to be a text.
"""

from __future__ import annotations

import asyncio
import json
import sqlite3
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import closing, contextmanager
from importlib import import_module
from pathlib import Path
from typing import Any, cast
from uuid import NAMESPACE_URL, UUID, uuid5

from quipu.backends.lending import EmbeddingEndpoint, Lent, embedder_of
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

_PROMISED = Capabilities(
    flags=frozenset(
        {
            Capability.CLIENT_IDS,
            Capability.GET_BY_ID,
            Capability.LIST,
            Capability.NESTED_METADATA,
            Capability.VECTOR,
            Capability.DELETE_REPORTS_ABSENCE,
        }
    ),
    score_kind=ScoreKind.DISTANCE,
)


def make(setup: Setup) -> Backend:
    """The mirror that a `cognee` URL names."""
    dimensions = embedder_of(setup).dimensions
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
        "LLM_ENDPOINT": "http://127.0.0.1:9/v1",
        "LLM_API_KEY": "none",
        "EMBEDDING_PROVIDER": "openai_compatible",
        "EMBEDDING_MODEL": "text-embedding-3-small",  # a name whose tokens are known without asking a hub
        "EMBEDDING_API_KEY": "none",
        "EMBEDDING_DIMENSIONS": str(dimensions),
        "HF_HUB_OFFLINE": "1",
        "LITELLM_LOCAL_MODEL_COST_MAP": "True",  # else a list of prices is fetched while it is imported
        "LOG_LEVEL": "ERROR",
    }
    adapter = "quipu.backends.cognee:CogneeBackend"
    return hosted(setup, Hosting(adapter=adapter, capabilities=_PROMISED, environment=environment))


class CogneeBackend:
    """Cognee's datasets in a folder of ours."""

    def __init__(self, setup: Setup) -> None:
        self._setup = setup
        self._prefix = setup.url.partition("://")[2].partition("?")[0].strip("/") or "quipu"
        self._endpoint: EmbeddingEndpoint | None = None
        self._turn = asyncio.Lock()
        self._ids: dict[str, UUID] = {}

    @property
    def capabilities(self) -> Capabilities:
        return _PROMISED

    async def open(self) -> None:
        if self._endpoint is not None:
            return
        lent = Lent(embedder_of(self._setup))
        with _failing():
            cognee: Any = import_module("cognee")
            import_module(
                "litellm.litellm_core_utils.default_encoding"
            )  # brings its tokenizer, else one is fetched

            endpoint = EmbeddingEndpoint(lent)
            cognee.config.set_embedding_endpoint(endpoint.url)
            setup: Any = import_module("cognee.modules.engine.operations.setup").setup

            await setup()
        self._endpoint = endpoint

    # -- keeping ------------------------------------------------------------------------------------------------

    async def put(self, copies: Sequence[Copy]) -> Sequence[str]:
        by_container: dict[Container, list[Copy]] = {}
        for copy in copies:
            by_container.setdefault(copy.container, []).append(copy)
        with _failing():
            async with self._turn:
                for container, mine in by_container.items():
                    await self._add(self._name(container), mine)
        return [str(_native(copy.container, copy.record_id)) for copy in copies]

    async def _add(self, name: str, copies: Sequence[Copy]) -> None:
        cognee: Any = import_module("cognee")
        DataItem: Any = import_module("cognee.tasks.ingestion.data_item").DataItem

        class Item(DataItem):
            """Cognee keeps what an item looks like in a log of its runs: not its text."""

            def __repr__(self) -> str:
                return f"item {self.data_id}"

            __str__ = __repr__

        there = {row.id for row in await self._rows(name)}
        fresh = [copy for copy in copies if _native(copy.container, copy.record_id) not in there]
        items = [
            Item(
                data=copy.content,
                label=copy.record_id,
                external_metadata=_told(copy),
                data_id=_native(copy.container, copy.record_id),
                literal_text=True,
            )
            for copy in fresh
        ]
        if items:
            _check(await cognee.add(items, dataset_name=name))
        # Also what was there: whoever added it may have ended before it could be found.
        wanted = {_native(copy.container, copy.record_id) for copy in copies}
        await self._index(name, [row for row in await self._rows(name) if row.id in wanted])

    async def _index(self, name: str, rows: list[Any]) -> None:
        """Cut and embed: what makes texts searchable, without a model."""
        cognee: Any = import_module("cognee")
        TextChunker: Any = import_module("cognee.modules.chunking.TextChunker").TextChunker
        Task: Any = import_module("cognee.modules.pipelines.tasks.task").Task
        documents: Any = import_module("cognee.tasks.documents")
        add_data_points: Any = import_module("cognee.tasks.storage").add_data_points

        tasks = [
            Task(documents.classify_documents, needs_llm=False),
            Task(
                documents.extract_chunks_from_documents,
                max_chunk_size=512,
                chunker=TextChunker,
                needs_llm=False,
            ),
            Task(add_data_points, task_config={"batch_size": 100}, needs_llm=False),
        ]
        run = await cognee.run_custom_pipeline(
            tasks=tasks, data=rows, dataset=name, pipeline_name="quipu_chunks", skip_connection_test=True
        )
        _check(run)

    async def get(self, places: Sequence[Place]) -> Sequence[Kept]:
        found: list[Kept] = []
        with _failing():
            for container in dict.fromkeys(place.container for place in places):
                wanted = {place.native_id for place in places if place.container == container}
                rows = await self._rows(self._name(container))
                found += [_kept(row) for row in rows if str(row.id) in wanted]
        return found

    async def delete(self, places: Sequence[Place]) -> int:
        by_name: dict[str, set[str]] = {}
        for place in places:
            by_name.setdefault(self._name(place.container), set()).add(place.native_id)
        with _failing():
            async with self._turn:
                return sum([await self._forget(name, wanted) for name, wanted in by_name.items()])

    async def _forget(self, name: str, wanted: set[str]) -> int:
        """Items are taken away one by one, which is slow; a dataset that would be left empty goes as a whole."""
        cognee: Any = import_module("cognee")

        rows = await self._rows(name)
        there = [row.id for row in rows if str(row.id) in wanted]
        if there and len(there) == len(rows):
            await cognee.forget(dataset=name)
            self._ids.pop(name, None)
            return len(there)
        for item in there:
            await cognee.forget(data_id=item, dataset_id=await self._dataset(name))
        return len(there)

    async def erase(self, places: Sequence[Place], remaining: Remaining) -> None:
        """Each dataset is made anew: its old files go, and so does what Cognee noted of runs and searches."""
        cognee: Any = import_module("cognee")

        for container in dict.fromkeys(place.container for place in places):
            stay = [copy async for copy in remaining(container)]
            name = self._name(container)
            with _failing():
                async with self._turn:
                    if await self._dataset(name) is not None:
                        await cognee.forget(dataset=name)
                        self._ids.pop(name, None)
                    if stay:
                        await self._add(name, stay)
        await asyncio.to_thread(self._clean)

    def _clean(self) -> None:
        for file in (self._setup.folder / "system").rglob("cognee_db"):
            with closing(sqlite3.connect(file, timeout=30, isolation_level=None)) as connection:
                for table in ("results", "queries"):
                    connection.execute(f"DELETE FROM {table}")  # noqa: S608  the two names above
                connection.execute("VACUUM")
                connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")

    # -- finding ------------------------------------------------------------------------------------------------

    async def search(self, query: Query, limit: int) -> Answer:
        names = [self._name(one) for one in query.containers if _within(one, query)]
        with _failing():
            ids = [found for name in names if (found := await self._dataset(name)) is not None]
            chunks = [chunk for one in ids for chunk in await self._chunks(query.text, one, 4 * limit)]
        best: dict[str, Mapping[str, Any]] = {}
        for chunk in sorted(chunks, key=lambda chunk: chunk["score"]):
            best.setdefault(str(chunk["document_id"]), chunk)
        hits = [
            NativeHit(native_id=name, score=float(chunk["score"]), text=str(chunk["text"]))
            for name, chunk in list(best.items())[:limit]
        ]
        is_filtered = not (query.filter or query.types or query.session_id or query.created_from)
        return Answer(
            hits=tuple(hits), is_filtered=is_filtered, has_more=len(best) > limit or len(chunks) >= limit
        )

    async def _chunks(self, text: str, dataset: UUID, limit: int) -> list[Mapping[str, Any]]:
        cognee: Any = import_module("cognee")
        SearchType: Any = import_module("cognee.modules.search.types").SearchType

        try:
            found = await cognee.search(
                query_text=text, query_type=SearchType.CHUNKS, dataset_ids=[dataset], top_k=limit
            )
        except Exception as error:
            # A dataset whose items were all taken away is no failure.
            if type(error).__name__ in ("NoDataError", "DatasetNotFoundError", "CollectionNotFoundError"):
                return []
            raise
        chunks: list[Mapping[str, Any]] = []
        for one in found:
            # With access control on, the answers of a dataset come wrapped together.
            chunks += _unwrapped(one)
        return chunks

    async def scan(self, container: Container) -> AsyncIterator[Kept]:
        with _failing():
            rows = await self._rows(self._name(container))
        for row in rows:
            yield _kept(row)

    async def health(self) -> Health:
        cognee: Any = import_module("cognee")
        get_cognee_version: Any = import_module("cognee.version").get_cognee_version

        with _failing():
            await cognee.datasets.list_datasets()
        return Health(is_up=True, version=get_cognee_version())

    async def close(self) -> None:
        if self._endpoint is not None:
            self._endpoint.close()
            self._endpoint = None

    # -- names --------------------------------------------------------------------------------------------------

    def _name(self, one: Container) -> str:
        return joined([self._prefix, one.tenant, one.store_id, one.agent_id, one.user_id], longest=120)

    async def _dataset(self, name: str) -> UUID | None:
        cognee: Any = import_module("cognee")

        if name not in self._ids:
            self._ids = {dataset.name: dataset.id for dataset in await cognee.datasets.list_datasets()}
        return self._ids.get(name)

    async def _rows(self, name: str) -> list[Any]:
        cognee: Any = import_module("cognee")

        dataset = await self._dataset(name)
        return [] if dataset is None else list(await cognee.datasets.list_data(dataset))


@contextmanager
def _failing() -> Any:
    try:
        yield
    except ImportError as error:
        raise BackendUnavailableError(
            "Cognee is not installed for the mirror's interpreter.",
            reason="missing_extra",
            hint="pip install cognee",
        ) from error
    except Exception as error:
        raise BackendUnavailableError("Cognee failed.", reason="mirror_unreachable") from error


def _check(run: Any) -> None:
    """Cognee does not raise what became of an item: it stands in what a run returns, by dataset."""
    told: Any = cast("Mapping[Any, Any]", run).values() if isinstance(run, Mapping) else [run]
    if any(getattr(one, "status", None) == "PipelineRunErrored" for one in told):
        raise BackendUnavailableError("Cognee failed.", reason="mirror_unreachable")


def _native(container: Container, record_id: str) -> UUID:
    """Cognee keeps ids for all datasets together, and two tenants may have records of one id."""
    return uuid5(NAMESPACE_URL, f"{container.tenant}\0{record_id}")


def _within(one: Container, query: Query) -> bool:
    return (
        one.tenant == query.tenant
        and query.agent_id in (None, one.agent_id)
        and query.user_id in (None, one.user_id)
        and query.store_id in (None, one.store_id)
    )


def _told(copy: Copy) -> dict[str, Any]:
    return {
        "record_id": copy.record_id,
        "version": copy.version,
        "type": str(copy.type),
        "created_at": copy.created_at,
        "metadata": dict(copy.metadata),
        "tags": list(copy.tags),
    }


def _unwrapped(found: Any) -> list[Mapping[str, Any]]:
    told = cast("Mapping[str, Any]", found if isinstance(found, Mapping) else getattr(found, "__dict__", {}))
    if "search_result" in told:
        return [chunk for one in told["search_result"] for chunk in _unwrapped(one)]
    return [told] if "document_id" in told else []


def _kept(row: Any) -> Kept:
    stored: Any = row.external_metadata
    said: Mapping[str, Any] = json.loads(stored) if isinstance(stored, str) and stored else stored or {}
    place = Path(str(row.raw_data_location).removeprefix("file://"))
    return Kept(
        native_id=str(row.id),
        text=place.read_text(encoding="utf-8") if place.is_file() else "",
        record_id=said.get("record_id"),
        version=said.get("version"),
        metadata=said.get("metadata") or {},
    )
