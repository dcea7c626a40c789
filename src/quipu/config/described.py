"""Every setting in words: its name here, in the environment and in the file, and what it does."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Setting:
    """One setting: its name here, in the environment and in the file."""

    name: str
    environment: str
    help: str
    #: Also honoured where `environment` is unset.
    alias: str | None = None


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
