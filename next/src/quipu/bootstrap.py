"""Puts one installation together. The only module that names implementations."""

import os
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal
from urllib.parse import unquote, urlsplit

from quipu.access.model import TABLES as ACCESS_TABLES
from quipu.access.operations import OPERATIONS as ACCESS_OPERATIONS
from quipu.access.service import AccessService, access_service
from quipu.config import Settings
from quipu.embed.cache import CachedEmbedder
from quipu.embed.endpoint import EndpointEmbedder
from quipu.embed.minilm import MiniLmEmbedder
from quipu.embed.port import Embedder
from quipu.errors import Fault, InvalidError, UnsupportedError
from quipu.fields import duration_ms
from quipu.http.app import app
from quipu.http.authentication import Authentication
from quipu.http.health import OPERATIONS as HEALTH_OPERATIONS
from quipu.http.health import HealthService
from quipu.http.settings import HttpSettings
from quipu.ledger.driver import Driver
from quipu.ledger.ledger import Ledger
from quipu.ledger.sqlite.driver import SqliteDriver
from quipu.ledger.table import Table
from quipu.memory.approval import NoApprovals
from quipu.memory.change_feed import CommitSignal
from quipu.memory.drafts import Limits
from quipu.memory.embedding import Embedding
from quipu.memory.operations import OPERATIONS as MEMORY_OPERATIONS
from quipu.memory.pipeline import Pipeline
from quipu.memory.read_log import ReadLog
from quipu.memory.scope import STORES, Scopes
from quipu.memory.service import MemoryService, memory_service
from quipu.model import ids
from quipu.model.principal import Principal, local
from quipu.operation import AnyOperation, Clock, Context, Services
from quipu.schemas import Operations
from quipu.search.engine import SearchEngine
from quipu.secrets.detectors import Detectors
from quipu.secrets.marker import Marker
from quipu.secrets.model import SECRETS
from quipu.secrets.operations import OPERATIONS as SECRETS_OPERATIONS
from quipu.secrets.redaction import Guard
from quipu.secrets.sealing import FileSealer, KeySealer
from quipu.secrets.service import Secrets

#: Every operation of the product, capability by capability. Importing a module adds nothing to it.
OPERATIONS: Operations = (
    *MEMORY_OPERATIONS,
    *SECRETS_OPERATIONS,
    *ACCESS_OPERATIONS,
    *HEALTH_OPERATIONS,
)
#: Every table that a capability declares.
TABLES: tuple[Table[Any], ...] = (STORES, SECRETS, *ACCESS_TABLES)


@dataclass(frozen=True, slots=True, kw_only=True)
class Container:
    """What every face is given."""

    config: Settings
    clock: Clock
    ledger: Ledger
    embedder: Embedder | None
    memory: MemoryService
    secrets: Secrets
    access: AccessService
    services: Services

    def context(self, principal: Principal) -> Context:
        return Context(principal, self.clock, self.services)

    async def close(self) -> None:
        """In the order of use: what waits is written, then the ledger goes, then the embedder."""
        await self.memory.read_log.close()
        await self.access.budgets.close()
        await self.ledger.close()
        if self.embedder is not None:
            await self.embedder.close()


class Untraced:
    """No telemetry."""

    @contextmanager
    def observe(self, operation: AnyOperation, ctx: Context) -> Generator[None]:
        yield


async def open_container(
    settings: Settings,
    *,
    stores: Sequence[Any] = (),
    embedder: Embedder | Literal["none"] | None = None,
    clock: Clock = ids.now,
    new_id: Callable[[str], str] = ids.new_id,
    **later: Any,
) -> Container:
    """Everything wired, from the ledger upwards. What is handed in stands for what the settings would open."""
    address = _ledger_address(stores, settings)
    for name, value in later.items():
        if value not in (None, False):
            raise UnsupportedError(f"{name} is not supported yet.", reason=name)
    ledger = Ledger(_driver(address, settings), TABLES)
    if embedder is None:
        embedder = await _embedder(settings)
    elif embedder == "none":
        embedder = None
    sealer = KeySealer.fresh() if _is_memory(address) else FileSealer(_sealing_key(address, settings))
    base = Guard(
        detectors=Detectors() if settings.secrets_detectors else Detectors(()),
        policy=settings.secrets,
        marker=Marker(settings.secrets_marker),
    )
    secrets = Secrets(ledger, sealer, base, new_id)
    embedding = Embedding(ledger, embedder)
    approvals = NoApprovals()
    pipeline = Pipeline(
        ledger=ledger,
        redactor=secrets,
        governor=approvals,
        new_id=new_id,
        forget_texts=embedding.forget_texts,
    )
    access = access_service(
        ledger=ledger,
        redactor=secrets,
        detectors=base,
        clock=clock,
        new_id=new_id,
        random=os.urandom,
        reviewable=("remember", "update", "remember_many", "forget", "merge", "expire", "restore"),
        rate=settings.rate,
        recall_budget=settings.recall_budget,
        public_url=settings.public_url,
    )
    longest = None if settings.max_retain is None else duration_ms(settings.max_retain)
    memory = memory_service(
        ledger=ledger,
        pipeline=pipeline,
        scopes=Scopes(ledger, clock, new_id),
        embedding=embedding,
        engine=SearchEngine(settings.cache_mb << 20),
        signal=CommitSignal(ledger),
        read_log=ReadLog(ledger, secrets.without_secret_names),
        budget=access.budgets,
        governor=approvals,
        limits=Limits(content_bytes=settings.limit_content_bytes, max_retain_ms=longest),
    )
    health = HealthService(
        ledger=ledger,
        embedder=None if embedder is None else embedder.model,
        operations=lambda: tuple(operation.name for operation in OPERATIONS),
        content_bytes=settings.limit_content_bytes,
    )
    bindings = (*memory.bindings, *secrets.bindings, *access.bindings, *health.bindings)
    ledger.listen()
    return Container(
        config=settings,
        clock=clock,
        ledger=ledger,
        embedder=embedder,
        memory=memory,
        secrets=secrets,
        access=access,
        services=Services.of(bindings, access.budgets, Untraced()),
    )


