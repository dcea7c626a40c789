"""Every setting, read once. The environment and the settings file are read here and nowhere else."""

from __future__ import annotations

import os
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Any, cast

from quipu.errors import InvalidError
from quipu.model.limits import Limits


@dataclass(frozen=True, slots=True)
class Setting:
    """One setting: its name here, in the environment and in the file."""

    name: str
    environment: str
    help: str
    #: Also honoured where `environment` is unset.
    alias: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Config:
    """What can be set. Frozen: nothing changes a setting after it was read."""

    store_url: str = ""
    agent: str = "default"
    server_url: str = ""
    server_token: str = ""
    server_timeout_s: int = 60
    server_retries: int = 4
    server_insecure: bool = False
    embedder: str = "onnx"
    embedder_url: str = ""
    embedder_model: str = ""
    embedder_key: str = ""
    weights_dir: str = ""
    cache_dir: str = ""
    allow_download: bool = True
    threads: int = 0
    cache_mb: int = 1024
    replica_url: str = ""
    pool_size: int = 8
    checkpoint_every_s: int = 60
    checkpoint_every_entries: int = 1000
    secrets_policy: str = "rewrite"
    secrets_marker: str = "<REDACTED:{label}>"
    secrets_detectors: bool = True
    sealing_key: str = ""
    governance_rules: str = ""
    governance_default: str = "allow"
    rate_per_minute: int = 6000
    recall_budget: int = 20_000
    oidc_issuer: str = ""
    oidc_audience: str = ""
    oidc_jwks_url: str = ""
    oidc_tenant: str = ""
    oidc_tenant_claim: str = ""
    oidc_name_claim: str = "sub"
    oidc_roles_claim: str = "roles"
    oidc_agents_claim: str = ""
    oidc_default_role: str = ""
    host: str = "127.0.0.1"
    port: int = 8321
    public_url: str = ""
    tls_cert: str = ""
    tls_key: str = ""
    behind_proxy: bool = False
    trusted_proxies: str = "127.0.0.1,::1"
    allowed_hosts: str = ""
    cors_origins: str = ""
    metrics_public: bool = False
    metrics_tenants: bool = False
    request_timeout_s: int = 30
    body_timeout_s: int = 15
    most_requests: int = 200
    shutdown_grace_s: int = 20
    shutdown_delay_s: int = 0
    sweep_every_s: int = 300
    mcp_profile: str = "default"
    mcp_extension: bool = False
    mcp_tenant: str = ""
    mcp_user: str = ""
    mcp_scopes: str = ""
    log_level: str = "info"
    limit_body_bytes: int = 4 << 20
    limit_content_bytes: int = Limits().content_bytes
    limit_metadata_bytes: int = Limits().metadata_bytes
    limit_metadata_depth: int = Limits().metadata_depth
    limit_query_bytes: int = Limits().query_bytes
    limit_ids_per_call: int = Limits().ids_per_call
    limit_tags: int = Limits().tags
    limit_tag_length: int = Limits().tag_length
    limit_links: int = Limits().links
    limit_name_length: int = Limits().name_length
    limit_reason_length: int = Limits().reason_length
    limit_key_length: int = Limits().key_length
    limit_batch: int = Limits().batch
    limit_k: int = Limits().k
    limit_page: int = Limits().page

    @property
    def limits(self) -> Limits:
        """How large things may be."""
        return Limits(**{field.name: getattr(self, f"limit_{field.name}") for field in fields(Limits)})

    def with_values(self, **values: object) -> Config:
        """The same with some settings given by the caller; None leaves one as it is."""
        return replace(
            self, **cast("Any", {key: value for key, value in values.items() if value is not None})
        )


_LIMITS = {
    "content_bytes": "Bytes of one memory's content.",
    "metadata_bytes": "Bytes of one memory's metadata.",
    "metadata_depth": "How deep metadata may be nested.",
    "query_bytes": "Bytes of a query.",
    "ids_per_call": "Ids or duplicates in one call.",
    "tags": "Tags of one memory.",
    "tag_length": "Characters of a tag.",
    "links": "Links of one memory.",
    "name_length": "Characters of an agent, user, session or source.",
    "reason_length": "Characters kept of a reason; the rest is cut.",
    "key_length": "Characters of an idempotency key.",
    "batch": "Memories in one batch.",
    "k": "Hits one recall may ask for.",
    "page": "Records on one page.",
}

