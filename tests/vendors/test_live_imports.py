"""`quipu import mem0://…`: what the real packages have written, in containers of their own, comes in."""

import asyncio
import subprocess
from collections.abc import Sequence
from pathlib import Path

import httpx
import pytest

from quipu.mirrors.backend import Container
from quipu.testing.backend.case import Keeper
from quipu.testing.embedders import WordEmbedder
from tests.cli.conftest import Cli, cli, home
from tests.fixtures.postgres import Server
from tests.requirement import requirement
from tests.vendors.environments import python_of
from tests.vendors.letta_server import letta_server
from tests.vendors.shared import vendor_at

__all__ = ["cli", "home"]

MEM0 = """
from mem0 import Memory
config = {"api_key": "none", "openai_base_url": "http://127.0.0.1:9/v1"}
memory = Memory.from_config({
    "vector_store": {"provider": "qdrant", "config": {"path": "store", "collection_name": "own",
                     "embedding_model_dims": 4, "on_disk": True}},
    "embedder": {"provider": "openai", "config": {**config, "model": "x"}},
    "llm": {"provider": "openai", "config": {**config, "model": "x"}},
    "history_db_path": ":memory:",
})
class Vectors:
    def embed(self, text, memory_action=None):
        return [1.0, 0.0, 0.0, 0.0]
    def embed_batch(self, texts, memory_action=None):
        return [self.embed(text) for text in texts]
memory.embedding_model = Vectors()
for number in range(120):
    memory.add(f"Ana likes tea {number}", user_id="ana", metadata={"room": "kitchen"}, infer=False)
memory.add("Bo lives in Bonn", agent_id="bo", infer=False)
"""
LANGGRAPH = """
import sqlite3, sys
if not hasattr(sqlite3.Connection, "enable_load_extension"):
    import pysqlite3
    sys.modules["sqlite3"] = sqlite3 = pysqlite3
from langgraph.store.sqlite import SqliteStore
store = SqliteStore(sqlite3.connect("store.db", isolation_level=None))
store.setup()
store.put(("ana", "facts"), "tea", {"text": "Ana likes tea"})
store.put(("bo",), "home", {"text": "Bo lives in Bonn", "since": 2020})
"""
GRAPHITI = """
import asyncio, warnings
warnings.simplefilter("ignore")
from datetime import UTC, datetime
from graphiti_core.driver.kuzu_driver import KuzuDriver
from graphiti_core.edges import EntityEdge
from graphiti_core.nodes import EntityNode, EpisodeType, EpisodicNode
at = datetime(2025, 1, 2, tzinfo=UTC)
async def main():
    driver = KuzuDriver(db="graph.kuzu")
    ana = EntityNode(name="Ana", group_id="g", created_at=at, name_embedding=[0.0], summary="A gardener")
    tea = EntityNode(name="Tea", group_id="g", created_at=at, name_embedding=[0.0])
    for node in (ana, tea):
        await node.save(driver)
    await EntityEdge(name="LIKES", fact="Ana likes tea", fact_embedding=[0.0], group_id="g", created_at=at, valid_at=at,
                     source_node_uuid=ana.uuid, target_node_uuid=tea.uuid).save(driver)
    await EpisodicNode(name="chat", group_id="g", created_at=at, valid_at=at, source=EpisodeType.message,
                       source_description="chat", content="Tea, please").save(driver)
    driver.client.close()
    driver.db.close()
asyncio.run(main())
"""


def made(name: str, program: str, folder: Path) -> str:
    """The vendor's interpreter, which has run this program in a folder."""
    python = python_of(name)
    quiet = {
        "PATH": "/usr/bin:/bin",
        "HOME": str(folder),
        "MEM0_TELEMETRY": "False",
        "GRAPHITI_TELEMETRY_ENABLED": "false",
    }
    subprocess.run([python, "-c", program], cwd=folder, env=quiet, check=True, capture_output=True)
    return python


