"""memorywire v0's own shapes: which fields are v0's, its closed answers, its schemas."""

from collections.abc import Mapping
from typing import Any

from quipu.errors import Fault
from quipu.operation import AnyOperation, Response, invalid
from quipu.schemas import DIALECT, schema
from quipu.search.filters import canonical

#: v0's required and optional fields of each request.
_REQUESTS: Mapping[str, tuple[tuple[str, ...], tuple[str, ...]]] = {
    "remember": (
        ("agent_id", "type", "content"),
        ("user_id", "metadata", "confidence", "source", "expires_at", "approval_required"),
    ),
    "recall": (
        ("agent_id", "query"),
        ("user_id", "k", "types", "hops", "fusion", "filter", "fresher_than_days"),
    ),
    "forget": (("agent_id",), ("user_id", "ids", "filter", "hard_delete", "reason")),
    "merge": (("agent_id", "canonical", "duplicates"), ("strategy",)),
    "expire": (("agent_id", "policy"), ("action",)),
}
_ANSWERS: Mapping[str, tuple[str, ...]] = {
    "remember": ("id", "stored_at", "stores", "pending_approval", "approval_url"),
    "recall": ("results", "fusion_used", "stores_queried", "latency_ms"),
    "forget": ("forgotten_ids", "hard_delete", "stores", "pending_approval", "approval_url"),
    "merge": ("canonical", "merged_count", "strategy_used", "stores", "pending_approval", "approval_url"),
    "expire": ("matched_count", "action_taken", "stores", "pending_approval", "approval_url"),
}


def open_request(name: str, given: Mapping[str, Any]) -> dict[str, Any]:
    """A v0 request as our operation takes it: what v0 requires is there, and its filters' plain names are read as v0
    has them: a name that is no field of a record is a key of its metadata."""
    known = {field: value for field, value in given.items() if value is not None}
    required = _REQUESTS.get(name, ((), ()))[0]
    missing = [
        field for field in required if field not in known and not (name == "expire" and field == "policy")
    ]
    if missing:
        raise invalid([Fault(f"/{field}", "missing_field", "this field is required") for field in missing])
    if isinstance(known.get("filter"), dict) and known["filter"]:
        known["filter"] = canonical(known["filter"], plain_names="metadata")
    return known


def answer_fields(name: str) -> tuple[str, ...] | None:
    """The fields of v0's closed answer of an operation; None where v0 does not have the operation."""
    return _ANSWERS.get(name)


def closed_answer(name: str, response: Response, *, has_extensions: bool = False) -> dict[str, Any]:
    """The answer in v0's closed form; with extensions, one more member carries the rest."""
    body = response.to_dict()
    if name == "remember/batch":
        return {"results": [_item(item, has_extensions) for item in body["results"]]}
    if name not in _ANSWERS:
        return body
    return _closed(name, body, has_extensions)


def _closed(name: str, body: dict[str, Any], has_extensions: bool) -> dict[str, Any]:
    closed = {field: body[field] for field in _ANSWERS[name]}
    if has_extensions:
        rest = {field: value for field, value in body.items() if field not in closed and value is not None}
        closed["extensions"] = {"quipu": rest}
    return closed


def _item(item: dict[str, Any], has_extensions: bool) -> dict[str, Any]:
    response = item["response"]
    return {
        "index": item["index"],
        "response": None if response is None else _closed("remember", response, has_extensions),
        "error": item["error"],
    }


def v0_schemas(operations: Mapping[str, AnyOperation]) -> dict[str, dict[str, Any]]:
    """v0's field sets as JSON Schema 2020-12, cut out of our own models."""
    found: dict[str, dict[str, Any]] = {}
    for name, operation in operations.items():
        if name not in _REQUESTS:
            continue
        required, optional = _REQUESTS[name]
        found[f"{name}.request"] = _cut(
            schema(operation.request), (*required, *optional), required, f"{name}.request.json"
        )
        answers = _ANSWERS[name]
        found[f"{name}.response"] = _cut(
            schema(operation.response), answers, answers, f"{name}.response.json"
        )
    return found


def _cut(
    whole: Mapping[str, Any], names: tuple[str, ...], required: tuple[str, ...], schema_id: str
) -> dict[str, Any]:
    return {
        "$schema": DIALECT,
        "$id": f"memorywire/v0/{schema_id}",
        "$defs": whole.get("$defs", {}),
        "type": "object",
        "additionalProperties": False,
        "properties": {name: whole["properties"][name] for name in names},
        "required": list(required),
    }
