"""The published wire format: JSON Schema files, found, loaded, and reduced to memorywire v0.

The files are the source of truth. Two annotations in them tell what is not v0's:

- `"x-origin": "quipu"` on a property, a condition or a whole file: Quipu's addition, absent from the v0 form.
- `"x-v0": {...}`: keywords as v0 has them; null takes a keyword away.

Two rules need no annotation: v0 closes responses only, and its requests know no null.
"""

from __future__ import annotations

import json
from functools import cache
from importlib.resources import files
from importlib.resources.abc import Traversable
from pathlib import Path
from typing import Any, TypeAlias, cast

from quipu.errors import NotFoundError

Schema: TypeAlias = dict[str, Any]

URN = "urn:quipu:memorywire:v0:"
V0 = "https://memorywire.dev/schemas/v0/"
DIALECT = "https://json-schema.org/draft/2020-12/schema"

#: Folders of other contracts.
_OTHERS = frozenset({"bundle", "openwop"})
_NOT_V0 = frozenset({"$schema", "$id", "$defs", "$comment", "x-origin", "x-v0"})


def folder() -> Traversable:
    """Where the files are: inside an installed package, or at the root of a source checkout."""
    installed = files("quipu") / "schemas"
    return installed if installed.is_dir() else Path(__file__).parents[4] / "schemas"


@cache
def names() -> tuple[str, ...]:
    """Every schema there is, such as `operations/remember`."""
    return tuple(sorted(_names_in(folder(), "")))


def _names_in(place: Traversable, prefix: str) -> list[str]:
    found: list[str] = []
    for item in place.iterdir():
        if item.is_dir():
            if item.name in _OTHERS:
                continue
            found += _names_in(item, f"{prefix}{item.name}/")
        elif item.name.endswith(".json"):
            found.append(prefix + item.name.removesuffix(".json"))
    return found


@cache
def schema(name: str) -> Schema:
    """One schema as published. Shared: to be read, not changed."""
    if name not in names():
        raise NotFoundError("There is no schema of that name.", reason="schema")
    return cast("Schema", json.loads(folder().joinpath(*f"{name}.json".split("/")).read_text("utf-8")))


@cache
def v0_names() -> tuple[str, ...]:
    """The schemas that memorywire v0 has too."""
    groups = ("operations/", "types/")
    return tuple(n for n in names() if n.startswith(groups) and not _is_quipus(schema(n)))


@cache
def v0_form(name: str) -> Schema:
    """The same shape without Quipu's additions: what v0 itself says. Shared: to be read, not changed."""
    if name not in v0_names():
        raise NotFoundError("memorywire v0 has no schema of that name.", reason="schema")
    form = {"$schema": DIALECT, "$id": V0 + name} | _v0(schema(name), name, name.endswith(".response"))
    if name.startswith("operations/") and not name.endswith(".response"):
        required = cast("list[str]", form["required"])
        properties = cast("Schema", form["properties"])
        form["properties"] = {
            key: value if key in required else _without_null(value) for key, value in properties.items()
        }
    return form


def _is_quipus(node: object) -> bool:
    return isinstance(node, dict) and cast("Schema", node).get("x-origin") == "quipu"


def _v0(node: object, name: str, closed: bool) -> Any:
    """One node of the file `name`; references are replaced by what they mean in v0."""
    if isinstance(node, list):
        members = cast("list[object]", node)
        return [_v0(member, name, closed) for member in members if not _is_quipus(member)]
    if not isinstance(node, dict):
        return node
    node = cast("Schema", node)
    said = {key: value for key, value in (node | node.get("x-v0", {})).items() if value is not None}
    form: Schema = _target(said.pop("$ref"), name, closed) if "$ref" in said else {}
    for key, value in said.items():
        if key in _NOT_V0 or (key == "additionalProperties" and value is False and not closed):
            continue
        if key == "properties":
            kept = {k: v for k, v in cast("Schema", value).items() if not _is_quipus(v)}
            form[key] = {k: _v0(v, name, closed) for k, v in kept.items()}
            continue
        reduced = _v0(value, name, closed)
        if key != "allOf" or reduced:
            form[key] = reduced
    return form


def _target(reference: str, name: str, closed: bool) -> Schema:
    """What a reference points to, in its v0 form."""
    document, _, pointer = reference.partition("#")
    document = document.removeprefix(URN) or name
    node: Any = schema(document)
    for step in pointer.split("/")[1:]:
        node = node[step]
    return _v0(node, document, closed)


def _without_null(field: Schema) -> Schema:
    """An optional field as v0 has it: there, or absent."""
    field = dict(field)
    if isinstance(field.get("type"), list):
        types = [kind for kind in field["type"] if kind != "null"]
        field["type"] = types[0] if len(types) == 1 else types
    if "enum" in field:
        field["enum"] = [value for value in field["enum"] if value is not None]
    if "anyOf" in field:
        (branch,) = (branch for branch in field.pop("anyOf") if branch != {"type": "null"})
        field = branch | field
    return field
