"""Held writes, the journal and what the server is, described."""

from __future__ import annotations

from collections.abc import Mapping

from quipu.faces.http.openapi import Node, problems
from quipu.faces.memorywire.openapi_examples import EXAMPLES
from quipu.faces.memorywire.openapi_parts import (
    AGENT,
    CURSOR,
    ID,
    LIMIT,
    NDJSON,
    PREFER,
    described,
    query,
    ref,
    sent,
    told,
)


def proposals() -> Node:
    """The queue."""
    status = {"enum": ["pending", "approved", "rejected"], "default": "pending"}
    return described(
        "proposals",
        "review",
        "Writes that wait for a person, or were decided",
        "memory:review",
        parameters=[query("status", "How they stand.", status), AGENT, CURSOR, LIMIT],
        responses={"200": told("A page, oldest first.", ref("governance/reviews"))} | problems(400, 405),
    )


def proposal() -> Node:
    """One held write."""
    return described(
        "proposal",
        "review",
        "One of them",
        "Needs `memory:review`, or to have written it.",
        parameters=[ID],
        responses={"200": told("The held write.", ref("governance/review"))} | problems(400, 404, 405),
    )


def withdrawal() -> Node:
    """Its end by its writer."""
    return described(
        "withdraw",
        "review",
        "Take a held write back",
        "For who wrote it.",
        parameters=[ID],
        responses={"204": told("Nothing of it is kept.", None)} | problems(400, 404, 405, 409),
    )


def decision() -> Node:
    """Its end by a reviewer."""
    return described(
        "decide",
        "review",
        "Decide on a held write",
        "memory:review",
        description="A yes carries it out in the same transaction. Nobody decides on their own write.",
        parameters=[ID, PREFER],
        requestBody=sent(ref("governance/decision"), example=EXAMPLES["decision"]),
        responses={"200": told("Decided.", ref("governance/decision.response"))}
        | problems(400, 404, 405, 409, 413, 415, 501),
    )


def audit() -> Node:
    """The journal."""
    page = told("A page, oldest first.", ref("audit"), "Quipu-Seq", "Link")
    page["content"] |= {
        NDJSON: {"schema": {"description": "An entry per line; the last line holds `head`."}},
        "text/csv": {"schema": {"type": "string"}},
    }
    moment = "ISO 8601 with its zone, or milliseconds."
    return described(
        "audit",
        "proof",
        "Look back at the journal",
        "memory:review",
        description="Entries of the agents that the credential may act for, and the chain's end, signed. In a table "
        "no cell can be taken for a formula.",
        parameters=[
            query("operation", "Only entries of this operation, such as `remember` or `recall`."),
            query("agent_id", "Only entries of this agent."),
            query("user_id", "Only entries that mention a record of this user."),
            query("since", f"From this moment on: {moment}"),
            query("until", f"Up to this moment: {moment}"),
            query("format", "How it is written.", {"enum": ["json", "ndjson", "csv"], "default": "json"}),
            CURSOR,
            LIMIT,
        ],
        responses={"200": page} | problems(400, 405),
    )


def schemas() -> Node:
    """The list of schemas."""
    row: Node = {
        "type": "object",
        "required": ["name", "id", "url", "v0"],
        "properties": {
            "name": {"type": "string", "description": "Such as `operations/remember`."},
            "id": {"type": "string", "description": "Its `$id`."},
            "url": {"type": "string", "description": "Where it is."},
            "v0": {"type": "boolean", "description": "Whether memorywire v0 has it too."},
        },
    }
    listed: Node = {
        "type": "object",
        "required": ["schemas"],
        "properties": {"schemas": {"type": "array", "items": row}},
    }
    return described(
        "schemas",
        "about",
        "The published schemas",
        "",
        responses={"200": told("Their names.", listed)} | problems(400, 405),
    )


def schema() -> Node:
    """One schema."""
    name: Node = {
        "name": "name",
        "in": "path",
        "required": True,
        "description": "Such as `operations/remember`.",
        "schema": {"type": "string"},
    }
    dialect = query(
        "dialect", "`v0`: without Quipu's additions.", {"enum": ["v0", "quipu"], "default": "quipu"}
    )
    return described(
        "schema",
        "about",
        "One of them",
        "",
        parameters=[name, dialect],
        responses={
            "200": told("JSON Schema 2020-12.", {"type": "object"}, media_type="application/schema+json")
        }
        | problems(400, 404, 405),
    )


def health() -> Node:
    """How it is."""
    down: Mapping[str, Node] = {"503": told("The ledger is down.", ref("health"))}
    return described(
        "health",
        "about",
        "Whether it is well",
        "",
        description="With `memory:read` it says more.",
        responses={"200": told("It is.", ref("health"))} | problems(405) | dict(down),
    )


def capabilities() -> Node:
    """What it promises."""
    return described(
        "capabilities",
        "about",
        "What it promises",
        "memory:read",
        responses={"200": told("Promises and limits.", ref("capabilities"))} | problems(405),
    )
