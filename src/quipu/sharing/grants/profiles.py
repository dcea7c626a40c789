"""Profiles: which fields of an entity are shown at which level of trust (OAP RFC 0007). Pure.

A table is cumulative: a level shows what the levels below it show, and more; level 4 shows everything. A path is names
joined by dots; `[]` steps into a list, `[name=value]` keeps the members that say so, `[=value]` the field if it has that
value, `[!private]` the field unless its entity is private.
"""

import re
from collections.abc import Mapping
from typing import Any, cast

PREFIX = "oap.profile.projection."
ITEM_PROFILE = f"{PREFIX}x_quipu.memory_item.v1"
#: What every entity shows.
IDENTITY = ("entity_type", "entity_version", "id")
_ENTITY = "oap.entity."
_TEST = re.compile(r"\[(\w+)=(\w+)\]")

#: Entity → what each level from 0 to 3 adds.
TABLES: Mapping[str, tuple[tuple[str, ...], ...]] = {
    "contact": (
        ("names.given", "names.family"),
        ("affiliations[].organization_id", "affiliations[].role"),
        ("channels[][type=email][primary=true]", "languages"),
        ("channels", "addresses", "social", "skills"),
    ),
    "calendar_event": (
        ("start", "end", "transparency[=busy]"),
        ("title[!private]",),
        ("participants_count",),
        ("participant_dids", "location_general"),
    ),
    "task": (("status",), ("title", "due_at"), ("priority", "assignee_dids"), ("description",)),
}
#: Profile → the entities that it is for.
PROFILES: Mapping[str, tuple[str, ...]] = {
    **{f"{PREFIX}{entity}.v1": (entity,) for entity in TABLES},
    ITEM_PROFILE: tuple(TABLES),
}
#: Members of free structures that are named after what is hidden below a level.
_HIDDEN_BELOW: Mapping[int, frozenset[str]] = {
    2: frozenset({"email", "mail", "emails"}),
    3: frozenset({
        "phone", "phones", "tel", "telephone", "mobile", "fax", "address", "addresses", "street", "zip", "postcode",
        "social", "handle", "twitter", "mastodon", "linkedin", "instagram", "username", "skills",
    }),
    4: frozenset({
        "password", "secret", "token", "iban", "card", "account", "ssn", "passport", "birthday", "birthdate", "dob",
        "ip", "url", "name", "names", "given", "family", "surname",
    }),
}  # fmt: skip


def is_entity(value: Mapping[str, Any]) -> bool:
    """Whether an object says that it is an entity; one that says so in a strange way is one too, of no known type."""
    return "entity_type" in value


def hides(name: str, level: int) -> bool:
    """Whether a member of a free structure is named after something that this level hides."""
    plain = re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", name).lower()
    words = {word for word in re.split(r"[^a-z]+", re.sub(r"e[-_]mail", "email", plain)) if word}
    return any(level < shown_from and words & named for shown_from, named in _HIDDEN_BELOW.items())


def entity(value: Mapping[str, Any], profile: str, level: int) -> dict[str, Any]:
    """What a profile shows of an entity at a level. One that the profile is not for shows who it is, and no more."""
    if level >= 4:
        return dict(value)
    shown: dict[str, Any] = {name: value[name] for name in IDENTITY if isinstance(value.get(name), str)}
    known = _type_of(value)
    if known not in PROFILES.get(profile, ()):
        return shown
    for paths in TABLES[known][: level + 1]:
        for path in paths:
            _add(shown, value, path)
    return {name: _without_empty(part) for name, part in shown.items()}


def known_fields(value: Mapping[str, Any]) -> frozenset[str]:
    """Names of an entity's fields that everybody knows, and that may be named when they were taken away."""
    common = {"owner_did", "created_at", "updated_at", "external_ids", "labels", "extensions"}
    paths = {path for level in TABLES.get(_type_of(value), ()) for path in level}
    return frozenset({re.split(r"[.\[]", path)[0] for path in paths} | common)


def _type_of(value: Mapping[str, Any]) -> str:
    kind = value.get("entity_type")
    return kind.removeprefix(_ENTITY) if isinstance(kind, str) and kind.startswith(_ENTITY) else ""


def _without_empty(part: Any) -> Any:
    """A list without the members of which nothing is shown."""
    return [one for one in cast("list[Any]", part) if one != {}] if isinstance(part, list) else part


def _add(shown: dict[str, Any], value: Mapping[str, Any], path: str) -> None:
    first, _, rest = path.partition(".")
    name, _, tests = first.partition("[")
    if name not in value:
        return
    found = value[name]
    if tests == "!private]":
        if value.get("private") is not True and value.get("visibility") != "private":
            shown[name] = found
    elif tests.startswith("="):
        if found == tests[1:-1]:
            shown[name] = found
    elif tests.startswith("]"):
        _add_members(shown, name, found, tests[1:], rest)
    elif rest:
        if isinstance(found, Mapping):
            inner = dict(cast("Mapping[str, Any]", shown.get(name, {})))
            _add(inner, cast("Mapping[str, Any]", found), rest)
            if inner:
                shown[name] = inner
    else:
        shown[name] = found


def _add_members(shown: dict[str, Any], name: str, found: Any, tests: str, rest: str) -> None:
    """Members of a list: some of them whole, or some fields of all of them."""
    given: list[Any] = cast("list[Any]", found) if isinstance(found, list) else []
    members = [cast("Mapping[str, Any]", part) for part in given if isinstance(part, Mapping)]
    if not rest:
        wanted = _TEST.findall(tests)
        kept = [dict(part) for part in members if all(_says(part, key, text) for key, text in wanted)]
        if kept:
            shown[name] = kept
        return
    before: list[dict[str, Any]] = shown.get(name) or [{} for _ in members]
    for known, part in zip(before, members, strict=False):
        _add(known, part, rest)
    if any(before):
        shown[name] = before


def _says(part: Mapping[str, Any], key: str, text: str) -> bool:
    value = part.get(key)
    return value is True if text == "true" else value == text
