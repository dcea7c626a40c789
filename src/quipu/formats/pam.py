"""PAM 1.0, Portable AI Memory: `memory-store.json`, both ways (contract 11.1)."""

from __future__ import annotations

import hashlib
import json
import re
import tempfile
import unicodedata
from array import array
from collections.abc import Iterable, Iterator
from typing import IO, Any, BinaryIO, Self

from quipu.errors import QuipuError
from quipu.formats import json_stream, values
from quipu.formats.archives import Source
from quipu.formats.losses import Loss
from quipu.formats.signing import ABSENT, Checking, Signing, wrong_digest
from quipu.formats.values import Found, Item, refused
from quipu.rules.grants_items import KINDS

SCHEMA = "portable-ai-memory"
FILE = "memory-store.json"
_SAME = ("fact", "preference")
_TYPES = (
    "skill", "context", "relationship", "goal", "instruction", "identity", "environment", "project",
)  # fmt: skip
_TAG = re.compile(r"[a-z0-9][a-z0-9_-]*")
_KNOWN = frozenset(
    {
        "id", "type", "custom_type", "content", "content_hash", "tags", "temporal", "confidence", "provenance",
        "access", "status", "metadata",
    }
)  # fmt: skip


def content_hash(text: str) -> str:
    """trim → lower case → NFC → collapse white space."""
    plain = " ".join(unicodedata.normalize("NFC", text.strip().lower()).split())
    return "sha256:" + hashlib.sha256(plain.encode("utf-8", "surrogatepass")).hexdigest()


# -- out --------------------------------------------------------------------------------------------------------


def write(
    target: BinaryIO, items: Iterable[Item], head: dict[str, Any], signing: Signing, loss: Loss
) -> None:
    """One document, a memory at a time; the checksum covers the memories in the order of their ids."""
    checksum, starts = hashlib.sha256(b"["), array("Q")
    last, is_rising = "", True
    opening = {
        "schema": SCHEMA,
        "schema_version": "1.0",
        "export_id": head["export_id"],
        "export_date": head["exported_at"],
        "exported_by": head["exporter"],
        "export_type": "full",
        "owner": {"id": head["owner"], "did": head["owner"]},
    }
    target.write(signing.canonical(opening)[:-1] + b',"memories":[')
    relations: list[dict[str, str]] = []
    for item in items:
        line = signing.canonical(memory_of(item, loss))
        comma = b"," if starts else b""
        starts.append(target.tell() + len(comma))
        target.write(comma + line)
        checksum.update(comma + line)
        last, is_rising = item["item_id"], is_rising and last <= item["item_id"]
        _note_relations(item, relations, loss)
    checksum.update(b"]")
    covered = "sha256:" + checksum.hexdigest()
    if not is_rising:
        covered = _read_again(target, starts)
    ending = {
        "relations": relations,
        "integrity": {"canonicalization": "RFC8785", "checksum": covered, "total_memories": len(starts)},
        "signature": {
            "algorithm": "Ed25519",
            "public_key": signing.public_key,
            "value": signing.sign(signing.canonical(_covered(opening, covered))),
            "signed_at": head["exported_at"],
        },
    }
    target.write(b"]," + signing.canonical(ending)[1:] + b"\n")


def _read_again(target: BinaryIO, starts: array[int]) -> str:
    """The checksum of memories that have ids from elsewhere, and so another order than they are written in."""
    ends = [*(start - 1 for start in starts[1:]), target.tell()]
    places: list[tuple[str, int, int]] = []
    for start, end in zip(starts, ends, strict=True):
        target.seek(start)
        places.append((json.loads(target.read(end - start))["id"], start, end - start))
    covered = _checksum(target, places)
    target.seek(ends[-1])
    return covered


def _checksum(file: IO[bytes], places: list[tuple[str, int, int]]) -> str:
    """Of the memories that stand at these places, in the order of their ids."""
    digest = hashlib.sha256(b"[")
    for place, (_, start, length) in enumerate(sorted(places)):
        file.seek(start)
        digest.update((b"," if place else b"") + file.read(length))
    digest.update(b"]")
    return "sha256:" + digest.hexdigest()


