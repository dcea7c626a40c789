"""Requests to other hosts, kept out of private networks (OAP contract 6.1).

1. https only; the name is resolved once and exactly that address is connected to, under the name's certificate.
2. An address that is private, loopback, link-local, multicast or reserved is refused, in whatever form it is written.
3. No redirects, five seconds, and no more bytes than a document has.
4. A file may lead elsewhere a few times, each place looked at like the first; it may be larger, as it comes in pieces.
5. The current trace goes along, and nothing else that is propagated: baggage is what callers say of themselves.

Origins that the operator names exactly are let through, so that two hosts on one machine can be tried out; plain http
only on loopback.
"""

from __future__ import annotations

import asyncio
import json
import socket
import ssl
import time
from collections.abc import AsyncGenerator, Callable, Mapping, MutableMapping
from typing import Any, TypeAlias
from urllib.parse import urljoin, urlsplit

import httpx

from quipu.crypto.canonical import canonical
from quipu.errors import BackendUnavailableError, InvalidError
from quipu.ports.keys import Answer
from quipu.rules.exposure import is_loopback, is_public

Inject: TypeAlias = Callable[[MutableMapping[str, str]], None]

MEDIA_TYPE = "application/oap+json"
_TIMEOUT_S = 5.0
_DOCUMENT = 256 << 10
#: An answer to a query: a hundred items.
_LARGEST = 8 << 20
#: Places that are asked for a file, one leading to the next.
_HOPS, _OK = 4, 200


class GuardedPeers:
    """Asks other hosts."""

    def __init__(
        self,
        allowed: frozenset[str] = frozenset(),
        client: httpx.AsyncClient | None = None,
        authorities: str = "",
        inject: Inject = lambda headers: None,
    ) -> None:
        """`allowed` are exact origins, such as http://127.0.0.1:8321; `authorities` a file of certificates to trust, too.

        `inject` puts the current trace into headers.
        """
        for origin in allowed:
            parts = urlsplit(origin)
            is_plain = parts.scheme == "http" and is_loopback(parts.hostname or "")
            if not parts.hostname or parts.path or not (parts.scheme == "https" or is_plain):
                raise InvalidError(
                    "An allowed host is an origin: https, or http on this machine.",
                    reason="bad_setting",
                    hint="Such as http://127.0.0.1:8321, without a path.",
                )
        self._allowed, self._inject = allowed, inject
        self._client = client or httpx.AsyncClient(
            timeout=_TIMEOUT_S, follow_redirects=False, trust_env=False, verify=_trusted(authorities)
        )

    def url(self, host: str, path: str) -> str:
        """Where a `did:web` host keeps a document."""
        plain = f"http://{host}"
        return f"{plain}{path}" if plain in self._allowed else f"https://{host}{path}"

    async def close(self) -> None:
        await self._client.aclose()

    async def get(self, url: str, headers: Mapping[str, str] | None = None) -> Answer:
        return await self._asked("GET", url, None, headers)

    async def post(self, url: str, body: Any, headers: Mapping[str, str] | None = None) -> Answer:
        return await self._asked(
            "POST", url, canonical(body), {"Content-Type": MEDIA_TYPE, **(headers or {})}
        )

    async def delete(self, url: str, headers: Mapping[str, str] | None = None) -> Answer:
        return await self._asked("DELETE", url, None, headers)

    async def pieces(self, url: str, most: int, seconds: float) -> AsyncGenerator[bytes]:
        end, size = time.monotonic() + seconds, 0
        try:
            async with asyncio.timeout(seconds):  # headers, too, may come a byte at a time
                answer = await self._file(url)
            try:
                said = answer.headers.get("content-length", "")
                if said.isascii() and said.isdigit() and int(said) > most:
                    raise _too_large()
                async for piece in answer.aiter_raw():
                    size += len(piece)
                    if size > most:
                        raise _too_large()
                    if time.monotonic() > end:
                        raise TimeoutError
                    yield piece
            finally:
                await answer.aclose()
        except (httpx.HTTPError, httpx.InvalidURL, TimeoutError) as error:
            raise BackendUnavailableError(
                "The other host does not hand the file out in time.", reason="peer_unreachable"
            ) from error

    async def _file(self, url: str) -> httpx.Response:
        """The answer with the file, wherever it leads."""
        for _ in range(_HOPS):
            # Packed on its way it would be larger than it looks.
            headers = {"Accept": "*/*", "Accept-Encoding": "identity"}
            request = await self._guarded("GET", url, None, headers)
            answer = await self._client.send(request, stream=True)
            if answer.status_code == _OK and answer.headers.get("content-encoding", "identity") == "identity":
                return answer
            await answer.aclose()
            if not answer.has_redirect_location:
                raise BackendUnavailableError(
                    "The other host does not hand the file out.", reason="peer_refused"
                )
            try:
                url = urljoin(url, answer.headers["location"])
            except ValueError:
                raise _refused() from None
        raise BackendUnavailableError("The address leads elsewhere without end.", reason="peer_refused")

    async def _asked(
        self, method: str, url: str, content: bytes | None, headers: Mapping[str, str] | None
    ) -> Answer:
        most = _DOCUMENT if method == "GET" and not headers else _LARGEST
        request = await self._guarded(method, url, content, headers or {})
        try:
            async with asyncio.timeout(_TIMEOUT_S * 2):
                answer = await self._client.send(request, stream=True)
                try:
                    return await _read(answer, most)
                finally:
                    await answer.aclose()
        except (httpx.HTTPError, TimeoutError) as error:
            raise BackendUnavailableError(
                "The other host does not answer.", reason="peer_unreachable"
            ) from error

    async def _guarded(
        self, method: str, url: str, content: bytes | None, headers: Mapping[str, str]
    ) -> httpx.Request:
        """The request, addressed to the one address that was looked at."""
        try:
            parts = urlsplit(url)
            host, port = parts.hostname or "", parts.port
        except ValueError:
            raise _refused() from None
        origin = f"{parts.scheme}://{parts.netloc}"
        is_allowed = origin in self._allowed
        if not host or parts.username is not None or (parts.scheme != "https" and not is_allowed):
            raise _refused()
        address = await _resolved(host, port or (443 if parts.scheme == "https" else 80))
        if not is_allowed and not is_public(address):
            raise _refused()
        shown = f"[{address}]" if ":" in address else address
        try:
            target = httpx.URL(url).copy_with(host=shown)
        except httpx.InvalidURL:
            raise _refused() from None
        return self._client.build_request(
            method,
            target,
            content=content,
            headers={
                "Accept": f"{MEDIA_TYPE}, application/json",
                **self._traced(),
                **headers,
                "Host": httpx.URL(url).netloc.decode("ascii"),
            },
            extensions={"sni_hostname": host},
        )

    def _traced(self) -> dict[str, str]:
        """Where in which trace this is asked, under both its names (contract 5.1)."""
        propagated: dict[str, str] = {}
        self._inject(propagated)
        place = propagated.get("traceparent")
        return {} if place is None else {"traceparent": place, "OAP-Trace": place}


