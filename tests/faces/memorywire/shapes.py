"""Bodies made from the published schemas: valid ones, and near misses. JSON Schema itself says which is which."""

import json
from functools import cache
from typing import Any

from hypothesis import assume
from hypothesis import strategies as st
from jsonschema import Draft202012Validator
from referencing import Registry, Resource
from referencing.jsonschema import DRAFT202012

from quipu.faces.memorywire.schemas import names, schema

TEXT = st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]), max_size=6)
WORDS = st.text("abcdefgh_", min_size=1, max_size=6)
WHOLE = st.integers(-(2**53), 2**53)
FLOATS = st.floats(allow_nan=False, allow_infinity=False)
SCALARS = st.none() | st.booleans() | WHOLE | FLOATS | TEXT
JSON = st.recursive(
    SCALARS, lambda x: st.lists(x, max_size=2) | st.dictionaries(TEXT, x, max_size=2), max_leaves=4
)
OBJECTS = st.dictionaries(TEXT, JSON, max_size=3)

#: Values that are nearly right somewhere.
ODD = [
    None,
    True,
    False,
    -1,
    0,
    1,
    5.0,
    1.5,
    17,
    1001,
    10**6,
    "",
    "1",
    "auto",
    "semantic",
    "x" * 300,
    [],
    [1],
    ["a"],
    {},
    {"a": 1},
]


@cache
def registry() -> Registry[Any]:
    return Registry().with_resources(
        (schema(name)["$id"], Resource.from_contents(schema(name), DRAFT202012)) for name in names()
    )


@cache
def validator(name: str) -> Draft202012Validator:
    return Draft202012Validator(schema(name), registry=registry())


def problems(name: str, body: object) -> list[str]:
    """What JSON Schema finds wrong with a body."""
    return [f"{error.json_path}: {error.message}" for error in validator(name).iter_errors(body)]


def bodies(name: str) -> st.SearchStrategy[dict[str, Any]]:
    """Bodies that are valid against a schema."""
    return valid_under(schema(name), Draft202012Validator(schema(name), registry=registry()))


def valid_under(whole: dict[str, Any], judge: Draft202012Validator) -> st.SearchStrategy[dict[str, Any]]:
    """Bodies of a schema given as such."""
    return _made(json.dumps(whole, sort_keys=True), json.dumps(whole)).map(
        lambda body: mended(body, whole, judge)
    )


def mended(body: dict[str, Any], whole: dict[str, Any], judge: Draft202012Validator) -> dict[str, Any]:
    """What conditions between fields forbid is taken out again."""
    for _ in range(10):
        errors = list(judge.iter_errors(body))
        if not errors:
            return body
        for error in errors:
            field = error.absolute_path[0] if error.absolute_path else None
            if field is None and "ids" in whole["properties"]:
                body["ids"] = ["mem_1"]
            elif field is None:
                body.pop("update_strategy", None)
            elif field == "content":
                body["content"] = "text"
            elif field == "items":
                inner = schema("operations/remember"), validator("operations/remember")
                body["items"] = [mended(item, *inner) for item in body["items"]]
            elif field not in whole.get("required", ()):
                body.pop(field, None)
    assume(False)
    return body


@st.composite
def near_misses(draw: st.DrawFn, name: str) -> dict[str, Any]:
    """A valid body with one thing changed, which may or may not make it wrong."""
    body = json.loads(json.dumps(draw(bodies(name))))
    place = draw(st.sampled_from(_objects_in(body)))
    known = sorted(schema(name)["properties"])
    match draw(st.sampled_from(["drop", "replace", "add", "misspell"])):
        case "drop" if place:
            del place[draw(st.sampled_from(sorted(place)))]
        case "replace" if place:
            place[draw(st.sampled_from(sorted(place)))] = draw(st.sampled_from(ODD) | SCALARS)
        case "misspell" if place:
            field = draw(st.sampled_from(sorted(place)))
            place[field + "s"] = place.pop(field)
        case _:
            place[draw(st.sampled_from(known) | WORDS)] = draw(st.sampled_from(ODD))
    return body