def _covered(opening: dict[str, Any], checksum: str) -> dict[str, Any]:
    return {
        "checksum": checksum,
        "export_id": opening.get("export_id"),
        "export_date": opening.get("export_date"),
        "owner_id": values.an_object(opening.get("owner")).get("id"),
    }


#: Relations are held until the memories are written; a store with more than this has lost the rest.
_MOST_RELATIONS = 100_000
_RELATIONS = ("supports", "contradicts", "extends", "supersedes", "related_to", "derived_from")


def _note_relations(item: Item, relations: list[dict[str, str]], loss: Loss) -> None:
    links = values.a_list(values.an_object(item["extensions"]["quipu"]).get("links"))
    for link in links:
        rel = link["rel"] if link["rel"] in _RELATIONS else "related_to"
        if rel != link["rel"]:
            loss.mapped(f"relation {link['rel']}", rel)
        if len(relations) >= _MOST_RELATIONS:
            loss.dropped("relations")
            continue
        name = values.derived("rel", item["item_id"], link["rel"], link["to"])
        relations.append({"id": name, "from": item["item_id"], "to": link["to"], "type": rel})


def memory_of(item: Item, loss: Loss) -> dict[str, Any]:
    """An Item as a PAM memory. No member is null."""
    own, text = item["extensions"]["quipu"], item["content"].get("text") or ""
    pam_type, custom = _type(item, loss)
    tags = [label for label in item["labels"] if _TAG.fullmatch(label)]
    provenance = item["provenance"]
    memory: dict[str, Any] = {
        "id": item["item_id"],
        "type": pam_type,
        "content": text,
        "content_hash": content_hash(text),
        "tags": tags,
        "temporal": {"created_at": provenance["captured_at"]},
        "confidence": {"initial": provenance["confidence"], "current": provenance["confidence"]},
        "provenance": {"platform": "quipu"},
        "status": "archived" if own.get("state") == "archived" else "active",
        "access": {"exportable": True},
        "metadata": {"quipu": own, **_metadata(item, tags)},
    }
    if custom is not None:
        memory["custom_type"] = custom
    if (ends := own.get("expires_at")) is not None:
        memory["temporal"]["valid_until"] = values.moment(ends)
    return memory


def _type(item: Item, loss: Loss) -> tuple[str, str | None]:
    kind = item["kind"]
    for name in _TYPES:
        if f"pam:{name}" in item["labels"]:
            return name, None
    if kind in _SAME:
        return kind, None
    loss.mapped(f"kind {kind}", f"type custom ({kind})")
    return "custom", kind


def _metadata(item: Item, tags: list[str]) -> dict[str, Any]:
    body: dict[str, Any] = {}
    for name in ("scope_id", "subject_entity_id"):
        if name in item:
            body[f"oap_{name}"] = item[name]
    if "structured" in item["content"]:
        body["oap_structured"] = item["content"]["structured"]
    if "source_receipt" in item["provenance"]:
        body["oap_source_receipt"] = item["provenance"]["source_receipt"]
    if item["labels"] != tags:
        body["oap_labels"] = item["labels"]
    return body


# -- in ---------------------------------------------------------------------------------------------------------


class Store:
    """A memory store whose checksum and signature were checked."""

    def __init__(self, source: Source, checking: Checking) -> None:
        self._source = source
        self._name = source.find(FILE) if source.is_archive else source.names[0]
        if self._name is None:
            raise refused("bad_file", "There is no memory store in the archive.")
        self.signature, self.head = self._checked(checking)

    def _parts(self) -> Iterator[json_stream.Part]:
        return json_stream.parts(self._source.open(self._name or ""))

    def _checked(self, checking: Checking) -> tuple[str, dict[str, Any]]:
        head: dict[str, Any] = {}
        with _Order(checking) as order:
            for part in self._parts():
                if part.name == "memories":
                    order.add(part.raw)
                elif not part.is_element and part.name is not None:
                    head[part.name] = values.parsed(part.raw)
            if head.get("schema") != SCHEMA or str(head.get("schema_version", ""))[:2] != "1.":
                raise refused("unsupported_version", "This is a PAM file of a version that is not read here.")
            told = values.an_object(head.get("integrity")).get("checksum")
            if told is not None and told != order.checksum():
                raise wrong_digest()
        signed = values.an_object(head.get("signature"))
        if not signed:
            return ABSENT, head
        message = checking.spelt(_covered(head, str(told)))
        return checking.by(str(signed.get("public_key", "")), message, str(signed.get("value", ""))), head

    def items(self, loss: Loss) -> Iterator[Found]:
        """Every memory as an Item."""
        number = 0
        for part in self._parts():
            if part.name != "memories":
                if part.is_element and part.name is not None and part.name != "relations":
                    loss.dropped(part.name)
                continue
            number += 1
            try:
                yield number, item_of(values.an_object(values.parsed(part.raw)), loss)
            except QuipuError as error:
                yield number, error


