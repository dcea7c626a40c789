"""Rules, described."""

from __future__ import annotations

from quipu.faces.http.openapi import Node, problems
from quipu.faces.memorywire.openapi_examples import EXAMPLES
from quipu.faces.memorywire.openapi_parts import described, query, ref, sent, told


def rules() -> Node:
    own = query("own", "`true`: only those that a `PUT` replaces.", {"enum": ["true", "false"]})
    return described(
        "rules",
        "review",
        "The rules that decide on writes",
        "memory:review",
        description="In their order: those of the server's file, the tenant's own, those that ship. The first that "
        "matches decides.",
        parameters=[own],
        responses={"200": told("The rules.", ref("governance/rules"))} | problems(400, 405),
    )


def replacing() -> Node:
    return described(
        "replaceRules",
        "review",
        "Replace the tenant's own rules",
        "memory:admin",
        description="Journaled. A write that was judged by the former ones is judged again before it is committed.",
        requestBody=sent(ref("governance/rules"), example=EXAMPLES["rules"]),
        responses={"200": told("All rules in force now.", ref("governance/rules"))}
        | problems(400, 405, 413, 415),
    )


def trying() -> Node:
    write: Node = {
        "type": "object",
        "required": ["seq", "at", "operation", "agent_id", "actor", "effect", "rule", "reason"],
        "properties": {
            "seq": {"type": "integer", "description": "Its place in the journal."},
            "at": {"type": "integer", "description": "When, in milliseconds since the Unix epoch."},
            "operation": {"enum": ["remember", "forget", "merge", "expire"], "description": "What it was."},
            "agent_id": {"type": ["string", "null"], "description": "Whose memory."},
            "actor": {"type": "string", "description": "Who wrote."},
            "effect": {"enum": ["allow", "hold", "deny"], "description": "What would have become of it."},
            "rule": {"type": "string", "description": "The rule that decides, or `default`."},
            "reason": {"type": "string", "description": "Why, in the words of the rule."},
        },
    }
    asked: Node = {
        "type": "object",
        "properties": {
            "rules": {"type": "array", "description": "A draft of the tenant's own; absent: those in force."},
            "last": {"type": "integer", "minimum": 1, "maximum": 10_000, "default": 1_000},
        },
        "additionalProperties": False,
    }
    answer: Node = {
        "type": "object",
        "required": ["writes"],
        "properties": {"writes": {"type": "array", "items": write}},
    }
    return described(
        "testRules",
        "review",
        "What rules would have done to the last writes",
        "memory:review",
        description="Changes nothing. Whether a source was new, what stood against a memory and what was a secret "
        "then is not in the journal: conditions on them match nothing here.",
        requestBody=sent(asked, example={**EXAMPLES["rules"], "last": 500}),
        responses={"200": told("The writes, newest first.", answer)} | problems(400, 405, 413, 415),
    )


def suggested() -> Node:
    counts: dict[str, Node] = {
        "first_at": {"type": "integer", "description": "When the first of the decisions was made."},
        "last_at": {"type": "integer", "description": "When the last was."},
        "met": {"type": "integer", "description": "Past decisions that it would have met."},
        "missed": {"type": "integer", "description": "Past decisions that it would have missed."},
        "effect": {
            "type": "integer",
            "description": "Of the last 500 writes, how many it would have decided.",
        },
    }
    words: Node = {"type": "array", "items": {"type": "string"}}
    suggestion: Node = {
        "type": "object",
        "required": ["id", "rule", "evidence", "deciders", *counts],
        "properties": {
            "id": {"type": "string", "description": "Its name."},
            "rule": {"type": "object", "description": "The rule that it would be."},
            "evidence": {**words, "description": "Proposals that were decided this way, newest first."},
            "deciders": {**words, "description": "Who decided."},
            **counts,
        },
    }
    answer: Node = {
        "type": "object",
        "required": ["suggestions"],
        "properties": {"suggestions": {"type": "array", "items": suggestion}},
    }
    return described(
        "suggestedRules",
        "review",
        "Rules that decisions suggest",
        "memory:review",
        description="Five decisions the same way within 90 days, and none the other way. A suggestion does nothing.",
        responses={"200": told("The best supported first.", answer)} | problems(400, 405),
    )


def settling() -> Node:
    asked: Node = {
        "type": "object",
        "required": ["accept"],
        "properties": {
            "accept": {"type": "boolean", "description": "Make it a rule, or do not suggest it again."}
        },
        "additionalProperties": False,
    }
    return described(
        "settleSuggestedRule",
        "review",
        "Accept or dismiss a suggested rule",
        "memory:admin",
        description="An accepted one is first among the tenant's own, and ends by itself after 90 days.",
        requestBody=sent(asked, example={"accept": True}),
        responses={"200": told("All rules in force now.", ref("governance/rules"))}
        | problems(400, 404, 405, 413, 415),
    )
