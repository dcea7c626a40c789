"""Requests to a model server that somebody configured: JSON out, JSON back, patiently but not endlessly.

- 429 and 5xx answers and broken connections are tried again a bounded number of times. A wait that the server asks for
  is kept, unless it is longer than we are ready to wait.
- A server that could not be reached is left alone for a few seconds: whoever comes meanwhile gets the error at once,
  instead of waiting for the same failure.
- Neither the key nor what was sent nor the server's own words stand in an error: servers like to quote both.
"""

import asyncio
import json
import time
from collections.abc import Awaitable, Callable, Collection
from dataclasses import dataclass
from typing import TypeAlias

import httpx

from quipu.errors import BackendUnavailableError, Fault, InvalidError

#: Reasons of errors that mean: the server said nothing at all.
UNREACHED = frozenset({"endpoint_unreachable", "endpoint_timeout"})

_RETRIED = frozenset({429, 500, 502, 503, 504})
_FIRST_WAIT_S = 0.25
_REST_S = 5.0
_MOST_BYTES = 64 * 1024 * 1024
_HINTS = {
    401: "Check the API key of the {kind} endpoint.",
    403: "Check the API key of the {kind} endpoint, and what it may use.",
    404: "Check the address of the {kind} endpoint (it usually ends in /v1) and the model's name.",
    429: "The rate limit or budget of the {kind} endpoint is spent; wait, or raise it there.",
}

Sleep: TypeAlias = Callable[[float], Awaitable[None]]


@dataclass(frozen=True, slots=True)
class Answer:
    """What the server answered."""

    status: int
    #: The body as JSON; None unless the status is 200.
    content: object


class ModelServer:
    """One address of a model server."""

    def __init__(
        self,
        url: str,
        *,
        kind: str,
        api_key: str | None = None,
        retries: int = 3,
        timeout_ms: int = 30_000,
        longest_wait_ms: int = 20_000,
        most_bytes: int | None = None,
        client: httpx.AsyncClient | None = None,
        sleep: Sleep = asyncio.sleep,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        """`kind` names the endpoint in messages, such as "embedding".

        `timeout_ms` is for one whole attempt, `longest_wait_ms` for the pause before another, `most_bytes` for an answer.
        A `client` that is handed in stays open.
        """
        self._url = url
        self._kind = kind
        self._headers = _headers(api_key, kind)
        self._retries = max(0, retries)
        self._timeout_s = timeout_ms / 1000
        self._longest_wait_s = longest_wait_ms / 1000
        self._most_bytes = most_bytes or _MOST_BYTES
        self._client = client or httpx.AsyncClient()
        self._owns_client = client is None
        self._sleep = sleep
        self._monotonic = monotonic
        #: Until then it is not tried, for it could not be reached.
        self._rests_until: float | None = None
        self._is_closed = False

    async def post(self, body: dict[str, object], accepted: Collection[int] = ()) -> Answer:
        """The answer with status 200, or with one of the `accepted`. Any other raises BackendUnavailableError."""
        if self._rests_until is not None and self._monotonic() < self._rests_until:
            raise self._unreachable()
        try:
            return await self._tried(body, {200, *accepted})
        except BackendUnavailableError as error:
            if error.reason in UNREACHED:
                self._rests_until = self._monotonic() + _REST_S
            raise

    async def close(self) -> None:
        """Close the connections, if they are ours."""
        self._is_closed = True
        if self._owns_client:
            await self._client.aclose()

    def bad_answer(self, what: str) -> BackendUnavailableError:
        """The error for an answer that cannot be used; `what` completes "The … endpoint"."""
        return BackendUnavailableError(
            f"The {self._kind} endpoint {what}.",
            reason="endpoint_answer",
            hint=f"Check that the address of the {self._kind} endpoint is right and that it serves this model.",
        )

    def refusal(self, status: int, retry_after_s: float | None = None) -> BackendUnavailableError:
        """The error for an answer with that status."""
        return BackendUnavailableError(
            f"The {self._kind} endpoint answered with status {status}.",
            reason="endpoint_rate_limited" if status == 429 else "endpoint_refused",
            hint=_HINTS[status].format(kind=self._kind) if status in _HINTS else None,
            retry_after_s=retry_after_s,
        )

    async def _tried(self, body: dict[str, object], accepted: Collection[int]) -> Answer:
        attempt = 0
        while True:
            if self._is_closed:
                raise BackendUnavailableError(f"The {self._kind} endpoint is closed.", reason="closed")
            cause: httpx.HTTPError | None = None
            asked_s: float | None = None
            try:
                answer, asked_s = await self._attempted(body)
                if answer.status in accepted:
                    return answer
                failure, is_passing = self.refusal(answer.status, asked_s), answer.status in _RETRIED
            except httpx.HTTPError as error:
                failure, cause, is_passing = self._unreachable(), error, True
            wait_s = asked_s if asked_s is not None else _FIRST_WAIT_S * 2**attempt
            if not is_passing or attempt == self._retries or wait_s > self._longest_wait_s:
                raise failure from cause
            await self._sleep(wait_s)
            attempt += 1

    async def _attempted(self, body: dict[str, object]) -> tuple[Answer, float | None]:
        """The answer, and how many seconds the server asks to wait."""
        try:
            # For the whole of it: a server that drips its answer is not waited for.
            async with (
                asyncio.timeout(self._timeout_s),
                self._client.stream(
                    "POST", self._url, json=body, headers=self._headers, timeout=None
                ) as response,
            ):
                content = await self._content(response) if response.status_code == 200 else None
                return Answer(response.status_code, content), _retry_after_s(response)
        except TimeoutError as error:
            raise BackendUnavailableError(
                f"The {self._kind} endpoint did not answer within {self._timeout_s:g} s.",
                reason="endpoint_timeout",
                hint="Check that it is not overloaded, or allow it more time.",
            ) from error
        except (httpx.InvalidURL, httpx.UnsupportedProtocol) as error:
            raise BackendUnavailableError(
                f"The address of the {self._kind} endpoint is not valid.",
                reason="endpoint_unreachable",
                hint="Set it to an address such as http://127.0.0.1:11434/v1.",
            ) from error

    async def _content(self, response: httpx.Response) -> object:
        body = bytearray()
        async for chunk in response.aiter_bytes():
            body += chunk
            if len(body) > self._most_bytes:
                raise self.bad_answer("sent an answer that is far too long")
        try:
            return json.loads(body)
        except (ValueError, RecursionError):
            # The cause is left out: it holds the answer.
            raise self.bad_answer("did not answer with JSON") from None

    def _unreachable(self) -> BackendUnavailableError:
        return BackendUnavailableError(
            f"The {self._kind} endpoint cannot be reached.",
            reason="endpoint_unreachable",
            hint=f"Check that it runs, and that the address of the {self._kind} endpoint is right.",
        )


def _retry_after_s(response: httpx.Response) -> float | None:
    try:
        return max(0.0, float(response.headers.get("Retry-After", "")))
    except ValueError:  # absent, or a date: a short wait of our own will do
        return None


def _headers(api_key: str | None, kind: str) -> dict[str, str]:
    if not api_key:
        return {}
    # A character that no header can carry would make the HTTP library quote the key in its error.
    if not (api_key.isascii() and api_key.isprintable() and " " not in api_key):
        raise InvalidError(
            f"The API key of the {kind} endpoint holds characters that no HTTP header can carry.",
            faults=[Fault("/api_key", "malformed", "printable ASCII characters without blanks")],
        )
    return {"Authorization": f"Bearer {api_key}"}
