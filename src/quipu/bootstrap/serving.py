"""The server's parts: from settings to an application that speaks every face over one service."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import logging
import time
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from starlette.applications import Starlette

from quipu._version import __version__
from quipu.bootstrap import BuildProgress, Running, mint_id, now_ms, start, telemetry
from quipu.bootstrap.faces import faces
from quipu.bootstrap.mcp import Alone
from quipu.config import Config
from quipu.errors import InvalidError, QuipuError
from quipu.faces.http import health
from quipu.faces.http.access_log import AccessLog
from quipu.faces.http.app import Plumbing, application
from quipu.faces.http.authentication import Bearer, everybody_is_local
from quipu.faces.http.backoff import Backoff
from quipu.faces.http.catalogue import Face
from quipu.faces.http.hosts import LOOPBACK_NAMES
from quipu.faces.http.lifecycle import Lifecycle
from quipu.faces.http.metrics import Metrics
from quipu.faces.http.rounds import Often, Rounds
from quipu.faces.http.server import ServerOptions
from quipu.faces.http.settings import HttpSettings
from quipu.model.access import IssuedToken
from quipu.model.consolidation import ConsolidateRequest
from quipu.model.principal import DEFAULT_TENANT, Principal, local
from quipu.ports.embedder import Embedder
from quipu.ports.surroundings import Clock
from quipu.rules.exposure import is_loopback
from quipu.service.memory import MemoryService

_log = logging.getLogger("quipu.server")
#: So many objects come to be before the youngest are looked through for garbage: more than one export of spans holds.
_YOUNG = 10_000
#: So long what there is to close may take, though all of the grace was taken by requests.
_AT_LEAST_S = 3.0
_AT_LEAST_ONE = ("limit_body_bytes", "request_timeout_s", "body_timeout_s", "most_requests")


@dataclass(slots=True)
class WebApp:
    """An application, and what its server has to know about it."""

    asgi: Starlette
    lifecycle: Lifecycle
    running: Running
    #: What people are told: name → path.
    addresses: Mapping[str, str]
    #: The first token of all, on the first run only.
    first_token: IssuedToken | None = field(default=None, repr=False)


async def web_app(
    config: Config,
    *,
    is_open: bool = False,
    makes_first_token: bool = False,
    embedder: Embedder | None = None,
    clock: Clock = now_ms,
    progress: BuildProgress | None = None,
    more: Callable[[MemoryService], Sequence[Face]] | None = None,
    watched: telemetry.Watched | None = None,
    alone: Alone | None = None,
) -> WebApp:
    """Everything wired together, not open yet: the application opens the ledger when its server starts it.

    `more` gives faces of your own, which are shown beside the others; with `alone` there is no face but MCP's.
    """
    settings = http_settings(config, is_open=is_open)
    watching = watched or telemetry.server_watched(config)
    running = await start(config, embedder=embedder, clock=clock, progress=progress, watched=watching)
    running.service.whole()
    lifecycle, metrics = Lifecycle(), Metrics(__version__)
    rounds = Rounds(
        _Chores(running, config),
        Often(
            sign_s=config.checkpoint_every_s,
            sweep_s=config.sweep_every_s,
            settle_s=config.consolidation_every_s,
            notify_s=config.webhook_every_s,
            keep_s=config.openwop_keep_every_s,
        ),
    )
    service = running.service
    bearer = Bearer(service.credentials, Backoff(time.monotonic))
    probes = health.face(
        lifecycle,
        metrics,
        settings,
        touch=lambda: running.parts.ledger.head(DEFAULT_TENANT),
        heads=lambda: _heads(running),
        mirrors=service.mirrors.numbers,
    )

    @contextlib.asynccontextmanager
    async def lifespan(_app: Starlette) -> AsyncGenerator[None]:
        opening = asyncio.create_task(
            _opened(made, rounds, makes_first_token=makes_first_token and not is_open)
        )
        try:
            async with contextlib.AsyncExitStack() as faces_at_work:
                for face in shown:
                    if face.lifespan is not None:
                        await faces_at_work.enter_async_context(face.lifespan())
                yield
        finally:
            lifecycle.drain()
            opening.cancel()
            await asyncio.gather(opening, return_exceptions=True)
            grace_s = lifecycle.left(config.shutdown_delay_s + config.shutdown_grace_s)
            await _closed(running, rounds, max(grace_s, _AT_LEAST_S))

    plumbing = Plumbing(
        clock=clock,
        mint_id=mint_id,
        authenticators=[everybody_is_local if is_open else bearer],
        lifecycle=lifecycle,
        settings=settings,
        observers=[metrics, AccessLog(), rounds],
        lifespan=lifespan,
        spans=telemetry.serving(running.parts.observer),
    )
    shown = [probes, *faces(running, config, clock, alone)]
    if more is not None:
        shown[1:1] = more(service)
    addresses = {name: path for face in shown for name, path in face.told.items()}
    made = WebApp(application(shown, plumbing), lifecycle, running, addresses)
    return made


def settle() -> None:
    """For a program of its own, once it is ready: what stands by then stays, and is not looked through again and again.

    Spans wait by the hundred for their collector. As survivors of the youngest they would have everything looked through
    every few thousand recalls, which costs a recall as much as a third of its span.
    """
    gc.collect()
    gc.freeze()
    gc.set_threshold(_YOUNG, *gc.get_threshold()[1:])


async def _opened(made: WebApp, rounds: Rounds, *, makes_first_token: bool) -> None:
    """Open the ledger; what keeps it shut ends the server."""
    running = made.running
    try:
        await running.service.open(DEFAULT_TENANT)
        rounds.start()
        await running.service.mirrors.start()
        # Last of all: once it is made it must be shown, so nothing that can fail comes between.
        if makes_first_token:
            made.first_token = await running.service.tokens.first(local())
            if made.first_token is not None:
                rounds.touched(DEFAULT_TENANT)
        made.lifecycle.ready()
    except Exception as error:  # noqa: BLE001  told to whoever runs the server, which then stops
        made.lifecycle.failed(error)
        return
    await _warmed(running)


async def _warmed(running: Running) -> None:
    """Load the model before somebody waits for it. Without one memory works by words."""
    if running.parts.embedder is None:
        return
    try:
        await running.parts.embedder.embed(["ready"])
    except QuipuError as error:
        _log.warning("No embedder: %s", error.message)


async def _closed(running: Running, rounds: Rounds, seconds: float) -> None:
    """Write what waits, sign, let go. Each step is tried even if the one before it failed, and a ledger that is away
    is waited for no longer than so many seconds, however many tenants there are."""
    try:
        async with asyncio.timeout(seconds):
            await _noted(running)
            await rounds.stop()
    except TimeoutError:
        _log.warning("Not every journal was signed: there was no time left.")
    finally:
        await running.close(_AT_LEAST_S)


async def _noted(running: Running) -> None:
    try:
        await running.service.flush()
    except QuipuError as error:
        _log.warning("The notes of the last reads could not be written: %s", error.code)


async def _heads(running: Running) -> Mapping[str, int]:
    ledger = running.parts.ledger
    return {tenant.id: (await ledger.head(tenant.id)).seq for tenant in await ledger.tenants()}


class _Chores:
    """What the rounds do, over one service."""

    def __init__(self, running: Running, config: Config) -> None:
        self._running, self._config = running, config

    async def tenants(self) -> list[str]:
        return [tenant.id for tenant in await self._running.parts.ledger.tenants()]

    async def sign(self, principal: Principal, *, is_last: bool) -> object:
        return await self._running.service.audit.checkpoint_if_due(
            principal,
            every_ms=0 if is_last else self._config.checkpoint_every_s * 1000,
            every_entries=1 if is_last else self._config.checkpoint_every_entries,
        )

    async def sweep(self, principal: Principal) -> object:
        closed = await self._running.service.sweep(principal)
        await self._running.service.sharing.erasing.resume(principal.tenant)
        if principal.tenant == DEFAULT_TENANT:  # once for all of them
            await telemetry.tell_standing(self._running.parts)
        return closed

    async def settle(self, principal: Principal) -> object:
        return await self._running.service.consolidating.consolidate(principal, ConsolidateRequest())

    async def notify(self, principal: Principal) -> object:
        return await self._running.service.notices.deliver(principal.tenant)

    async def keep(self, principal: Principal) -> object:
        return await self._running.service.runs.upkeep.keep(principal)


# -- settings -----------------------------------------------------------------------------------------------------


def http_settings(config: Config, *, is_open: bool = False) -> HttpSettings:
    """The settings as the plumbing needs them."""
    for name in _AT_LEAST_ONE:
        if getattr(config, name) < 1:
            raise InvalidError(f"{name} is at least 1.", reason="bad_setting")
    named = _listed(config.allowed_hosts)
    return HttpSettings(
        body_bytes=config.body_bytes,
        request_timeout_s=config.request_timeout_s,
        body_timeout_s=config.body_timeout_s,
        most_requests=config.most_requests,
        hosts=(*LOOPBACK_NAMES, *named) if is_open else named,
        cors_origins=_listed(config.cors_origins),
        is_open=is_open,
        is_loopback=is_loopback(config.host) and not config.behind_proxy,
        is_https=bool(config.tls_cert) or config.behind_proxy,
        metrics_public=config.metrics_public,
        metrics_tenants=config.metrics_tenants,
    )


def server_options(config: Config) -> ServerOptions:
    """The settings as the server needs them."""
    return ServerOptions(
        host=config.host,
        port=config.port,
        tls_cert=_path(config.tls_cert),
        tls_key=_path(config.tls_key),
        trusted_proxies=_listed(config.trusted_proxies) if config.behind_proxy else (),
        grace_s=config.shutdown_grace_s,
        delay_s=config.shutdown_delay_s,
    )


def _listed(text: str) -> tuple[str, ...]:
    return tuple(part.strip() for part in text.split(",") if part.strip())


def _path(text: str) -> Path | None:
    return Path(text).expanduser() if text else None