def http_settings(settings: Settings) -> HttpSettings:
    """What the server is told."""
    return HttpSettings(
        host=settings.host,
        port=settings.port,
        tls_cert=settings.tls_cert,
        tls_key=settings.tls_key,
        allowed_hosts=settings.allowed_hosts,
        cors_origins=settings.cors_origins,
        trusted_proxies=settings.trusted_proxies,
        request_timeout_s=settings.request_timeout_s,
        most_requests=settings.most_requests,
        shutdown_grace_s=settings.shutdown_grace_s,
        metrics_public=settings.metrics_public,
        log_level=settings.log_level,
    )


def http_app(container: Container, *, is_open: bool = False) -> Any:
    """The server's application. `is_open`: everybody on this machine is the local person; on loopback only."""
    settings = http_settings(container.config)
    if is_open and settings.host not in ("127.0.0.1", "localhost", "::1"):
        raise InvalidError(
            "A server without tokens listens on this machine only.",
            faults=[Fault("/host", "bad_value", "127.0.0.1, or tokens")],
        )
    everybody = local(agent_id=container.config.agent) if is_open else None
    authentication = Authentication(container.access.credentials, container.context, everybody)
    return app(OPERATIONS, authentication, container.ledger.health, ids.new_id, settings)


# -- addresses --------------------------------------------------------------------------------------------------------


def _ledger_address(stores: Sequence[Any], settings: Settings) -> str:
    """The first store is the ledger."""
    if len(stores) > 1 or not all(isinstance(place, str | Path) for place in stores):
        raise UnsupportedError("A memory over several stores is not supported yet.", reason="stores")
    return str(stores[0]) if stores else settings.store or _default_store()


def _default_store() -> str:
    """A file in the data directory of the user."""
    return f"sqlite:///{Path.home() / '.local' / 'share' / 'quipu' / 'memory.db'}"


def _is_memory(address: str) -> bool:
    return address in (":memory:", "sqlite://:memory:")


def _sqlite_path(address: str) -> Path | None:
    """The file of an address; None where it is no file's."""
    scheme, separator, rest = address.partition("://")
    if not separator:
        return Path(address).expanduser()
    if scheme in ("sqlite", "sqlite-vec", "sqlite+vec", "sqlitevec"):
        return Path(unquote(rest.removeprefix("/") if rest.startswith("//") else rest)).expanduser()
    return None


def _driver(address: str, settings: Settings) -> Driver:
    if _is_memory(address):
        return SqliteDriver(":memory:")
    path = _sqlite_path(address)
    if path is not None:
        path.parent.mkdir(parents=True, exist_ok=True)
        return SqliteDriver(path)
    if urlsplit(address).scheme in ("postgresql", "postgres", "pgvector", "pgvector+postgres"):
        from quipu.ledger.postgres.driver import PostgresDriver  # an extra: psycopg may not be installed

        return PostgresDriver("postgresql" + address[address.index("://") :], size=settings.pool_size)
    raise InvalidError(
        "This is no address of a ledger.",
        faults=[
            Fault(
                "/store", "bad_value", "sqlite:///path, sqlite://:memory: or postgresql://user@host/database"
            )
        ],
    )


def _sealing_key(address: str, settings: Settings) -> Path:
    """Beside the file, unless a setting says where; for a server's database in the user's data directory."""
    if settings.sealing_key is not None:
        return settings.sealing_key
    path = _sqlite_path(address)
    if path is not None:
        return path.with_name(f"{path.name}.key")
    return Path.home() / ".local" / "share" / "quipu" / "sealing.key"


async def _embedder(settings: Settings) -> Embedder | None:
    if settings.embedder == "none":
        return None
    if settings.embedder == "openai":
        if settings.embedder_url is None or settings.embedder_model is None:
            raise InvalidError(
                "An embedding endpoint needs an address and a model.",
                faults=[Fault("/embedder_url", "missing_field", "embedder_url and embedder_model")],
            )
        key = settings.embedder_key
        endpoint = await EndpointEmbedder.open(
            base_url=settings.embedder_url,
            model=settings.embedder_model,
            api_key=None if key is None else key.get_secret_value(),
            dimensions=settings.embedder_dimensions or None,
        )
        return CachedEmbedder(endpoint)
    return CachedEmbedder(MiniLmEmbedder(settings.weights))
