"""A server process: bind, serve, drain, close."""

import socket
from collections.abc import Awaitable, Callable

import uvicorn
from starlette.applications import Starlette

from quipu.errors import BackendUnavailableError
from quipu.http.settings import HttpSettings


def bound_socket(settings: HttpSettings) -> socket.socket:
    """The socket to listen on, so that a port that is taken is told before anything is opened."""
    family = socket.AF_INET6 if ":" in settings.host else socket.AF_INET
    listening = socket.socket(family, socket.SOCK_STREAM)
    listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listening.bind((settings.host, settings.port))
    except OSError as error:
        listening.close()
        raise BackendUnavailableError(
            f"{settings.host}:{settings.port} cannot be listened on.",
            reason="address_in_use",
            hint="Another program may have it: choose another with --port, or 0 for any that is free.",
        ) from error
    listening.listen(1024)
    return listening


async def serve(
    app: Starlette,
    settings: HttpSettings,
    listening: socket.socket,
    started: Callable[[str], Awaitable[None]] | None = None,
) -> None:
    """Serve until a signal comes; requests at work get a while to finish."""
    config = uvicorn.Config(
        app,
        log_config=None,
        access_log=False,
        server_header=False,
        lifespan="off",
        ssl_certfile=None if settings.tls_cert is None else str(settings.tls_cert),
        ssl_keyfile=None if settings.tls_key is None else str(settings.tls_key),
        timeout_graceful_shutdown=int(settings.shutdown_grace_s),
        forwarded_allow_ips=",".join(settings.trusted_proxies) or None,
        proxy_headers=bool(settings.trusted_proxies),
        h11_max_incomplete_event_size=64 * 1024,
        reset_contextvars=True,
    )
    server = uvicorn.Server(config)
    if started is not None:
        host, port = listening.getsockname()[:2]
        scheme = "https" if settings.tls_cert else "http"
        shown = f"[{host}]" if ":" in host else host
        await started(f"{scheme}://{shown}:{port}")
    await server.serve(sockets=[listening])