class _Order:
    """The memories' canonical bytes, to be hashed in the order of their ids whatever order they came in."""

    def __init__(self, checking: Checking) -> None:
        self._canonical = checking.canonical
        self._spool = tempfile.SpooledTemporaryFile(max_size=1 << 20)  # noqa: SIM115  closed by __exit__
        self._places: list[tuple[str, int, int]] = []

    def add(self, raw: bytes) -> None:
        try:
            memory = values.an_object(values.parsed(raw))
            line = self._canonical(memory)
        except (QuipuError, ValueError):
            memory, line = {}, raw
        self._places.append((str(memory.get("id", "")), self._spool.tell(), len(line)))
        self._spool.write(line)

    def checksum(self) -> str:
        return _checksum(self._spool, self._places)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._spool.close()


def item_of(memory: dict[str, Any], loss: Loss) -> Item:
    """A PAM memory as an Item."""
    metadata = dict(values.an_object(memory.get("metadata")))
    temporal, access = values.an_object(memory.get("temporal")), values.an_object(memory.get("access"))
    if memory.get("status") == "retracted":
        raise refused("retracted", "The memory was retracted where it comes from.")
    kind, labels = _kind(memory)
    labels += [label for label in values.texts(memory.get("tags")) if label not in labels]
    if exact := values.texts(metadata.pop("oap_labels", None)):
        labels = exact
    own = values.an_object(metadata.pop("quipu", None))
    structured = values.an_object(metadata.pop("oap_structured", None))
    item: Item = {
        "item_id": memory.get("id"),
        "kind": kind,
        "content": {"text": memory.get("content"), **({"structured": structured} if structured else {})},
        "provenance": {
            "captured_at": temporal.get("created_at"),
            "confidence": values.an_object(memory.get("confidence")).get("current", 1.0),
        },
        "labels": labels,
        "exportable": access.get("exportable") is not False,
    }
    if receipt := metadata.pop("oap_source_receipt", None):
        item["provenance"]["source_receipt"] = receipt
    for name in ("scope_id", "subject_entity_id"):
        if said := metadata.pop(f"oap_{name}", None):
            item[name] = said
    if not own:
        own = _foreign(memory, metadata, temporal)
    item["extensions"] = {"quipu": own}
    return item


def _kind(memory: dict[str, Any]) -> tuple[str, list[str]]:
    said, custom = str(memory.get("type", "")), str(memory.get("custom_type", ""))
    if said in _SAME:
        return said, []
    if said == "custom":
        return (custom, []) if custom in KINDS else ("fact", [f"pam:custom:{custom}"[:128]])
    if said in _TYPES:
        return "fact", [f"pam:{said}"]
    raise refused("bad_value", "A memory has a type that PAM does not know.")


def _foreign(memory: dict[str, Any], metadata: dict[str, Any], temporal: dict[str, Any]) -> dict[str, Any]:
    """What has no home here, kept aside for the way back."""
    rest: dict[str, Any] = {name: value for name, value in memory.items() if name not in _KNOWN}
    if metadata:
        rest["metadata"] = metadata
    if provenance := values.an_object(memory.get("provenance")):
        rest["provenance"] = provenance
    own: dict[str, Any] = {"foreign": {"pam": rest}} if rest else {}
    if (ends := values.millis(temporal.get("valid_until"))) is not None:
        own["expires_at"] = ends
    if memory.get("status") == "archived":
        own["state"] = "archived"
    return own
