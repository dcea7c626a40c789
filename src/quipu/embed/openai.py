"""An embedder behind any OpenAI-compatible `/embeddings` endpoint: OpenAI, Ollama, vLLM, TEI and others.

- An answer is not trusted: count, order, size and finiteness are checked, and every vector is normalised.
- 429 and 5xx answers and broken connections are tried again a bounded number of times; a wait the endpoint
  asks for is kept, unless it is longer than we are ready to wait.
- An endpoint that could not be reached is left alone for a few seconds: whoever comes meanwhile is told at once, and
  goes on by words, instead of waiting for the same failure.
- What an endpoint takes at once is its own secret: OpenAI refuses a text of more than 8,191 tokens and with it every
  other text of the request, text-embeddings-inference more than 32 texts. So a refused batch is halved, and a text that
  is refused alone is embedded in pieces, whose mean is its vector, as the built-in model does with long texts.
- Neither the key nor a text nor the endpoint's own words stand in an error: endpoints like to quote both.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from quipu.embed.answers import RETRIED, TOO_MUCH, UNREACHED, refusal, vectors_of, wait_s
from quipu.embed.text import well_formed, windows
from quipu.embed.vectors import mean
from quipu.errors import BackendUnavailableError, InvalidError

if TYPE_CHECKING:
    import httpx

#: No endpoint is known that would not take this many characters.
_SHORTEST_PIECE = 256
_MOST_PIECES = 32
_REST_S = 5.0


@dataclass(frozen=True, slots=True, kw_only=True)
class _Endpoint:
    """Whom to ask, and how patiently."""

    url: str
    headers: dict[str, str] = field(repr=False)  # they hold the key
    body: dict[str, object]
    batch_size: int
    retries: int
    timeout_s: float
    longest_wait_s: float
    sleep: Callable[[float], Awaitable[None]]
    monotonic: Callable[[], float]


class OpenAIEmbedder:
    """Asks an endpoint for vectors. Made by `open`, which finds out how long they are."""

    def __init__(
        self, endpoint: _Endpoint, model: str, client: httpx.AsyncClient, *, owns_client: bool
    ) -> None:
        self._endpoint = endpoint
        self._model = model
        self._client = client
        self._owns_client = owns_client
        self._dimensions: int | None = None
        #: Until then it is not asked, for it could not be reached.
        self._rests_until: float | None = None

    @classmethod
    async def open(
        cls,
        *,
        base_url: str,
        model: str,
        api_key: str | None = None,
        dimensions: int | None = None,
        expected: int | None = None,
        batch_size: int = 64,
        retries: int = 3,
        timeout_ms: int = 30_000,
        longest_wait_ms: int = 20_000,
        client: httpx.AsyncClient | None = None,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> OpenAIEmbedder:
        """Ready to embed. `dimensions` is asked of the endpoint when given, found by a first call when not.

        `expected` is the length of its vectors as they were before: then nothing is asked now.
        """
        import httpx

        endpoint = _Endpoint(
            url=f"{base_url.rstrip('/')}/embeddings",
            headers=_headers(api_key),
            body={"model": model, "dimensions": dimensions} if dimensions else {"model": model},
            batch_size=max(1, batch_size),
            retries=max(0, retries),
            timeout_s=timeout_ms / 1000,
            longest_wait_s=longest_wait_ms / 1000,
            sleep=sleep,
            monotonic=monotonic,
        )
        embedder = cls(endpoint, model, client or httpx.AsyncClient(), owns_client=client is None)
        embedder._dimensions = dimensions or expected
        if embedder._dimensions is None:
            try:
                embedder._dimensions = len((await embedder.embed(["probe"]))[0]) // 4
            except BaseException:
                await embedder.close()
                raise
        return embedder

    @property
    def model(self) -> str:
        return named(self._model, self.dimensions)

    @property
    def dimensions(self) -> int:
        if self._dimensions is None:
            raise AssertionError("`open` finds the dimensions before anybody can ask")
        return self._dimensions

    async def embed(self, texts: Sequence[str]) -> Sequence[bytes]:
        """One unit vector per text, in order, asked for in batches."""
        vectors: list[bytes] = []
        for start in range(0, len(texts), self._endpoint.batch_size):
            batch = texts[start : start + self._endpoint.batch_size]
            # Endpoints refuse an empty text; a blank is the nearest thing they take.
            vectors += await self._vectors([well_formed(text) or " " for text in batch])
        return vectors

    async def _vectors(self, texts: Sequence[str]) -> list[bytes]:
        answer = await self._answer(texts)
        if answer.status_code == 200:
            return vectors_of(answer, len(texts), self._dimensions)
        if len(texts) == 1:
            return [await self._mean_of_pieces(texts[0], answer)]
        half = len(texts) // 2
        return [*await self._vectors(texts[:half]), *await self._vectors(texts[half:])]

    async def _mean_of_pieces(self, text: str, refused: httpx.Response) -> bytes:
        """The vector of a text that is too long, by pieces of a size that is taken. Short ones are refused for good."""
        size = len(text)
        while (size := size // 2) >= _SHORTEST_PIECE:
            if (await self._answer([text[:size]])).status_code != 200:
                continue
            pieces = await self._vectors(windows(text, size, 0, _MOST_PIECES))
            try:
                return mean(pieces)
            except ValueError:
                break  # vectors that cancel each other out are none of a text
        raise refusal(refused)

    async def close(self) -> None:
        """Close the connections, if they are ours."""
        if self._owns_client:
            await self._client.aclose()

    async def _answer(self, texts: Sequence[str]) -> httpx.Response:
        """Vectors, or that it was too much; anything else raises."""
        if self._rests_until is not None and self._endpoint.monotonic() < self._rests_until:
            raise refusal(None)
        try:
            return await self._insisted(texts)
        except BackendUnavailableError as error:
            if error.reason in UNREACHED:
                self._rests_until = self._endpoint.monotonic() + _REST_S
            raise

    async def _insisted(self, texts: Sequence[str]) -> httpx.Response:
        """The same, asked for as often as may help."""
        attempt = 0
        while True:
            response, failure = await self._posted({**self._endpoint.body, "input": texts})
            if response is not None and (response.status_code == 200 or response.status_code in TOO_MUCH):
                return response
            wait = wait_s(response, attempt)
            is_passing = response is None or response.status_code in RETRIED
            if not is_passing or attempt == self._endpoint.retries or wait > self._endpoint.longest_wait_s:
                raise refusal(response) from failure
            await self._endpoint.sleep(wait)
            attempt += 1

    async def _posted(self, body: dict[str, object]) -> tuple[httpx.Response | None, Exception | None]:
        """The answer, or why there was none and asking again may help."""
        import httpx

        url, headers, timeout_s = self._endpoint.url, self._endpoint.headers, self._endpoint.timeout_s
        try:
            return await self._client.post(url, json=body, headers=headers, timeout=timeout_s), None
        except httpx.TimeoutException as error:
            raise BackendUnavailableError(
                "The embedding endpoint did not answer in time.", reason="endpoint_timeout"
            ) from error
        except (httpx.InvalidURL, httpx.UnsupportedProtocol) as error:
            raise BackendUnavailableError(
                "The embedding endpoint's address is not valid.",
                reason="endpoint_unreachable",
                hint="Set the embedding base URL to an address such as http://127.0.0.1:11434/v1.",
            ) from error
        except httpx.HTTPError as error:
            return None, error


def named(model: str, dimensions: int) -> str:
    """What the vectors of an endpoint's model are known by."""
    return f"openai:{model}/{dimensions}"


def _headers(api_key: str | None) -> dict[str, str]:
    if not api_key:
        return {}
    # A character no header can carry would make the HTTP library quote the key in its error.
    if not (api_key.isascii() and api_key.isprintable() and " " not in api_key):
        raise InvalidError.at(
            "/api_key", "malformed", "The embedding API key holds characters no HTTP header can carry."
        )
    return {"Authorization": f"Bearer {api_key}"}
