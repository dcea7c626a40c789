"""Cognee's own list of data and its search for chunks."""

import asyncio
import json
import os
import sys
from pathlib import Path

at = json.loads(sys.argv[1])
os.environ |= {
    "TELEMETRY_DISABLED": "1",
    "SYSTEM_ROOT_DIRECTORY": at["folder"] + "/system",
    "DATA_ROOT_DIRECTORY": at["folder"] + "/data",
    "CACHE_ROOT_DIRECTORY": at["folder"] + "/cache",
    "COGNEE_LOGS_DIR": at["folder"] + "/logs",
    "ENABLE_BACKEND_ACCESS_CONTROL": "true",
    "COGNEE_SKIP_CONNECTION_TEST": "true",
    "GRAPH_DATABASE_SUBPROCESS_ENABLED": "false",
    "VECTOR_DB_SUBPROCESS_ENABLED": "false",
    "LLM_PROVIDER": "custom",
    "LLM_MODEL": "openai/none",
    "LLM_ENDPOINT": "http://127.0.0.1:9/v1",
    "LLM_API_KEY": "none",
    "EMBEDDING_PROVIDER": "openai_compatible",
    "EMBEDDING_MODEL": "text-embedding-3-small",
    "EMBEDDING_ENDPOINT": at["embeddings"],
    "EMBEDDING_API_KEY": "none",
    "EMBEDDING_DIMENSIONS": "384",
    "LOG_LEVEL": "ERROR",
    "LITELLM_LOCAL_MODEL_COST_MAP": "True",
}

import cognee  # noqa: E402  the environment is set first
import litellm.litellm_core_utils.default_encoding  # noqa: E402, F401  it brings its tokenizer, else one is fetched
from cognee.modules.search.types import SearchType  # noqa: E402  the environment is set first


async def main():
    texts, found = [], []
    for dataset in await cognee.datasets.list_datasets():
        for row in await cognee.datasets.list_data(dataset.id):
            texts.append(row.raw_data_location.removeprefix("file://"))
        answers = await cognee.search(
            query_text=at["query"], query_type=SearchType.CHUNKS, dataset_ids=[dataset.id], top_k=5
        )
        for answer in answers:
            found += [chunk["text"] for chunk in answer["search_result"]]
    return {"texts": texts, "found": found}


seen = asyncio.run(main())
seen["texts"] = [Path(file).read_text() for file in seen["texts"]]
print(json.dumps(seen), flush=True)
os._exit(0)
