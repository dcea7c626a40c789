"""COGX 0.1, Cognee's exchange format: a folder, packed as a zip, of a manifest and lines for each kind of record.

Accounts and password hashes, which such an archive may hold, are never read.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from quipu.errors import InvalidError, QuipuError
from quipu.transfer.formats import archive, letta, values
from quipu.transfer.formats.archive import Source
from quipu.transfer.formats.loss import Loss
from quipu.transfer.formats.reading import Look
from quipu.transfer.formats.values import Found, Item, refused

MANIFEST = "manifest.json"
_ENTITIES, _FACTS, _NODES = "entities.jsonl", "facts.jsonl", "nodes.jsonl"
#: So many entities are known by their names; facts name them by id.
_MOST_ENTITIES, _LONGEST_NAME = 200_000, 256
#: What ties chunks to their documents, which Cognee also puts into words.
_STRUCTURE = ("is_part_of", "contains", "made_from")
_PREFERENCES = ("preference", "preferences")


def detect(look: Look) -> bool:
    """An archive whose manifest names a version of COGX."""
    return _manifest(look.source) is not None


def _manifest(source: Source) -> dict[str, Any] | None:
    name = source.find(MANIFEST) if source.is_archive else None
    if name is None:
        return None
    try:
        manifest = values.an_object(values.parsed(source.whole(name)))
    except InvalidError:
        return None
    return manifest if "cogx_version" in manifest else None


@dataclass(frozen=True, slots=True)
class _Name:
    """What an entity is called."""

    name: str
    type: str | None


def items(source: Source, loss: Loss) -> Iterator[Found]:
    """Memories, blocks, documents, turns, entities with a description, and facts with the names of their entities."""
    manifest = _manifest(source)
    if manifest is None:
        raise refused("bad_file", "The archive has no manifest of COGX.")
    if str(manifest.get("cogx_version")).partition(".")[0] != "0":
        raise refused("unsupported_version", "This is an archive of a version of COGX that is not read here.")
    folder = str(source.find(MANIFEST)).removesuffix(MANIFEST)
    known = _entity_names(source, folder)
    readers: dict[str, Callable[[dict[str, Any]], Iterator[Item]]] = {
        "memories.jsonl": _memory,
        "memory_blocks.jsonl": _block,
        "documents.jsonl": _document,
        "episodes.jsonl": _turns,
        _ENTITIES: lambda body: _entity(body, loss),
        _FACTS: lambda body: _fact(body, known, loss),
    }
    number = 0
    for name, reader in readers.items():
        for body in _lines(source, folder + name):
            number += 1
            if isinstance(body, QuipuError):
                yield number, body
            else:
                yield from ((number, item) for item in reader(body))
    loss.dropped("nodes of the graph", sum(1 for _ in _lines(source, folder + _NODES)))
    others = {folder + name for name in (*readers, _NODES, MANIFEST)}
    for name in source.names:
        if name not in others:
            loss.dropped(name.rsplit("/", 1)[-1])


def _lines(source: Source, name: str) -> Iterator[Item | QuipuError]:
    if name in source.names:
        yield from (found for _, found in archive.objects(source.open(name)))


def _entity_names(source: Source, folder: str) -> dict[str, _Name]:
    known: dict[str, _Name] = {}
    for body in _lines(source, folder + _ENTITIES):
        if isinstance(body, QuipuError) or len(known) >= _MOST_ENTITIES:
            continue  # its line is reported when it is read as an item
        name, kind = values.a_text(body.get("name")), values.a_text(body.get("entity_type"))
        if name is not None:
            known[str(body.get("external_id"))[:_LONGEST_NAME]] = _Name(
                name[:_LONGEST_NAME], None if kind is None else kind[:_LONGEST_NAME]
            )
    return known


def _item(
    body: dict[str, Any],
    kind: str,
    text: Any,
    *,
    item_id: Any = None,
    captured_at: Any = None,
    labels: Sequence[str] = (),
    structured: dict[str, Any] | None = None,
    own: dict[str, Any] | None = None,
) -> Item:
    """A record as an item, with what all kinds of records have."""
    scope, known = values.an_object(body.get("scope")), dict[str, Any]()
    for name, to in (
        ("user_id", "user_id"),
        ("agent_id", "agent_id"),
        ("run_id", "session_id"),
        ("session_id", "session_id"),
    ):
        if said := values.a_text(scope.get(name)):
            known[to] = said
    if metadata := values.an_object(body.get("metadata")):
        known["metadata"] = metadata
    if (updated := values.millis(body.get("updated_at"))) is not None:
        known["updated_at"] = updated
    if (system := values.a_text(body.get("external_system"))) and system not in ("unknown", "cognee"):
        known["foreign"] = {"cogx": {"external_system": system}}
    return values.item(
        kind,
        text,
        item_id=item_id or body.get("external_id"),
        captured_at=values.when(captured_at, body.get("created_at")),
        labels=labels,
        structured=structured,
        own=known | (own or {}),
    )


def _memory(body: dict[str, Any]) -> Iterator[Item]:
    labels = values.texts(body.get("categories"))
    is_preference = any(label.lower() in _PREFERENCES for label in labels)
    yield _item(body, "preference" if is_preference else "fact", body.get("content"), labels=labels)


def _block(body: dict[str, Any]) -> Iterator[Item]:
    made = letta.block_item(body, body.get("external_id"))
    yield _item(body, made["kind"], body.get("value"), labels=made["labels"])


def _document(body: dict[str, Any]) -> Iterator[Item]:
    structured = {"title": body.get("title"), "mime_type": body.get("mime_type")}
    yield _item(body, "document_reference", body.get("content"), structured=structured)


def _turns(body: dict[str, Any]) -> Iterator[Item]:
    episode = values.a_text(body.get("external_id"))
    for number, turn in enumerate(map(values.an_object, values.a_list(body.get("turns")))):
        role = values.a_text(turn.get("role"))
        yield _item(
            body,
            "observation" if role == "episode" else "conversation_turn",
            turn.get("content"),
            item_id=None if episode is None else f"{episode}:{number}",
            captured_at=turn.get("occurred_at"),
            structured={"role": role, "title": body.get("title")},
            own={} if episode is None else {"session_id": episode[:_LONGEST_NAME]},
        )


def _entity(body: dict[str, Any], loss: Loss) -> Iterator[Item]:
    """An entity that says something about itself; others are told by the facts that name them."""
    name, description = values.a_text(body.get("name")), values.a_text(body.get("description"))
    if name is None or description is None:
        loss.dropped("entities without a description")
        return
    item = _item(
        body,
        "fact",
        f"{name}: {description}",
        structured={
            "entity": name,
            "type": body.get("entity_type"),
            "aliases": body.get("aliases") or None,
            "attributes": body.get("attributes") or None,
        },
    )
    item["subject_entity_id"] = name[:_LONGEST_NAME]
    yield item


def _fact(body: dict[str, Any], known: dict[str, _Name], loss: Loss) -> Iterator[Item]:
    subject, target = (str(body.get(name) or "") for name in ("subject_ref", "object_ref"))
    ends = [known.get(end) or _Name(end, None) for end in (subject, target)]
    text, predicate = values.a_text(body.get("fact_text")), values.a_text(body.get("predicate"))
    is_structure = text is None or predicate in _STRUCTURE
    if is_structure and (subject not in known or target not in known):
        # Between nodes of the graph itself: chunks, documents, types.
        loss.dropped("facts between unnamed nodes")
        return
    words = (predicate or "is related to").replace("_", " ")
    item = _item(
        body,
        "fact",
        text or f"{ends[0].name} {words} {ends[1].name}",
        structured={
            "subject": ends[0].name,
            "subject_type": ends[0].type,
            "predicate": predicate,
            "object": ends[1].name,
            "object_type": ends[1].type,
            "provenance": body.get("provenance") or None,
        },
        own=values.validity(body.get("valid_at"), body.get("invalid_at"), loss),
    )
    confidence = body.get("confidence")
    if confidence is not None:
        item["provenance"]["confidence"] = confidence
    if subject in known:
        item["subject_entity_id"] = ends[0].name
    yield item
