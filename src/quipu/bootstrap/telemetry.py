"""Telemetry's parts: from settings to an observer, and for a server to a collector."""

from __future__ import annotations

import hashlib
import logging
from collections.abc import Callable, Generator, MutableMapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from quipu._version import __version__
from quipu.config import Config
from quipu.errors import QuipuError
from quipu.ports.embedder import Embedder
from quipu.ports.observing import Observer, Unobserved
from quipu.ports.parts import Parts
from quipu.rules.detectors import Detectors
from quipu.rules.marking import Marker
from quipu.telemetry.names import Convention
from quipu.telemetry.recent import Recent
from quipu.telemetry.serving import Serving
from quipu.telemetry.settings import (
    Identity,
    Namespaces,
    Showing,
    Side,
    Telemetry,
    capture_of,
    member,
)
from quipu.telemetry.tracing import Tracing

if TYPE_CHECKING:
    from quipu.client.observed import Observed

__all__ = ["Side", "Telemetry", "Watched"]

_log = logging.getLogger("quipu.telemetry")
_PURPOSE = b"quipu telemetry namespace"


@dataclass(frozen=True, slots=True, kw_only=True)
class Watched:
    """Who watches a service, and on which side of a call it stands."""

    telemetry: Telemetry = field(default_factory=Telemetry)
    side: Side = Side.CALLER
    #: Where the last traces are kept, for a server without a collector.
    recent: Recent | None = None
    #: The server that a client speaks to.
    server: tuple[str, int] | None = None


def observer(
    config: Config,
    watched: Watched,
    *,
    clock_ns: Callable[[], int],
    sign: Callable[[bytes], str] | None = None,
) -> Observer:
    """The settings as an observer. `sign` makes the key for hashed namespaces: stable, and known to nobody else."""
    if not config.telemetry:
        return Unobserved()
    convention = member(Convention, config.telemetry_convention, Convention.PROPOSAL, "telemetry_convention")
    default = Namespaces.OFF if convention is Convention.MERGED else Namespaces.PLAIN
    namespace = member(Namespaces, config.telemetry_namespace, default, "telemetry_namespace")
    showing = Showing(
        convention=convention,
        capture=capture_of(config.telemetry_capture_content),
        content_limit=max(config.telemetry_content_limit, 0),
        namespace=namespace,
        key=_key(sign) if sign is not None and namespace is Namespaces.HASH else None,
        identity=member(Identity, config.telemetry_identity, Identity.SCOPED, "telemetry_identity"),
        metrics=config.telemetry_metrics,
        phases=config.telemetry_phases,
        events=config.telemetry_events,
        side=watched.side,
        server=watched.server,
    )
    return Tracing(showing, watched.telemetry, clock_ns=clock_ns, version=__version__, recent=watched.recent)


def _key(sign: Callable[[bytes], str]) -> bytes | None:
    try:
        return hashlib.sha256(sign(_PURPOSE).encode("ascii")).digest()
    except QuipuError as error:
        _log.warning("Namespaces are left off, for want of a key: %s", error.code)
        return None


def shown_embedder(embedder: Embedder, *, observer: Observer, served: str | None) -> Embedder:
    """The embedder with a span for each call of its model.

    `served` is a model's name where it is served elsewhere; one of ours is shown only where phases are.
    """
    if not isinstance(observer, Tracing) or (served is None and not observer.showing.phases):
        return embedder
    from quipu.telemetry.embedding import ShownEmbedder

    return ShownEmbedder(embedder, observer, served or embedder.model)


def injecting(observer: Observer) -> Callable[[MutableMapping[str, str]], None]:
    """What puts the current trace into the headers of a request to another host."""
    return observer.inject if isinstance(observer, Tracing) else lambda headers: None


def client_observed(
    config: Config, address: str, telemetry: Telemetry | None, clock_ns: Callable[[], int]
) -> Observed:
    """How calls of a server are watched. Secrets that are registered there are not known here, the usual shapes are."""
    from quipu.client.observed import Observed

    watched = Watched(telemetry=telemetry or Telemetry(), server=_place(address))
    tracing = observer(config, watched, clock_ns=clock_ns)
    if not isinstance(tracing, Tracing):
        return Observed()
    detectors = Detectors(Marker(config.secrets_marker))
    return Observed(observer=tracing, clean=lambda text: detectors(text).text, inject=tracing.inject)


def _place(address: str) -> tuple[str, int] | None:
    try:
        parts = urlsplit(address)
        port = parts.port or (443 if parts.scheme == "https" else 80)
    except ValueError:  # told by whoever connects
        return None
    return (parts.hostname, port) if parts.hostname else None


def server_watched(config: Config) -> Watched:
    """A server keeps its last traces itself, unless they go to a collector."""
    is_kept = config.telemetry and not has_collector(config)
    return Watched(side=Side.SERVER, recent=Recent() if is_kept else None)


def serving(observer: Observer) -> Serving | None:
    """What tells of requests."""
    return Serving(observer) if isinstance(observer, Tracing) else None


def recent(observer: Observer) -> Recent | None:
    """The last traces, where they are kept."""
    return observer.recent if isinstance(observer, Tracing) else None


async def tell_standing(parts: Parts) -> None:
    """How many memories there are and how many writes wait, over all tenants: no label tells them apart."""
    if not isinstance(parts.observer, Tracing) or parts.observer.measuring is None:
        return
    records = pending = 0
    for tenant in await parts.ledger.tenants():
        records += (await parts.ledger.statistics(tenant.id)).get("live", 0)
        pending += len(await parts.ledger.proposals(tenant.id, "pending"))
    parts.observer.standing(records, pending)


def _addresses(config: Config) -> dict[str, str]:
    """Where each signal goes; "" where it goes nowhere. `none` is OpenTelemetry's word for a signal that stays here."""
    base = config.telemetry_endpoint.rstrip("/")
    found = {
        "traces": config.telemetry_traces_endpoint or (base and f"{base}/v1/traces"),
        "metrics": (config.telemetry_metrics_endpoint or (base and f"{base}/v1/metrics"))
        if config.telemetry_metrics
        else "",
        "events": base and f"{base}/v1/logs" if config.telemetry_events else "",
    }
    words = {
        "traces": config.telemetry_traces_exporter,
        "metrics": config.telemetry_metrics_exporter,
        "events": config.telemetry_logs_exporter,
    }
    return {name: "" if words[name].strip().lower() == "none" else found[name] for name in found}


def has_collector(config: Config) -> bool:
    """Whether spans are to go somewhere."""
    return config.telemetry and bool(_addresses(config)["traces"])


@contextmanager
def exported(config: Config) -> Generator[None]:
    """For a program of its own: while it runs, spans and metrics go to the collector that the settings name."""
    addresses = _addresses(config)
    if not config.telemetry or not any(addresses.values()):
        yield
        return
    try:
        from quipu.telemetry.exporting import Exporting
    except ImportError:
        _log.warning("A collector is named, but nothing can speak to it: install quipu-memory[telemetry].")
        yield
        return
    exporting = Exporting(**addresses, version=__version__)
    try:
        yield
    finally:
        exporting.close()