#: What `quipu serve` goes by.
_SERVER = (
    Setting("host", "QUIPU_HOST", "Where the server listens. Beyond this machine it needs TLS."),
    Setting("port", "QUIPU_PORT", "The server's port; 0 takes one that is free."),
    Setting(
        "public_url",
        "QUIPU_PUBLIC_URL",
        "Where people reach the server, for links in answers; by default the address that was asked.",
    ),
    Setting("tls_cert", "QUIPU_TLS_CERT", "PEM file with the server's certificate chain."),
    Setting("tls_key", "QUIPU_TLS_KEY", "PEM file with the key of the certificate."),
    Setting(
        "behind_proxy", "QUIPU_BEHIND_PROXY", "Whether a proxy in front of the server speaks TLS for it."
    ),
    Setting(
        "trusted_proxies",
        "QUIPU_TRUSTED_PROXIES",
        "Proxies whose word about the real client is taken, behind a proxy: addresses, separated by commas.",
    ),
    Setting(
        "allowed_hosts",
        "QUIPU_ALLOWED_HOSTS",
        "Names the server answers to, separated by commas; a leading dot takes subdomains. Empty: any name.",
    ),
    Setting(
        "cors_origins",
        "QUIPU_CORS_ORIGINS",
        "Origins whose web pages may use the server, such as https://app.example, separated by commas.",
    ),
    Setting(
        "metrics_public",
        "QUIPU_METRICS_PUBLIC",
        "Whether /metrics needs no credential. On loopback it never does.",
    ),
    Setting(
        "metrics_tenants",
        "QUIPU_METRICS_TENANTS",
        "Whether metrics tell each tenant apart: as many series as there are tenants.",
    ),
    Setting(
        "request_timeout_s",
        "QUIPU_REQUEST_TIMEOUT_S",
        "Seconds that a request may take; streams may take longer.",
    ),
    Setting("body_timeout_s", "QUIPU_BODY_TIMEOUT_S", "Seconds that the body of a request may pause."),
    Setting(
        "most_requests",
        "QUIPU_MOST_REQUESTS",
        "Requests at work at the same time; more are told to come back.",
    ),
    Setting(
        "shutdown_grace_s",
        "QUIPU_SHUTDOWN_GRACE_S",
        "Seconds that requests at work get to finish at the end.",
    ),
    Setting(
        "shutdown_delay_s",
        "QUIPU_SHUTDOWN_DELAY_S",
        "Seconds the server goes on after /readyz says no, for load balancers to notice.",
    ),
    Setting(
        "sweep_every_s",
        "QUIPU_SWEEP_S",
        "How often the server closes expired memories, in seconds; 0: never.",
    ),
    Setting("log_level", "QUIPU_LOG_LEVEL", "What the server logs: debug, info, warning or error."),
    Setting(
        "limit_body_bytes", "QUIPU_LIMIT_BODY_BYTES", "Bytes of a request's body; an import has no limit."
    ),
)

#: What `quipu mcp` and the server's /mcp go by.
_MCP = (
    Setting(
        "mcp_profile",
        "QUIPU_MCP_PROFILE",
        "Which tools MCP clients see: readonly, default, admin, graph, anthropic or chatgpt.",
    ),
    Setting(
        "mcp_extension",
        "QUIPU_MCP_EXTENSION",
        "Whether the experimental extension with memory methods is offered.",
    ),
    Setting("mcp_tenant", "QUIPU_TENANT", "The tenant of `quipu mcp`; else `default`."),
    Setting("mcp_user", "QUIPU_USER_ID", "The only user whose memories `quipu mcp` reaches."),
    Setting(
        "mcp_scopes",
        "QUIPU_SCOPES",
        "What `quipu mcp` may do, separated by commas, such as memory:read,memory:write; else everything.",
    ),
)

