"""Vendors that run for as long as the tests do."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path

from quipu.embed.onnx import OnnxEmbedder
from quipu.ports.backend import Backend
from tests.faces.serving import Program
from tests.postgres import Server
from tests.vendors.letta_server import Letta, letta_server
from tests.vendors.playing import Switched
from tests.vendors.sharing import folder, running, setup


@dataclass(frozen=True)
class Started:
    """A vendor, the URL it is reached by, and where it keeps its files."""

    backend: Backend
    url: str
    place: Path


@dataclass
class Vendors:
    """Whatever was asked for so far."""

    switched: Switched
    postgres: Server
    ending: ExitStack
    #: Where the embedder is built once.
    cache: Path
    known: dict[str, Started] = field(default_factory=dict)

    def at(self, url: str) -> Started:
        """The vendor that a URL names; one that ends in `postgresql://` gets a database of its own."""
        if url not in self.known:
            whole = url
            if url.endswith("+postgresql://"):
                database = self.postgres.database(is_empty=True)
                self.ending.callback(self.postgres.drop, database)
                whole = url.removesuffix("postgresql://") + database
            vendor = url.partition("://")[0].partition("+")[0]
            place = self.ending.enter_context(folder())
            backend = self.ending.enter_context(running(setup(whole, vendor, place, self.switched), vendor))
            self.known[url] = Started(backend, whole, place)
        return self.known[url]

    @cached_property
    def quipu(self) -> Program:
        """Another Quipu, as a process of its own, which writes as fast as it is asked to."""
        place = self.ending.enter_context(folder())
        settings = {
            "QUIPU_EMBEDDER": "onnx",
            "QUIPU_CACHE": str(self.cache),
            "QUIPU_DOWNLOAD": "false",
            "QUIPU_RATE": "0",
        }
        return self.ending.enter_context(Program(place / "other.db", **settings))

    @cached_property
    def letta(self) -> Letta:
        place = self.ending.enter_context(folder())
        return self.ending.enter_context(letta_server(self.postgres, place, self.switched))


@contextmanager
def started(cache: Path, postgres: Server) -> Iterator[Vendors]:
    embedder = OnnxEmbedder(cache, download=False)
    try:
        with ExitStack() as ending:
            yield Vendors(Switched(embedder), postgres, ending, cache)
    finally:
        embedder._pool.shutdown()
