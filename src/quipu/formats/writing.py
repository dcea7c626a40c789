"""What was spooled, as a file of the format that was asked for."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, BinaryIO

from quipu.formats import bundle, letta, markdown, mem0, omi, pam
from quipu.formats.losses import Loss
from quipu.formats.signing import Signing
from quipu.formats.spool import Spool
from quipu.formats.vectors import Written
from quipu.model.moving import FileExport, Format

_ZIP, _JSON = "application/zip", "application/json"


@dataclass(frozen=True, slots=True, kw_only=True)
class Shelf:
    """All that a writer needs: Items and what goes with them, who signs, where losses are counted."""

    head: dict[str, Any]
    items: Spool
    relations: Spool
    tombstones: Spool
    signing: Signing
    loss: Loss
    #: What else an owner's bundle holds, by file.
    others: Mapping[str, Spool] = field(default_factory=dict[str, Spool])
    vectors: Written | None = None


def written(target: BinaryIO, request: FileExport, shelf: Shelf) -> tuple[str, str]:
    """Write the file; its name and media type are answered."""
    stem = f"quipu-{shelf.head['exported_at'][:10]}"
    canonical = shelf.signing.canonical
    match request.format:
        case Format.PAM:
            pam.write(target, shelf.items.items(), shelf.head, shelf.signing, shelf.loss)
            return pam.FILE, _JSON
        case Format.OMI:
            omi.write(target, shelf.items.items(), shelf.head, canonical)
            return f"{stem}.omi.json", "application/vnd.omi+json"
        case Format.MARKDOWN:
            markdown.write(target, shelf.items.items(), shelf.loss)
            return f"{stem}-markdown.zip", _ZIP
        case Format.MEM0:
            mem0.write(target, shelf.items.items(), canonical, shelf.loss)
            return f"{stem}-mem0.json", _JSON
        case Format.LETTA:
            letta.write(target, shelf.items.items(), canonical, shelf.loss)
            return f"{stem}-letta.json", _JSON
        case _:
            return _bundle(target, request, shelf, stem)


def _bundle(target: BinaryIO, request: FileExport, shelf: Shelf, stem: str) -> tuple[str, str]:
    named = (bundle.ITEMS, bundle.RELATIONS, bundle.TOMBSTONES, *shelf.others)
    contents = bundle.Contents(
        head={**shelf.head, "schemas": {name: bundle.schema_of(name) for name in named}},
        files={
            bundle.ITEMS: shelf.items.lines,
            bundle.RELATIONS: shelf.relations.lines,
            bundle.TOMBSTONES: shelf.tombstones.lines,
            **{name: spool.lines for name, spool in shelf.others.items()},
        },
        vectors=shelf.vectors,
    )
    if request.as_lines:
        bundle.write_lines(target, contents, shelf.signing)
        return f"{stem}.bundle.ndjson", "application/x-ndjson"
    bundle.write_archive(target, contents, shelf.signing)
    return f"{stem}.bundle.zip", _ZIP
