"""This API's part of the OpenAPI document."""

from __future__ import annotations

from quipu.faces.http.openapi import Described, Node, headers, problems
from quipu.faces.rest import (
    openapi_access,
    openapi_governing,
    openapi_mirroring,
    openapi_moving,
    openapi_records,
    openapi_settling,
    openapi_upkeep,
    schemas,
)
from quipu.faces.rest.asking import DecisionBody, RotateBody, SecretBody, TenantBody, TokenBody, VacuumBody
from quipu.faces.rest.openapi_parts import Operation
from quipu.faces.rest.paths import PREFIX
from quipu.model.access import IssuedToken, KeptSecret, Tenant, Token
from quipu.model.change import Proposal
from quipu.model.governance import Review
from quipu.model.journal import Checkpoint, Entry, Head
from quipu.model.operations import CreateStoreRequest, Line, ListRequest
from quipu.model.outcomes import ImportSummary, Page, Verification, Version
from quipu.model.principal import Principal
from quipu.model.record import Record
from quipu.model.store import Store

_TAGS = {
    "stores": "Memory stores.",
    "kept records": "Records as they are kept, with all that is needed to check them.",
    "upkeep": "The journal, its proof, and the ledger as a whole.",
    "access": "Tenants, tokens and secrets.",
    "moving": "Whole memories as files, in many formats.",
    **openapi_settling.TAGS,
    **openapi_governing.TAGS,
    **openapi_mirroring.TAGS,
}
OPERATIONS = (
    *openapi_records.OPERATIONS,
    *openapi_upkeep.OPERATIONS,
    *openapi_access.OPERATIONS,
    *openapi_moving.OPERATIONS,
    *openapi_settling.OPERATIONS,
    *openapi_governing.OPERATIONS,
    *openapi_mirroring.OPERATIONS,
)


def described() -> Described:
    """All there is to say."""
    paths: dict[str, Node] = {}
    for operation in OPERATIONS:
        method, _, path = operation.line.partition(" ")
        paths.setdefault(PREFIX + path, {})[method.lower()] = _node(operation, path)
    kinds = (
        *(Record, Page, Version, Store, Proposal, Entry, Head, Checkpoint, Verification, ImportSummary),
        *(Principal, Token, IssuedToken, Tenant, KeptSecret, CreateStoreRequest, ListRequest, Line),
        *(
            Review,
            DecisionBody,
            VacuumBody,
            TokenBody,
            RotateBody,
            TenantBody,
            SecretBody,
            *openapi_records.OUTCOMES,
            *openapi_moving.KINDS,
            *openapi_settling.KINDS,
            *openapi_governing.KINDS,
            *openapi_mirroring.KINDS,
        ),
    )
    return Described(paths=paths, schemas=schemas.components(*kinds), tags=_TAGS)


def _node(operation: Operation, path: str) -> Node:
    says = operation.needs if " " in operation.needs else f"Needs `{operation.needs}`."
    answer: Node = {"description": "Done.", "headers": headers()}
    if operation.answer is not None:
        answer["content"] = {operation.media_type: {"schema": operation.answer}}
    node: Node = {
        "operationId": operation.id,
        "tags": [operation.tag],
        "summary": operation.says,
        "description": says,
        "responses": {str(operation.status): answer, **problems(*_always(operation), *operation.refuses)},
    }
    parameters = [*(_in_path(name) for name in ("id", "name") if f"{{{name}}}" in path), *operation.query]
    if parameters:
        node["parameters"] = parameters
    if operation.body is not None:
        node["requestBody"] = {
            "required": operation.is_body_needed,
            "content": {operation.body_type: {"schema": operation.body}},
        }
    return node


def _always(operation: Operation) -> tuple[int, ...]:
    """A query string may hold an unknown word, whatever the operation; a body may be of another kind, too large or late."""
    return (400,) if operation.body is None else (400, 408, 413, 415)


def _in_path(name: str) -> Node:
    said = "Its name." if name == "name" else "Its id."
    return {"name": name, "in": "path", "required": True, "description": said, "schema": {"type": "string"}}
