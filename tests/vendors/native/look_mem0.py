"""mem0's own `get_all` and `search`."""

import json
import sys

from mem0 import Memory

at = json.loads(sys.argv[1])
client = {"api_key": "none", "openai_base_url": at["embeddings"]}
memory = Memory.from_config(
    {
        "vector_store": {
            "provider": "qdrant",
            "config": {
                "path": at["folder"] + "/qdrant-default",
                "collection_name": "quipu--default",
                "embedding_model_dims": 384,
                "on_disk": True,
            },
        },
        "embedder": {"provider": "openai", "config": {**client, "model": "m", "embedding_dims": 384}},
        "llm": {"provider": "openai", "config": {**client, "model": "none"}},
        "history_db_path": ":memory:",
    }
)
everything = memory.get_all(filters={"agent_id": "ana"}, top_k=100)["results"]
found = memory.search(at["query"], filters={"agent_id": "ana"}, top_k=5, threshold=0.0)["results"]
print(json.dumps({"texts": [one["memory"] for one in everything], "found": [one["memory"] for one in found]}))
