"""Quipu's own bundle, version 1: an archive of lines with a signed manifest, or the same as one stream of lines.

1. `items.jsonl` has an item on each line, in the order of their ids; `relations`, `tombstones` and, where they were asked
   for, `logs`, `receipts`, `grants` likewise, and `vectors.safetensors`.
2. `manifest.json` names the digest of every file, `signature.json` is the owner's signature over it. As a stream the
   manifest is the first line, each other line is `{"item": …}` and so on, and the last one signs the digest of all.
3. Signature and digests are checked, every byte of them, before anything of a bundle is handed on.
"""

import hashlib
import zipfile
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, BinaryIO

from quipu.errors import InvalidError, QuipuError
from quipu.ledger.canonical import canonical
from quipu.search.text import is_storable
from quipu.sharing.times import instant
from quipu.transfer.formats import archive, proofs, values
from quipu.transfer.formats.archive import Source
from quipu.transfer.formats.loss import Loss
from quipu.transfer.formats.proofs import Keys, Signature
from quipu.transfer.formats.reading import VENDOR, Look, Reading
from quipu.transfer.formats.spool import Contents, Spool
from quipu.transfer.formats.values import Found, refused
from quipu.transfer.formats.vectors import Vectors, is_vectors

FORMAT, VERSION = "quipu-bundle", 1
ITEMS, RELATIONS, TOMBSTONES = "items.jsonl", "relations.jsonl", "tombstones.jsonl"
LOGS, RECEIPTS, GRANTS = "logs.jsonl", "receipts.jsonl", "grants.jsonl"
MANIFEST, SIGNATURE = "manifest.json", "signature.json"
#: Files of lines, in the order they are written in, and what a line of each is called in a stream.
_LINES = {
    ITEMS: "item",
    RELATIONS: "relation",
    TOMBSTONES: "tombstone",
    LOGS: "log",
    RECEIPTS: "receipt",
    GRANTS: "grant",
}
_ALWAYS = (RELATIONS, TOMBSTONES)
#: Proofs of the host that made the bundle: no other takes them over as its own.
_PROOFS = (LOGS, RECEIPTS, GRANTS)
#: The same contents make the same archive, whenever it is written.
_DATE = (1980, 1, 1, 0, 0, 0)
_MOST_STORES, _LONGEST_NAME = 1000, 512
_PIECE = 1 << 20
_AGAIN = "Ask its owner for a new export, or check that it came over whole."


def detect(look: Look) -> bool:
    """A manifest of a bundle, in an archive or as the first line."""
    if look.is_archive:
        return MANIFEST in look.source.names and _is_manifest(look.source)
    return look.head.startswith(b"{") and f'"{FORMAT}"'.encode() in look.head.partition(b"\n")[0]


def _is_manifest(source: Source) -> bool:
    try:
        manifest = values.parsed(source.whole(MANIFEST))
    except InvalidError:
        return False
    return values.an_object(manifest).get("format") == FORMAT


# -- writing ----------------------------------------------------------------------------------------------------------


def write(target: BinaryIO, contents: Contents, loss: Loss) -> None:
    """The bundle, from where `target` stands."""
    if contents.as_lines:
        if contents.vectors is not None:
            loss.dropped("vectors", len(contents.vectors))
        _write_lines(target, contents)
        return
    start = target.tell()
    # What packs so well that readers would take it for a trap is written once more, not packed.
    if dense := _write_archive(target, contents):
        target.seek(start)
        target.truncate()
        _write_archive(target, contents, dense)


def _head(contents: Contents) -> dict[str, Any]:
    return {**contents.head, "format": FORMAT, "version": VERSION}


def _files(contents: Contents) -> Iterator[tuple[str, Iterable[bytes]]]:
    """Files of lines, in their order; `items` is there always, and so are two others."""
    for name in _LINES:
        spool: Spool | None = contents.items if name == ITEMS else contents.others.get(name)
        if spool is not None:
            yield name, spool.lines()
        elif name in _ALWAYS:
            yield name, ()


