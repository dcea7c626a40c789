"""Carries notices to other machines, and to no address that only machines inside can reach.

1. Every address that a name stands for is looked at, and the one that was looked at is the one that is connected to: a
   name that changes its mind in between leads nowhere else.
2. Redirects are not followed, proxies of the environment are not used, answers are not read.
   All of it together, looking up the name included, has a few seconds: who hands out an answer a byte at a time would
   keep everybody else's notices waiting.
3. Hosts that the operator has named are excepted; beyond loopback and those, notices go over https.
"""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Awaitable, Callable, Mapping
from typing import TYPE_CHECKING, TypeAlias

from quipu.errors import BackendUnavailableError
from quipu.rules.exposure import is_public

if TYPE_CHECKING:
    import httpx

_PATIENCE_S = 10.0

#: Host and port → the addresses that the name stands for.
Resolve: TypeAlias = Callable[[str, int], Awaitable[list[str]]]


async def resolved(host: str, port: int) -> list[str]:
    """The addresses that a name stands for, as this machine sees it."""
    loop = asyncio.get_running_loop()
    found = await loop.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    return list(dict.fromkeys(str(address[0]) for *_, address in found))


class HttpCourier:
    """Sends notices over HTTP."""

    def __init__(self, allowed: tuple[str, ...] = (), resolve: Resolve = resolved) -> None:
        self._allowed, self._resolve = frozenset(name.lower() for name in allowed), resolve
        self._client: httpx.AsyncClient | None = None

    async def send(self, url: str, text: bytes, headers: Mapping[str, str]) -> None:
        import httpx  # slow to load, and most processes never send a notice

        try:
            async with asyncio.timeout(_PATIENCE_S):
                response = await self._answered(url, text, headers)
        except (httpx.TimeoutException, TimeoutError) as error:
            raise BackendUnavailableError(
                "A notice was not taken in time.", reason="notice_timeout"
            ) from error
        except (httpx.InvalidURL, UnicodeError) as error:
            raise _no_host() from error
        except httpx.HTTPError as error:
            raise BackendUnavailableError("A notice did not arrive.", reason="notice_connection") from error
        if not response.is_success:
            raise BackendUnavailableError(
                f"A notice was answered with {response.status_code}.", reason="notice_refused"
            )

    async def _answered(self, url: str, text: bytes, headers: Mapping[str, str]) -> httpx.Response:
        """What is said to it, as far as its status."""
        import httpx

        where = httpx.URL(url)
        address = await self._address(where)
        client = self._opened()
        request = client.build_request(
            "POST",
            where.copy_with(host=address),
            content=text,
            headers={**headers, "Host": where.netloc.decode("ascii")},
            extensions={"sni_hostname": where.host},
        )
        response = await client.send(request, stream=True)
        await response.aclose()
        return response

    async def _address(self, where: httpx.URL) -> str:
        """Where to connect to: an address that has been looked at."""
        is_named = where.host.lower() in self._allowed
        if where.scheme != "https" and not is_named:
            raise BackendUnavailableError("Notices go over https.", reason="insecure_address")
        try:
            found = await self._resolve(where.host, where.port or (443 if where.scheme == "https" else 80))
        except OSError as error:
            raise _no_host() from error
        if not found or not (is_named or all(is_public(one) for one in found)):
            raise BackendUnavailableError(
                "Notices do not go to addresses inside.", reason="forbidden_address"
            )
        return found[0]

    def _opened(self) -> httpx.AsyncClient:
        import httpx

        if self._client is None:
            self._client = httpx.AsyncClient(
                timeout=_PATIENCE_S, follow_redirects=False, trust_env=False, http2=False
            )
        return self._client

    async def close(self) -> None:
        if self._client is not None:
            await self._client.aclose()


def _no_host() -> BackendUnavailableError:
    """Nobody has the name, or nobody can have it."""
    return BackendUnavailableError("There is no such host.", reason="unknown_host")
