"""A blocking memory, and LangGraph's own PostgreSQL store to compare with."""

from __future__ import annotations

import os
from collections.abc import Iterator
from itertools import count
from pathlib import Path

import pytest
from langgraph.store.base import BaseStore
from langgraph.store.postgres import PostgresStore

from quipu import sync
from quipu.backends.lending import floats
from quipu.integrations.langgraph import QuipuStore
from quipu.testing.builders import FixedClock
from quipu.testing.embedders import WordEmbedder

_numbers = count(1)


@pytest.fixture
def clock() -> FixedClock:
    return FixedClock()


@pytest.fixture
def memory(tmp_path: Path, clock: FixedClock) -> Iterator[sync.Memory]:
    url = f"sqlite://{tmp_path}/memory.db"
    with sync.Memory(agent_id="ana", stores=url, embedder=WordEmbedder(), clock=clock) as memory:
        yield memory


@pytest.fixture
def store(memory: sync.Memory, clock: FixedClock) -> QuipuStore:
    return QuipuStore(memory, fields=["text"], clock=clock)


@pytest.fixture(params=["quipu", "postgres"])
def either(request: pytest.FixtureRequest) -> Iterator[BaseStore]:
    """Quipu's store, and LangGraph's on PostgreSQL: the same cases hold on both."""
    if request.param == "quipu":
        yield request.getfixturevalue("store")
        return
    words = WordEmbedder()
    index = {
        "dims": words.dimensions,
        "embed": lambda texts: [floats(words.vector(text)) for text in texts],
        "fields": ["text"],
        "ann_index_config": {"kind": "flat"},
    }
    with PostgresStore.from_conn_string(os.environ["QUIPU_TEST_POSTGRES"], index=index) as store:
        store.setup()
        for statement in ("DELETE FROM store_vectors", "DELETE FROM store"):
            with store._cursor() as cursor:
                cursor.execute(statement)
        yield store
