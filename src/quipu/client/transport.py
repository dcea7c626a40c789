"""HTTP to one server: requests, repetitions where they are harmless, streams of lines."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Mapping, MutableMapping
from contextlib import aclosing
from dataclasses import dataclass, field
from types import TracebackType
from typing import Any, TypeVar, cast

import httpx

from quipu._version import __version__
from quipu.client.address import base_url
from quipu.client.clients import made_client
from quipu.client.failures import (
    UNSENT,
    closed,
    is_json,
    is_unsent,
    misunderstood,
    refused,
    told,
    told_problem,
)
from quipu.client.patience import Jitter, Patience, Repeat
from quipu.errors import DeadlineError, InvalidError, QuipuError

T = TypeVar("T")


@dataclass(frozen=True, slots=True, kw_only=True)
class Call:
    """One request."""

    method: str
    path: str
    body: object = None
    query: Mapping[str, str | None] = field(default_factory=dict[str, str | None])
    headers: Mapping[str, str] = field(default_factory=dict[str, str])
    repeat: Repeat = Repeat.HARMLESS
    #: Statuses that are answers although they are no success.
    answers: frozenset[int] = frozenset()
    #: Seconds between two pieces of the answer; None: as the patience says.
    read_s: float | None = None


@dataclass(frozen=True, slots=True)
class Answer:
    """What came back."""

    body: Any
    headers: Mapping[str, str]


class Streaming:
    """An answer on its way: opened on entering, let go on leaving."""

    def __init__(self, opened: Callable[[], Awaitable[httpx.Response]]) -> None:
        self._open = opened
        self._response: httpx.Response | None = None

    async def __aenter__(self) -> httpx.Response:
        self._response = await self._open()
        return self._response

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._response is not None:
            await self._response.aclose()
        if isinstance(error, httpx.HTTPError):
            raise told(error) from error


class Transport:
    """Speaks to one server with one credential."""

    def __init__(
        self,
        server: str,
        *,
        token: str,
        patience: Patience,
        jitter: Jitter,
        insecure: bool = False,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
        inject: Callable[[MutableMapping[str, str]], None] = lambda headers: None,
    ) -> None:
        self.base = base_url(server, insecure=insecure)
        self.patience = patience
        self.jitter, self.sleep = jitter, sleep
        #: Puts the trace that a request belongs to into its headers.
        self._inject = inject
        self._token = checked_token(token)
        self._client: httpx.AsyncClient | None = None
        #: The event loop that its connections belong to, since each `asyncio.run` has its own; and what closes them.
        self._loop: asyncio.AbstractEventLoop | None = None
        self._held: AsyncGenerator[None] | None = None
        self.is_closed = False

    def __repr__(self) -> str:
        return f"Transport({self.base!r})"

    async def close(self) -> None:
        """For good: what is still under way is not begun again."""
        self.is_closed = True
        held, self._client, self._held = self._held, None, None
        if held is not None and self._loop is asyncio.get_running_loop():
            await held.aclose()

    async def call(self, call: Call) -> Any:
        """The JSON that answers a request; None for an empty answer."""
        return (await self.answer(call)).body

    async def answer(self, call: Call) -> Answer:
        """The same, with its headers."""
        content = encoded(call.body)

        async def work() -> Answer:
            client = await self._opened()
            response = await client.send(self._request(client, call, content))
            if response.is_success or (response.status_code in call.answers and is_json(response)):
                return Answer(_parsed(response.content) if response.content else None, response.headers)
            raise refused(response)

        try:
            async with asyncio.timeout(self.patience.total_s) as timeout:
                return await self._tried(work, call.repeat is Repeat.HARMLESS, timeout.when() or 0.0)
        except TimeoutError as error:
            raise DeadlineError(
                f"The server did not answer within {self.patience.total_s:g} s.", reason="unreachable"
            ) from error

    def stream(self, call: Call, content: AsyncIterator[bytes] | None = None) -> Streaming:
        """An answer that is read as it comes. Its beginning is repeated like any call; what has begun is not."""
        body = encoded(call.body) if content is None else content

        async def work() -> httpx.Response:
            client = await self._opened()
            response = await client.send(self._request(client, call, body), stream=True)
            if response.is_success:
                return response
            try:
                await response.aread()
            finally:
                await response.aclose()
            raise refused(response)

        # What was read from a stream to be sent cannot be sent again.
        may_repeat = call.repeat is Repeat.HARMLESS and content is None

        async def opened() -> httpx.Response:
            until = asyncio.get_running_loop().time() + self.patience.total_s
            return await self._tried(work, may_repeat, until, is_consumed=content is not None)

        return Streaming(opened)

    async def lines(
        self, call: Call, content: AsyncIterator[bytes] | None = None
    ) -> AsyncGenerator[dict[str, Any]]:
        """The objects of an NDJSON answer; one that tells the end by an error raises it."""
        async with self.stream(call, content) as response, aclosing(text_lines(response)) as lines:
            async for line in lines:
                if not line.strip():  # keeps the connection open while there is nothing to tell
                    continue
                item = _parsed(line)
                if not isinstance(item, dict):
                    raise misunderstood()
                members = cast("dict[str, Any]", item)
                if members.keys() == {"error"}:
                    raise told_problem(members["error"])
                yield members

    async def _tried(
        self,
        work: Callable[[], Awaitable[T]],
        may_repeat: bool,
        until: float,
        *,
        is_consumed: bool = False,
    ) -> T:
        """Do it, and again after a pause where that is harmless and worth while."""
        attempt = 0
        while True:
            try:
                return await work()
            except (QuipuError, httpx.HTTPError) as found:
                if self.is_closed:
                    raise closed() from found
                error = found if isinstance(found, QuipuError) else told(found)
                is_harmless = may_repeat or (isinstance(found, UNSENT) if is_consumed else is_unsent(found))
                pause = self.patience.pause(attempt, error.retry_after, self.jitter())
                is_late = asyncio.get_running_loop().time() + pause >= until
                if not error.retryable or not is_harmless or is_late or attempt >= self.patience.retries:
                    raise error from (None if error is found else found)
            attempt += 1
            await self.sleep(pause)

    async def _opened(self) -> httpx.AsyncClient:
        if self.is_closed:
            raise closed()
        loop = asyncio.get_running_loop()
        if self._client is None or self._loop is not loop:
            self._loop = loop
            headers = {"User-Agent": f"quipu/{__version__}", "Accept": "application/json"}
            if self._token:
                headers["Authorization"] = f"Bearer {self._token}"
            client = self._client = made_client(self.base, headers)
            self._held = _held(client)
            await anext(self._held)
            return client
        return self._client

    def _request(
        self, client: httpx.AsyncClient, call: Call, content: bytes | AsyncIterator[bytes] | None
    ) -> httpx.Request:
        headers = dict(call.headers)
        self._inject(headers)
        if content is not None:
            headers.setdefault("Content-Type", "application/json")
        read_s = self.patience.read_s if call.read_s is None else call.read_s
        connect_s = self.patience.connect_s
        try:
            return client.build_request(
                call.method,
                self.base + call.path,
                params={name: value for name, value in call.query.items() if value is not None} or None,
                content=content,
                headers=headers,
                timeout=httpx.Timeout(read_s, connect=connect_s, pool=connect_s),
            )
        except (UnicodeError, httpx.InvalidURL):
            # `from None`: the cause may hold the value.
            raise InvalidError.at("", "bad_value", "The request holds what no address can carry.") from None


async def _held(client: httpx.AsyncClient) -> AsyncGenerator[None]:
    """Closes its connections, at the latest when their event loop ends: afterwards nobody can."""
    try:
        yield
    finally:
        await client.aclose()


async def text_lines(response: httpx.Response) -> AsyncGenerator[str]:
    """The lines of a text, each without its end."""
    async for line in response.aiter_lines():
        yield line


def encoded(body: object) -> bytes | None:
    """JSON bytes, or an `InvalidError` for what JSON cannot carry."""
    if body is None:
        return None
    try:
        return json.dumps(body, ensure_ascii=False, allow_nan=False, separators=(",", ":")).encode("utf-8")
    except (TypeError, ValueError, RecursionError):
        # `from None`: the cause may hold the value.
        raise InvalidError.at("", "bad_value", "The request holds what JSON cannot carry.") from None


def checked_token(token: str) -> str:
    """The token, if a header can carry it."""
    if not token.isascii() or not token.isprintable() or " " in token:
        raise InvalidError(
            "The token holds characters that no header can carry.",
            reason="bad_setting",
            hint="Check QUIPU_TOKEN, or the file that the token is read from.",
        )
    return token


def _parsed(text: str | bytes) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        raise misunderstood() from None
