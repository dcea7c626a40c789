"""The server's settings, handed in by bootstrap, which reads the settings."""

from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True, kw_only=True)
class HttpSettings:
    """How the server listens, and what it lets in."""

    host: str = "127.0.0.1"
    port: int = 8321
    tls_cert: Path | None = None
    tls_key: Path | None = None
    #: Names under which the server may be asked; none: any. On an open server those of this machine are always good.
    allowed_hosts: tuple[str, ...] = ()
    cors_origins: tuple[str, ...] = ()
    trusted_proxies: tuple[str, ...] = ()
    request_timeout_s: float = 30.0
    #: So long may a body pause, and so large may it be.
    body_timeout_s: float = 15.0
    body_bytes: int = 4 << 20
    most_requests: int = 200
    shutdown_grace_s: float = 20.0
    metrics_public: bool = False
