"""HTTP to addresses that others named: never to a place that only machines inside can reach.

1. https only. A name is resolved once, every address that it stands for is looked at, and one of those is connected to,
   under the name's certificate: a name that changes its mind in between leads nowhere else.
2. Private, loopback, link-local, multicast and reserved addresses are refused, in whatever form they are written.
3. Redirects are not followed, proxies of the environment are not used, no cookie and no connection is kept.
4. An answer is read up to a limit, as it comes, and everything together has a few seconds: resolving, sending, reading.
5. Exceptions from 1 and 2 are hosts and origins that the operator has named.
"""

import asyncio
import ipaddress
import socket
import ssl
from collections.abc import Awaitable, Callable, Collection, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol, TypeAlias

from quipu.errors import BackendUnavailableError

if TYPE_CHECKING:
    import httpx  # slow to load, and most processes ask nobody

#: Host and port → the addresses that the name stands for.
Resolve: TypeAlias = Callable[[str, int], Awaitable[list[str]]]

#: Names of this machine: nobody reads along on the way to them.
LOOPBACK = ("127.0.0.1", "::1", "localhost")
_PATIENCE_S = 10.0
_LONGEST_URL = 2_000
#: IPv6 addresses that stand for an IPv4 one behind a gateway.
_NAT64 = ipaddress.ip_network("64:ff9b::/96")


@dataclass(frozen=True, slots=True)
class Answer:
    """What another host said, as far as it was read."""

    status: int
    #: Names in lower case.
    headers: Mapping[str, str] = field(default_factory=dict[str, str])
    body: bytes = b""

    @property
    def is_success(self) -> bool:
        return 200 <= self.status < 300


class Outbound(Protocol):
    """Asks other hosts."""

    async def send(
        self,
        method: str,
        url: str,
        *,
        headers: Mapping[str, str] | None = None,
        body: bytes = b"",
        most_bytes: int = 0,
    ) -> Answer:
        """The answer, whatever its status. `most_bytes`: a longer one is an error; 0 reads none of it.

        Raises BackendUnavailableError, whose reason reveals nothing of what is inside: `bad_address`,
        `insecure_address`, `private_address`, `unknown_host`, `no_connection`, `no_answer` or `answer_too_large`.
        """
        ...


async def resolved(host: str, port: int) -> list[str]:
    """The addresses that a name stands for, as this machine sees it."""
    found = await asyncio.get_running_loop().getaddrinfo(host, port, type=socket.SOCK_STREAM)
    return list(dict.fromkeys(str(address[0]) for *_, address in found))


class HttpOutbound:
    """Asks over HTTP. Each request has a connection of its own, so that none is used under another name."""

    def __init__(
        self,
        allowed: Collection[str] = (),
        *,
        resolve: Resolve = resolved,
        patience_s: float = _PATIENCE_S,
        tls: ssl.SSLContext | None = None,
    ) -> None:
        """`allowed`: hosts (`hooks.internal`) and origins (`http://127.0.0.1:8321`) that are excepted from the rules."""
        self._allowed = frozenset(name.lower().rstrip("/") for name in allowed)
        self._resolve, self._patience_s, self._tls = resolve, patience_s, tls

    async def send(
        self,
        method: str,
        url: str,
        *,
        headers: Mapping[str, str] | None = None,
        body: bytes = b"",
        most_bytes: int = 0,
    ) -> Answer:
        import httpx

        try:
            async with asyncio.timeout(self._patience_s):
                return await self._sent(method, url, headers or {}, body, most_bytes)
        except (httpx.TimeoutException, TimeoutError) as error:
            raise _failed("The other host does not answer in time.", "no_answer") from error
        except httpx.HTTPError as error:
            raise _failed("The other host cannot be reached.", "no_connection") from error

    async def _sent(
        self, method: str, url: str, headers: Mapping[str, str], body: bytes, most_bytes: int
    ) -> Answer:
        import httpx

        where = address_of(url)
        if where is None:
            raise _failed("This is no address to ask.", "bad_address")
        target = await self._target(where)
        request = httpx.Request(
            method,
            target,
            content=body,
            # Packed on its way, an answer would be larger than it looks.
            headers={"Accept-Encoding": "identity", **headers, "Host": where.netloc.decode("ascii")},
            extensions={"sni_hostname": where.host},
        )
        if self._tls is None:
            self._tls = httpx.create_ssl_context(trust_env=False)
        async with httpx.AsyncHTTPTransport(verify=self._tls, trust_env=False) as transport:
            answer = await transport.handle_async_request(request)
            try:
                return Answer(answer.status_code, dict(answer.headers), await _read(answer, most_bytes))
            finally:
                await answer.aclose()

    async def _target(self, where: "httpx.URL") -> "httpx.URL":
        """The address with the name in it replaced by the place that was looked at."""
        port = where.port or (443 if where.scheme == "https" else 80)
        is_allowed = not self._allowed.isdisjoint(
            (where.host.lower(), f"{where.scheme}://{where.netloc.decode('ascii')}".lower())
        )
        if where.scheme != "https" and not is_allowed:
            raise _failed("Other hosts are asked over https.", "insecure_address")
        try:
            found = await self._resolve(where.host, port)
        except (OSError, UnicodeError) as error:
            raise _failed("There is no such host.", "unknown_host") from error
        if not found:
            raise _failed("There is no such host.", "unknown_host")
        if not is_allowed and not all(is_public(one) for one in found):
            raise _failed("Private networks are not asked.", "private_address")
        return where.copy_with(host=found[0])


def address_of(url: str) -> "httpx.URL | None":
    """The address that a text stands for; None where it is none that can be asked: it has a host, no credentials and no
    fragment."""
    if len(url) > _LONGEST_URL or not url.isprintable() or " " in url:
        return None
    import httpx

    try:
        where = httpx.URL(url)
        name = where.host.encode("idna")
    except (httpx.InvalidURL, UnicodeError, ValueError):
        return None
    if where.scheme not in ("https", "http") or not name or where.userinfo or where.fragment:
        return None
    return where if where.port is None or 0 < where.port < 65_536 else None


def is_public(address: str) -> bool:
    """Whether an address is out in the world. One that stands for another is judged by that one."""
    try:
        found = ipaddress.ip_address(address.partition("%")[0])
    except ValueError:
        return False
    if isinstance(found, ipaddress.IPv6Address):
        behind = ipaddress.IPv4Address(int(found) & 0xFFFFFFFF) if found in _NAT64 else None
        if (meant := found.ipv4_mapped or behind) is not None:
            return is_public(str(meant))
        inner = found.sixtofour or (found.teredo[1] if found.teredo else None)
        # Site-local ones are routed inside alone, which `is_global` does not tell.
        if found.is_site_local or (inner is not None and not is_public(str(inner))):
            return False
    return found.is_global and not found.is_multicast and not found.is_reserved


async def _read(answer: "httpx.Response", most: int) -> bytes:
    if not most:
        return b""
    body = bytearray()
    async for piece in answer.aiter_raw():
        body += piece
        if len(body) > most:
            raise _failed("The other host says too much.", "answer_too_large")
    return bytes(body)


def _failed(message: str, reason: str) -> BackendUnavailableError:
    return BackendUnavailableError(message, reason=reason)