def _objects_in(value: object) -> list[dict[str, Any]]:
    """Every object inside a value, itself first."""
    inner = list(value.values()) if isinstance(value, dict) else value if isinstance(value, list) else []
    found = [value] if isinstance(value, dict) else []
    return found + [thing for item in inner for thing in _objects_in(item)]


@cache
def _made(key: str, document: str) -> st.SearchStrategy[Any]:
    """Values of one node (`key`, as text) of a document, leaving conditions between fields aside."""
    node, whole = json.loads(key), json.loads(document)

    def made(child: object, within: object = whole) -> st.SearchStrategy[Any]:
        return _made(json.dumps(child, sort_keys=True), json.dumps(within))

    if "$ref" in node:
        file, _, pointer = node["$ref"].partition("#")
        target = within = schema(file.removeprefix("urn:quipu:memorywire:v0:")) if file else whole
        for step in pointer.split("/")[1:]:
            target = target[step]
        target = target | {"required": [*target.get("required", ()), *node.get("required", ())]}
        return st.deferred(lambda: made(target, within))
    if "const" in node:
        return st.just(node["const"])
    if "enum" in node:
        return st.sampled_from(node["enum"])
    if "anyOf" in node:
        return st.one_of([made(branch) for branch in node["anyOf"]])
    if "then" in node:
        return SCALARS | made(node["then"])
    kinds = node.get("type", [])
    kinds = kinds if isinstance(kinds, list) else [kinds]
    return st.one_of([_of_kind(kind, node, made) for kind in kinds]) if kinds else JSON


def _of_kind(kind: str, node: dict[str, Any], made: Any) -> st.SearchStrategy[Any]:
    low, high = node.get("minimum"), node.get("maximum")
    match kind:
        case "null":
            return st.none()
        case "boolean":
            return st.booleans()
        case "integer":
            whole = st.integers(-(2**53) if low is None else low, 2**53 if high is None else high)
            return whole | whole.map(float)
        case "number":
            return st.floats(low, high, allow_nan=False, allow_infinity=False) | st.integers(
                low or 0, high or 9
            )
        case "string" if "pattern" in node or "not" in node:
            return WORDS
        case "string":
            shortest = node.get("minLength", 0)
            alphabet = st.characters(exclude_characters="\0", exclude_categories=["Cs"])
            return st.text(
                alphabet, min_size=shortest, max_size=min(node.get("maxLength", 300), shortest + 6)
            )
        case "array":
            fewest = node.get("minItems", 0)
            unique = json.dumps if node.get("uniqueItems") else None
            return st.lists(
                made(node.get("items", {})), min_size=fewest, max_size=fewest + 2, unique_by=unique
            )
        case _:
            return _objects(node, made)


def _objects(node: dict[str, Any], made: Any) -> st.SearchStrategy[dict[str, Any]]:
    members = {name: made(member) for name, member in node.get("properties", {}).items()}
    required = {name: members[name] for name in node.get("required", ())}
    optional = {name: member for name, member in members.items() if name not in required}
    if not members and "patternProperties" not in node:
        return OBJECTS
    some = (
        st.fixed_dictionaries(required, optional=optional)
        if len(optional) < 9 and "patternProperties" not in node
        else _few(required, optional, is_nested="patternProperties" in node)
    )
    for free in node.get("patternProperties", {}).values():
        return st.tuples(st.dictionaries(WORDS, made(free), max_size=2), some).map(
            lambda pair: pair[0] | pair[1]
        )
    return some


def _few(
    required: dict[str, Any], optional: dict[str, Any], *, is_nested: bool
) -> st.SearchStrategy[dict[str, Any]]:
    """With a handful of the optional members: all of them at once would hide what each does.

    What holds more of its own kind seldom has one: else most would never come to an end, and be thrown away.
    """
    chosen = st.lists(st.sampled_from(sorted(optional)), unique=True, max_size=6)
    if is_nested:
        chosen = st.one_of(st.just([]), st.just([]), chosen)
    return chosen.flatmap(
        lambda names: st.fixed_dictionaries(required | {name: optional[name] for name in names})
    )
