"""What is left of an item at a level of trust. Pure.

1. Level 0 shows the envelope alone. From 1 to 3 entities show what their table says, free text and free structures are
   masked, and what holds an entity is put into words anew from what is left of it. Level 4 shows everything.
2. Level n shows no more than level n + 1; what is not known is left out.
3. A text that was masked or put into words says so (`derived`): the hash of its capture does not prove it.
"""

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, TypeAlias, cast

from quipu.governance.text_classes import has_instruction, masked
from quipu.sharing.grants import profiles
from quipu.sharing.items import Item

#: What becomes of free text below level 4.
FreeText: TypeAlias = Literal["mask", "omit"]
#: Entity → the words of somebody's name, in small letters.
People: TypeAlias = Mapping[str, frozenset[str]]

CONTACT = "oap.entity.contact"
_ALWAYS = ("item_id", "owner_did", "scope_id", "kind", "subject_entity_id")
#: Members that only some levels show: from which on.
_SHOWN_FROM = {"ttl_days": 3, "embedding": 4, "extensions": 4}
#: Deeper structures are cut off: they are data of somebody else's making.
_DEEPEST = 16
_GONE: Any = object()


@dataclass(frozen=True, slots=True, kw_only=True)
class View:
    """How a grantee sees items."""

    profile: str
    level: int
    #: Labels that the grant's own filter names.
    labels: frozenset[str] = frozenset()
    free_text: FreeText = "mask"
    people: People = field(default_factory=dict[str, frozenset[str]])

    def names_beside(self, subject: object) -> frozenset[str]:
        """Names of all people but the one that an item is about."""
        return frozenset[str]().union(*(words for person, words in self.people.items() if person != subject))


@dataclass(frozen=True, slots=True, kw_only=True)
class Projected:
    """What is left of an item."""

    item: Item
    #: Pointers to what was taken away, as far as their names may be known.
    redacted: tuple[str, ...]
    #: How many values were taken away or altered.
    removed: int
    warnings: frozenset[str] = frozenset()

    @property
    def is_altered(self) -> bool:
        return self.removed > 0


def projected(item: Mapping[str, Any], view: View) -> Projected:
    """The item as the view shows it."""
    shown: Item = {name: item[name] for name in _ALWAYS if name in item}
    shown["content"], warnings = _content(item, view)
    provenance = cast("Mapping[str, Any]", item["provenance"])
    names = ("captured_at", "confidence", *(("source_receipt",) if view.level >= 3 else ()))
    shown["provenance"] = {name: provenance[name] for name in names if name in provenance}
    labels = cast("Sequence[str]", item.get("labels", ()))
    shown["labels"] = [label for label in labels if view.level >= 3 or label in view.labels]
    if "exportable" in item:
        shown["exportable"] = item["exportable"]
    for name, level in _SHOWN_FROM.items():
        if name in item and view.level >= level:
            shown[name] = item[name]
    before, after = dict(leaves(item)), dict(leaves(shown))
    return Projected(
        item=shown,
        redacted=tuple(sorted(set(_redacted(item, shown)))),
        removed=sum(1 for pointer, value in before.items() if after.get(pointer, _GONE) != value),
        warnings=warnings,
    )


def people_in(structured: object) -> Iterator[tuple[str, frozenset[str]]]:
    """The contacts in a structure: each one's id and the words of their name."""
    if isinstance(structured, Mapping):
        part = cast("Mapping[str, Any]", structured)
        names = part.get("names")
        if part.get("entity_type") == CONTACT and isinstance(names, Mapping):
            said = (cast("Mapping[str, Any]", names).get(name) for name in ("given", "family"))
            words = {word for name in said if isinstance(name, str) for word in _words(name)}
            yield str(part.get("id", "")), frozenset(words)
        for inner in part.values():
            yield from people_in(inner)
    elif isinstance(structured, list | tuple):
        for inner in cast("Sequence[Any]", structured):
            yield from people_in(inner)


def leaves(value: Any, pointer: str = "") -> Iterator[tuple[str, Any]]:
    """Pointers to the values of an object that have no parts."""
    if isinstance(value, Mapping) and value:
        for name, part in cast("Mapping[str, Any]", value).items():
            yield from leaves(part, f"{pointer}/{name.replace('~', '~0').replace('/', '~1')}")
    elif isinstance(value, list | tuple) and value:
        for place, part in enumerate(cast("Sequence[Any]", value)):
            yield from leaves(part, f"{pointer}/{place}")
    else:
        yield pointer, value


# -- content ------------------------------------------------------------------------------------------------------


