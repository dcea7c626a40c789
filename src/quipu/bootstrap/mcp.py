"""MCP's parts: from settings to a server on standard input and output, or behind /mcp."""

from __future__ import annotations

import logging
import sys
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from quipu._version import __version__
from quipu.bootstrap import Running, start, telemetry
from quipu.bootstrap.surroundings import random_bytes
from quipu.config import Config
from quipu.errors import BackendUnavailableError, InvalidError
from quipu.faces.http.hosts import LOOPBACK_NAMES
from quipu.faces.mcp.caller import Caller
from quipu.faces.mcp.hanging_up import ended_by_signals
from quipu.faces.mcp.options import HttpOptions, Options
from quipu.faces.mcp.profiles import PROFILES
from quipu.model.principal import DEFAULT_TENANT, Permission, Principal, local
from quipu.rules.exposure import is_loopback

if TYPE_CHECKING:
    from mcp.server import MCPServer

_log = logging.getLogger("quipu.mcp")


def stdio_principal(config: Config) -> Principal:
    """Whoever started the process, as far as the settings let them."""
    whole = local(config.mcp_tenant or DEFAULT_TENANT)
    return replace(whole, permissions=_scopes(config.mcp_scopes), user_id=config.mcp_user or None)


def mcp_server(
    running: Running, config: Config, *, prefix: str = "", store: str | None = None
) -> MCPServer[Any]:
    """A server for one person at this machine. `store` is the only memory store that is there."""
    from quipu.faces.mcp.server import mcp_server as made

    principal = stdio_principal(config)

    async def renewed() -> Principal:
        return principal

    who = Caller(
        principal=principal,
        agent_id=config.agent,
        profile=_profile(config),
        store=store,
        renewed=renewed,
    )
    return made(running.service, lambda _: who, _options(config, running, prefix))


@dataclass(frozen=True, slots=True, kw_only=True)
class Alone:
    """A server that shows /mcp and no other face, and how."""

    #: Stands before each tool's name.
    prefix: str = ""
    #: The only memory store that is there.
    store: str | None = None
    read_only: bool = False


def http_options(config: Config, running: Running, alone: Alone | None = None) -> HttpOptions:
    """What /mcp goes by. Named hosts are the plumbing's business; on loopback without names, loopback is all there is."""
    is_here = is_loopback(config.host) and not config.behind_proxy and not config.allowed_hosts
    hosts = [f"[{name}]" if ":" in name else name for name in LOOPBACK_NAMES] if is_here else []
    alone = alone or Alone()
    return HttpOptions(
        options=_options(config, running, alone.prefix),
        profile=_profile(config),
        agent=config.agent,
        public_url=config.public_url,
        issuer=config.oidc_issuer,
        hosts=hosts,
        body_bytes=config.body_bytes,
        origins=[part.strip() for part in config.cors_origins.split(",") if part.strip()],
        store=alone.store,
        read_only=alone.read_only,
    )


def _options(config: Config, running: Running, prefix: str = "") -> Options:
    serving = telemetry.serving(running.parts.observer)
    return Options(
        version=__version__,
        prefix=prefix,
        state_keys=(random_bytes(32),),
        extension=config.mcp_extension,
        operated=None if serving is None else serving.operated,
    )


def _profile(config: Config) -> str:
    if config.mcp_profile not in PROFILES:
        raise InvalidError(
            "There is no such MCP profile.",
            reason="bad_setting",
            hint=f"Choose from {', '.join(PROFILES)}.",
        )
    return config.mcp_profile


def _scopes(text: str) -> frozenset[Permission]:
    named = [part for part in text.replace(",", " ").split() if part]
    known = {permission.value: permission for permission in Permission}
    if unknown := [name for name in named if name not in known]:
        raise InvalidError(
            f"There is no scope {unknown[0]}.",
            reason="bad_setting",
            hint=f"QUIPU_SCOPES holds some of {', '.join(known)}.",
        )
    return frozenset(known[name] for name in named) or frozenset(Permission)


def _unread(fault: sys.UnraisableHookArgs) -> None:
    """Since Python 3.13 a buffer that is thrown away says that nobody reads it; here that is known, and no fault."""
    if not isinstance(fault.exc_value, BrokenPipeError):
        sys.__unraisablehook__(fault)


async def speak(config: Config, *, prefix: str = "", store: str | None = None) -> None:
    """Serve one host on standard input and output until it hangs up."""
    running = await start(config, watched=telemetry.Watched(side=telemetry.Side.SERVER))
    running.service.whole()
    principal = stdio_principal(config)
    try:
        await running.service.open(principal.tenant)
        seq = (await running.parts.ledger.head(principal.tenant)).seq
        server = mcp_server(running, config, prefix=prefix, store=store)
        try:
            with ended_by_signals():
                await server.run_stdio_async()
        except* BrokenPipeError:
            sys.unraisablehook = _unread
            _log.debug("The host hung up before it had read all answers.")
        try:
            await running.service.flush()
            if (await running.parts.ledger.head(principal.tenant)).seq > seq:
                await running.service.audit.checkpoint_if_due(
                    local(principal.tenant),
                    every_ms=config.checkpoint_every_s * 1000,
                    every_entries=config.checkpoint_every_entries,
                )
        except BackendUnavailableError as error:  # such as a full disk: the host has lost nothing it wrote
            _log.warning("What was due at the end could not be written: %s", error.reason)
    finally:
        await running.close()