CASES = [
    pytest.param(
        "mem0",
        MEM0,
        "mem0://{}/store?collection=own&",
        ["Bo lives in Bonn", *(f"Ana likes tea {n}" for n in range(120))],
        marks=pytest.mark.vendor(name="mem0"),
        id="mem0",
    ),
    pytest.param(
        "langgraph",
        LANGGRAPH,
        "langgraph+sqlite://{}/store.db?",
        ["Ana likes tea", "Bo lives in Bonn"],
        marks=pytest.mark.vendor(name="langgraph"),
        id="langgraph",
    ),
    pytest.param(
        "graphiti",
        GRAPHITI,
        "graphiti://{}/graph.kuzu?",
        ["Ana likes tea", "Ana: A gardener", "Tea, please"],
        marks=pytest.mark.vendor(name="graphiti"),
        id="graphiti",
    ),
]


@requirement("formats:import.live")
@pytest.mark.parametrize(("name", "program", "address", "texts"), CASES)
def test_what_a_product_has_written_is_tried_and_comes_in_once(
    cli: Cli, tmp_path: Path, name: str, program: str, address: str, texts: Sequence[str]
) -> None:
    folder = tmp_path / "theirs"
    folder.mkdir()
    python = made(name, program, folder)
    place = f"{address.format(folder)}python={python}"
    tried = cli.json("import", place, "--dry-run")
    assert (tried["status"], tried["format"], tried["file_name"]) == (
        "checked",
        name,
        place.partition("://")[0],
    )
    done = cli.json("import", place, "--yes")
    assert (done["counts"]["accepted"], done["counts"]["refused"]) == (len(texts), 0)
    listed = cli.json("list", "--all-agents", "--limit", "1000")["records"]
    assert sorted(one["content"] for one in listed) == sorted(texts)
    assert cli.json("import", place, "--yes")["counts"]["duplicate"] == len(texts)


async def copied(url: str, folder: Path, *texts: str, python: str | None = None) -> None:
    """Kept by the product, as a mirror of somebody else's."""
    backend = vendor_at(url, folder, python=python)
    await backend.open()
    try:
        keeper = Keeper(backend)
        home_ = Container(tenant="theirs", store_id="ms_1", agent_id="ana")
        for text in texts:
            await keeper.put(text, home_)
    finally:
        await backend.close()


@requirement("formats:import.live")
@pytest.mark.vendor(name="cognee")
def test_datasets_of_cognee_come_in(cli: Cli, tmp_path: Path) -> None:
    python = python_of("cognee")
    asyncio.run(
        copied("cognee://own", tmp_path / "theirs", "Ana likes tea", "Bo lives in Bonn", python=python)
    )
    place = f"cognee://{tmp_path / 'theirs'}?python={python}"
    assert cli.json("import", place, "--dry-run")["format"] == "cogx"
    assert cli.json("import", place, "--yes")["counts"]["refused"] == 0
    listed = cli.json("list", "--limit", "1000")["records"]
    assert sorted(one["content"] for one in listed) == ["Ana likes tea", "Bo lives in Bonn"]


@requirement("formats:import.live")
@pytest.mark.vendor(name="letta")
@pytest.mark.timeout(600)
def test_archives_and_agents_of_a_letta_server_come_in(cli: Cli, tmp_path: Path, postgres: Server) -> None:
    folder = tmp_path / "server"
    folder.mkdir()
    with letta_server(postgres, postgres.new_database(), folder, WordEmbedder(384)) as url:
        asyncio.run(copied(url, tmp_path / "mirror", "Ana likes tea", "Bo lives in Bonn"))
        agent = {
            "name": "gardener",
            "memory_blocks": [{"label": "human", "value": "Ana grows roses"}],
            "model": "letta/letta-free",
            "embedding": "openai/text-embedding-3-small",
            "include_base_tools": False,
        }
        server = url.replace("letta://", "http://")
        made_ = httpx.post(f"{server}/v1/agents/", json=agent, timeout=60)
        assert made_.status_code == 200, made_.text
        assert cli.json("import", url, "--yes")["counts"]["refused"] == 0
    texts = sorted(one["content"] for one in cli.json("list")["records"])
    assert texts == ["Ana grows roses", "Ana likes tea", "Bo lives in Bonn"]
