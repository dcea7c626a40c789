"""Every call the bench makes to Quipu, in one place."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Sequence
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Any

from bench.labelled import Fact
from bench.locomo import Turn
from bench.synthetic import DIMENSIONS, MODEL, Record

Floor = str | float
#: A query without a word in it: the keyword leg finds nothing, so the vector leg answers alone.
WORDLESS = "?"


class GivenVectors:
    """An embedder for runs whose vectors are given: it names the model and refuses to embed."""

    @property
    def model(self) -> str:
        return MODEL

    @property
    def dimensions(self) -> int:
        return DIMENSIONS

    async def embed(self, texts: Sequence[str]) -> Sequence[bytes]:
        raise RuntimeError(f"{len(texts)} texts came without a vector in a run that gives all vectors")

    async def close(self) -> None:
        """Nothing to close."""


@asynccontextmanager
async def opened(store: Path | str, *, agent_id: str = "bench", embedder: Any = "onnx") -> AsyncIterator[Any]:
    """A memory on a file, or by its address."""
    from quipu import Memory

    address = store if isinstance(store, str) else f"sqlite:///{store}"
    async with Memory(agent_id=agent_id, stores=[address], embedder=embedder) as memory:
        yield memory


def given(vector: Any) -> dict[str, Any]:
    """A vector as a request carries it."""
    return {"model": MODEL, "vector": vector.tolist()}


async def remember_facts(memory: Any, facts: Sequence[Fact]) -> tuple[dict[str, str], list[float]]:
    """Remembers each fact on its own; returns our label for each id, and the time of each in milliseconds."""
    labels: dict[str, str] = {}
    millis: list[float] = []
    for fact in facts:
        started = time.perf_counter()
        answer = await memory.remember(fact.content, type=fact.type, user_id=fact.user_id, **fact.details)
        millis.append((time.perf_counter() - started) * 1000)
        labels[answer.id] = fact.id
    return labels, millis


async def remember_few(memory: Any, facts: Sequence[Fact], agent_id: str) -> dict[str, str]:
    """Remembers a few facts as an agent's own; returns our label for each id."""
    answers = await memory.remember_many(
        [
            {
                "agent_id": agent_id,
                "content": fact.content,
                "type": fact.type,
                "user_id": fact.user_id,
                **fact.details,
            }
            for fact in facts
        ],
        atomic=True,
    )
    return {answer.id: fact.id for answer, fact in zip(answers, facts, strict=True)}


async def explained(memory: Any, query: str, k: int, user_id: str | None, agent_id: str) -> Any:
    """What an agent recalls without a floor, with the evidence for there being an answer."""
    from quipu.model.operations import Floor as Named
    from quipu.model.operations import RecallRequest

    request = RecallRequest(
        agent_id=agent_id, query=query, k=k, user_id=user_id, min_relevance=Named.OFF, explain=True
    )
    return await memory.recall(request)


async def recall(
    memory: Any,
    query: str,
    *,
    k: int = 5,
    user_id: str | None = None,
    floor: Floor = "off",
    **more: Any,
) -> tuple[list[Any], float]:
    """The hits, and the time in milliseconds."""
    started = time.perf_counter()
    found = await memory.recall(query, k=k, user_id=user_id, min_relevance=floor, **more)
    millis = (time.perf_counter() - started) * 1000
    return list(found), millis


def _request(record: Record, with_vector: bool) -> dict[str, Any]:
    """A synthetic record as a remember request."""
    request: dict[str, Any] = {
        "content": record.text,
        "type": "semantic",
        "user_id": record.user_id,
        "metadata": {"number": record.number},
    }
    if with_vector:
        request["embedding"] = given(record.vector)
    return request


async def remember_all(memory: Any, batch: Sequence[tuple[str, Record]]) -> float:
    """Remembers records of several agents, each with its vector; returns the seconds Quipu took."""
    requests = [{**_request(record, True), "agent_id": agent} for agent, record in batch]
    started = time.perf_counter()
    await memory.remember_many(requests, atomic=False)
    return time.perf_counter() - started


async def remember_batch(memory: Any, records: Iterable[Record], *, with_vectors: bool = True) -> float:
    """Remembers one batch; returns the seconds Quipu took, the building of the requests excluded."""
    requests = [_request(record, with_vectors) for record in records]
    started = time.perf_counter()
    await memory.remember_many(requests, atomic=False)
    return time.perf_counter() - started


async def remember_one(memory: Any, record: Record) -> float:
    """Remembers one record durably; returns milliseconds."""
    return await _remembered(memory, _request(record, True))


