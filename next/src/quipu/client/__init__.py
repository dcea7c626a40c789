"""The same operations on a server."""

from typing import Any

from quipu.client.remote import RemoteConnection
from quipu.client.transport import Patience, Transport
from quipu.config import Settings, load
from quipu.errors import InvalidError

__all__ = ["RemoteConnection", "Transport", "connection"]

#: A store URL that names a server: `quipu+https://host`.
_PREFIX = "quipu+"


def connection(
    server: str | None = None,
    *,
    token: str | None = None,
    timeout: float | None = None,
    retries: int | None = None,
    insecure: bool | None = None,
    config: Settings | None = None,
    telemetry: Any = None,
) -> RemoteConnection:
    """One server and one credential; what is not given is taken from the settings. Nothing is sent yet."""
    settings = config if config is not None else load().settings
    address = server or settings.server
    if not address:
        raise InvalidError(
            "No server was named.",
            reason="bad_setting",
            hint="Give an address such as https://memory.example.org, or set QUIPU_SERVER.",
        )
    patience = Patience(
        total_s=settings.timeout_s if timeout is None else timeout,
        **({} if retries is None else {"retries": retries}),
    )
    transport = Transport(
        address[len(_PREFIX) :] if address.lower().startswith(_PREFIX) else address,
        token=token or _token_for(settings, address),
        patience=patience,
        is_insecure=settings.insecure if insecure is None else insecure,
        inject=getattr(telemetry, "inject", None),
    )
    return RemoteConnection(transport)


def _token_for(settings: Settings, server: str) -> str:
    """The token of the settings, unless they name another server: it is not for this one."""
    is_other = settings.server and _plain(settings.server) != _plain(server)
    return "" if is_other or settings.token is None else settings.token.get_secret_value()


def _plain(address: str) -> str:
    return address.lower().removeprefix(_PREFIX).rstrip("/")