def _content(item: Mapping[str, Any], view: View) -> tuple[dict[str, Any], frozenset[str]]:
    content = cast("Mapping[str, Any]", item["content"])
    if view.level >= 4:
        return dict(content), _warnings(content.get("text"))
    if view.level == 0:
        return {}, frozenset()
    shown: dict[str, Any] = {}
    names = view.names_beside(item.get("subject_entity_id"))
    structured = content.get("structured")
    if isinstance(structured, Mapping) and structured:
        left = _structure(structured, view, names, 0)
        if isinstance(left, Mapping) and left:
            shown["structured"] = left
        if _holds_entity(structured, 0):
            text = masked(in_words(shown.get("structured", {})), names)
            return (
                (shown | {"text": text, "derived": True}, _warnings(text)) if text else (shown, frozenset())
            )
    text = content.get("text")
    if not isinstance(text, str) or not text or view.free_text == "omit":
        return shown, frozenset()
    left = masked(text, names)
    if left == text:
        return shown | {"text": text}, _warnings(text)
    return shown | {"text": left, "derived": True}, _warnings(text) | {"free_text_masked"}


def _warnings(text: object) -> frozenset[str]:
    return frozenset({"instruction_like_text"} if isinstance(text, str) and has_instruction(text) else ())


def _holds_entity(value: Any, depth: int) -> bool:
    if isinstance(value, Mapping):
        part = cast("Mapping[str, Any]", value)
        if profiles.is_entity(part) or depth >= _DEEPEST:  # what is deeper is not looked at
            return True
        return any(_holds_entity(inner, depth + 1) for inner in part.values())
    if isinstance(value, list | tuple):
        return any(_holds_entity(inner, depth + 1) for inner in cast("Sequence[Any]", value))
    return False


def _structure(value: Any, view: View, names: Collection[str], depth: int) -> Any:
    """What is left of a value, or `_GONE`. Entities by their table, anything else masked."""
    if depth > _DEEPEST:
        return _GONE
    if isinstance(value, Mapping):
        part = cast("Mapping[str, Any]", value)
        if profiles.is_entity(part):
            return profiles.entity(part, view.profile, view.level)
        kept: dict[str, Any] = {}
        for name, inner in part.items():
            if masked(name, names) == name and not profiles.hides(name, view.level):
                left = _structure(inner, view, names, depth + 1)
                if left is not _GONE:
                    kept[name] = left
        return kept if kept or not part else _GONE
    if isinstance(value, list | tuple):
        parts = cast("Sequence[Any]", value)
        left = [
            one for one in (_structure(part, view, names, depth + 1) for part in parts) if one is not _GONE
        ]
        return left if left or not parts else _GONE
    if isinstance(value, str):
        return masked(value, names) if view.free_text == "mask" else _GONE
    if isinstance(value, bool) or value is None:
        return value
    written = format(value, "f") if isinstance(value, float) else str(value)
    return value if masked(written) == written else _GONE


def in_words(structured: Mapping[str, Any]) -> str:
    """A structure in words: `path: value; path: value`. An entity of which only its identity is left says nothing."""
    return "; ".join(f"{path}: {text}" for path, text in _in_words(structured, ""))


def _in_words(value: Mapping[str, Any], above: str) -> Iterator[tuple[str, str]]:
    for name in sorted(value, key=lambda key: key.encode("utf-16-be", "surrogatepass")):
        if profiles.is_entity(value) and name in profiles.IDENTITY:
            continue
        part, path = value[name], f"{above}.{name}" if above else name
        if isinstance(part, Mapping):
            yield from _in_words(cast("Mapping[str, Any]", part), path)
        elif isinstance(part, list | tuple):
            parts = cast("Sequence[Any]", part)
            plain = [_in_word(one) for one in parts if not isinstance(one, Mapping | list | tuple)]
            if plain:
                yield path, ", ".join(plain)
            for one in parts:
                if isinstance(one, Mapping):
                    yield from _in_words(cast("Mapping[str, Any]", one), path)
        else:
            yield path, _in_word(part)


def _in_word(value: Any) -> str:
    if value is None or isinstance(value, bool):
        return {None: "none", True: "yes", False: "no"}[value]
    return str(value)


def _words(name: str) -> Iterator[str]:
    word = ""
    for letter in f"{name} ":
        if letter.isalnum():
            word += letter
        elif word:
            yield word.lower()
            word = ""


# -- what was taken away ------------------------------------------------------------------------------------------


def _redacted(item: Mapping[str, Any], shown: Mapping[str, Any]) -> Iterator[str]:
    for name in _SHOWN_FROM:
        if name in item and name not in shown:
            yield f"/{name}"
    if item.get("labels", []) != shown["labels"]:
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
    """Of a known entity its fields; the names in anybody's own structures are told to nobody."""
    pointer = "/content/structured"
    if not isinstance(before, Mapping) or not isinstance(after, Mapping):
        yield pointer
        return
    whole, left = cast("Mapping[str, Any]", before), cast("Mapping[str, Any]", after)
    if not profiles.is_entity(whole):
        yield pointer
        return
    known = profiles.known_fields(whole)
    for name, part in whole.items():
        if left.get(name, _GONE) != part:
            yield f"{pointer}/{name}" if name in known else pointer
