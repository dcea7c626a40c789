"""A real Letta server on a free port, over a PostgreSQL of its own, with embeddings from this process."""

from __future__ import annotations

import asyncio
import socket
import subprocess
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import httpx

from quipu.backends.lending import EmbeddingEndpoint, Lent
from quipu.ports.embedder import Embedder
from tests.postgres import Server, name_of
from tests.vendors.sharing import python_of

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


@dataclass(frozen=True)
class Letta:
    """A server that answers."""

    #: As a mirror's URL.
    url: str
    postgres: Server
    database: str

    @property
    def address(self) -> str:
        return self.url.replace("letta", "http", 1)

    def dump(self) -> str:
        """Everything in its tables."""
        return self.postgres.run("pg_dump", "-h", str(self.postgres.folder), "-U", "quipu", self.database)


@contextmanager
def letta_server(postgres: Server, folder: Path, embedder: Embedder) -> Iterator[Letta]:
    """One on a free port, until the block ends."""
    url = postgres.database(is_empty=True)
    postgres.execute("CREATE EXTENSION vector", name_of(url))
    with endpoint(embedder) as embeddings, socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
        probe.close()
        python = python_of("letta")
        environment = {
            "PATH": f"{Path(python).parent}:/usr/bin:/bin",
            "HOME": str(folder),
            "LETTA_DIR": str(folder),
            "LETTA_PG_URI": f"postgresql://quipu:x@localhost/{name_of(url)}?host={postgres.folder}&sslmode=disable",
            "OPENAI_API_KEY": "none",
            "OPENAI_API_BASE": embeddings,
            "HF_HUB_OFFLINE": "1",
            "NLTK_DATA": str(folder),
        }
        subprocess.run([python, "-c", _TABLES], env=environment, cwd=folder, check=True, capture_output=True)
        postgres.execute("CREATE SEQUENCE message_seq_id", name_of(url))
        postgres.execute(
            "ALTER TABLE messages ALTER sequence_id SET DEFAULT nextval('message_seq_id')", name_of(url)
        )
        with (folder / "server.log").open("wb") as log:
            process = subprocess.Popen(
                [str(Path(python).with_name("letta")), "server", "--host", "127.0.0.1", "--port", str(port)],
                env=environment,
                cwd=folder,
                stdout=log,
                stderr=log,
            )
        address = f"http://127.0.0.1:{port}"
        try:
            _await(address, process, folder / "server.log")
            yield Letta(address.replace("http", "letta", 1), postgres, name_of(url))
        finally:
            if process.poll() is None:
                process.terminate()
                process.wait(30)
    postgres.drop(url)


def _await(address: str, process: subprocess.Popen[bytes], log: Path) -> None:
    until = time.monotonic() + _PATIENCE_S
    while time.monotonic() < until and process.poll() is None:
        try:
            if httpx.get(f"{address}/v1/health/", timeout=2).status_code == 200:
                return
        except httpx.HTTPError:
            time.sleep(0.5)
    raise AssertionError(log.read_text()[-3000:])


@contextmanager
def endpoint(embedder: Embedder) -> Iterator[str]:
    """The embedder over HTTP, on a loop in a thread of its own."""
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever, daemon=True)
    thread.start()

    async def serve() -> EmbeddingEndpoint:
        return EmbeddingEndpoint(Lent(embedder))

    served = asyncio.run_coroutine_threadsafe(serve(), loop).result()
    try:
        yield served.url
    finally:
        served.close()
        loop.call_soon_threadsafe(loop.stop)
        thread.join()
        loop.close()
