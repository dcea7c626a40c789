"""The operations of memory, each declared once."""

from quipu.memory import model as m
from quipu.model.principal import Permission
from quipu.operation import (
    FILTERED,
    NAMED,
    WHOLE,
    Command,
    Operation,
    Span,
    Tool,
    delete,
    get,
    patch,
    post,
)

_KEY = {"Idempotency-Key": "idempotency_key"}
_KEY_AND_VERSION = {**_KEY, "If-Match": "if_version"}


def _forget_permission(request: m.ForgetRequest) -> Permission:
    return Permission.ADMIN if request.hard_delete else Permission.DELETE


def _expire_permission(request: m.ExpireRequest) -> Permission:
    return Permission.DELETE if request.action == "forget" else Permission.WRITE


def _expire_span(request: m.ExpireRequest | None) -> Span:
    return "delete_memory" if request is None or request.action == "forget" else "update_memory"


def _list_permission(request: m.ListRequest) -> Permission:
    return Permission.ADMIN if request.all_agents else Permission.READ


def _recall_permission(request: m.RecallRequest) -> Permission:
    return Permission.ADMIN if request.redact == "none" else Permission.READ


REMEMBER = Operation(
    name="remember",
    request=m.RememberRequest,
    response=m.RememberResponse,
    permission=Permission.WRITE,
    limits=NAMED,
    http=post("/v1/memories", v0="remember", headers=_KEY),
    mcp=Tool(
        shows=(
            *("type", "content", "agent_id", "user_id", "metadata", "confidence", "source", "expires_at"),
            *("approval_required", "store", "session_id", "id", "update_strategy", "importance", "tags"),
            *("idempotency_key", "run_id", "node_id"),
        ),
        requires=("type",),
        asks=True,
    ),
    cli=Command(
        says="Remembered  {id}  version {version}",
        arguments=("content",),
        examples=('quipu remember "Ana lives in Lisbon"', 'quipu remember "Ana moved to Porto" --id mem_01…'),
        creates=True,
    ),
    span="update_memory",
    repeat="with_key",
)
UPDATE = Operation(
    name="update",
    request=m.UpdateRequest,
    response=m.RememberResponse,
    permission=Permission.WRITE,
    limits=NAMED,
    http=patch("/v1/memories/{id}", headers=_KEY_AND_VERSION),
    cli=Command(
        says="Changed  {id}  version {version}",
        arguments=("id",),
        examples=("quipu update mem_01… --tags home",),
    ),
    span="update_memory",
    repeat="with_key",
)
REMEMBER_MANY = Operation(
    name="remember_many",
    request=m.RememberManyRequest,
    response=m.RememberManyResponse,
    permission=Permission.WRITE,
    limits=NAMED,
    http=post("/v1/memories/batch", v0="remember/batch", headers=_KEY, lines="items"),
    span="update_memory",
    repeat="with_key",
)
RECALL = Operation(
    name="recall",
    request=m.RecallRequest,
    response=m.RecallResponse,
    permission=_recall_permission,
    limits=NAMED,
    http=post("/v1/memories/recall", v0="recall"),
    mcp=Tool(
        profile="readonly",
        shows=(
            *("query", "agent_id", "user_id", "k", "types", "hops", "fusion", "filter", "fresher_than_days"),
            *("store", "session_id", "min_relevance", "as_of", "max_tokens"),
        ),
        is_read_only=True,
        is_idempotent=True,
    ),
    cli=Command(
        arguments=("query",),
        columns=("id", "type", "relevance", "content"),
        examples=('quipu recall "where does Ana live?"',),
    ),
    span="search_memory",
    repeat="safe",
)
NOTE_RECALLED = Operation(
    name="note_recalled",
    request=m.NoteRecalledRequest,
    response=m.NoteRecalledResponse,
    permission=Permission.READ,
    limits=FILTERED,
    http=post("/v1/memories/recalled"),
    repeat="safe",
)
FORGET = Operation(
    name="forget",
    request=m.ForgetRequest,
    response=m.ForgetResponse,
    permission=_forget_permission,
    limits=NAMED,
    http=post("/v1/memories/forget", v0="forget", headers=_KEY),
    mcp=Tool(
        shows=("ids", "filter", "agent_id", "user_id", "hard_delete", "reason", "approval_required", "store"),
        is_destructive=True,
        is_idempotent=True,
        asks=True,
    ),
    cli=Command(
        arguments=("ids",), examples=("quipu forget mem_01…", 'quipu forget --filter \'{"tags": "old"}\'')
    ),
    span="delete_memory",
    repeat="with_key",
)
MERGE = Operation(
    name="merge",
    request=m.MergeRequest,
    response=m.MergeResponse,
    permission=Permission.WRITE,
    limits=NAMED,
    http=post("/v1/memories/merge", v0="merge", headers=_KEY),
    mcp=Tool(
        shows=(
            *("canonical", "duplicates", "agent_id", "strategy", "approval_required", "store"),
            *("run_id", "node_id"),
        ),
        is_destructive=True,
        is_idempotent=True,
        asks=True,
    ),
    cli=Command(arguments=("canonical", "duplicates"), examples=("quipu merge mem_01… mem_02… mem_03…",)),
    span="update_memory",
    repeat="with_key",
)
EXPIRE = Operation(
    name="expire",
    request=m.ExpireRequest,
    response=m.ExpireResponse,
    permission=_expire_permission,
    limits=NAMED,
    http=post("/v1/memories/expire", v0="expire", headers=_KEY),
    mcp=Tool(
        shows=("policy", "agent_id", "action", "store"),
        requires=("policy",),
        is_destructive=True,
        is_idempotent=True,
        asks=True,
    ),
    cli=Command(examples=("quipu expire --policy '{\"older_than_days\": 90}' --action archive",)),
    span=_expire_span,
    repeat="with_key",
)
GET = Operation(
    name="get",
    request=m.GetRequest,
    response=m.RecordView,
    permission=Permission.READ,
    limits=FILTERED,
    http=get("/v1/memories/{id}"),
    mcp=Tool(profile="readonly", shows=("id", "as_of"), is_read_only=True, is_idempotent=True),
    cli=Command(name="show", arguments=("id",)),
    span="search_memory",
    repeat="safe",
)
LIST = Operation(
    name="list",
    request=m.ListRequest,
    response=m.ListResponse,
    permission=_list_permission,
    limits=NAMED,
    http=get("/v1/memories"),
    mcp=Tool(
        profile="readonly",
        shows=("agent_id", "user_id", "store", "types", "filter", "cursor", "limit"),
        is_read_only=True,
        is_idempotent=True,
    ),
    cli=Command(columns=("id", "type", "created_at", "content")),
    span="search_memory",
    repeat="safe",
)
HISTORY = Operation(
    name="history",
    request=m.HistoryRequest,
    response=m.HistoryResponse,
    permission=Permission.READ,
    limits=FILTERED,
    http=get("/v1/memories/{id}/history"),
    mcp=Tool(profile="admin", is_read_only=True, is_idempotent=True),
    cli=Command(arguments=("id",), columns=("version", "state", "updated_at", "content")),
    span="search_memory",
    repeat="safe",
)
RESTORE = Operation(
    name="restore",
    request=m.RestoreRequest,
    response=m.RememberResponse,
    permission=Permission.WRITE,
    limits=FILTERED,
    http=post("/v1/memories/{id}/restore", headers=_KEY),
    cli=Command(says="Restored  {id}  version {version}", arguments=("id",)),
    span="update_memory",
    repeat="with_key",
)
RELATED = Operation(
    name="related",
    request=m.RelatedRequest,
    response=m.RelatedResponse,
    permission=Permission.READ,
    limits=FILTERED,
    http=get("/v1/memories/{id}/related"),
    span="search_memory",
    repeat="safe",
)
LIST_AGENTS = Operation(
    name="list_agents",
    request=m.ListAgentsRequest,
    response=m.ListAgentsResponse,
    permission=Permission.READ,
    limits=FILTERED,
    http=get("/v1/agents"),
    repeat="safe",
)
CREATE_STORE = Operation(
    name="create_store",
    request=m.CreateStoreRequest,
    response=m.StoreView,
    permission=Permission.WRITE,
    limits=WHOLE,
    http=post("/v1/stores"),
    mcp=Tool(profile="admin"),
    cli=Command(says="Created the store {name}", name="store create", arguments=("name",), creates=True),
    span="create_memory_store",
)
LIST_STORES = Operation(
    name="list_stores",
    request=m.ListStoresRequest,
    response=m.ListStoresResponse,
    permission=Permission.READ,
    limits=FILTERED,
    http=get("/v1/stores"),
    mcp=Tool(profile="admin", is_read_only=True, is_idempotent=True),
    cli=Command(name="store list", columns=("name", "scope", "tier", "description")),
    repeat="safe",
)
DELETE_STORE = Operation(
    name="delete_store",
    request=m.DeleteStoreRequest,
    response=m.DeleteStoreResponse,
    permission=Permission.ADMIN,
    limits=WHOLE,
    http=delete("/v1/stores/{name}"),
    mcp=Tool(profile="admin", is_destructive=True),
    cli=Command(
        says="Deleted the store {name}: {removed} memories", name="store delete", arguments=("name",)
    ),
    span="delete_memory_store",
)
CHANGES = Operation(
    name="changes",
    request=m.ChangesRequest,
    response=m.ChangeEvent,
    permission=Permission.READ,
    limits=FILTERED,
    http=get("/v1/changes", answers="events", headers={"Last-Event-ID": "since"}),
    cli=Command(columns=("seq", "type", "agent_id", "record_ids")),
    is_stream=True,
    repeat="safe",
)

OPERATIONS = (
    *(REMEMBER, UPDATE, REMEMBER_MANY, RECALL, NOTE_RECALLED, FORGET, MERGE, EXPIRE),
    *(GET, LIST, HISTORY, RESTORE, RELATED),
    *(LIST_AGENTS, CREATE_STORE, LIST_STORES, DELETE_STORE, CHANGES),
)
