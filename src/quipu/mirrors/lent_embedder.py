"""Quipu's own embedder for vendors, so that mirror and ledger share one model and nothing is asked outside.

Vendors call it from threads of theirs, and some only over HTTP: `LentEmbedder` blocks a thread until the loop has the
vectors, and `EmbeddingEndpoint` offers the same on a loopback port in the form that OpenAI's clients speak.
"""

import asyncio
import base64
import json
import threading
from array import array
from collections.abc import Sequence
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, cast

from quipu.embed.port import Embedder
from quipu.errors import UnsupportedError
from quipu.mirrors.backend import Setup

#: The endpoint looks so often whether it is closed, in seconds.
_POLL_S = 0.05


def embedder_of(setup: Setup) -> Embedder:
    """The embedder of a setup, for vendors that find by meaning only."""
    if setup.embedder is None:
        raise UnsupportedError(
            f"The mirror {setup.name} finds by meaning only and needs an embedder.",
            reason="no_embedder",
            hint="Set QUIPU_EMBEDDER to something other than none, or take the mirror out.",
        )
    return setup.embedder


def floats(vector: bytes) -> list[float]:
    """A vector as plain numbers."""
    return array("f", vector).tolist()


class LentEmbedder:
    """An embedder for code that blocks. Made on the loop that does the work; called from any other thread."""

    def __init__(self, embedder: Embedder) -> None:
        self._embedder = embedder
        self._loop = asyncio.get_running_loop()
        self.dimensions = embedder.dimensions

    def vectors(self, texts: Sequence[str]) -> list[list[float]]:
        """One vector per text, in order."""
        if not texts:
            return []
        work = asyncio.run_coroutine_threadsafe(self._embedded(texts), self._loop)
        return [floats(one) for one in work.result()]

    async def _embedded(self, texts: Sequence[str]) -> Sequence[bytes]:
        return await self._embedder.embed(list(texts))


class EmbeddingEndpoint:
    """`POST /v1/embeddings` and `GET /v1/models` on a free loopback port.

    `dimensions` beyond the model's are filled with zeros, which leaves every cosine as it was; fewer, and token ids in
    place of text, are refused.
    """

    def __init__(self, lent: LentEmbedder) -> None:
        endpoint = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_GET(self) -> None:
                self._answer(200, {"object": "list", "data": [{"id": "quipu", "object": "model"}]})

            def do_POST(self) -> None:
                body = json.loads(self.rfile.read(int(self.headers.get("Content-Length") or 0)))
                if not self.path.rstrip("/").endswith("/embeddings"):
                    self._answer(404, {"error": {"message": "Only embeddings are served here."}})
                    return
                self._answer(*endpoint.answer(body))

            def _answer(self, status: int, body: dict[str, Any]) -> None:
                data = json.dumps(body).encode()
                self.send_response(status)
                self.send_header("Content-Type", "application/json")
                self.send_header("Content-Length", str(len(data)))
                self.end_headers()
                self.wfile.write(data)

            def log_message(self, format: str, *args: Any) -> None:
                """Requests hold memory text: nothing is written down."""

        self._lent = lent
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        self.url = f"http://127.0.0.1:{self._server.server_address[1]}/v1"
        self._thread = threading.Thread(
            target=self._server.serve_forever, args=(_POLL_S,), name="quipu-embeddings", daemon=True
        )
        self._thread.start()

    def answer(self, body: dict[str, Any]) -> tuple[int, dict[str, Any]]:
        """Status and body."""
        given: Any = body.get("input")
        texts: Any = [given] if isinstance(given, str) else given
        wanted = body.get("dimensions") or self._lent.dimensions
        if not isinstance(texts, list) or not all(isinstance(text, str) for text in cast("list[Any]", texts)):
            return 400, {"error": {"message": "`input` is a text or a list of texts."}}
        if wanted < self._lent.dimensions:
            return 400, {"error": {"message": f"The model has {self._lent.dimensions} dimensions."}}
        filler = [0.0] * (wanted - self._lent.dimensions)
        rows = [[*vector, *filler] for vector in self._lent.vectors(cast("list[str]", texts))]
        coded = body.get("encoding_format") == "base64"
        data = [
            {"object": "embedding", "index": place, "embedding": _base64(row) if coded else row}
            for place, row in enumerate(rows)
        ]
        usage = {"prompt_tokens": 0, "total_tokens": 0}
        return 200, {"object": "list", "model": body.get("model", "quipu"), "data": data, "usage": usage}

    def close(self) -> None:
        """Stop listening."""
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()


def _base64(row: Sequence[float]) -> str:
    return base64.b64encode(array("f", row).tobytes()).decode()
