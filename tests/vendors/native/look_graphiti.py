"""Graphiti's own edges, listed and searched."""

import asyncio
import json
import os
import sys
import warnings
from pathlib import Path

os.environ |= {"GRAPHITI_TELEMETRY_ENABLED": "false", "OPENAI_API_KEY": "none"}
warnings.simplefilter("ignore")

import httpx  # noqa: E402  the environment is set first
import kuzu  # noqa: E402  the environment is set first
from graphiti_core import Graphiti  # noqa: E402  the environment is set first
from graphiti_core.cross_encoder.client import CrossEncoderClient  # noqa: E402  the environment is set first
from graphiti_core.driver.kuzu_driver import KuzuDriver  # noqa: E402  the environment is set first
from graphiti_core.edges import EntityEdge  # noqa: E402  the environment is set first
from graphiti_core.embedder.client import EmbedderClient  # noqa: E402  the environment is set first
from graphiti_core.errors import GroupsEdgesNotFoundError  # noqa: E402  the environment is set first

at = json.loads(sys.argv[1])
FILES = [file for file in sorted(Path(at["folder"], "graphs").iterdir()) if not file.suffix]


class Embedder(EmbedderClient):
    async def create(self, input_data):
        text = input_data if isinstance(input_data, str) else input_data[0]
        async with httpx.AsyncClient(timeout=60) as client:
            answer = await client.post(at["embeddings"] + "/embeddings", json={"input": [text]})
        return answer.json()["data"][0]["embedding"]


class Unranked(CrossEncoderClient):
    async def rank(self, query, passages):
        return [(passage, 1.0) for passage in passages]


async def main():
    texts, found = [], []
    for file in FILES:
        driver = KuzuDriver(db=str(file))
        driver._database = ""
        connection = kuzu.Connection(driver.db)
        for statement in ("INSTALL fts", "LOAD EXTENSION fts"):
            connection.execute(statement)
        graph = Graphiti(graph_driver=driver, embedder=Embedder(), cross_encoder=Unranked())
        try:
            texts += [edge.fact for edge in await EntityEdge.get_by_group_ids(driver, [file.name])]
        except GroupsEdgesNotFoundError:
            continue
        found += [edge.fact for edge in await graph.search(at["query"], group_ids=[file.name], num_results=5)]
    return {"texts": texts, "found": found}


print(json.dumps(asyncio.run(main())), flush=True)
os._exit(0)
