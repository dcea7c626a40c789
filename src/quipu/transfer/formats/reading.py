"""What is known of a file before its items are read, and what it gives."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from quipu.transfer.formats import values
from quipu.transfer.formats.archive import Source
from quipu.transfer.formats.loss import Loss
from quipu.transfer.formats.proofs import Proofs, Signature
from quipu.transfer.formats.values import Found
from quipu.transfer.formats.vectors import Vectors

#: So many parts of a document are looked at to find out its format.
_LOOKED_AT = 40
_HEAD = 64 << 10
#: How far memories are believed that nobody has signed for.
VENDOR = 0.7


@dataclass(slots=True, kw_only=True)
class Reading:
    """A file that was checked as a whole. Its items can be asked for, and asked for again.

    `items()` gives each place with its item, or with the reason why there is none; it raises InvalidError where the rest
    of the file cannot be read. So whoever writes reads to the end once before.
    """

    format: str
    items: Callable[[], Iterator[Found]]
    #: Counted while items are read: complete after the last one.
    loss: Loss
    #: What records say they came from, where an item does not say it better.
    source: str | None
    #: No memory of the file is believed more than this, whoever signed it.
    belief: float
    signature: Signature = "absent"
    #: The DID that the file names as its owner: proven if the signature is `valid`, otherwise anybody's word.
    owner: str | None = None
    #: The name of the key that signed, if there is a signature.
    kid: str | None = None
    export_id: str | None = None
    #: Stores that the file brings along, as a bundle's manifest describes them.
    stores: tuple[dict[str, Any], ...] = ()
    #: What was forgotten where the file was made: `{"item_id", …}`, by place.
    tombstones: Callable[[], Iterator[Found]] = field(default=lambda: iter(()))
    #: The vectors that a bundle brings; None where it has none. They are read beside its items.
    vectors: Callable[[], Vectors | None] = field(default=lambda: None)
    has_vectors: bool = False
    #: Reads a bundle's logs and receipts, and how they are tied.
    proofs: Callable[[], Proofs] = Proofs
    #: Where the exporter's journal ended then; None where the file does not say.
    position: int | None = None
    #: Only what has changed since an earlier file.
    is_incremental: bool = False

    @property
    def is_proven(self) -> bool:
        """Whether its owner has signed it."""
        return self.signature == "valid" and self.owner is not None

    def confidence(self, *, is_own: bool) -> float:
        """The most confidence that its memories are given. `is_own`: it is proven, and its owner is who imports it."""
        if self.belief < VENDOR or not self.is_proven:
            return self.belief
        return 1.0 if is_own else 0.9


class Look:
    """A first look at a file, by which it is told what it is. Its name is believed last."""

    def __init__(self, source: Source) -> None:
        self.source = source
        self.is_archive = source.is_archive
        #: How a plain file begins, without a mark of its encoding and white space.
        self.head = b"" if source.is_archive else source.open().read(_HEAD).lstrip(b"\xef\xbb\xbf \t\r\n")

    @property
    def is_json(self) -> bool:
        return self.head[:1] in (b"{", b"[")

    def has(self, *names: str) -> bool:
        """Whether an archive holds a file of one of these names, in whatever folder."""
        return self.is_archive and any(self.source.find(name) is not None for name in names)

    @cached_property
    def members(self) -> frozenset[str]:
        """Of a JSON document: names of the outermost members, as `member.name` those inside, and as `.name` those of the
        elements of a bare array."""
        return shape(self.source) if self.is_json else frozenset()


def shape(source: Source, name: str | None = None) -> frozenset[str]:
    """The names in the first parts of a JSON document; what of it cannot be read says nothing. Of several documents in one
    file those of the first."""
    found: set[str] = set()
    try:
        for place, part in enumerate(values.parts(source.open(name))):
            if part.name is not None:
                found.add(part.name)
            found.update(f"{part.name or ''}.{member}" for member in values.an_object(part.value))
            if place >= _LOOKED_AT:
                break
    except values.InvalidError:
        pass  # whoever reads it finds out what is wrong
    return frozenset(found)
