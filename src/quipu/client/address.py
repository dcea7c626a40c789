"""Which server, and whether its way is safe enough for a token."""

from __future__ import annotations

from ipaddress import ip_address
from urllib.parse import quote, urlsplit

import httpx

from quipu.errors import InvalidError

_EXAMPLE = "https://memory.example.org"


def base_url(given: str, *, insecure: bool = False) -> str:
    """The server's address without a slash at the end. Without TLS only this machine, unless the caller insists."""
    try:
        parts = urlsplit(given)
        host, port = parts.hostname, parts.port
        _ = httpx.URL(given).host  # who calls it is stricter about names
    except (ValueError, httpx.InvalidURL):
        raise _refused("This is no address.") from None
    if parts.scheme not in ("https", "http") or not host:
        raise _refused("A server's address begins with https:// and a name.")
    if parts.username is not None or parts.password is not None:
        raise _refused("A server's address holds no credentials; a token goes with `token` or QUIPU_TOKEN.")
    if parts.query or parts.fragment:
        raise _refused("A server's address ends with its path.")
    if parts.scheme == "http" and not insecure and not is_loopback(host):
        raise InvalidError.at(
            "/server",
            "insecure",
            "Without TLS anybody on the way could read the token and the memories.",
            accepted=[f"https://{host}"],
            hint="Use https. If the network is yours alone, say insecure=True, or set QUIPU_INSECURE=1.",
        )
    shown = f"[{host}]" if ":" in host else host
    return f"{parts.scheme}://{shown}{'' if port is None else f':{port}'}{parts.path.rstrip('/')}"


def segment(name: str) -> str:
    """A name as one part of a path, whatever it holds: `..` is a name here too, and does not lead elsewhere."""
    return quote(name, safe="", errors="replace").replace(".", "%2E")


def is_loopback(host: str) -> bool:
    """Whether a host name surely is this machine."""
    if host == "localhost" or host.endswith(".localhost"):  # RFC 6761 section 6.3
        return True
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return False


def _refused(message: str) -> InvalidError:
    return InvalidError.at("/server", "bad_value", message, accepted=[_EXAMPLE])
