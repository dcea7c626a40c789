"""Other people's stores, each used as its documentation says, with the vectors given.

Imported by the worker inside the store's own environment; nothing of Quipu is there.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Protocol

from bench.synthetic import DIMENSIONS, Probe, Record


class Store(Protocol):
    """What is measured of each."""

    def add(self, batch: Sequence[tuple[str, Record]]) -> None:
        """Keep records, each for its agent."""
        ...

    def search(self, agent: str, probe: Probe, k: int, user: str | None = None) -> list[int]:
        """The numbers of the nearest records of that agent, and of that user if one is named."""
        ...


class Chroma:
    """One collection; agent and user are metadata."""

    def __init__(self, folder: Path, _url: str) -> None:
        os.environ["ANONYMIZED_TELEMETRY"] = "False"
        import chromadb

        client = chromadb.PersistentClient(str(folder))
        self._kept = client.create_collection("bench", metadata={"hnsw:space": "cosine"})

    def add(self, batch: Sequence[tuple[str, Record]]) -> None:
        self._kept.add(
            ids=[str(record.number) for _, record in batch],
            embeddings=[record.vector for _, record in batch],
            documents=[record.text for _, record in batch],
            metadatas=[{"agent": agent, "user": record.user_id} for agent, record in batch],
        )

    def search(self, agent: str, probe: Probe, k: int, user: str | None = None) -> list[int]:
        where: Any = {"agent": agent} if user is None else {"$and": [{"agent": agent}, {"user": user}]}
        found = self._kept.query(query_embeddings=[probe.vector], n_results=k, where=where, include=[])
        return [int(name) for name in found["ids"][0]]


class _Lookup:
    """Stands in for an embedder: every text's vector is known."""

    def __init__(self) -> None:
        self.known: dict[str, list[float]] = {}

    def embed(self, text: str, _action: str | None = None) -> list[float]:
        return self.known[text]

    def embed_batch(self, texts: Sequence[str], _action: str | None = None) -> list[list[float]]:
        return [self.known[text] for text in texts]


class Mem0:
    """mem0 on its local Qdrant, or on PostgreSQL; texts as they are, no model asked."""

    def __init__(self, folder: Path, url: str) -> None:
        os.environ.update(MEM0_TELEMETRY="False", MEM0_DIR=str(folder / "home"), HF_HUB_OFFLINE="1")
        from mem0 import Memory

        nobody = {"api_key": "none", "openai_base_url": "http://127.0.0.1:9/v1"}
        local = {"path": str(folder / "qdrant"), "on_disk": True}
        place = {"connection_string": url, "hnsw": True} if url else local
        shared = {"collection_name": "bench", "embedding_model_dims": DIMENSIONS}
        self._memory = Memory.from_config(
            {
                "vector_store": {"provider": "pgvector" if url else "qdrant", "config": {**place, **shared}},
                "embedder": {"provider": "openai", "config": {**nobody, "embedding_dims": DIMENSIONS}},
                "llm": {"provider": "openai", "config": nobody},
                "history_db_path": ":memory:",
            }
        )
        self._memory.embedding_model = self._vectors = _Lookup()

    def add(self, batch: Sequence[tuple[str, Record]]) -> None:
        for agent, record in batch:
            self._vectors.known = {record.text: record.vector.tolist()}
            self._memory.add(
                record.text,
                agent_id=agent,
                user_id=record.user_id,
                infer=False,
                metadata={"number": record.number},
            )

    def search(self, agent: str, probe: Probe, k: int, user: str | None = None) -> list[int]:
        self._vectors.known = {probe.text: probe.vector.tolist()}
        filters = {"agent_id": agent} | ({} if user is None else {"user_id": user})
        found = self._memory.search(probe.text, filters=filters, top_k=k, threshold=0.0)
        return [int(hit["metadata"]["number"]) for hit in found["results"]]


class LangGraph:
    """The LangGraph store in memory, or on PostgreSQL: an agent is a namespace."""

    def __init__(self, _folder: Path, url: str) -> None:
        self._vectors = _Lookup()
        index: Any = {"dims": DIMENSIONS, "embed": self._vectors.embed_batch, "fields": ["text"]}
        if url:
            from langgraph.store.postgres import PostgresStore

            self._opened = PostgresStore.from_conn_string(url, index=index)
            self._store: Any = self._opened.__enter__()
            self._store.setup()
        else:
            from langgraph.store.memory import InMemoryStore

            self._store = InMemoryStore(index=index)

    def add(self, batch: Sequence[tuple[str, Record]]) -> None:
        from langgraph.store.base import PutOp

        self._vectors.known = {record.text: record.vector.tolist() for _, record in batch}
        self._store.batch(
            [
                PutOp(
                    ("bench", agent),
                    str(record.number),
                    {"text": record.text, "user": record.user_id},
                    index=["text"],
                )
                for agent, record in batch
            ]
        )

    def search(self, agent: str, probe: Probe, k: int, user: str | None = None) -> list[int]:
        self._vectors.known = {probe.text: probe.vector.tolist()}
        chosen = None if user is None else {"user": user}
        found = self._store.search(("bench", agent), query=probe.text, filter=chosen, limit=k)
        return [int(item.key) for item in found]


STORES = {"chroma": Chroma, "mem0": Mem0, "langgraph": LangGraph}
