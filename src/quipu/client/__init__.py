"""The same operations on a server."""

from urllib.parse import urlsplit

from quipu.client.remote import RemoteConnection
from quipu.client.transport import Patience, Transport
from quipu.config import Settings, load
from quipu.errors import InvalidError
from quipu.telemetry.settings import Propagating, Showing, Telemetry
from quipu.telemetry.spans import Spans

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
    telemetry: Telemetry | None = None,
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
    address = address[len(_PREFIX) :] if address.lower().startswith(_PREFIX) else address
    spans = (
        Spans(Showing.of(settings, server=_host_and_port(address)), telemetry) if settings.telemetry else None
    )
    transport = Transport(
        address,
        token=token or _token_for(settings, server or address),
        patience=patience,
        is_insecure=settings.insecure if insecure is None else insecure,
        inject=None if spans is None else spans.inject,
    )
    return RemoteConnection(transport, spans=None if isinstance(telemetry, Propagating) else spans)


def _host_and_port(address: str) -> tuple[str, int] | None:
    """As spans say it; None of what is no address, which is refused elsewhere."""
    try:
        parts = urlsplit(address)
        port = parts.port or (443 if parts.scheme == "https" else 80)
    except ValueError:
        return None
    return None if parts.hostname is None else (parts.hostname, port)


def _token_for(settings: Settings, server: str) -> str:
    """The token of the settings, unless they name another server: it is not for this one."""
    is_other = settings.server and _plain(settings.server) != _plain(server)
    return "" if is_other or settings.token is None else settings.token.get_secret_value()


def _plain(address: str) -> str:
    return address.lower().removeprefix(_PREFIX).rstrip("/")
