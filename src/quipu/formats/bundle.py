"""Quipu bundle v1: an archive of lines with a signed manifest, or the same as one stream of lines (contract 10.1)."""

from __future__ import annotations

import hashlib
import zipfile
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any, BinaryIO

from quipu.errors import InvalidError, QuipuError
from quipu.formats import archives, bundle_proofs, values
from quipu.formats.archives import Source
from quipu.formats.bounds import is_dense
from quipu.formats.bundle_proofs import Proofs
from quipu.formats.signing import Checking, Signing, wrong_digest
from quipu.formats.values import Found, refused
from quipu.formats.vectors import Vectors, Written, is_vectors

FORMAT = "quipu-bundle"
ITEMS, RELATIONS, TOMBSTONES = "items.jsonl", "relations.jsonl", "tombstones.jsonl"
LOGS, RECEIPTS, GRANTS = "logs.jsonl", "receipts.jsonl", "grants.jsonl"
ENTITIES = "entities.jsonl"
_FILES = {
    ITEMS: "item", ENTITIES: "entity", RELATIONS: "relation", TOMBSTONES: "tombstone",
    LOGS: "log", RECEIPTS: "receipt", GRANTS: "grant",
}  # fmt: skip
#: Proofs of the host that made the bundle: no other can take them over as its own.
_PROOFS = (LOGS, RECEIPTS, GRANTS)
MANIFEST, SIGNATURE = "manifest.json", "signature.json"
#: The same contents make the same archive, whenever it is written.
_DATE = (1980, 1, 1, 0, 0, 0)


@dataclass(frozen=True, slots=True, kw_only=True)
class Contents:
    """What goes into a bundle: lines of each file, as often as they are asked for, in the order of item ids."""

    #: manifest.json without counts and digests.
    head: dict[str, Any]
    files: dict[str, Callable[[], Iterable[bytes]]] = field(
        default_factory=dict[str, Callable[[], Iterable[bytes]]]
    )
    #: Of an archive only.
    vectors: Written | None = None


def schema_of(name: str) -> str:
    """The id of the schema that the lines of a file follow."""
    return f"urn:quipu:bundle:v1:{_FILES[name]}"


def write_archive(target: BinaryIO, contents: Contents, signing: Signing) -> None:
    """The archive. What packs so well that readers would take it for a trap is written once more, not packed."""
    start = target.tell()
    if dense := _archived(target, contents, signing):
        target.seek(start)
        target.truncate()
        _archived(target, contents, signing, dense)


