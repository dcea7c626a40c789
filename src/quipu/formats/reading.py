"""Which format a file is in, and its items, whatever the format."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from quipu.errors import QuipuError
from quipu.formats import (
    chatgpt,
    claude,
    gemini,
    json_stream,
    letta,
    markdown,
    mem0,
    omi,
    pam,
    pasted,
    values,
)
from quipu.formats.archives import Source
from quipu.formats.bundle import FORMAT, MANIFEST, Bundle
from quipu.formats.bundle_proofs import Proofs
from quipu.formats.losses import Loss
from quipu.formats.signing import ABSENT, VALID, Checking
from quipu.formats.values import Found, refused
from quipu.formats.vectors import Vectors
from quipu.model.moving import Format
from quipu.rules.texts import is_keepable

#: How far what comes is believed at most (contract 10.3).
_CAPS = {Format.TEXT: 0.6}
_VENDOR, _PEER, _OWN = 0.7, 0.9, 1.0
_PLAIN: Mapping[Format, Callable[[Source, Loss], Iterator[Found]]] = {
    Format.OMI: omi.items,
    Format.MARKDOWN: markdown.items,
    Format.MEM0: mem0.items,
    Format.LETTA: letta.items,
    Format.CHATGPT: chatgpt.items,
    Format.CLAUDE: claude.items,
    Format.GEMINI: gemini.items,
    Format.TEXT: pasted.items,
}
#: How a file begins that was sealed with age.
_SEALED = b"age-encryption.org/v1\n"
#: So many parts of a document are looked at to tell its format.
_LOOKED_AT = 40


@dataclass(slots=True)
class Opened:
    """A file that was checked as a whole; its items can be asked for."""

    format: Format
    items: Callable[[], Iterator[Found]]
    loss: Loss
    signature: str = ABSENT
    owner: str | None = None
    export_id: str | None = None
    #: Stores that the file brings along.
    stores: tuple[dict[str, Any], ...] = ()
    tombstones: Callable[[], Iterator[Found]] = field(default=lambda: iter(()))
    #: Where the exporter's journal ended then; None where it is not told.
    position: int | None = None
    #: Only what has changed since an earlier file.
    is_incremental: bool = False
    #: Reads which vectors it brings.
    vectors: Callable[[], Vectors | None] = field(default=lambda: None)
    #: Reads its logs and receipts, and checks how they are tied.
    proofs: Callable[[], Proofs] = Proofs

    @property
    def is_proven(self) -> bool:
        """Whether a key that is known has signed for its owner."""
        return self.signature == VALID and self.owner is not None

    @property
    def source(self) -> str | None:
        """What records say they came from, where the file does not say it better."""
        return None if self.format is Format.BUNDLE else self.format.value.partition("-")[0]

    @property
    def cap(self) -> float:
        """No memory of the file is believed more than this."""
        if self.signature == ABSENT or self.format in _CAPS:
            return _CAPS.get(self.format, _VENDOR)
        return _OWN if self.signature == VALID else _PEER


def opened(source: Source, checking: Checking, format: Format | None = None) -> Opened:
    """The file as what it is. Signatures and digests are checked here, before an item is handed on."""
    format = format or detected(source)
    loss = Loss()
    if format is Format.BUNDLE:
        bundle = Bundle(source, checking)
        for name in bundle.left_behind:
            loss.dropped(name)
        return Opened(
            format,
            bundle.items,
            loss,
            bundle.signature,
            _name(bundle.manifest.get("owner")),
            _name(bundle.manifest.get("export_id")),
            tuple(values.an_object(store) for store in values.a_list(bundle.manifest.get("stores"))),
            bundle.tombstones,
            _position(bundle.manifest),
            bundle.manifest.get("export_type") == "incremental",
            bundle.vectors,
            bundle.proofs,
        )
    if format is Format.PAM:
        store = pam.Store(source, checking)
        owner = values.an_object(store.head.get("owner"))
        return Opened(
            format,
            lambda: store.items(loss),
            loss,
            store.signature,
            # The id is what the signature covers; the DID beside it is anybody's word.
            _name(owner.get("id")),
            _name(store.head.get("export_id")),
        )
    if format not in _PLAIN:
        raise refused("unknown_format", "Files of this format are not read here.")
    return Opened(format, lambda: _PLAIN[format](source, loss), loss)


def _name(value: Any) -> str | None:
    """What the journal can tell of a file; what it cannot keep is no name."""
    text = values.a_text(value)
    return text if text is not None and is_keepable(text) else None


def _position(manifest: Mapping[str, Any]) -> int | None:
    seq = values.an_object(manifest.get("chain_head")).get("seq")
    return seq if isinstance(seq, int) and not isinstance(seq, bool) and seq >= 0 else None


def detected(source: Source) -> Format:
    """What the file is, told by what is in it; its name is believed last."""
    if source.is_archive:
        return _of_archive(source)
    name = source.names[0].lower()
    if source.open(source.names[0]).read(len(_SEALED)) == _SEALED:
        raise refused("encrypted_file", "The file is sealed; open it with its key or passphrase first.")
    head = source.open(source.names[0]).read(1 << 16).lstrip(b"\xef\xbb\xbf \t\r\n")
    if head[:2] in (b"\xff\xfe", b"\xfe\xff"):
        raise refused("bad_encoding", "The text is not UTF-8.")
    if not head:
        raise refused("empty_file", "There is nothing in the file.")
    first = head.partition(b"\n")[0]
    if first.startswith(b"{") and f'"{FORMAT}"'.encode() in first:
        return Format.BUNDLE
    if first.startswith(b"{") and f'"{omi.FORMAT}"'.encode() in head:
        return Format.OMI
    if head[:1] in (b"{", b"["):
        return _of_document(source, source.names[0])
    if name.endswith(".md") and head.startswith(b"---"):
        return Format.MARKDOWN
    if b"\x00" in head:
        raise _unknown()
    return Format.TEXT


def _of_archive(source: Source) -> Format:
    if MANIFEST in source.names and FORMAT.encode() in source.whole(MANIFEST):
        return Format.BUNDLE
    if source.find(pam.FILE):
        return Format.PAM
    if source.find(gemini.FILE):
        return Format.GEMINI
    if (talks := source.find(chatgpt.FILE)) is not None:
        return _of_document(source, talks)
    if source.find(claude.MEMORIES):
        return Format.CLAUDE
    if any(name.endswith(".md") for name in source.names):
        return Format.MARKDOWN
    raise _unknown()


_MEMBERS: tuple[tuple[str, Format], ...] = (
    ("chat_messages", Format.CLAUDE),
    ("conversations_memory", Format.CLAUDE),
    ("mapping", Format.CHATGPT),
    ("userInteractions", Format.GEMINI),
    ("content_hash", Format.PAM),
    ("memory", Format.MEM0),
    ("header", Format.GEMINI),
)
_NAMES: tuple[tuple[str, Format], ...] = (
    ("blocks", Format.LETTA),
    ("agents", Format.LETTA),
    ("results", Format.MEM0),
)


def _of_document(source: Source, name: str) -> Format:
    for place, part in enumerate(json_stream.parts(source.open(name))):
        try:
            body = values.parsed(part.raw)
        except QuipuError:
            body = None
        if body == pam.SCHEMA and part.name == "schema":
            return Format.PAM
        if part.is_element:
            for member, format in _MEMBERS:
                if member in values.an_object(body):
                    return format
        for known, format in _NAMES:
            if part.name == known:
                return format
        if place >= _LOOKED_AT:
            break
    raise _unknown()


def _unknown() -> Exception:
    return refused("unknown_format", "It cannot be told what kind of file this is.")
