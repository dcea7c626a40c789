"""A memory on a server: the same object, another connection."""

from __future__ import annotations

from typing import TYPE_CHECKING

from quipu import bootstrap
from quipu.bootstrap.surroundings import jitter
from quipu.errors import InvalidError
from quipu.memory import arguments

if TYPE_CHECKING:
    from quipu.bootstrap.telemetry import Telemetry
    from quipu.client.connection import RemoteConnection
    from quipu.config import Config

_PREFIX = "quipu+"
SCHEMES = (f"{_PREFIX}https://", f"{_PREFIX}http://")


def is_server(url: str) -> bool:
    """Whether a store URL names a server instead of a ledger."""
    return url.lower().startswith(SCHEMES)


def token_for(config: Config, server: str) -> str:
    """The token of the settings, unless they name another server: it is not for this one."""
    is_other = config.server_url and _same(config.server_url) != _same(server)
    return "" if is_other else config.server_token


def _same(url: str) -> str:
    return url.lower().removeprefix(_PREFIX).rstrip("/")


def connection(
    config: Config,
    *,
    server: str | None = None,
    token: str | None = None,
    timeout: float | None = None,
    retries: int | None = None,
    insecure: bool | None = None,
    telemetry: Telemetry | None = None,
) -> RemoteConnection:
    """The way to a server; what is not given is taken from the settings."""
    arguments.maybe_text(server, "/server")
    arguments.maybe_text(token, "/token")
    if timeout is not None:
        arguments.number(timeout, "/timeout")
    if retries is not None:
        arguments.whole(retries, "/retries")
    if insecure is not None:
        arguments.truth(insecure, "/insecure")
    named = server or (config.store_url if is_server(config.store_url) else config.server_url)
    if not named:
        raise InvalidError(
            "No server was named.",
            reason="bad_setting",
            hint="Give an address such as https://memory.example.org, or set QUIPU_SERVER.",
        )
    # The HTTP library is slow to load, and an embedded memory does not need it.
    from quipu.client.connection import RemoteConnection
    from quipu.client.patience import Patience

    address = named[len(_PREFIX) :] if is_server(named) else named
    return RemoteConnection(
        address,
        token=token or token_for(config, named),
        patience=Patience(
            total_s=config.server_timeout_s if timeout is None else timeout,
            retries=config.server_retries if retries is None else retries,
        ),
        insecure=config.server_insecure if insecure is None else insecure,
        mint_id=bootstrap.mint_id,
        jitter=jitter,
        observed=bootstrap.telemetry.client_observed(config, address, telemetry, bootstrap.now_ns),
    )
