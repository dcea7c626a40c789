"""Every setting in words: its name here, in the environment and in the file, and what it does."""

from __future__ import annotations

from quipu.config.faces import MCP, OAP, OPENWOP, TELEMETRY
from quipu.config.setting import Setting

#: Limits that the published schemas state: who wrote a client by them, or has one made of them, relies on that.
PUBLISHED_LIMITS = frozenset({"tags", "tag_length", "links", "name_length", "key_length", "batch", "k"})
_STATED = (
    " More than the default holds in this process only: over HTTP and MCP the published schema states it."
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
        "Seconds that requests at work, and then the signing of journals, get at the end.",
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
        "limit_body_bytes",
        "QUIPU_LIMIT_BODY_BYTES",
        "Bytes of a request's body, at least four times a raised limit of content; an import has no limit.",
    ),
)

#: How short-term memory settles.
_SETTLING = (
    Setting(
        "consolidation_every_s",
        "QUIPU_CONSOLIDATION_S",
        "How often the server settles short-term memory, in seconds; 0: never by itself, not even when it overflows.",
    ),
    Setting(
        "consolidation_window",
        "QUIPU_CONSOLIDATION_WINDOW",
        "So many short-term memories of an agent and user are kept; older ones are promoted or evicted.",
    ),
    Setting(
        "consolidation_threshold",
        "QUIPU_CONSOLIDATION_THRESHOLD",
        "The score from 0 to 1 from which a short-term memory is promoted.",
    ),
    Setting(
        "consolidation_evict_after_s",
        "QUIPU_CONSOLIDATION_EVICT_S",
        "The age in seconds at which a short-term memory below the threshold is forgotten.",
    ),
    Setting("consolidation_store", "QUIPU_CONSOLIDATION_STORE", "The long-term store that promotions go to."),
    Setting(
        "extractor_url",
        "QUIPU_EXTRACTOR_URL",
        "Base address of an OpenAI-compatible endpoint whose model proposes facts; empty: none does.",
    ),
    Setting("extractor_model", "QUIPU_EXTRACTOR_MODEL", "The model to ask that endpoint for."),
    Setting("extractor_key", "QUIPU_EXTRACTOR_KEY", "That endpoint's key. Never logged."),
)

#: How copies in other places take part.
_MIRRORS = (
    Setting(
        "mirrors",
        "QUIPU_MIRRORS",
        "URLs of mirrors, separated by spaces: other stores that hold a copy. Never logged.",
    ),
    Setting(
        "mirror_write_policy",
        "QUIPU_WRITE_POLICY",
        "Whether mirrors are written to: all, or primary_only (they are only read).",
    ),
    Setting(
        "mirror_write_deadline_ms",
        "QUIPU_MIRROR_WRITE_DEADLINE_MS",
        "How long the answer to a write waits for mirrors to confirm it, in milliseconds.",
    ),
    Setting(
        "recall_deadline_ms",
        "QUIPU_RECALL_DEADLINE_MS",
        "How long a recall waits for mirrors in all, in milliseconds; each has a deadline of its own.",
    ),
    Setting(
        "recall_foreign",
        "QUIPU_FOREIGN",
        "Hits of mirrors that no record stands behind fill free places: own (of mirrors that have contents of their own), "
        "last (of all mirrors); or they take part like others: mix; or never: off.",
    ),
    Setting(
        "recall_trim_votes",
        "QUIPU_TRIM_VOTES",
        "Whether rrf leaves votes out so that a store that lies moves nothing; off, it is memorywire's plain sum.",
    ),
    Setting(
        "recall_ledger_votes",
        "QUIPU_LEDGER_VOTES",
        "Whether the ledger's own search counts. Without it only what mirrors find is returned, to test them.",
    ),
    Setting(
        "recall_sign_hits",
        "QUIPU_SIGN_HITS",
        "Whether each hit is signed for a caller that sends a nonce: another Quipu whose mirror this one is.",
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
        "onnx (default, on this machine), fast (a table: cruder, a hundred times quicker), openai (any compatible endpoint), or none.",
    ),
    Setting("embedder_url", "QUIPU_EMBEDDER_URL", "Base address of an OpenAI-compatible endpoint."),
    Setting("embedder_model", "QUIPU_EMBEDDER_MODEL", "The model to ask the endpoint for."),
    Setting("embedder_key", "QUIPU_EMBEDDER_KEY", "The endpoint's key. Never logged."),
    Setting(
        "embedder_dimensions",
        "QUIPU_EMBEDDER_DIMENSIONS",
        "How long its vectors shall be, where its model can make shorter ones; 0: as long as they are.",
    ),
    Setting(
        "embedder_timeout_s", "QUIPU_EMBEDDER_TIMEOUT_S", "Seconds that the endpoint may take to answer."
    ),
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
        "max_retain",
        "QUIPU_MAX_RETAIN",
        "The longest that a memory is kept after it was written, such as 365d; empty: until somebody lets it go.",
    ),
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
        "governance_on_reject",
        "QUIPU_ON_REJECT",
        "What becomes of the text of a write that was rejected: erase, or keep for a look later.",
    ),
    Setting(
        "webhook_hosts",
        "QUIPU_WEBHOOK_HOSTS",
        "Hosts that notices may be sent to although they are inside your network, or without https; with commas between.",
    ),
    Setting("webhook_every_s", "QUIPU_WEBHOOK_S", "How often a server sends notices that are due; 0: never."),
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
    Setting(
        "oidc_review_stores_claim",
        "QUIPU_OIDC_REVIEW_STORES_CLAIM",
        "The claim that names the stores a reviewer decides on; by default all.",
    ),
    Setting(
        "oidc_review_operations_claim",
        "QUIPU_OIDC_REVIEW_OPERATIONS_CLAIM",
        "The claim that names the operations a reviewer decides on; by default all.",
    ),
    Setting("oidc_default_role", "QUIPU_OIDC_DEFAULT_ROLE", "The role of somebody whose claims name none."),
    *_SERVER,
    *_MIRRORS,
    *MCP,
    *OAP,
    *OPENWOP,
    *_SETTLING,
    *TELEMETRY,
    *(
        Setting(
            f"limit_{name}",
            f"QUIPU_LIMIT_{name.upper()}",
            help + _STATED if name in PUBLISHED_LIMITS else help,
        )
        for name, help in _LIMITS.items()
    ),
)
