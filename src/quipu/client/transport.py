"""HTTP to one server: requests, and repetitions where they do no harm."""

import asyncio
import json
from collections.abc import (
    AsyncGenerator,
    AsyncIterator,
    Awaitable,
    Callable,
    Mapping,
    MutableMapping,
    Sequence,
)
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from ipaddress import ip_address
from random import random
from typing import Any, TypeAlias, TypeVar
from urllib.parse import urlsplit
from weakref import WeakKeyDictionary

import httpx

from quipu._version import __version__
from quipu.client import failures
from quipu.client.failures import Failure
from quipu.errors import DeadlineError, Fault, InvalidError

T = TypeVar("T")
Inject: TypeAlias = Callable[[MutableMapping[str, str]], None]

#: Whatever kind of file it is.
ANYTHING = "*/*"
#: Idle connections end before servers and proxies end theirs, so that none is used that is just being closed.
_LIMITS = httpx.Limits(max_connections=32, max_keepalive_connections=16, keepalive_expiry=30.0)


@dataclass(frozen=True, slots=True, kw_only=True)
class Patience:
    """Seconds and counts. `total_s` covers a call with all its repetitions; a stream has no end of its own."""

    connect_s: float = 5.0
    #: Between two pieces of an answer.
    read_s: float = 30.0
    total_s: float = 60.0
    retries: int = 4
    #: The first pause; each one is twice as long as the one before.
    first_s: float = 0.2
    longest_s: float = 10.0

    def pause_s(self, attempt: int, retry_after_s: float | None, jitter: float) -> float:
        """Before the next attempt; `attempt` counts from 0. What the server asks for is the least."""
        own = min(self.longest_s, self.first_s * 2.0**attempt) * (0.5 + 0.5 * jitter)
        return own if retry_after_s is None else max(own, retry_after_s + self.first_s * jitter)


@dataclass(frozen=True, slots=True, kw_only=True)
class Call:
    """One request."""

    method: str
    path: str
    body: Mapping[str, Any] | None = None
    query: Mapping[str, Sequence[str]] = field(default_factory=dict[str, Sequence[str]])
    #: Whether it does no harm when nobody knows what became of the first attempt.
    may_repeat: bool = False
    accept: str = "application/json"
    #: Seconds between two pieces of the answer; None: as the patience says.
    read_s: float | None = None
    #: A file instead of a body, as it comes; such a call has no end of its own.
    upload: AsyncIterator[bytes] | None = None
    upload_type: str = "application/octet-stream"


class Transport:
    """Speaks to one server with one credential."""

    def __init__(
        self,
        server: str,
        *,
        token: str = "",
        patience: Patience | None = None,
        is_insecure: bool = False,
        inject: Inject | None = None,
        jitter: Callable[[], float] = random,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
        network: httpx.AsyncBaseTransport | None = None,
    ) -> None:
        """`inject` puts the trace that a call belongs to into its headers; `network` stands in for sockets."""
        self.server = base_url(server, is_insecure=is_insecure)
        self.patience = patience or Patience()
        self.jitter, self.sleep = jitter, sleep
        self.is_closed = False
        self._token = _checked_token(token)
        self._inject, self._network = inject, network
        #: Connections belong to an event loop, and each `asyncio.run` has its own.
        self._pools = WeakKeyDictionary[asyncio.AbstractEventLoop, _Pool]()

    def __repr__(self) -> str:
        return f"Transport({self.server!r})"  # without the token

    async def close(self) -> None:
        """For good: what is still under way is not begun again."""
        self.is_closed = True
        pool = self._pools.pop(asyncio.get_running_loop(), None)
        if pool is not None:
            await pool.close()

    async def send(self, call: Call) -> Any:
        """The JSON that answers a request; None for an empty answer."""
        content = encoded(call.body)

        async def once() -> Any:
            client = await self._client()
            response = await client.send(self._request(client, call, content))
            if not response.is_success:
                raise failures.of_response(response)
            return parsed(response.content) if response.content else None

        try:
            async with asyncio.timeout(None if call.upload else self.patience.total_s) as timeout:
                return await self._tried(once, call, timeout.when() or 0.0)
        except TimeoutError as error:
            raise DeadlineError(
                f"The server did not answer within {self.patience.total_s:g} s.", reason="unreachable"
            ) from error

    @asynccontextmanager
    async def stream(self, call: Call) -> AsyncGenerator[httpx.Response]:
        """An answer that is read as it comes. Its beginning is repeated like any call; what has begun is not."""
        content = encoded(call.body)

        async def once() -> httpx.Response:
            client = await self._client()
            response = await client.send(self._request(client, call, content), stream=True)
            if not response.is_success:
                async with AsyncExitStack() as stack:
                    stack.push_async_callback(response.aclose)
                    await response.aread()
                raise failures.of_response(response)
            if call.accept not in (failures.media_type(response), ANYTHING):
                await response.aclose()
                raise failures.misunderstood()
            return response

        until = asyncio.get_running_loop().time() + self.patience.total_s
        response = await self._tried(once, call, until)
        try:
            yield response
        except httpx.HTTPError as error:
            raise failures.of_network(error).error from error
        finally:
            await response.aclose()

    async def _tried(self, once: Callable[[], Awaitable[T]], call: Call, until: float) -> T:
        """Do it, and again after a pause where that is harmless and worth while."""
        attempt = 0
        while True:
            try:
                return await once()
            except (Failure, httpx.HTTPError) as found:
                failure = failures.of_network(found) if isinstance(found, httpx.HTTPError) else found
                if self.is_closed:
                    raise failures.closed() from found
                pause = self.patience.pause_s(attempt, failure.error.retry_after_s, self.jitter())
                is_late = asyncio.get_running_loop().time() + pause >= until
                is_harmless = call.may_repeat or failure.is_undone
                if not (failure.may_pass and is_harmless) or is_late or attempt >= self.patience.retries:
                    raise failure.error from (None if failure is found else found)
            except RuntimeError as error:
                if not self.is_closed:
                    raise
                raise failures.closed() from error  # the pool was closed under the call
            attempt += 1
            await self.sleep(pause)

    async def _client(self) -> httpx.AsyncClient:
        if self.is_closed:
            raise failures.closed()
        loop = asyncio.get_running_loop()
        pool = self._pools.get(loop)
        if pool is None:
            pool = self._pools[loop] = await _Pool.opened(self._made_client())
        return pool.client

    def _made_client(self) -> httpx.AsyncClient:
        headers = {"User-Agent": f"quipu/{__version__}"}
        if self._token:
            headers["Authorization"] = f"Bearer {self._token}"
        try:
            # Reading all authorities takes time; without TLS for nothing.
            verify = httpx.create_ssl_context() if self.server.startswith("https:") else False
        except OSError as error:
            raise InvalidError(
                "The certificate authorities that the environment names cannot be read.",
                reason="bad_setting",
                hint="SSL_CERT_FILE is a PEM file with certificates, SSL_CERT_DIR a folder of them.",
            ) from error
        try:
            return httpx.AsyncClient(
                headers=headers,
                limits=_LIMITS,
                follow_redirects=False,  # a token goes to the server it was given for, and to no other
                trust_env=not is_loopback(
                    httpx.URL(self.server).host
                ),  # no proxy is asked about this machine
                verify=verify,
                transport=self._network,
            )
        except (ImportError, ValueError, httpx.InvalidURL):
            # `from None`: a proxy's address may hold a password.
            raise InvalidError(
                "The proxy that the environment names cannot be used.",
                reason="bad_setting",
                hint="Check HTTP_PROXY, HTTPS_PROXY, ALL_PROXY and NO_PROXY. A SOCKS proxy needs the package socksio; "
                "an IPv6 address stands in NO_PROXY without brackets.",
            ) from None

    def _request(self, client: httpx.AsyncClient, call: Call, content: bytes | None) -> httpx.Request:
        headers = {"Accept": call.accept}
        if call.upload is not None:
            headers["Content-Type"] = call.upload_type
        elif content is not None:
            headers["Content-Type"] = "application/json"
        if self._inject is not None:
            self._inject(headers)
        connect_s = self.patience.connect_s
        read_s = self.patience.read_s if call.read_s is None else call.read_s
        return client.build_request(
            call.method,
            self.server + call.path,
            params={name: list(values) for name, values in call.query.items()} or None,
            content=content if call.upload is None else call.upload,
            headers=headers,
            timeout=httpx.Timeout(read_s, connect=connect_s, pool=connect_s),
        )


