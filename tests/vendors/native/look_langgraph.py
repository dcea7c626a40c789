"""LangGraph's own `search`, with a query and without."""

import json
import sys

import httpx
import pysqlite3

sys.modules["sqlite3"] = pysqlite3
from langgraph.store.sqlite import SqliteStore  # noqa: E402  the environment is set first

at = json.loads(sys.argv[1])


def embed(texts):
    answer = httpx.post(at["embeddings"] + "/embeddings", json={"input": texts}, timeout=60)
    return [one["embedding"] for one in answer.json()["data"]]


connection = pysqlite3.connect(at["folder"] + "/store.db", isolation_level=None)
store = SqliteStore(
    connection, index={"dims": 384, "embed": embed, "text_fields": ["text"], "fields": ["text"]}
)
everything = store.search(("quipu",), limit=100)
found = store.search(("quipu",), query=at["query"], limit=5)
print(
    json.dumps(
        {"texts": [one.value["text"] for one in everything], "found": [one.value["text"] for one in found]}
    )
)
