"""Descriptions of procedures, consolidation and the graph."""

from __future__ import annotations

from quipu.faces.http.openapi import Node
from quipu.faces.rest.openapi_parts import AS_OF, NDJSON, NUMBER, Operation, held, query, work
from quipu.faces.rest.schemas import ref
from quipu.model.consolidation import ConsolidateRequest, Consolidation, Undone
from quipu.model.graph import Graph
from quipu.model.procedure import Procedure

KINDS = (Procedure, ConsolidateRequest, Consolidation, Undone, Graph)
TAGS = {
    "procedures": "State machines that are remembered.",
    "consolidation": "Short-term memory settling into long-term memory.",
    "graph": "What holds memories together.",
}
_OWN_AGENT = query("agent_id", "Only this agent's. Absent: of every agent that the credential may act for.")
_HOPS: Node = {"type": "integer", "minimum": 0, "maximum": 3, "default": 1}
_MOMENT: Node = {"type": "integer"}
_LIMIT: Node = {"type": "integer", "minimum": 1, "maximum": 500, "default": 100}

OPERATIONS = (
    Operation(
        line="GET /records/{id}/procedure",
        id="procedure",
        tag="procedures",
        says="A procedure: its machine, where it stands, and every step it took",
        needs="memory:read",
        answer=ref(Procedure),
        query=(_OWN_AGENT,),
        refuses=(400, 404, 409),
    ),
    Operation(
        line="GET /records/{id}/neighbours",
        id="neighbours",
        tag="graph",
        says="What is around a memory: links, its subject, its session",
        needs="memory:read",
        answer=ref(Graph),
        query=(
            _OWN_AGENT,
            query("hops", "How many links away.", _HOPS),
            query("limit", "How many memories at most.", _LIMIT),
            AS_OF,
            query("valid_at", "Only what is so at this moment, in milliseconds since 1970.", _MOMENT),
        ),
        refuses=(400, 404),
    ),
    Operation(
        line="POST /consolidate",
        id="consolidate",
        tag="consolidation",
        says="Settle short-term memory now",
        needs="Needs `memory:write` and `memory:delete`; over all agents `memory:admin`.",
        answer=work(held(done=NUMBER, of=NUMBER), ref(Consolidation)),
        media_type=NDJSON,
        body=ref(ConsolidateRequest),
        is_body_needed=False,
        refuses=(400, 413, 415),
    ),
    Operation(
        line="POST /consolidations/{id}/undo",
        id="undoConsolidation",
        tag="consolidation",
        says="Take a pass back: what it promoted is forgotten, what it forgot is restored",
        needs="memory:admin",
        answer=ref(Undone),
        refuses=(400, 404),
    ),
)
