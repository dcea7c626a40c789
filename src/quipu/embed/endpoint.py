"""An embedder behind any OpenAI-compatible `/embeddings` endpoint: OpenAI, Ollama, vLLM, TEI and others.

- An answer is not trusted: count, order, size and finiteness are checked, and every vector is brought to length one.
- What an endpoint takes at once is not known beforehand: OpenAI refuses a text of more than 8,191 tokens and with it
  every other text of the request, text-embeddings-inference more than 32 texts. So a refused batch is halved, and a
  text that is refused alone is embedded in pieces, whose mean is its vector.
"""

import asyncio
import time
from array import array
from collections.abc import Callable, Sequence
from typing import Any, cast

import httpx
import numpy as np

from quipu.embed.model_server import ModelServer, Sleep
from quipu.embed.pooling import normalised, well_formed, windows
from quipu.embed.port import Role

#: How endpoints say that a text is too long, or that there are too many: each in its own way.
_TOO_MUCH = frozenset({400, 413, 422})
#: No endpoint is known that would not take this many characters.
_SHORTEST_PIECE = 256
_MOST_PIECES = 32


def model_name(model: str, dimensions: int) -> str:
    """What the vectors of an endpoint's model are called."""
    return f"openai:{model}/{dimensions}"


class EndpointEmbedder:
    """Gets vectors from an endpoint. Made by `open`, which finds out how long they are."""

    def __init__(
        self, server: ModelServer, body: dict[str, object], dimensions: int, batch_size: int
    ) -> None:
        """`body` is what every request holds besides its texts; `dimensions` is 0 until the first answer."""
        self._server = server
        self._body = body
        self._dimensions = dimensions
        self._batch_size = batch_size

    @classmethod
    async def open(
        cls,
        *,
        base_url: str,
        model: str,
        api_key: str | None = None,
        dimensions: int | None = None,
        known_dimensions: int | None = None,
        batch_size: int = 64,
        retries: int = 3,
        timeout_ms: int = 30_000,
        longest_wait_ms: int = 20_000,
        client: httpx.AsyncClient | None = None,
        sleep: Sleep = asyncio.sleep,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> "EndpointEmbedder":
        """An embedder for `model` at `base_url`, which usually ends in `/v1`.

        `dimensions` is requested of the endpoint. Where it is left out, a first request finds out how long the vectors
        are, unless `known_dimensions` says it: the length of those that are stored already. The endpoint need not be
        reachable then. The other arguments are those of `ModelServer`.
        """
        server = ModelServer(
            f"{base_url.rstrip('/')}/embeddings",
            kind="embedding",
            api_key=api_key,
            retries=retries,
            timeout_ms=timeout_ms,
            longest_wait_ms=longest_wait_ms,
            client=client,
            sleep=sleep,
            monotonic=monotonic,
        )
        body: dict[str, object] = {"model": model}
        if dimensions:
            body["dimensions"] = dimensions
        embedder = cls(server, body, dimensions or known_dimensions or 0, max(1, batch_size))
        if not embedder._dimensions:
            try:
                (vector,) = await embedder.embed(["probe"])
            except BaseException:
                await embedder.close()
                raise
            embedder._dimensions = len(vector) // 4
        return embedder

    @property
    def model(self) -> str:
        return model_name(str(self._body["model"]), self._dimensions)

    @property
    def dimensions(self) -> int:
        return self._dimensions

    @property
    def calibration(self) -> None:
        """Nobody has measured any model that is asked for here."""

    async def embed(self, texts: Sequence[str], role: Role = "document") -> Sequence[bytes]:
        """One unit vector per text, in order, requested in batches. The protocol knows of no roles."""
        vectors: list[bytes] = []
        for start in range(0, len(texts), self._batch_size):
            batch = texts[start : start + self._batch_size]
            # Endpoints refuse an empty text; a blank is the nearest thing they take.
            vectors += await self._vectors([well_formed(text) or " " for text in batch])
        return vectors

    def clear(self) -> None:
        """It keeps no text."""

    async def close(self) -> None:
        await self._server.close()

    async def _vectors(self, texts: Sequence[str]) -> list[bytes]:
        status, vectors = await self._requested(texts)
        if status == 200:
            return vectors
        if len(texts) == 1:
            return [await self._mean_of_pieces(texts[0], status)]
        half = len(texts) // 2
        return [*await self._vectors(texts[:half]), *await self._vectors(texts[half:])]

    async def _mean_of_pieces(self, text: str, status: int) -> bytes:
        """The vector of a text that is too long, from pieces of a size that is taken. A short text stays refused."""
        size = len(text)
        while (size := size // 2) >= _SHORTEST_PIECE:
            if (await self._requested([text[:size]]))[0] != 200:
                continue
            pieces = await self._vectors(windows(text, size, 0, _MOST_PIECES))
            rows = np.stack([np.frombuffer(piece, "<f4") for piece in pieces])
            try:
                return normalised(rows.mean(axis=0, dtype=np.float64))
            except ValueError:  # vectors that cancel each other out are none of a text
                break
        raise self._server.refusal(status)

    async def _requested(self, texts: Sequence[str]) -> tuple[int, list[bytes]]:
        """Status 200 and the vectors, or the status that says it was too much."""
        answer = await self._server.post({**self._body, "input": texts}, _TOO_MUCH)
        if answer.status != 200:
            return answer.status, []
        vectors = self._in_order(answer.content, len(texts))
        size = self._dimensions or len(vectors[0])
        if any(len(vector) != size for vector in vectors):
            raise self._server.bad_answer(f"sent vectors that do not have {size} numbers")
        try:
            return 200, [normalised(np.array(array("d", vector))) for vector in vectors]
        except (TypeError, ValueError, OverflowError):
            # The cause is left out: it may quote what could not be read.
            raise self._server.bad_answer("sent vectors that are not finite numbers, or all 0") from None

    def _in_order(self, content: object, count: int) -> list[list[Any]]:
        """The vectors in the order of the texts, which is what `index` says and not how they are listed."""
        data = cast(dict[str, object], content).get("data") if isinstance(content, dict) else None
        if not isinstance(data, list) or len(cast(list[object], data)) != count:
            raise self._server.bad_answer("did not send one vector per text")
        found: dict[int, list[Any]] = {}
        for position, item in enumerate(cast(list[object], data)):
            fields = cast(dict[str, object], item) if isinstance(item, dict) else {}
            vector = fields.get("embedding")
            index = fields.get("index", position)
            if isinstance(index, int) and isinstance(vector, list) and vector:
                found[index] = cast(list[Any], vector)
        if found.keys() != set(range(count)):
            raise self._server.bad_answer("did not say which vector belongs to which text")
        return [found[number] for number in range(count)]
