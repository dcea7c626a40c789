"""How a profile meets an item (OAP contract 7.3): what is left of it at a level of trust.

1. Never raw text because no rule matched: what is not known is left out.
2. Level n shows no more than level n + 1.
3. What is rendered is rendered the same way every time, and marked as derived.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, cast

from quipu.model.grants import TextMode
from quipu.model.value import JsonObject
from quipu.rules import projection_profiles as profiles
from quipu.rules import projection_recognisers as recognisers

_CODE = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.:+/-]{0,63}")
_PARTS = re.compile(r"[^A-Za-z0-9]+")
_ALWAYS = ("item_id", "owner_did", "scope_id", "kind", "subject_entity_id")
#: Deeper structures are cut off: they are data of somebody else's making.
_DEEPEST = 16
_GONE: Any = object()


@dataclass(frozen=True, slots=True, kw_only=True)
class View:
    """Through which eyes an item is seen."""

    profile: str
    level: int
    #: Labels that the grant's own filter names.
    labels: frozenset[str] = frozenset()
    mode: TextMode = TextMode.OMIT
    #: Names of people in the owner's entities, by the entity: in small letters.
    people: Mapping[str, frozenset[str]] = field(default_factory=dict[str, frozenset[str]])


@dataclass(frozen=True, slots=True, kw_only=True)
class Projected:
    """What is left of an item, what is gone, and what has to be told about it."""

    item: dict[str, Any]
    #: Pointers to what was taken away, as far as their names may be known (F7).
    redacted: tuple[str, ...]
    removed: int
    warnings: frozenset[str] = frozenset()

    @property
    def is_altered(self) -> bool:
        return self.removed > 0


def projected(item: JsonObject, view: View) -> Projected:
    """The item as the view shows it."""
    shown: dict[str, Any] = {name: item[name] for name in _ALWAYS if name in item}
    content, warnings = _content(item, view)
    shown["content"] = content
    shown |= _members(item, view)
    total = len(list(leaves(item)))
    kept = len(list(leaves(_original(item, shown))))
    return Projected(
        item=shown,
        redacted=tuple(sorted(_redacted(item, shown))),
        removed=total - kept,
        warnings=warnings,
    )


def layered(item: JsonObject, views: Sequence[View]) -> Projected:
    """Several layers: the intersection of what each shows. Their order does not matter."""
    first = projected(item, views[0])
    for view in views[1:]:
        other = projected(item, view)
        both = cast("dict[str, Any]", _both(first.item, other.item))
        content = both.setdefault("content", {})
        if "text" in content and any(part.item["content"].get("derived") for part in (first, other)):
            content["derived"] = (
                True  # the same words may stand in the original: what one layer made stays marked
            )
        kept = len(list(leaves(_original(item, both))))
        first = Projected(
            item=both,
            redacted=tuple(sorted({*first.redacted, *other.redacted})),
            removed=len(list(leaves(item))) - kept,
            warnings=first.warnings | other.warnings,
        )
    return first


def _both(one: Any, other: Any) -> Any:
    """What both show; of lists, the members that both have."""
    if isinstance(one, Mapping) and isinstance(other, Mapping):
        mine, theirs = cast("Mapping[str, Any]", one), cast("Mapping[str, Any]", other)
        pairs = {name: _both(mine[name], theirs[name]) for name in mine if name in theirs}
        return {name: part for name, part in pairs.items() if part is not _GONE}
    if isinstance(one, list) and isinstance(other, list):
        mine_l, theirs_l = cast("list[Any]", one), cast("list[Any]", other)
        if len(mine_l) == len(theirs_l) and all(isinstance(part, Mapping) for part in (*mine_l, *theirs_l)):
            return [_both(a, b) for a, b in zip(mine_l, theirs_l, strict=True)]
        return [part for part in mine_l if part in theirs_l]
    return cast("Any", one) if one == other else _GONE


# -- members ------------------------------------------------------------------------------------------------------


def _members(item: JsonObject, view: View) -> dict[str, Any]:
    shown: dict[str, Any] = {}
    if "embedding" in item and view.level >= 4:
        shown["embedding"] = item["embedding"]
    provenance = cast("Mapping[str, Any]", item["provenance"])
    names = ("captured_at", "confidence", *(("source_receipt",) if view.level >= 3 else ()))
    shown["provenance"] = {name: provenance[name] for name in names if name in provenance}
    labels = cast("Sequence[str]", item.get("labels", ()))
    shown["labels"] = [label for label in labels if view.level >= 3 or label in view.labels]
    if "ttl_days" in item and view.level >= 3:
        shown["ttl_days"] = item["ttl_days"]
    if "exportable" in item:
        shown["exportable"] = item["exportable"]
    if "extensions" in item and view.level >= 4:
        shown["extensions"] = item["extensions"]
    return shown


def _content(item: JsonObject, view: View) -> tuple[dict[str, Any], frozenset[str]]:
    content = cast("Mapping[str, Any]", item["content"])
    if view.level >= 4:
        text = content.get("text")
        return dict(content), _warnings(text)
    shown: dict[str, Any] = {}
    structured = content.get("structured")
    if isinstance(structured, Mapping) and structured:
        others = frozenset[str]().union(
            *(names for person, names in view.people.items() if person != item.get("subject_entity_id"))
        )
        left = _structure(structured, view, others, 0)
        if isinstance(left, Mapping) and left:
            shown["structured"] = dict(cast("Mapping[str, Any]", left))
        text = rendered(shown.get("structured", {})) if view.level >= 1 else ""
        if text:
            # The recogniser is the last net over rendered text too (F6).
            shown |= {"text": recognisers.masked(text), "derived": True}
        return shown, _warnings(shown.get("text"))
    return _free_text(content.get("text"), view)


def _free_text(text: object, view: View) -> tuple[dict[str, Any], frozenset[str]]:
    lowest = 2 if view.profile == profiles.ITEM_PROFILE else 1
    if not isinstance(text, str) or not text or view.level < lowest or view.mode is TextMode.OMIT:
        return {}, frozenset()
    masked = recognisers.masked(text)
    told = {"free_text_masked_builtin"} if masked != text else set[str]()
    return {"text": masked, "derived": True}, _warnings(masked) | told


def _warnings(text: object) -> frozenset[str]:
    if isinstance(text, str) and recognisers.gives_orders(text):
        return frozenset({"instruction_like_text"})
    return frozenset()


# -- structure ----------------------------------------------------------------------------------------------------


def _structure(value: Any, view: View, others: frozenset[str], depth: int) -> Any:
    """What is left of a value, or `_GONE`. Entities by their table, anything else by the untyped rule (F5)."""
    if depth > _DEEPEST:
        return _GONE
    if isinstance(value, Mapping):
        part = cast("Mapping[str, Any]", value)
        return (
            profiles.entity(part, view.profile, view.level)
            if profiles.is_entity(part)
            else _object(part, view, others, depth)
        )
    if isinstance(value, list | tuple):
        parts = [_structure(one, view, others, depth + 1) for one in cast("Sequence[Any]", value)]
        kept = [one for one in parts if one is not _GONE]
        return kept if kept or (not parts and view.level >= 1) else _GONE
    return value if view.level >= 1 and _is_harmless(value, others) else _GONE


def _object(value: Mapping[str, Any], view: View, others: frozenset[str], depth: int) -> Any:
    kept: dict[str, Any] = {}
    for name, part in value.items():
        if not _is_harmless(name, others) or profiles.hides(name, view.level):
            continue
        left = _structure(part, view, others, depth + 1)
        if left is not _GONE:
            kept[name] = left
    return kept if kept or (not value and view.level >= 1) else _GONE


def _is_harmless(value: object, others: frozenset[str]) -> bool:
    """A number, yes or no, nothing, or a string like a code that names nobody and gives nobody away."""
    if value is None or isinstance(value, bool):
        return True
    if isinstance(value, int | float):
        return not recognisers.hits(format(value, "f") if isinstance(value, float) else str(value))
    if not isinstance(value, str) or not _CODE.fullmatch(value) or recognisers.hits(value):
        return False
    words = {word.lower() for word in _PARTS.split(value) if word}
    return not words & others


def people_of(structured: object) -> Iterator[tuple[str, frozenset[str]]]:
    """The people that a structure has entities of: their id and their names."""
    if isinstance(structured, Mapping):
        part = cast("Mapping[str, Any]", structured)
        if part.get("entity_type") == "oap.entity.contact" and isinstance(part.get("names"), Mapping):
            names = (part["names"].get(name) for name in ("given", "family"))
            words = {
                word.lower() for name in names if isinstance(name, str) for word in _PARTS.split(name) if word
            }
            yield str(part.get("id", "")), frozenset(words)
        for inner in part.values():
            yield from people_of(inner)
    elif isinstance(structured, list | tuple):
        for inner in cast("Sequence[Any]", structured):
            yield from people_of(inner)


# -- text and counts ----------------------------------------------------------------------------------------------


def rendered(structured: Mapping[str, Any]) -> str:
    """A structure in words: `path: value; path: value`. Nothing beyond who an entity is renders as nothing."""
    if profiles.is_entity(structured) and structured.keys() <= set(profiles.IDENTITY):
        return ""
    return "; ".join(f"{path}: {text}" for path, text in _rendered(structured, ""))


def _rendered(value: Mapping[str, Any], above: str) -> Iterator[tuple[str, str]]:
    for name in sorted(value, key=lambda key: key.encode("utf-16-be", "surrogatepass")):
        if profiles.is_entity(value) and name in profiles.IDENTITY:
            continue
        part, path = value[name], f"{above}.{name}" if above else name
        if isinstance(part, Mapping):
            yield from _rendered(cast("Mapping[str, Any]", part), path)
        elif isinstance(part, list | tuple):
            parts = cast("Sequence[Any]", part)
            plain = [_scalar(one) for one in parts if not isinstance(one, Mapping | list | tuple)]
            if plain:
                yield path, ", ".join(plain)
            for one in parts:
                if isinstance(one, Mapping):
                    yield from _rendered(cast("Mapping[str, Any]", one), path)
        else:
            yield path, _scalar(part)


def _scalar(value: Any) -> str:
    if value is None or isinstance(value, bool):
        return {None: "none", True: "yes", False: "no"}[value]
    return str(value)


def leaves(value: Any, pointer: str = "") -> Iterator[str]:
    """Pointers to the leaves of a value: scalars and empty containers."""
    if isinstance(value, Mapping) and value:
        for name, part in cast("Mapping[str, Any]", value).items():
            yield from leaves(part, f"{pointer}/{name.replace('~', '~0').replace('/', '~1')}")
    elif isinstance(value, list | tuple) and value:
        for place, part in enumerate(cast("Sequence[Any]", value)):
            yield from leaves(part, f"{pointer}/{place}")
    else:
        yield pointer


def _original(item: JsonObject, shown: Mapping[str, Any]) -> dict[str, Any]:
    """What of a shown item stands in the original: without what was derived, and without what was only left empty."""
    content = dict(cast("Mapping[str, Any]", shown["content"]))
    if content.pop("derived", False):
        content.pop("text", None)
    rest = {**shown, "content": content}
    return {
        name: part
        for name, part in rest.items()
        if name not in ("content", "labels") or part or not item.get(name)
    }


def _redacted(item: JsonObject, shown: Mapping[str, Any]) -> Iterator[str]:
    for name in ("embedding", "ttl_days", "extensions"):
        if name in item and name not in shown:
            yield f"/{name}"
    if item.get("labels", []) != shown.get("labels", []):
        yield "/labels"
    provenance = cast("Mapping[str, Any]", item["provenance"])
    for name in provenance.keys() - cast("Mapping[str, Any]", shown["provenance"]).keys():
        yield f"/provenance/{name}"
    before = cast("Mapping[str, Any]", item["content"])
    after = cast("Mapping[str, Any]", shown["content"])
    if before.get("text") != after.get("text"):
        yield "/content/text"
    if before.get("structured") != after.get("structured"):
        yield from _redacted_structure(before.get("structured"), after.get("structured"))


def _redacted_structure(before: Any, after: Any) -> Iterator[str]:
    pointer = "/content/structured"
    if not isinstance(before, Mapping) or not isinstance(after, Mapping):
        yield pointer
        return
    whole, left = cast("Mapping[str, Any]", before), cast("Mapping[str, Any]", after)
    if not profiles.is_entity(whole):
        yield pointer
        return
    known = profiles.canonical_fields(whole)
    for name, part in whole.items():
        if left.get(name, _GONE) != part:
            yield f"{pointer}/{name}" if name in known else pointer