def _write_archive(
    target: BinaryIO, contents: Contents, plain: frozenset[str] = frozenset()
) -> frozenset[str]:
    """Write it, and answer what is packed too well. The manifest goes in last: it names the digests of the others."""
    digests: dict[str, str] = {}
    counts: dict[str, int] = {}
    with zipfile.ZipFile(target, "w", zipfile.ZIP_DEFLATED) as file:
        for name, lines in _files(contents):
            entry = _entry(name, is_packed=name not in plain)
            digests[name], counts[name.removesuffix(".jsonl")] = _put(
                file, entry, (line + b"\n" for line in lines)
            )
        if contents.vectors is not None and len(contents.vectors):
            counts["vectors"] = len(contents.vectors)
            for name, pieces in contents.vectors.files().items():
                # Numbers, which packing makes no smaller.
                digests[name], _ = _put(file, _entry(name, is_packed=False), pieces())
        manifest = {**_head(contents), "counts": counts, "files": digests}
        file.writestr(_entry(MANIFEST), canonical(manifest) + b"\n")
        if contents.by is not None:
            file.writestr(_entry(SIGNATURE), canonical(proofs.signed(manifest, contents.by)) + b"\n")
        return frozenset(info.filename for info in file.infolist() if archive.is_dense(info))


def _put(file: zipfile.ZipFile, entry: zipfile.ZipInfo, pieces: Iterable[bytes]) -> tuple[str, int]:
    """One file of the archive; its digest and how many pieces it has."""
    digest, count = hashlib.sha256(), 0
    with file.open(entry, "w", force_zip64=True) as target:
        for piece in pieces:
            target.write(piece)
            digest.update(piece)
            count += 1
    return digest.hexdigest(), count


def _entry(name: str, *, is_packed: bool = True) -> zipfile.ZipInfo:
    entry = zipfile.ZipInfo(name, _DATE)
    entry.compress_type = zipfile.ZIP_DEFLATED if is_packed else zipfile.ZIP_STORED
    entry.external_attr = 0o600 << 16
    return entry


def _write_lines(target: BinaryIO, contents: Contents) -> None:
    digest = hashlib.sha256()
    counts: Counter[str] = Counter()

    def put(line: bytes) -> None:
        target.write(line + b"\n")
        digest.update(line + b"\n")

    put(canonical(_head(contents)))
    for name, lines in _files(contents):
        counts[name.removesuffix(".jsonl")] = 0
        for line in lines:
            put(b'{"%s":%s}' % (_LINES[name].encode(), line))
            counts[name.removesuffix(".jsonl")] += 1
    trailer: dict[str, Any] = {"counts": dict(counts), "sha256": digest.hexdigest()}
    last: dict[str, Any] = {"trailer": trailer}
    if contents.by is not None:
        last["signature"] = proofs.signed(trailer, contents.by)
    target.write(canonical(last) + b"\n")


# -- reading ----------------------------------------------------------------------------------------------------------


def read(source: Source, keys: Keys, now: int) -> Reading:
    """The bundle, after every byte of it was checked; TamperedError where one is not as it was written."""
    manifest, signature, kid = (_checked_archive if source.is_archive else _checked_lines)(source, keys, now)
    loss = Loss()
    vectors = [name for name in source.names if source.is_archive and is_vectors(name)]

    def items() -> Iterator[Found]:
        loss.clear()
        for name in values.an_object(manifest.get("counts")):
            if f"{name}.jsonl" in _PROOFS:
                loss.dropped(f"{name}.jsonl")
            elif name != "vectors" and f"{name}.jsonl" not in _LINES:
                loss.dropped(name)
        yield from _lines_of(source, ITEMS)

    head = manifest.get("receipts_head")
    position = values.an_object(manifest.get("chain_head")).get("seq")
    return Reading(
        format="bundle",
        items=items,
        loss=loss,
        source=None,
        belief=VENDOR,
        signature=signature,
        owner=_name(manifest.get("owner")),
        kid=kid,
        export_id=_name(manifest.get("export_id")),
        stores=tuple(map(values.an_object, values.a_list(manifest.get("stores"))[:_MOST_STORES])),
        tombstones=lambda: _lines_of(source, TOMBSTONES),
        position=position
        if isinstance(position, int) and not isinstance(position, bool) and position >= 0
        else None,
        is_incremental=manifest.get("export_type") == "incremental",
        vectors=lambda: Vectors(source, vectors) if vectors else None,
        has_vectors=bool(vectors),
        proofs=lambda: proofs.checked(
            _lines_of(source, LOGS),
            _lines_of(source, RECEIPTS),
            head if isinstance(head, str) else None,
            keys,
        ),
    )


