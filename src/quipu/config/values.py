"""What can be set, and what it is when nobody sets it."""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from typing import Any, cast

from quipu.model.limits import Limits

#: So many times a raised limit of content a request may be: JSON escapes, and other fields stand beside it.
_BODY = 4


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
    embedder_dimensions: int = 0
    embedder_timeout_s: int = 30
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
    governance_on_reject: str = "erase"
    webhook_hosts: str = ""
    webhook_every_s: int = 5
    rate_per_minute: int = 6000
    recall_budget: int = 20_000
    mirrors: str = ""
    mirror_write_policy: str = "all"
    mirror_write_deadline_ms: int = 250
    recall_deadline_ms: int = 2000
    recall_foreign: str = "own"
    recall_trim_votes: bool = True
    recall_ledger_votes: bool = True
    recall_sign_hits: bool = False
    oidc_issuer: str = ""
    oidc_audience: str = ""
    oidc_jwks_url: str = ""
    oidc_tenant: str = ""
    oidc_tenant_claim: str = ""
    oidc_name_claim: str = "sub"
    oidc_roles_claim: str = "roles"
    oidc_agents_claim: str = ""
    oidc_review_stores_claim: str = ""
    oidc_review_operations_claim: str = ""
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
    max_retain: str = ""
    consolidation_every_s: int = 60
    consolidation_window: int = 100
    consolidation_threshold: str = "0.6"
    consolidation_evict_after_s: int = 24 * 3600
    consolidation_store: str = "main"
    extractor_url: str = ""
    extractor_model: str = ""
    extractor_key: str = ""
    mcp_profile: str = "default"
    mcp_extension: bool = False
    mcp_tenant: str = ""
    mcp_user: str = ""
    mcp_scopes: str = ""
    telemetry: bool = True
    telemetry_convention: str = "proposal"
    telemetry_capture_content: str = "NO_CONTENT"
    telemetry_content_limit: int = 4096
    telemetry_namespace: str = ""
    telemetry_identity: str = "scoped"
    telemetry_metrics: bool = True
    telemetry_phases: bool = False
    telemetry_events: bool = False
    telemetry_endpoint: str = ""
    telemetry_traces_endpoint: str = ""
    telemetry_metrics_endpoint: str = ""
    telemetry_traces_exporter: str = "otlp"
    telemetry_metrics_exporter: str = "otlp"
    telemetry_logs_exporter: str = "otlp"
    openwop_seams: bool = False
    openwop_attribution: bool = True
    openwop_backends: str = "scratchpad,conversation,longTerm"
    openwop_entry_bytes: int = 65_536
    openwop_agents: str = ""
    openwop_history_days: int = 0
    openwop_lease_s: int = 15
    openwop_keeps: str = ""
    openwop_keep_every_s: int = 0
    openwop_compact_above: int = 0
    oap_allowed_hosts: str = ""
    oap_authorities: str = ""
    oap_owners: str = ""
    oap_free_text: str = "omit"
    oap_max_items: int = 10_000
    oap_max_days: int = 180
    oap_trust_ceiling: int = 4
    oap_trust_unvouched: int = 4
    oap_vouchers: str = ""
    oap_queries_per_minute: int = 60
    oap_request_days: int = 30
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

    @property
    def body_bytes(self) -> int:
        """How long a request may be. Where a memory may be longer than usual, one that brings it may be too."""
        is_raised = self.limit_content_bytes > Limits().content_bytes
        return max(self.limit_body_bytes, _BODY * self.limit_content_bytes if is_raised else 0)