class _Pool:
    """The connections of one event loop."""

    def __init__(self, client: httpx.AsyncClient) -> None:
        self.client = client
        # An event loop that ends closes its async generators: nobody can close the connections afterwards.
        self._guard = self._guarded()

    @classmethod
    async def opened(cls, client: httpx.AsyncClient) -> "_Pool":
        pool = cls(client)
        await anext(pool._guard)
        return pool

    async def _guarded(self) -> AsyncGenerator[None]:
        try:
            yield
        finally:
            await self.client.aclose()

    async def close(self) -> None:
        await self._guard.aclose()


def encoded(body: Mapping[str, Any] | None) -> bytes | None:
    return (
        None
        if body is None
        else json.dumps(body, ensure_ascii=False, allow_nan=False, separators=(",", ":")).encode()
    )


def parsed(text: str | bytes) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        raise failures.misunderstood() from None


def base_url(given: str, *, is_insecure: bool = False) -> str:
    """The server's address without a slash at the end. Without TLS only this machine, unless the caller insists."""
    try:
        parts = urlsplit(given)
        host, port = parts.hostname, parts.port
        _ = httpx.URL(given).host  # it is stricter about names
    except (ValueError, httpx.InvalidURL):
        raise _bad_address("This is no address.") from None
    if parts.scheme not in ("https", "http") or not host:
        raise _bad_address("A server's address begins with https:// and a name.")
    if parts.username is not None or parts.password is not None:
        raise _bad_address(
            "A server's address holds no credentials; a token goes into `token` or QUIPU_TOKEN."
        )
    if parts.query or parts.fragment:
        raise _bad_address("A server's address ends with its path.")
    if parts.scheme == "http" and not is_insecure and not is_loopback(host):
        raise InvalidError(
            "Without TLS anybody on the way could read the token and the memories.",
            hint="Use https. If the network is yours alone, say insecure=True, or set QUIPU_INSECURE=1.",
            faults=[Fault("/server", "insecure", f"https://{host}")],
        )
    shown = f"[{host}]" if ":" in host else host
    return f"{parts.scheme}://{shown}{'' if port is None else f':{port}'}{parts.path.rstrip('/')}"


def is_loopback(host: str) -> bool:
    """Whether a host name surely is this machine."""
    if host == "localhost" or host.endswith(".localhost"):  # RFC 6761 section 6.3
        return True
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return False


def _bad_address(message: str) -> InvalidError:
    return InvalidError(message, faults=[Fault("/server", "bad_value", "https://memory.example.org")])


def _checked_token(token: str) -> str:
    if not token.isascii() or (token and not token.isprintable()) or " " in token:
        raise InvalidError(
            "The token holds characters that no header can carry.",
            reason="bad_setting",
            hint="Check QUIPU_TOKEN, or the file that the token is read from.",
        )
    return token
