"""Which names the server answers to, and the headers that keep every answer safe."""

from urllib.parse import urlsplit

from starlette.types import Scope

from quipu.config import Settings
from quipu.errors import ForbiddenError

LOOPBACK_NAMES = ("localhost", "127.0.0.1", "::1")
#: Addresses that load balancers and operators ask, by whatever name.
PROBES = frozenset({"/healthz", "/readyz", "/metrics"})

#: Nothing is guessed, framed or passed on to others.
ALWAYS: tuple[tuple[bytes, bytes], ...] = (
    (b"x-content-type-options", b"nosniff"),
    (b"x-frame-options", b"DENY"),
    (b"cross-origin-resource-policy", b"same-origin"),
)
#: Unless a handler has a reason: a page brings its own policy, a file of the viewer may be kept.
UNLESS_SET: tuple[tuple[bytes, bytes], ...] = (
    (b"cache-control", b"no-store"),
    (b"referrer-policy", b"no-referrer"),
    (b"content-security-policy", b"default-src 'none'; frame-ancestors 'none'"),
)
OVER_TLS = (b"strict-transport-security", b"max-age=31536000")


class KnownHosts:
    """Refuses foreign names; on an open server also what web pages of foreign origins send.

    A page that points its own name at this machine could otherwise speak to a server that asks for no credential.
    """

    def __init__(self, settings: Settings, *, is_open: bool) -> None:
        names = (*LOOPBACK_NAMES, *settings.allowed_hosts) if is_open else settings.allowed_hosts
        self._names = tuple(name.lower() for name in names)
        self._origins = frozenset(settings.cors_origins)
        self._is_open = is_open

    def check(self, scope: Scope) -> None:
        """Raises ForbiddenError."""
        if not self._names or (scope["path"] in PROBES and not self._is_open):
            return
        if not self._is_known(scope["headers"]):
            raise ForbiddenError(
                "This server does not answer to that host or origin.",
                reason="unknown_host",
                hint="The setting allowed_hosts lists the names that it answers to.",
            )

    def _is_known(self, headers: list[tuple[bytes, bytes]]) -> bool:
        hosts = [value.decode("latin-1") for name, value in headers if name == b"host"]
        if len(hosts) != 1 or not is_named(host_of(hosts[0]), self._names):
            return False
        return not self._is_open or self._is_known_origin(
            {name: value.decode("latin-1") for name, value in headers}
        )

    def _is_known_origin(self, headers: dict[bytes, str]) -> bool:
        """Without credentials the browser's word is all there is."""
        origin = headers.get(b"origin")
        if origin is None:
            return headers.get(b"sec-fetch-site", "none") in ("none", "same-origin", "same-site")
        if origin in self._origins:
            return True
        try:
            return is_named(urlsplit(origin).hostname or "", self._names)
        except ValueError:
            return False


def host_of(header: str) -> str:
    """The name in a Host header, without port and brackets, in small letters."""
    text = header.strip().lower()
    if text.startswith("["):
        return text[1:].partition("]")[0]
    return text.partition(":")[0].rstrip(".")


def is_named(host: str, names: tuple[str, ...]) -> bool:
    """Whether a host is among the names; `.example.org` takes every name below it, `*` takes any."""
    return any(
        name == "*" or host == name.strip("[]") or (name.startswith(".") and host.endswith(name))
        for name in names
    )