async def _remembered(memory: Any, request: dict[str, Any]) -> float:
    content = request.pop("content")
    started = time.perf_counter()
    await memory.remember(content, **request)
    return (time.perf_counter() - started) * 1000


async def remember_together(
    memory: Any, records: Sequence[Record], callers: int
) -> tuple[float, list[float]]:
    """Remembers with so many concurrent callers; returns records per second and each call's milliseconds.

    The building of the requests is excluded, as it is of a batch, of a lone writer and of memorywire's writes.
    """
    requests = [_request(record, True) for record in records]
    return await _together([partial(_remembered, memory, request) for request in requests], callers)


async def remember_facts_together(memory: Any, facts: Sequence[Fact], callers: int) -> float:
    """Remembers facts with so many concurrent callers; returns records per second."""
    rate, _ = await _together([partial(_remember_fact, memory, fact) for fact in facts], callers)
    return rate


async def _together(calls: list[Callable[[], Awaitable[float]]], callers: int) -> tuple[float, list[float]]:
    """Makes the calls, so many at a time; returns how many per second and each one's milliseconds."""
    millis: list[float] = []

    async def caller() -> None:
        while calls:
            millis.append(await calls.pop()())

    started = time.perf_counter()
    await asyncio.gather(*(caller() for _ in range(callers)))
    return len(millis) / (time.perf_counter() - started), millis


async def _remember_fact(memory: Any, fact: Fact) -> float:
    started = time.perf_counter()
    await memory.remember(fact.content, type=fact.type, user_id=fact.user_id, **fact.details)
    return (time.perf_counter() - started) * 1000


def _imported(turn: Turn, agent_id: str, user_id: str | None) -> dict[str, Any]:
    """A turn as an exported record, so that it keeps its own time."""
    record: dict[str, Any] = {
        "agent_id": agent_id,
        "type": "episodic",
        "content": turn.content,
        "session_id": turn.session_id,
        "metadata": {"speaker": turn.speaker, "dia_id": turn.dia_id},
        "event_time": turn.at,
        "created_at": turn.at,
    }
    if user_id is not None:
        record["user_id"] = user_id
    return record


class QuipuLocomo:
    """LoCoMo on Quipu: one file for all conversations, kept apart by agent, or by user inside one agent."""

    def __init__(
        self, path: Path, *, apart_by: str = "agent", embedder: Any = "onnx", floor: Floor = "off"
    ) -> None:
        self._path = path
        self._apart_by = apart_by
        self._embedder = embedder
        self.floor = floor
        self._memories: dict[str, Any] = {}
        self._contexts: list[Any] = []
        #: Embeds the same texts just before they are imported: what a core gives changes within seconds.
        self.yardstick: Any = None
        self.ingest_seconds = self.embed_seconds = 0.0
        self.turns = 0
        self.millis: list[float] = []

    async def memory(self, conversation: str) -> Any:
        """The memory of a conversation, opened when it is first needed."""
        agent_id = conversation if self._apart_by == "agent" else "locomo"
        if agent_id not in self._memories:
            context = opened(self._path, agent_id=agent_id, embedder=self._embedder)
            self._memories[agent_id] = await context.__aenter__()
            self._contexts.append(context)
        return self._memories[agent_id]

    def _user(self, conversation: str) -> str | None:
        return conversation if self._apart_by == "user" else None

    async def ingest(self, turns: Sequence[Turn]) -> None:
        conversation = turns[0].conversation
        memory = await self.memory(conversation)
        agent_id = conversation if self._apart_by == "agent" else "locomo"
        records = [_imported(turn, agent_id, self._user(conversation)) for turn in turns]
        await recall(memory, "warm up the embedder")
        if self.yardstick is not None:
            started = time.perf_counter()
            await self.yardstick.embed([turn.content for turn in turns])
            self.embed_seconds += time.perf_counter() - started
        started = time.perf_counter()
        await memory.import_records(records)
        self.ingest_seconds += time.perf_counter() - started
        self.turns += len(turns)

    async def search(self, conversation: str, question: str, k: int) -> Sequence[str]:
        memory = await self.memory(conversation)
        hits, millis = await recall(memory, question, k=k, user_id=self._user(conversation), floor=self.floor)
        self.millis.append(millis)
        return [hit.metadata["dia_id"] for hit in hits]

    async def close(self) -> None:
        """Closes every memory that was opened."""
        for context in self._contexts:
            await context.__aexit__(None, None, None)
