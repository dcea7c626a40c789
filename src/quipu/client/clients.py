"""The HTTP client for one server, as far as the surroundings allow one."""

from __future__ import annotations

from collections.abc import Mapping

import httpx

from quipu.client.address import is_loopback
from quipu.errors import InvalidError

#: Shorter than servers and proxies keep an idle connection, so that none is used that is just being closed.
_KEEP_ALIVE_S = 30.0
_LIMITS = httpx.Limits(max_connections=32, max_keepalive_connections=16, keepalive_expiry=_KEEP_ALIVE_S)


def made_client(base: str, headers: Mapping[str, str]) -> httpx.AsyncClient:
    """A client that goes straight to this machine, and to others by the proxies that the environment names."""
    try:
        # Reading all authorities takes time; without TLS for nothing.
        trusted = httpx.create_ssl_context() if base.startswith("https:") else False
    except OSError as error:
        raise InvalidError(
            "The authorities that the environment names cannot be read.",
            reason="bad_setting",
            hint="SSL_CERT_FILE is a PEM file with certificates, SSL_CERT_DIR a folder of them.",
        ) from error
    try:
        return httpx.AsyncClient(
            headers=headers,
            limits=_LIMITS,
            follow_redirects=False,  # a token goes to the server it was given for, and to no other
            trust_env=not is_loopback(httpx.URL(base).host),
            verify=trusted,
        )
    except (ImportError, ValueError, httpx.InvalidURL):
        # `from None`: a proxy's address may hold a password.
        raise InvalidError(
            "The proxy that the environment names cannot be used.",
            reason="bad_setting",
            hint="Check HTTP_PROXY, HTTPS_PROXY, ALL_PROXY and NO_PROXY. A SOCKS proxy needs the package socksio; "
            "an address of IPv6 stands in NO_PROXY without brackets.",
        ) from None
