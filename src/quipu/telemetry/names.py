"""Every name of every convention, one table each. An upstream rename is a change to this file.

A value that a convention has no name for is left off, or shown under a name of Quipu's own.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from types import MappingProxyType

SCOPE = "quipu"
PROVIDER = "quipu"

OPERATION_NAME = "gen_ai.operation.name"
PROVIDER_NAME = "gen_ai.provider.name"
ERROR_TYPE = "error.type"
RESULT_COUNT = "gen_ai.memory.search.result.count"
HTTP_STATUS = "http.response.status_code"
SERVER_ADDRESS = "server.address"
SERVER_PORT = "server.port"
REQUEST_MODEL = "gen_ai.request.model"

#: Quipu's own, in every convention.
ACTION = "quipu.memory.operation"
OUTCOME = "quipu.memory.outcome"
SIDE = "quipu.memory.side"
RECORD_TYPE = "quipu.memory.record.type"
SELECTOR = "quipu.memory.delete.selector"
SEARCH_K = "quipu.memory.search.k"
BACKENDS_FAILED = "quipu.memory.backends.failed"
TRUNCATED = "quipu.memory.content.truncated"
MERGED_OPERATION = "quipu.memory.merged_operation"
TOP_K = "gen_ai.retrieval.top_k"

DURATION = "gen_ai.client.operation.duration"
DURATION_BUCKETS = (0.01, 0.02, 0.04, 0.08, 0.16, 0.32, 0.64, 1.28, 2.56, 5.12, 10.24, 20.48, 40.96, 81.92)
SERVER_DURATION = "quipu.server.operation.duration"
HTTP_DURATION = "http.server.request.duration"
MCP_DURATION = "mcp.server.operation.duration"
SEARCH_RESULTS = "quipu.memory.search.results"
TOP_SCORE = "quipu.memory.search.top_score"
CONTENT_BYTES = "quipu.memory.content.bytes"
STORE_RECORDS = "quipu.memory.store.records"
PENDING = "quipu.governance.pending"
#: Labels of Quipu's own metrics.
LABEL_SCOPE = "quipu.memory.store.scope"
LABEL_TIER = "quipu.memory.tier"

DETAILS_EVENT = "quipu.memory.operation.details"
EXCEPTION_EVENT = "gen_ai.client.operation.exception"
REVIEW_SPAN = "quipu.memory.review"
PHASE_SPAN = "quipu.phase."
EMBEDDINGS = "embeddings"


class Convention(StrEnum):
    """Whose names are used."""

    PROPOSAL = "proposal"
    MERGED = "merged"
    BOTH = "both"


class Operation(StrEnum):
    """What a span says was done: the proposal's five, and two that came with merging."""

    SEARCH = "search_memory"
    UPDATE = "update_memory"
    DELETE = "delete_memory"
    CREATE_STORE = "create_memory_store"
    DELETE_STORE = "delete_memory_store"
    CREATE = "create_memory"
    UPSERT = "upsert_memory"


_ALL = frozenset(Operation)
_WRITTEN = frozenset({Operation.UPDATE, Operation.CREATE, Operation.UPSERT})
_REMOVING = frozenset({Operation.DELETE})
_ITEMS = frozenset({Operation.SEARCH, Operation.DELETE}) | _WRITTEN


@dataclass(frozen=True, slots=True)
class Named:
    """Under which name a value is shown, and on which spans."""

    name: str
    on: frozenset[Operation] = _ALL


@dataclass(frozen=True, slots=True, kw_only=True)
class Table:
    """One convention: from what Quipu knows to what it is called."""

    attributes: Mapping[str, Named]
    #: Whether the store's name follows the operation in the span's name.
    names_store: bool
    #: Whether creating a record is told apart from changing one.
    tells_creation: bool
    #: Whether memory in the same process is a client of itself.
    is_always_client: bool
    has_top_k: bool = False
    extra: Mapping[str, Named] = field(default_factory=dict[str, Named])


_SEARCH = frozenset({Operation.SEARCH})
_PROPOSAL: Mapping[str, Named] = MappingProxyType(
    {
        "store_id": Named("gen_ai.memory.store.id"),
        "store_name": Named("gen_ai.memory.store.name"),
        "scope": Named("gen_ai.memory.scope", frozenset({Operation.CREATE_STORE, Operation.DELETE})),
        "tier": Named("gen_ai.memory.type", frozenset({Operation.CREATE_STORE, Operation.SEARCH}) | _WRITTEN),
        "namespace": Named("gen_ai.memory.namespace"),
        "record_id": Named("gen_ai.memory.id", _WRITTEN | _REMOVING),
        "query": Named("gen_ai.memory.query", _SEARCH),
        "content": Named("gen_ai.memory.content", _WRITTEN),
        "results": Named(RESULT_COUNT, _SEARCH),
        "threshold": Named("gen_ai.memory.search.similarity.threshold", _SEARCH),
        "strategy": Named("gen_ai.memory.update.strategy", _WRITTEN),
        "expires": Named("gen_ai.memory.expiration_date", _WRITTEN),
        "importance": Named("gen_ai.memory.importance", _WRITTEN),
        "agent": Named("gen_ai.agent.id", _ITEMS),
        "conversation": Named("gen_ai.conversation.id", _ITEMS),
    }
)
_MERGED_ONLY: Mapping[str, Named] = MappingProxyType(
    {
        "store_id": Named("gen_ai.memory.store.id"),
        "record_id": Named("gen_ai.memory.record.id", _ITEMS),
        "count": Named("gen_ai.memory.record.count", _ITEMS),
        "query": Named("gen_ai.memory.query.text", _SEARCH),
        "records": Named("gen_ai.memory.records", _ITEMS),
    }
)
#: What merging dropped, under names of Quipu's own.
_MERGED_OWN: Mapping[str, Named] = MappingProxyType(
    {
        "store_name": Named("quipu.memory.store.name"),
        "scope": Named("quipu.memory.store.scope"),
        "tier": Named("quipu.memory.tier"),
        "namespace": Named("quipu.memory.namespace"),
        "threshold": Named("quipu.memory.search.min_relevance", _SEARCH),
        "strategy": Named("quipu.memory.update.strategy", _WRITTEN),
        "expires": Named("quipu.memory.expiration_date", _WRITTEN),
        "importance": Named("quipu.memory.importance", _WRITTEN),
        "agent": Named("gen_ai.agent.id", _ITEMS),
        "conversation": Named("gen_ai.conversation.id", _ITEMS),
    }
)

TABLES: Mapping[Convention, Table] = MappingProxyType(
    {
        Convention.PROPOSAL: Table(
            attributes=_PROPOSAL, names_store=True, tells_creation=False, is_always_client=True
        ),
        Convention.MERGED: Table(
            attributes={**_MERGED_ONLY, **_MERGED_OWN},
            names_store=False,
            tells_creation=True,
            is_always_client=False,
            has_top_k=True,
        ),
        Convention.BOTH: Table(
            attributes=_PROPOSAL,
            names_store=True,
            tells_creation=False,
            is_always_client=True,
            has_top_k=True,
            extra=_MERGED_ONLY,
        ),
    }
)
#: Shown only to who asked for content.
CONTENT = frozenset(
    {
        _PROPOSAL["query"].name,
        _PROPOSAL["content"].name,
        _MERGED_ONLY["query"].name,
        _MERGED_ONLY["records"].name,
    }
)
