"""The formats that whole memories come and go in: one line each. How a file is opened, and how one is written.

Reading: `opened(Source(file, name))` → `Reading`: checked as a whole, then its items, one by one.
Writing: `named(name).write(target, contents, loss)`.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from types import ModuleType
from typing import BinaryIO

from quipu.transfer import age
from quipu.transfer.formats import (
    bundle,
    chatgpt,
    claude,
    cogx,
    graphiti,
    langgraph,
    letta,
    mem0,
    memorywire,
    oap,
    records,
    text,
)
from quipu.transfer.formats.archive import Source
from quipu.transfer.formats.loss import Loss
from quipu.transfer.formats.names import FormatName
from quipu.transfer.formats.proofs import Keys, no_keys
from quipu.transfer.formats.reading import VENDOR, Look, Reading
from quipu.transfer.formats.spool import Contents
from quipu.transfer.formats.values import Found, refused


@dataclass(frozen=True, slots=True, kw_only=True)
class Format:
    """One format: how it is told, read and written, and what people read about it."""

    name: FormatName
    #: What such a file is and where it comes from: a sentence without its full stop.
    about: str
    detect: Callable[[Look], bool]
    read: Callable[[Source, Keys, int], Reading]
    #: Writes it; None for a format that is only read.
    write: Callable[[BinaryIO, Contents, Loss], None] | None = None
    #: Of files that are written.
    suffix: str = ".json"
    media_type: str = "application/json"


def _plain(
    name: FormatName,
    about: str,
    module: ModuleType,
    *,
    belief: float = VENDOR,
    names_sources: bool = False,
    suffix: str = ".json",
) -> Format:
    """A format that has nothing but items. Its memories come from it, unless each names its own source."""

    def read(source: Source, _keys: Keys, _now: int) -> Reading:
        loss = Loss()

        def items() -> Iterator[Found]:
            loss.clear()
            yield from module.items(source, loss)

        return Reading(
            format=name, items=items, loss=loss, source=None if names_sources else name, belief=belief
        )

    write = getattr(module, "write", None)
    return Format(name=name, about=about, detect=module.detect, read=read, write=write, suffix=suffix)


#: In the order in which they are tried: the last one takes whatever is text.
FORMATS: tuple[Format, ...] = (
    Format(
        name="bundle",
        about="Quipu's own: everything, signed by its owner",
        detect=bundle.detect,
        read=bundle.read,
        write=bundle.write,
        suffix=".bundle.zip",
        media_type="application/zip",
    ),
    _plain("memorywire", "The SQLite file of memorywire's reference package", memorywire),
    _plain(
        "cogx", 'COGX 0.1, what Cognee\'s `export(format="cogx")` writes, as a folder or a zip of it', cogx
    ),
    _plain("chatgpt", "ChatGPT's export, as it comes or its `conversations.json`", chatgpt),
    _plain("claude", "Claude's export, as it comes, its `conversations.json` or `memories.json`", claude),
    _plain(
        "letta", "Letta's agent files (`.af`) and passages; blocks are written", letta, suffix=".letta.json"
    ),
    _plain("langgraph", "A JSON dump of a LangGraph store's items, LangMem's memories among them", langgraph),
    _plain("graphiti", "A JSON dump of Graphiti's or Zep's edges, nodes and episodes", graphiti),
    _plain(
        "records",
        "Records of Quipu, one on each line, as `quipu export FILE.ndjson` writes them",
        records,
        names_sources=True,
    ),
    _plain("oap", "OAP items: one on each line, a list, or a host's answer", oap),
    _plain("mem0", "What mem0's `get_all()` answers, as JSON", mem0, suffix=".mem0.json"),
    _plain(
        "text",
        "Text or Markdown, such as an assistant's own list of what it remembers: a memory for each bullet or line",
        text,
        belief=0.6,
    ),
)


def named(name: str) -> Format:
    """The format of that name."""
    for format_ in FORMATS:
        if format_.name == name:
            return format_
    raise refused(
        "unknown_format", "There is no such format.", f"Formats: {', '.join(f.name for f in FORMATS)}."
    )


def opened(source: Source, name: FormatName | None = None, *, keys: Keys = no_keys, now: int = 0) -> Reading:
    """The file as what it is, or as what it is said to be; InvalidError or TamperedError where it is neither.

    `keys` is asked for the key that signed. It may wait for a document on the network, so this runs on a thread.
    """
    look = Look(source)
    _check(look)
    format_ = detected(look) if name is None else named(name)
    return format_.read(source, keys, now)


def detected(look: Look) -> Format:
    """What a file is, by what is in it."""
    for format_ in FORMATS:
        if format_.detect(look):
            return format_
    raise refused(
        "unknown_format",
        "It cannot be told what kind of file this is.",
        f"Say its format: {', '.join(format_.name for format_ in FORMATS)}.",
    )


def _check(look: Look) -> None:
    """What no format can be."""
    if look.is_archive:
        return
    if age.is_sealed(look.head):
        raise refused(
            "encrypted_file", "The file is sealed.", "Give the key or the passphrase that opens it."
        )
    if look.head[:2] in (b"\xff\xfe", b"\xfe\xff"):
        raise refused("bad_encoding", "The text is not UTF-8.", "Save it as UTF-8.")
    if not look.head:
        raise refused("empty_file", "There is nothing in the file.")
