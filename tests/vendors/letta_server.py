"""A real Letta server on a free port, over a PostgreSQL of its own, with embeddings from this process."""

import asyncio
import socket
import subprocess
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx

from quipu.embed.port import Embedder
from quipu.mirrors.lent_embedder import EmbeddingEndpoint, LentEmbedder
from tests.fixtures.postgres import Server, name_of
from tests.vendors.environments import python_of

_PATIENCE_S = 200.0
# The wheel carries no migrations: its tables are made from its models, and one default that only a migration sets.
_TABLES = """
import asyncio, letta.orm
from letta.orm.base import Base
from letta.server.db import engine
async def main():
    async with engine.begin() as connection:
        await connection.run_sync(Base.metadata.create_all)
asyncio.run(main())
"""


@contextmanager
def letta_server(postgres: Server, address: str, folder: Path, embedder: Embedder) -> Iterator[str]:
    """One over an empty database, until the block ends; as a mirror's URL."""
    postgres.execute("CREATE EXTENSION vector", name_of(address))
    with endpoint(embedder) as embeddings:
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            port = probe.getsockname()[1]
        python = python_of("letta")
        database = f"{name_of(address)}?host={postgres.folder}&sslmode=disable"
        environment = {
            "PATH": f"{Path(python).parent}:/usr/bin:/bin",
            "HOME": str(folder),
            "LETTA_DIR": str(folder),
            "LETTA_PG_URI": f"postgresql://quipu:x@localhost/{database}",
            "OPENAI_API_KEY": "none",
            "OPENAI_API_BASE": embeddings,
            "HF_HUB_OFFLINE": "1",
            "NLTK_DATA": str(folder),
        }
        subprocess.run([python, "-c", _TABLES], env=environment, cwd=folder, check=True, capture_output=True)
        for statement in (
            "CREATE SEQUENCE message_seq_id",
            "ALTER TABLE messages ALTER sequence_id SET DEFAULT nextval('message_seq_id')",
        ):
            postgres.execute(statement, name_of(address))
        with (folder / "server.log").open("wb") as log:
            process = subprocess.Popen(
                [str(Path(python).with_name("letta")), "server", "--host", "127.0.0.1", "--port", str(port)],
                env=environment,
                cwd=folder,
                stdout=log,
                stderr=log,
            )
        try:
            _await(f"http://127.0.0.1:{port}", process, folder / "server.log")
            yield f"letta://127.0.0.1:{port}"
        finally:
            if process.poll() is None:
                process.terminate()
                try:
                    process.wait(10)
                except subprocess.TimeoutExpired:
                    process.kill()
                    process.wait()


def _await(address: str, process: "subprocess.Popen[bytes]", log: Path) -> None:
    until = time.monotonic() + _PATIENCE_S
    while time.monotonic() < until and process.poll() is None:
        try:
            if httpx.get(f"{address}/v1/health/", timeout=2).status_code == 200:
                return
        except httpx.HTTPError:
            time.sleep(0.2)
    raise AssertionError(log.read_text()[-3000:])


@contextmanager
def endpoint(embedder: Embedder) -> Iterator[str]:
    """The embedder over HTTP, on a loop in a thread of its own."""
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever, daemon=True)
    thread.start()

    async def serve() -> EmbeddingEndpoint:
        return EmbeddingEndpoint(LentEmbedder(embedder))

    served = asyncio.run_coroutine_threadsafe(serve(), loop).result()
    try:
        yield served.url
    finally:
        served.close()
        loop.call_soon_threadsafe(loop.stop)
        thread.join()
        loop.close()
