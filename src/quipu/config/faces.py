"""The settings of the contracts that the server speaks beside memorywire, in words."""

from __future__ import annotations

from quipu.config.setting import Setting

#: What `quipu mcp` and the server's /mcp go by.
MCP = (
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

#: What OpenTelemetry is told, and where it goes.
TELEMETRY = (
    Setting("telemetry", "QUIPU_TELEMETRY", "Whether operations are told to OpenTelemetry."),
    Setting(
        "telemetry_convention",
        "QUIPU_TELEMETRY_CONVENTION",
        "Whose names spans use: proposal, merged (upstream's later ones), or both.",
    ),
    Setting(
        "telemetry_capture_content",
        "OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT",
        "Whether content and queries are shown, after redaction: NO_CONTENT, SPAN_ONLY, EVENT_ONLY, SPAN_AND_EVENT.",
    ),
    Setting(
        "telemetry_content_limit",
        "QUIPU_TELEMETRY_CONTENT_LIMIT",
        "Characters of content in one attribute; what is longer is cut.",
    ),
    Setting(
        "telemetry_namespace",
        "QUIPU_TELEMETRY_NAMESPACE",
        "How isolation keys, often user ids, are shown: plain, hash or off. Else plain, and off under merged.",
    ),
    Setting(
        "telemetry_identity",
        "QUIPU_TELEMETRY_IDENTITY",
        "When agent and session are shown: scoped (where the store is theirs) or always.",
    ),
    Setting("telemetry_metrics", "QUIPU_TELEMETRY_METRICS", "Whether operations are measured."),
    Setting(
        "telemetry_phases",
        "QUIPU_TELEMETRY_PHASES",
        "Whether the phases of a recall have spans of their own.",
    ),
    Setting(
        "telemetry_events",
        "QUIPU_TELEMETRY_EVENTS",
        "Whether errors, and content where it is asked for, are log events.",
    ),
    Setting(
        "telemetry_endpoint",
        "OTEL_EXPORTER_OTLP_ENDPOINT",
        "The collector that `quipu serve` and `quipu mcp` export to, such as http://127.0.0.1:4318.",
    ),
    Setting(
        "telemetry_traces_endpoint",
        "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT",
        "The whole address for spans, where it is not /v1/traces below the collector.",
    ),
    Setting(
        "telemetry_metrics_endpoint",
        "OTEL_EXPORTER_OTLP_METRICS_ENDPOINT",
        "The whole address for metrics, where it is not /v1/metrics below the collector.",
    ),
    Setting(
        "telemetry_traces_exporter",
        "OTEL_TRACES_EXPORTER",
        "How spans leave, where a collector is named: otlp, or none at all.",
    ),
    Setting(
        "telemetry_metrics_exporter",
        "OTEL_METRICS_EXPORTER",
        "How metrics leave, where a collector is named: otlp, or none at all.",
    ),
    Setting(
        "telemetry_logs_exporter",
        "OTEL_LOGS_EXPORTER",
        "How log events leave, where a collector is named: otlp, or none at all.",
    ),
)

#: What the OpenWOP host goes by.
OPENWOP = (
    Setting(
        "openwop_seams",
        "QUIPU_OPENWOP_SEAMS",
        "Whether the test seams, fixture workflows and test secrets of OpenWOP are there. Never in production.",
    ),
    Setting(
        "openwop_attribution",
        "QUIPU_OPENWOP_ATTRIBUTION",
        "Whether a run's log tells of each memory that is written in it.",
    ),
    Setting(
        "openwop_backends",
        "QUIPU_OPENWOP_BACKENDS",
        "Memory that OpenWOP runs have: some of scratchpad, conversation, longTerm.",
    ),
    Setting("openwop_entry_bytes", "QUIPU_OPENWOP_ENTRY_BYTES", "Bytes of one OpenWOP memory entry."),
    Setting(
        "openwop_agents",
        "QUIPU_OPENWOP_AGENTS",
        "JSON file with manifests of agents that the OpenWOP inventory lists.",
    ),
    Setting(
        "openwop_history_days",
        "QUIPU_OPENWOP_HISTORY_DAYS",
        "Days after which a sweep drops the log and variables of a run that has ended; 0: never.",
    ),
    Setting(
        "openwop_lease_s",
        "QUIPU_OPENWOP_LEASE_S",
        "Seconds after which the runs of a server that died are taken up by another, and their notes are gone.",
    ),
    Setting(
        "openwop_keeps",
        "QUIPU_OPENWOP_KEEPS",
        "Refs that the server looks after by itself, separated by commas: commitments fire, entries that say the same become one.",
    ),
    Setting(
        "openwop_keep_every_s",
        "QUIPU_OPENWOP_KEEP_EVERY_S",
        "Seconds between the rounds in which the server looks after those refs; 0: never.",
    ),
    Setting(
        "openwop_compact_above",
        "QUIPU_OPENWOP_COMPACT_ABOVE",
        "How many entries such a ref may have before they are compacted into one; 0: any number.",
    ),
)

#: Lending memory to others.
OAP = (
    Setting(
        "oap_allowed_hosts",
        "QUIPU_OAP_ALLOWED_HOSTS",
        "Origins that may be asked although they are private, such as http://127.0.0.1:8321, separated by commas; for trying things out.",
    ),
    Setting(
        "oap_authorities",
        "QUIPU_OAP_AUTHORITIES",
        "PEM file with certificate authorities that other hosts may be known by, beside the usual ones.",
    ),
    Setting(
        "oap_owners",
        "QUIPU_OAP_OWNERS",
        "DIDs that owners bring along: did=tenant, separated by commas. Without it owners are known by this host's address.",
    ),
    Setting(
        "oap_free_text",
        "QUIPU_OAP_FREE_TEXT",
        "What becomes of text without structure below level 4: omit, or builtin, which masks addresses and numbers but no names.",
    ),
    Setting("oap_max_items", "QUIPU_OAP_MAX_ITEMS", "Items that one grant may show at most."),
    Setting("oap_max_days", "QUIPU_OAP_MAX_DAYS", "Days that a grant may last at most."),
    Setting(
        "oap_trust_ceiling",
        "QUIPU_OAP_TRUST_CEILING",
        "The highest level of trust anybody is served at, 0 to 4, whatever a grant says.",
    ),
    Setting(
        "oap_trust_unvouched",
        "QUIPU_OAP_TRUST_UNVOUCHED",
        "The highest level of trust anybody is served at on a grant alone, 0 to 4; beyond it a voucher has to vouch for them.",
    ),
    Setting(
        "oap_vouchers",
        "QUIPU_OAP_VOUCHERS",
        "DIDs whose credentials vouch for grantees, separated by commas. The owner's own always do.",
    ),
    Setting(
        "oap_queries_per_minute", "QUIPU_OAP_QUERIES_PER_MINUTE", "Queries that one grant allows in a minute."
    ),
    Setting(
        "oap_request_days",
        "QUIPU_OAP_REQUEST_DAYS",
        "Days that a request for access is kept after it was refused or has lapsed.",
    ),
)
