"""memorywire's part of the OpenAPI document: its paths, described, and its schemas, as they are published."""

from __future__ import annotations

from typing import Any, cast

from quipu.faces.http.openapi import Described, Node, problems
from quipu.faces.memorywire import (
    openapi_records,
    openapi_review,
    openapi_rules,
    openapi_step,
    paths,
    schemas,
)
from quipu.faces.memorywire.openapi_examples import EXAMPLES
from quipu.faces.memorywire.openapi_parts import (
    AUDIENCE,
    EXTENSIONS,
    IF_MATCH,
    KEY,
    NONCE,
    PREFER,
    component,
    ref,
    sent,
    told,
)
from quipu.faces.memorywire.openapi_parts import described as described_operation

_TAGS = {
    "memory": "memorywire's five operations, and many remembers at once.",
    "records": "Records by their ids, and many of them in and out.",
    "review": "Writes that wait for a person.",
    "changes": "What changed, as it changes.",
    "proof": "What happened, and who did it.",
    "about": "What this server is.",
}


def described() -> Described:
    """All there is to say."""
    return Described(paths=_paths(), schemas=components(), tags=_TAGS)


# -- schemas ----------------------------------------------------------------------------------------------------


def components() -> dict[str, Node]:
    """Every published schema under its component name; references lead from component to component."""
    return {component(name): cast("Node", _inside(schemas.schema(name), name)) for name in schemas.names()}


def _inside(node: Any, name: str) -> Any:
    if isinstance(node, list):
        return [_inside(item, name) for item in cast("list[Any]", node)]
    if not isinstance(node, dict):
        return node
    members = cast("Node", node)
    # `$id` would move the place that references count from, and `x-v0` is for another reader.
    kept = {key: value for key, value in members.items() if key not in ("$id", "$schema", "x-v0")}
    return {
        key: _reference(value, name) if key == "$ref" else _inside(value, name) for key, value in kept.items()
    }


def _reference(reference: str, name: str) -> str:
    file, _, pointer = reference.partition("#")
    target = file.removeprefix(schemas.URN) or name
    return f"#/components/schemas/{component(target)}{pointer}"


# -- paths ------------------------------------------------------------------------------------------------------


def _paths() -> dict[str, Node]:
    return {
        **{paths.operation(name): {"post": _operation(name)} for name in paths.OPERATIONS},
        paths.BATCH: {"post": _batch()},
        paths.IMPORT: {"post": openapi_records.bringing_in()},
        paths.EXPORT: {"get": openapi_records.export()},
        paths.CHANGES: {"get": openapi_records.changes()},
        paths.RECORD: {"get": openapi_records.record()},
        paths.HISTORY: {"get": openapi_records.history()},
        paths.RESTORE: {"post": openapi_records.restore()},
        paths.STEP: {"post": openapi_step.step()},
        paths.PROPOSALS: {"get": openapi_review.proposals()},
        paths.PROPOSAL: {"get": openapi_review.proposal(), "delete": openapi_review.withdrawal()},
        paths.DECISION: {"post": openapi_review.decision()},
        paths.RULES: {"get": openapi_rules.rules(), "put": openapi_rules.replacing()},
        paths.RULES_TEST: {"post": openapi_rules.trying()},
        paths.SUGGESTED: {"get": openapi_rules.suggested()},
        paths.SUGGESTION: {"post": openapi_rules.settling()},
        paths.AUDIT: {"get": openapi_review.audit()},
        paths.SCHEMAS: {"get": openapi_review.schemas()},
        paths.SCHEMA.replace(":path", ""): {"get": openapi_review.schema()},
        paths.HEALTH: {"get": openapi_review.health()},
        paths.CAPABILITIES: {"get": openapi_review.capabilities()},
    }


_NEEDS = {
    "remember": "memory:write",
    "recall": "memory:read",
    "forget": "Needs `memory:delete`; with `hard_delete`, `memory:admin`.",
    "merge": "memory:write",
    "expire": "Needs `memory:delete`; with action `archive` or `demote`, `memory:write`.",
}
_SUMMARIES = {
    "remember": "Keep a memory, or change one",
    "recall": "Find the memories that answer a query",
    "forget": "Forget memories, or erase them",
    "merge": "Collapse duplicates into one record",
    "expire": "Forget, archive or demote what has had its time",
}


def _operation(name: str) -> Node:
    answer = ref(f"operations/{name}.response")
    names = ["Quipu-Seq", "Quipu-Ignored-Fields", "Preference-Applied", "Quipu-Stores-Failed"]
    parameters = [EXTENSIONS, PREFER]
    if name == "recall":
        parameters += [NONCE, AUDIENCE]
    else:
        names.append("Idempotency-Replayed")
        parameters.append(KEY)
    if name == "remember":
        names.append("ETag")
        parameters.append(IF_MATCH)
    responses: Node = {"200": told("Done.", answer, *names)}
    if name != "recall":
        responses["202"] = told("Held: a person decides at `approval_url`.", answer, *names)
    return described_operation(
        name,
        "memory",
        _SUMMARIES[name],
        _NEEDS[name],
        parameters=parameters,
        requestBody=sent(ref(f"operations/{name}"), example=EXAMPLES[name]),
        responses=responses | problems(400, 404, 405, 408, 409, 413, 415, 422, 501),
    )


def _batch() -> Node:
    return described_operation(
        "rememberBatch",
        "memory",
        "Keep many memories",
        "memory:write",
        description="Embedded together and committed in groups. An item that is wrong does not take the others "
        "along, unless `atomic`. A key in the header counts for every item that has none of its own, by its "
        "place: under the same key an item that differs is a conflict in its place, and what comes behind is new.",
        parameters=[EXTENSIONS, PREFER, KEY],
        requestBody=sent(ref("operations/remember_batch"), example=EXAMPLES["batch"]),
        responses={
            "200": told(
                "What became of each item, in order.",
                ref("operations/remember_batch.response"),
                "Quipu-Seq",
                "Idempotency-Replayed",
            )
        }
        | problems(400, 404, 405, 408, 409, 413, 415, 422, 501),
    )
