"""Descriptions of stores, kept records and held writes."""

from __future__ import annotations

from quipu.faces.http.openapi import Node
from quipu.faces.rest.asking import DecisionBody
from quipu.faces.rest.openapi_parts import (
    AGENT,
    AS_OF,
    LIMIT,
    NDJSON,
    NUMBER,
    Operation,
    held,
    lines,
    many,
    query,
    work,
)
from quipu.faces.rest.schemas import ref
from quipu.model.change import Proposal
from quipu.model.governance import Review
from quipu.model.operations import CreateStoreRequest, Line, ListRequest
from quipu.model.outcomes import (
    ExpireResponse,
    ForgetResponse,
    ImportSummary,
    MergeResponse,
    Page,
    RememberResponse,
    Version,
)
from quipu.model.record import MemoryType, Record, State
from quipu.model.store import Store

OUTCOMES = (RememberResponse, ForgetResponse, MergeResponse, ExpireResponse)
_LISTING = (
    AGENT,
    query("user_id", "Only this user's."),
    query("session_id", "Only of this conversation."),
    query("store", "Only of this memory store."),
    query("type", "Only of these types.", {"type": "array", "items": {"enum": [*MemoryType]}}),
    query("state", "Only in these states; live without it.", {"type": "array", "items": {"enum": [*State]}}),
    query("filter", "Only what matches; JSON."),
    AS_OF,
    LIMIT,
    query("cursor", "Where the page starts: `next_cursor` of the one before."),
)
_DECIDED: Node = {
    "type": "object",
    "required": ["operation", "response"],
    "properties": {
        "operation": {"enum": ["remember", "forget", "merge", "expire", "batch", None]},
        "response": {
            "anyOf": [
                *(ref(kind) for kind in OUTCOMES),
                {"type": "array", "items": ref(RememberResponse)},
                {"type": "null"},
            ]
        },
    },
    "additionalProperties": False,
}

OPERATIONS = (
    Operation(
        line="GET /stores",
        id="listStores",
        tag="stores",
        says="The memory stores",
        needs="memory:read",
        answer=many("stores", Store),
        refuses=(),
    ),
    Operation(
        line="POST /stores",
        id="createStore",
        tag="stores",
        says="Open a memory store",
        needs="memory:write",
        body=ref(CreateStoreRequest),
        answer=ref(Store),
        status=201,
        refuses=(400, 409),
    ),
    Operation(
        line="DELETE /stores/{name}",
        id="deleteStore",
        tag="stores",
        says="Take a store away with all it holds",
        needs="memory:admin",
        query=(
            query("confirm", "The store's name once more.", required=True),
            query("hard_delete", "Also erase what it holds.", {"type": "boolean"}),
        ),
        answer=held(removed=NUMBER),
        refuses=(400, 404, 409),
    ),
    Operation(
        line="GET /records",
        id="listRecords",
        tag="kept records",
        says="A page of records, newest first",
        needs="memory:read",
        query=_LISTING,
        answer=ref(Page),
        refuses=(400, 404),
    ),
    Operation(
        line="POST /records/query",
        id="queryRecords",
        tag="kept records",
        says="The same, with a filter that does not stand in the address",
        needs="memory:read",
        body=ref(ListRequest),
        is_body_needed=False,
        answer=ref(Page),
        refuses=(400, 404),
    ),
    Operation(
        line="GET /records/{id}",
        id="getKeptRecord",
        tag="kept records",
        says="One record",
        needs="memory:read",
        query=(AGENT, AS_OF),
        answer=ref(Record),
        refuses=(400, 404),
    ),
    Operation(
        line="GET /records/{id}/history",
        id="getKeptHistory",
        tag="kept records",
        says="All versions of a record, oldest first",
        needs="memory:read",
        query=(AGENT,),
        answer=many("versions", Version),
        refuses=(400, 404),
    ),
    Operation(
        line="GET /proposals",
        id="listHeldWrites",
        tag="kept records",
        says="Writes that wait for a person, or were decided",
        needs="memory:review",
        query=(query("status", "How they stand.", {"enum": ["pending", "approved", "rejected", "all"]}),),
        answer=many("proposals", Proposal),
    ),
    Operation(
        line="GET /proposals/{id}",
        id="reviewHeldWrite",
        tag="kept records",
        says="One of them, with what a yes would change",
        needs="memory:review",
        answer=ref(Review),
        refuses=(404,),
    ),
    Operation(
        line="POST /proposals/{id}/decision",
        id="decideHeldWrite",
        tag="kept records",
        says="Approve a held write, which carries it out, or reject it",
        needs="memory:review",
        body=ref(DecisionBody),
        answer=_DECIDED,
        refuses=(400, 404, 409),
    ),
    Operation(
        line="POST /export",
        id="exportKeptRecords",
        tag="kept records",
        says="Every record that a list means, as lines",
        needs="memory:admin",
        body=ref(ListRequest),
        is_body_needed=False,
        answer=lines(ref(Record)),
        media_type=NDJSON,
        refuses=(400, 404),
    ),
    Operation(
        line="POST /import",
        id="importLines",
        tag="kept records",
        says="Bring records in, one for each line",
        needs="Needs `memory:write`; ids and times need `memory:admin`.",
        query=(
            query("dry_run", "Only say what would happen.", {"type": "boolean"}),
            query("stop_on_error", "End at the first bad line.", {"type": "boolean"}),
            query("import_id", "Go on with this import: these lines follow those that came before."),
        ),
        body=ref(Line),
        body_type=NDJSON,
        answer=work(NUMBER, ref(ImportSummary)),
        media_type=NDJSON,
        refuses=(400, 415),
    ),
)