SETTINGS = (
    Setting(
        "store_url",
        "QUIPU_STORE",
        "Where memory is kept: sqlite:///path, sqlite://:memory:, or postgresql://user@host/database.",
        "MEMORYWIRE_STORE",
    ),
    Setting("agent", "QUIPU_AGENT", "The agent that commands act for.", "MEMORYWIRE_AGENT"),
    Setting(
        "server_url", "QUIPU_SERVER", "The server that commands and `quipu.connect` talk to: https://host."
    ),
    Setting("server_token", "QUIPU_TOKEN", "The token to show the server. Never logged."),
    Setting(
        "server_timeout_s",
        "QUIPU_TIMEOUT_S",
        "Seconds that one call to the server may take, repetitions included.",
    ),
    Setting("server_retries", "QUIPU_RETRIES", "How often a call that can be repeated safely is repeated."),
    Setting(
        "server_insecure",
        "QUIPU_INSECURE",
        "Whether the server may be spoken to without TLS when it is on another machine.",
    ),
    Setting(
        "embedder",
        "QUIPU_EMBEDDER",
        "onnx (default, on this machine), openai (any compatible endpoint), or none.",
    ),
    Setting("embedder_url", "QUIPU_EMBEDDER_URL", "Base address of an OpenAI-compatible endpoint."),
    Setting("embedder_model", "QUIPU_EMBEDDER_MODEL", "The model to ask the endpoint for."),
    Setting("embedder_key", "QUIPU_EMBEDDER_KEY", "The endpoint's key. Never logged."),
    Setting(
        "weights_dir",
        "QUIPU_WEIGHTS",
        "A directory with model.safetensors and tokenizer.json of all-MiniLM-L6-v2.",
    ),
    Setting("cache_dir", "QUIPU_CACHE", "Where built models are kept."),
    Setting(
        "allow_download", "QUIPU_DOWNLOAD", "Whether weights may be downloaded when they are nowhere else."
    ),
    Setting("threads", "QUIPU_THREADS", "Threads of the embedder; 0 lets it choose."),
    Setting(
        "cache_mb",
        "QUIPU_CACHE_MB",
        "Memory for search, in MiB; what was used longest ago is dropped beyond it.",
    ),
    Setting(
        "replica_url",
        "QUIPU_REPLICA",
        "A read replica of the PostgreSQL database; recall reads from it where it has caught up.",
    ),
    Setting("pool_size", "QUIPU_POOL_SIZE", "Connections to PostgreSQL, at most, for each process."),
    Setting(
        "checkpoint_every_s", "QUIPU_CHECKPOINT_S", "Sign the journal's head at least this often, in seconds."
    ),
    Setting("checkpoint_every_entries", "QUIPU_CHECKPOINT_ENTRIES", "Or after this many entries."),
    Setting(
        "secrets_policy",
        "QUIPU_SECRETS",
        "What becomes of a write that holds a secret: rewrite puts a marker in its place, reject refuses it.",
    ),
    Setting("secrets_marker", "QUIPU_SECRETS_MARKER", "The marker; {label} stands for what was found."),
    Setting(
        "secrets_detectors", "QUIPU_SECRETS_DETECTORS", "Whether secrets are also told by their usual shapes."
    ),
    Setting(
        "sealing_key",
        "QUIPU_SEALING_KEY",
        "File with the key that seals registered secrets; by default beside the ledger.",
    ),
    Setting(
        "governance_rules",
        "QUIPU_RULES",
        "File with rules that allow, hold or deny writes, TOML or JSON; they come before every tenant's own.",
    ),
    Setting(
        "governance_default",
        "QUIPU_RULES_DEFAULT",
        "What becomes of a write that no rule is about: allow, hold or deny.",
    ),
    Setting(
        "rate_per_minute",
        "QUIPU_RATE",
        "Requests a minute of a token that has no rate of its own; 0: no limit.",
    ),
    Setting(
        "recall_budget",
        "QUIPU_RECALL_BUDGET",
        "Memories an hour that a token, and all tokens for one agent, may be given; 0: no limit.",
    ),
    Setting("oidc_issuer", "QUIPU_OIDC_ISSUER", "Identity provider whose signed tokens are believed."),
    Setting("oidc_audience", "QUIPU_OIDC_AUDIENCE", "The audience that its tokens must name."),
    Setting("oidc_jwks_url", "QUIPU_OIDC_JWKS", "Its keys; by default its discovery document says where."),
    Setting("oidc_tenant", "QUIPU_OIDC_TENANT", "The tenant of everybody who signs in there."),
    Setting("oidc_tenant_claim", "QUIPU_OIDC_TENANT_CLAIM", "Or the claim that names the tenant."),
    Setting("oidc_name_claim", "QUIPU_OIDC_NAME_CLAIM", "The claim that says who it is."),
    Setting("oidc_roles_claim", "QUIPU_OIDC_ROLES_CLAIM", "The claim that names roles."),
    Setting("oidc_agents_claim", "QUIPU_OIDC_AGENTS_CLAIM", "The claim that names agents; by default all."),
    Setting("oidc_default_role", "QUIPU_OIDC_DEFAULT_ROLE", "The role of somebody whose claims name none."),
    *_SERVER,
    *_MCP,
    *(Setting(f"limit_{name}", f"QUIPU_LIMIT_{name.upper()}", help) for name, help in _LIMITS.items()),
)

