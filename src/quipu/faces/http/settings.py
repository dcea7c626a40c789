"""What an operator can set about the server, as the plumbing needs it. Read from `Config` by bootstrap."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class HttpSettings:
    """Limits and manners of the server."""

    body_bytes: int = 4 << 20
    request_timeout_s: float = 30
    #: So long may a body pause.
    body_timeout_s: float = 15
    #: Requests at work at the same time; more are told to come back.
    most_requests: int = 200
    #: Names that the server answers to, without port; empty: any name. A leading dot takes subdomains.
    hosts: tuple[str, ...] = ()
    #: Web pages of these origins may use the server.
    cors_origins: tuple[str, ...] = ()
    #: Nobody is asked who they are: on loopback only.
    is_open: bool = False
    #: The server listens on this machine only and stands behind no proxy.
    is_loopback: bool = True
    is_https: bool = False
    #: Metrics without a credential.
    metrics_public: bool = False
    #: Metrics by tenant: as many series as there are tenants.
    metrics_tenants: bool = False