def _trusted(authorities: str) -> ssl.SSLContext:
    """TLS 1.3 or later (contract 5.1), under the usual authorities and those that the operator names."""
    context = httpx.create_ssl_context(trust_env=False)
    context.minimum_version = ssl.TLSVersion.TLSv1_3
    if authorities:
        try:
            context.load_verify_locations(authorities)
        except OSError as error:
            raise InvalidError(
                "The file of certificate authorities cannot be read.",
                reason="bad_setting",
                hint="QUIPU_OAP_AUTHORITIES takes a PEM file.",
            ) from error
    return context


async def _resolved(host: str, port: int) -> str:
    """The address that is asked; all of a name's addresses must be of the same standing, so the first one is as good."""
    try:
        found = await asyncio.get_running_loop().getaddrinfo(host, port, type=socket.SOCK_STREAM)
    except (OSError, UnicodeError) as error:
        raise BackendUnavailableError("The other host has no address.", reason="peer_unreachable") from error
    addresses = [str(entry[4][0]).partition("%")[0] for entry in found]
    return next((address for address in addresses if not is_public(address)), addresses[0])


async def _read(answer: httpx.Response, most: int) -> Answer:
    pieces: list[bytes] = []
    size = 0
    async for piece in answer.aiter_bytes():
        size += len(piece)
        if size > most:
            raise BackendUnavailableError("The other host says too much.", reason="peer_unreachable")
        pieces.append(piece)
    content = b"".join(pieces)
    kind = answer.headers.get("content-type", "").partition(";")[0]
    body: Any = None
    if kind.endswith("json"):
        try:
            body = json.loads(content)
        except (ValueError, RecursionError) as error:
            raise BackendUnavailableError(
                "The other host answers in no JSON.", reason="peer_unreachable"
            ) from error
    return Answer(status=answer.status_code, body=body, headers=dict(answer.headers), content=content)


def _too_large() -> InvalidError:
    return InvalidError("The file is too large.", reason="too_large")


def _refused() -> InvalidError:
    return InvalidError(
        "That address is not asked: https, and no private network.",
        reason="address_refused",
        hint="QUIPU_OAP_ALLOWED_HOSTS names exceptions, for trying things out on one machine.",
    )