def _name(value: Any) -> str | None:
    """What the journal can keep of a file; what it cannot keep is no name."""
    text = values.a_text(value)
    return text if text is not None and len(text) <= _LONGEST_NAME and is_storable(text) else None


def _checked_archive(source: Source, keys: Keys, now: int) -> tuple[dict[str, Any], Signature, str | None]:
    if MANIFEST not in source.names:
        raise refused("bad_file", "The bundle has no manifest.")
    manifest = _manifest(source.whole(MANIFEST))
    given = values.parsed(source.whole(SIGNATURE)) if SIGNATURE in source.names else None
    signature, kid = _standing(manifest, manifest, given, keys, now)
    digests = values.an_object(manifest.get("files"))
    for name in source.names:
        if name not in (MANIFEST, SIGNATURE) and digests.get(name) != _digest(source.open(name)):
            raise proofs.wrong_digest()
    if not set(digests) <= set(source.names) or ITEMS not in digests:
        raise refused("bad_file", "A file that the manifest names is not in the bundle.", _AGAIN)
    return manifest, signature, kid


def _checked_lines(source: Source, keys: Keys, now: int) -> tuple[dict[str, Any], Signature, str | None]:
    """A stream is read to its end once: its last line covers every byte before it."""
    digest = hashlib.sha256()
    stream = source.open()
    first = held = stream.readline(archive.LONGEST_LINE + 1)
    while piece := stream.readline(_PIECE):
        if held.endswith(b"\n") or len(held) > archive.LONGEST_LINE:
            digest.update(held)
            held = piece
        else:
            held += piece
    manifest = _manifest(first)
    try:
        last = values.an_object(values.parsed(held))
    except InvalidError:
        last = {}
    trailer = values.an_object(last.get("trailer"))
    if not trailer:
        raise refused("bad_file", "The bundle is cut short: its last line is missing.", _AGAIN)
    signature, kid = _standing(manifest, trailer, last.get("signature"), keys, now)
    if trailer.get("sha256") != digest.hexdigest():
        raise proofs.wrong_digest()
    return {**manifest, "counts": trailer.get("counts")}, signature, kid


def _manifest(raw: bytes) -> dict[str, Any]:
    manifest = values.an_object(values.parsed(raw))
    if manifest.get("format") != FORMAT:
        raise refused("bad_file", "The manifest is not that of a bundle.")
    if manifest.get("version") != VERSION:
        raise refused("unsupported_version", "This is a bundle of a version that is not read here.")
    return manifest


def _standing(
    manifest: Mapping[str, Any], body: Mapping[str, Any], given: Any, keys: Keys, now: int
) -> tuple[Signature, str | None]:
    owner = manifest.get("owner")
    at = instant(manifest.get("exported_at"))
    return proofs.standing(body, given, owner if isinstance(owner, str) else None, at, keys, now)


def _digest(stream: BinaryIO) -> str:
    digest = hashlib.sha256()
    while piece := stream.read(1 << 20):
        digest.update(piece)
    return digest.hexdigest()


def _lines_of(source: Source, name: str) -> Iterator[Found]:
    """The lines of one of its files, by their place in it; of a stream, by their place in that."""
    if source.is_archive:
        if name in source.names:
            yield from archive.objects(source.open(name))
        return
    wanted, others = (
        _LINES[name],
        tuple(b'{"%s":' % one.encode() for one in _LINES.values() if one != _LINES[name]),
    )
    for number, line in archive.lines(source.open()):
        if isinstance(line, bytes) and line.startswith(others):
            continue
        found = archive.an_object(line)
        if isinstance(found, QuipuError):
            if name == ITEMS:  # whose line it is cannot be told; it is told once
                yield number, found
        elif wanted in found:
            yield number, values.an_object(found[wanted]) or refused("bad_json", "A line is no JSON object.")