def _archived(
    target: BinaryIO, contents: Contents, signing: Signing, plain: frozenset[str] = frozenset()
) -> frozenset[str]:
    """Write it, and answer what is packed too well. The manifest goes in last, because it tells of the others."""
    digests: dict[str, str] = {}
    counts: dict[str, int] = {}
    with zipfile.ZipFile(target, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, lines in contents.files.items():
            digest, count = hashlib.sha256(), 0
            with archive.open(_entry(name, is_packed=name not in plain), "w", force_zip64=True) as entry:
                for line in lines():
                    entry.write(line + b"\n")
                    digest.update(line + b"\n")
                    count += 1
            digests[name], counts[name.removesuffix(".jsonl")] = digest.hexdigest(), count
        if contents.vectors is not None and len(contents.vectors):
            counts["vectors"] = len(contents.vectors)
            for name, pieces in contents.vectors.files().items():
                digests[name] = _put(archive, name, pieces())
        manifest = {**contents.head, "counts": counts, "files": digests}
        for name, body in ((MANIFEST, manifest), (SIGNATURE, signing.jws(manifest))):
            archive.writestr(_entry(name), signing.canonical(body) + b"\n")
        return frozenset(
            info.filename for info in archive.infolist() if is_dense(info.file_size, info.compress_size)
        )


def _put(archive: zipfile.ZipFile, name: str, pieces: Iterable[bytes]) -> str:
    """Numbers, which packing makes no smaller; their digest is answered."""
    entry, digest = _entry(name, is_packed=False), hashlib.sha256()
    with archive.open(entry, "w", force_zip64=True) as target:
        for piece in pieces:
            target.write(piece)
            digest.update(piece)
    return digest.hexdigest()


def _entry(name: str, *, is_packed: bool = True) -> zipfile.ZipInfo:
    entry = zipfile.ZipInfo(name, _DATE)
    entry.compress_type = zipfile.ZIP_DEFLATED if is_packed else zipfile.ZIP_STORED
    entry.external_attr = 0o600 << 16
    return entry


def write_lines(target: BinaryIO, contents: Contents, signing: Signing) -> None:
    """The stream: a header, one line for each record, a trailer that covers all of it."""
    digest = hashlib.sha256()
    counts: Counter[str] = Counter()

    def put(line: bytes) -> None:
        target.write(line + b"\n")
        digest.update(line + b"\n")

    put(signing.canonical(contents.head))
    for name, lines in contents.files.items():
        for line in lines():
            put(b'{"%s":%s}' % (_FILES[name].encode(), line))
            counts[name.removesuffix(".jsonl")] += 1
    trailer = {"counts": dict(sorted(counts.items())), "sha256": digest.hexdigest()}
    target.write(signing.canonical({"trailer": trailer, "signature": signing.jws(trailer)}) + b"\n")


# -- reading ----------------------------------------------------------------------------------------------------


class Bundle:
    """A bundle whose signature and digests were checked, every byte of it, before anything of it is handed on."""

    def __init__(self, source: Source, checking: Checking) -> None:
        self._source, self._canonical = source, checking.canonical
        self.manifest, self.signature = (
            _checked_archive(source, checking) if source.is_archive else _checked_lines(source, checking)
        )
        if self.manifest.get("version") != 1:
            raise refused("unsupported_version", "This is a bundle of a version that is not read here.")

    @property
    def left_behind(self) -> list[str]:
        """Files of the bundle that are not taken over here."""
        return [name for name in _PROOFS if name in self._source.names]

    def vectors(self) -> Vectors | None:
        """The vectors of its items, if it brings any."""
        named = [name for name in self._source.names if self._source.is_archive and is_vectors(name)]
        return Vectors(self._source, named) if named else None

    def items(self) -> Iterator[Found]:
        """Every item, by its line."""
        return self._of(ITEMS)

    def tombstones(self) -> Iterator[Found]:
        """What was forgotten where the bundle was made."""
        return self._of(TOMBSTONES)

    def proofs(self) -> Proofs:
        """What its logs and receipts hold."""
        head = self.manifest.get("receipts_head")
        return bundle_proofs.checked(
            self._of(LOGS), self._of(RECEIPTS), head if isinstance(head, str) else None, self._canonical
        )

    def _of(self, name: str) -> Iterator[Found]:
        if self._source.is_archive and name not in self._source.names:
            return
        stream = self._source.open(name if self._source.is_archive else "")
        for number, line in archives.lines(stream):
            found = _parsed(line)
            if self._source.is_archive:
                yield number, found
            elif isinstance(found, QuipuError) or _FILES[name] in found:
                yield number, found if isinstance(found, QuipuError) else _inner(found, _FILES[name])


def _parsed(line: bytes | InvalidError) -> dict[str, Any] | QuipuError:
    if isinstance(line, InvalidError):
        return line
    try:
        found = values.parsed(line)
    except QuipuError as error:
        return error
    return values.an_object(found) or refused("bad_json", "A line is no JSON object.")


def _inner(found: dict[str, Any], name: str) -> dict[str, Any] | QuipuError:
    return values.an_object(found[name]) or refused("bad_json", "A line is no JSON object.")


def _checked_archive(source: Source, checking: Checking) -> tuple[dict[str, Any], str]:
    if MANIFEST not in source.names:
        raise refused("bad_file", "The bundle has no manifest.")
    manifest = values.an_object(values.parsed(source.whole(MANIFEST)))
    if manifest.get("format") != FORMAT:
        raise refused("bad_file", "The manifest is not that of a bundle.")
    signed = values.parsed(source.whole(SIGNATURE)) if SIGNATURE in source.names else None
    standing = checking.standing(manifest, signed)
    digests = values.an_object(manifest.get("files"))
    for name in source.names:
        if name not in (MANIFEST, SIGNATURE) and digests.get(name) != _digest(source.open(name)):
            raise wrong_digest()
    if not set(digests) <= set(source.names) or ITEMS not in digests:
        raise refused("bad_file", "A file that the manifest names is not in the bundle.")
    return manifest, standing


def _digest(stream: BinaryIO) -> str:
    digest = hashlib.sha256()
    while piece := stream.read(1 << 20):
        digest.update(piece)
    return digest.hexdigest()


def _checked_lines(source: Source, checking: Checking) -> tuple[dict[str, Any], str]:
    """A stream is read to its end once: its trailer covers every byte before it."""
    digest = hashlib.sha256()
    head: dict[str, Any] | None = None
    last: dict[str, Any] = {}
    held = b""
    stream = source.open("")
    while line := stream.readline(archives.LONGEST_LINE + 1):
        if head is None:
            head = values.an_object(values.parsed(line))
        digest.update(held)
        held = line
    try:
        last = values.an_object(values.parsed(held))
    except QuipuError:
        last = {}
    trailer = values.an_object(last.get("trailer"))
    if head is None or head.get("format") != FORMAT or not trailer:
        raise refused("bad_file", "The bundle is cut short: its last line is missing.")
    standing = checking.standing(trailer, last.get("signature"))
    if trailer.get("sha256") != digest.hexdigest():
        raise wrong_digest()
    return {**head, "counts": trailer.get("counts")}, standing
