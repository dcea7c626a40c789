"""Requests and answers for every operation, made from their schemas."""

from collections.abc import Iterator, Mapping
from typing import Any

from pydantic import BaseModel

from quipu.model.record import DETAIL_FIELDS
from quipu.operation import AnyOperation, Response
from quipu.schemas import schema
from quipu.sharing.grants.profiles import ITEM_PROFILE

#: A text that tries what a path, a query and a command line may lose; and one that every name takes.
_ODD, _PLAIN = "tëxt/../a b&c", "acme"
#: Values where the schema does not say all.
_VALUES: Mapping[str, Any] = {
    "retain": "30d",
    "policy": {"older_than_days": 3},
    "filter": {"tags": "home"},
    "metadata": {"city": "Rome", "n": [1, 2.5, None]},
    "expires_at": 1_900_000_000_000,
    "url": "https://hooks.example/x",
    "item_filter": {"labels_any": ["home"]},
    "base_export_id": f"exp_{'0' * 26}",
    "grantee": "did:web:agent.example",
    "link": "https://memory.example/oap/memory/grant/mgr_1",
    "profile": ITEM_PROFILE,
}
#: What a field cannot stand without.
_COMPANIONS: Mapping[str, Mapping[str, Any]] = {
    **{name: {"type": kind} for name, kind in DETAIL_FIELDS.items()},
    "update_strategy": {"id": "mem_1"},
    "replace": {"id": "mem_1"},
    "if_version": {"id": "mem_1"},
    "action": {"content": "a note"},
    "content": {"action": "add"},
}
_ALWAYS: Mapping[str, Mapping[str, Any]] = {
    "forget": {"ids": ["mem_1", "mem_2"]},
    "expire": {"policy": {"type": "episodic"}},
    "undo": {"run_id": "run_1"},
    "fork_run": {"mode": "branch", "from_seq": 2},
    "run_notes": {"backend": "scratchpad"},
    "share": {"label": ["home"]},
    "erase": {"ids": ["mem_1", "mem_2"]},
    "give_up_borrowed": {"grant_id": "mgr_1"},
}
#: Fields that stand instead of what is given always.
_INSTEAD: Mapping[str, frozenset[str]] = {"erase": frozenset({"filter", "grant_id", "scope_id", "all"})}


def requests(operation: AnyOperation) -> Iterator[tuple[str, dict[str, Any]]]:
    """Each field of the request once, with what it needs to be valid; first what is required, alone."""
    whole = schema(operation.request)
    parts, shared = whole.get("properties", {}), whole.get("$defs", {})
    odd, plain = (
        {name: value(name, part, shared, text) for name, part in parts.items()} for text in (_ODD, _PLAIN)
    )
    required = whole.get("required", ())
    more = _ALWAYS.get(operation.name, {})
    least = _valid(
        operation, *({**{name: values[name] for name in required}, **more} for values in (odd, plain))
    )
    yield "", least
    for name in parts:
        companions = {key: item for key, item in _COMPANIONS.get(name, {}).items() if key in parts}
        is_instead = name in _INSTEAD.get(operation.name, ())
        with_it = {**({} if is_instead else least), **companions}
        yield name, _valid(operation, {**with_it, name: odd[name]}, {**with_it, name: plain[name]})


def _valid(operation: AnyOperation, *candidates: dict[str, Any]) -> dict[str, Any]:
    """The first that the operation takes. A field that needs more has it in _VALUES or _COMPANIONS."""
    found = next((given for given in candidates if _is_valid(operation, given)), None)
    assert found is not None, f"{operation.name} takes none of {candidates}"
    return found


def _is_valid(operation: AnyOperation, given: Mapping[str, Any]) -> bool:
    try:
        operation.request.parse(given)
    except ValueError:
        return False
    return True


def value(name: str, part: Mapping[str, Any], shared: Mapping[str, Any], text: str = "acme") -> Any:
    """A value that the schema takes, and that is not the default."""
    if name in _VALUES:
        return _VALUES[name]
    if "$ref" in part:
        return _object(shared[part["$ref"].rpartition("/")[2]], shared, text)
    if "anyOf" in part:
        return value("", next(arm for arm in part["anyOf"] if arm.get("type") != "null"), shared, text)
    if "enum" in part or "const" in part:
        words = part.get("enum", [part.get("const")])
        return next((word for word in words if word != part.get("default")), words[0])
    match part.get("type"):
        case "array":
            words = [word for word in part["items"].get("enum", ()) if word not in part.get("default", ())]
            if words:
                return words[:1]
            return [value("", part["items"], shared, text)] * max(1, part.get("minItems", 1))
        case "boolean":
            return not part.get("default", False)
        case "integer":
            return max(part.get("minimum", 2), 2 if part.get("maximum", 2) >= 2 else part["maximum"])
        case "number":
            return 0.5
        case "string":
            return text.ljust(part.get("minLength", 0), "x")[: part.get("maxLength", 99)]
        case _:
            if "properties" in part:
                return _object(part, shared, text)
            inner = part.get("additionalProperties")
            return {"a": value("", inner, shared, text) if isinstance(inner, dict) and inner else 1}


def _object(part: Mapping[str, Any], shared: Mapping[str, Any], text: str) -> dict[str, Any]:
    members = part.get("properties", {})
    names = part.get("required") or list(members)[:1]
    return {name: value(name, members[name], shared, text) for name in names}


def answer(model: type[BaseModel]) -> Any:
    """An answer with every field."""
    whole = schema(model)
    shared = whole.get("$defs", {})
    given = {name: value("", part, shared) for name, part in whole.get("properties", {}).items()}
    made = model.model_validate(given, strict=False)
    assert isinstance(made, Response)
    return made