_TRUE = frozenset({"1", "true", "yes", "on"})
_FALSE = frozenset({"0", "false", "no", "off"})


def load(environment: Mapping[str, str] | None = None) -> Config:
    """Defaults, then the settings file, then the environment."""
    given = dict(os.environ if environment is None else environment)
    values = _from_file(given)
    for setting in SETTINGS:
        text = given.get(setting.environment) or given.get(setting.alias or "")
        if text:
            values[setting.name] = _parsed(setting.name, text, setting.environment)
    return Config(**cast("Any", values))


def _from_file(given: Mapping[str, str]) -> dict[str, object]:
    named = given.get("QUIPU_CONFIG")
    path = (
        Path(named).expanduser()
        if named
        else _home(given, "XDG_CONFIG_HOME", ".config") / "quipu" / "config.toml"
    )
    if not path.exists():
        if named:
            raise InvalidError(f"The settings file {path} does not exist.", reason="bad_setting")
        return {}
    try:
        found = tomllib.loads(path.read_text("utf-8"))
    except (OSError, ValueError) as error:
        raise InvalidError(
            f"The settings file {path} cannot be read: {error}", reason="bad_setting"
        ) from error
    known = {setting.name for setting in SETTINGS}
    for name in found:
        if name not in known:
            raise InvalidError(
                f"There is no setting {name} ({path}).",
                reason="bad_setting",
                hint=f"Known: {', '.join(sorted(known))}.",
            )
    return {name: _parsed(name, str(value), str(path)) for name, value in found.items()}


def _parsed(name: str, text: str, where: str) -> object:
    kind = next(field.type for field in fields(Config) if field.name == name)
    if kind == "bool":
        if text.lower() in _TRUE | _FALSE:
            return text.lower() in _TRUE
        raise InvalidError(f"{name} in {where} is neither true nor false.", reason="bad_setting")
    if kind == "int":
        try:
            return int(text)
        except ValueError:
            raise InvalidError(f"{name} in {where} is not a whole number.", reason="bad_setting") from None
    return text


def _home(given: Mapping[str, str], variable: str, fallback: str) -> Path:
    named = given.get(variable)
    return Path(named) if named else Path.home() / fallback


def data_dir(environment: Mapping[str, str] | None = None) -> Path:
    """Where the default memory lives."""
    return (
        _home(os.environ if environment is None else environment, "XDG_DATA_HOME", ".local/share") / "quipu"
    )


def database_url(environment: Mapping[str, str] | None = None) -> str:
    """Where `pgvector://default` leads."""
    return (os.environ if environment is None else environment).get("DATABASE_URL", "")


def cache_dir(config: Config, environment: Mapping[str, str] | None = None) -> Path:
    """Where built models are kept."""
    if config.cache_dir:
        return Path(config.cache_dir).expanduser()
    return _home(os.environ if environment is None else environment, "XDG_CACHE_HOME", ".cache") / "quipu"
