"""Every name of both conventions, one table each. An upstream rename is a change here and in one facts file.

A value that a convention has no name for is left off, or shown under a name of Quipu's own.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal, TypeAlias

from quipu.telemetry.settings import Convention

SCOPE = "quipu"
PROVIDER = "quipu"

OPERATION_NAME = "gen_ai.operation.name"
PROVIDER_NAME = "gen_ai.provider.name"
REQUEST_MODEL = "gen_ai.request.model"
TOOL_NAME = "gen_ai.tool.name"
ERROR_TYPE = "error.type"
SERVER_ADDRESS = "server.address"
SERVER_PORT = "server.port"
HTTP_METHOD = "http.request.method"
HTTP_ROUTE = "http.route"
HTTP_STATUS = "http.response.status_code"
URL_SCHEME = "url.scheme"
MCP_METHOD = "mcp.method.name"

#: Quipu's own, in both conventions.
OPERATION = "quipu.memory.operation"
OUTCOME = "quipu.memory.outcome"
SIDE = "quipu.memory.side"
RECORD_TYPE = "quipu.memory.record.type"
SELECTOR = "quipu.memory.delete.selector"
SEARCH_K = "quipu.memory.search.k"
COUNT = "quipu.memory.count"
BACKENDS_FAILED = "quipu.memory.backends.failed"
TRUNCATED = "quipu.memory.content.truncated"
STORE_SCOPE = "quipu.memory.store.scope"
TIER = "quipu.memory.tier"

REVIEW = "quipu.memory.review"
CONSOLIDATE = "quipu.consolidate"
EXPIRE = "quipu.expire"
EMBEDDINGS = "embeddings"
CHAT = "chat"

DURATION = "gen_ai.client.operation.duration"
SERVER_DURATION = "quipu.server.operation.duration"
HTTP_DURATION = "http.server.request.duration"
MCP_DURATION = "mcp.server.operation.duration"
SEARCH_RESULTS = "quipu.memory.search.results"
TOP_SCORE = "quipu.memory.search.top_score"
CONTENT_BYTES = "quipu.memory.content.bytes"
STORE_RECORDS = "quipu.memory.store.records"
PENDING = "quipu.governance.pending"
#: Each is twice the one before; in seconds.
DURATION_BUCKETS = tuple(round(0.01 * 2**n, 2) for n in range(14))

#: What a span says was done: the proposal's five, and two that came with merging.
SpanName: TypeAlias = Literal[
    "search_memory",
    "update_memory",
    "delete_memory",
    "create_memory_store",
    "delete_memory_store",
    "create_memory",
    "upsert_memory",
]
_WRITTEN = frozenset[SpanName]({"update_memory", "create_memory", "upsert_memory"})
_SEARCH = frozenset[SpanName]({"search_memory"})
_STORES = frozenset[SpanName]({"create_memory_store", "delete_memory_store"})
_DELETE = frozenset[SpanName]({"delete_memory"})
_CREATE_STORE = frozenset[SpanName]({"create_memory_store"})
_ITEMS = _WRITTEN | _SEARCH | _DELETE
_ALL = _ITEMS | _STORES


@dataclass(frozen=True, slots=True)
class Named:
    """Under which name a value is shown, and on which spans."""

    name: str
    on: frozenset[SpanName] = _ALL


@dataclass(frozen=True, slots=True, kw_only=True)
class Table:
    """One convention: from what Quipu knows, by the keys of `describe`, to what it is called."""

    names: Mapping[str, Named]
    #: Those that are shown only to who asked for content.
    content: Mapping[str, Named]
    #: Whether the store's name follows the operation in the span's name.
    has_store_in_name: bool
    #: Whether creating a record is told apart from changing one.
    tells_creation: bool
    #: Whether memory in the same process is called as a client calls.
    is_always_client: bool

    def shown_on(self, span: SpanName) -> tuple[tuple[str, str], ...]:
        """Each key that such a span shows, and what it is called there."""
        return tuple((key, named.name) for key, named in self.names.items() if span in named.on)


_PROPOSAL = Table(
    names={
        "store_id": Named("gen_ai.memory.store.id"),
        "store_name": Named("gen_ai.memory.store.name"),
        "scope": Named("gen_ai.memory.scope", _CREATE_STORE | _DELETE),
        "tier": Named("gen_ai.memory.type", _CREATE_STORE | _SEARCH | _WRITTEN),
        "namespace": Named("gen_ai.memory.namespace"),
        "record_id": Named("gen_ai.memory.id", _WRITTEN | _DELETE),
        "results": Named("gen_ai.memory.search.result.count", _SEARCH),
        "threshold": Named("gen_ai.memory.search.similarity.threshold", _SEARCH),
        "strategy": Named("gen_ai.memory.update.strategy", _WRITTEN),
        "expires": Named("gen_ai.memory.expiration_date", _WRITTEN),
        "importance": Named("gen_ai.memory.importance", _WRITTEN),
        "agent": Named("gen_ai.agent.id", _ITEMS),
        "conversation": Named("gen_ai.conversation.id", _ITEMS),
        "several": Named(COUNT, _WRITTEN | _DELETE),
    },
    content={
        "query": Named("gen_ai.memory.query", _SEARCH),
        "content": Named("gen_ai.memory.content", _WRITTEN),
    },
    has_store_in_name=True,
    tells_creation=False,
    is_always_client=True,
)
_MERGED = Table(
    names={
        "store_id": Named("gen_ai.memory.store.id"),
        "record_id": Named("gen_ai.memory.record.id", _ITEMS),
        "count": Named("gen_ai.memory.record.count", _WRITTEN | _DELETE),
        "results": Named("gen_ai.memory.record.count", _SEARCH),
        "agent": Named("gen_ai.agent.id", _ITEMS),
        "conversation": Named("gen_ai.conversation.id", _ITEMS),
        # What merging dropped, under names of Quipu's own.
        "store_name": Named("quipu.memory.store.name"),
        "scope": Named(STORE_SCOPE),
        "tier": Named(TIER),
        "namespace": Named("quipu.memory.namespace"),
        "threshold": Named("quipu.memory.search.min_relevance", _SEARCH),
        "strategy": Named("quipu.memory.update.strategy", _WRITTEN),
        "expires": Named("quipu.memory.expiration_date", _WRITTEN),
        "importance": Named("quipu.memory.importance", _WRITTEN),
    },
    content={
        "query": Named("gen_ai.memory.query.text", _SEARCH),
        "records": Named("gen_ai.memory.records", _WRITTEN | _SEARCH),
    },
    has_store_in_name=False,
    tells_creation=True,
    is_always_client=False,
)
TABLES: Mapping[Convention, Table] = {"proposal": _PROPOSAL, "merged": _MERGED}
