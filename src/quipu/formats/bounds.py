"""What an archive from a stranger may be, and where a name in it may lead."""

from __future__ import annotations

from dataclasses import dataclass

from quipu.formats.values import refused


@dataclass(frozen=True, slots=True, kw_only=True)
class Bounds:
    """What an archive may be."""

    entries: int = 100_000
    #: Bytes of its table of contents, which is read whole.
    directory: int = 32 << 20
    #: Unpacked to packed, of entries larger than a megabyte.
    ratio: int = 200
    unpacked: int = 64 << 30
    #: So much is never too much for a ratio.
    small: int = 16 << 20
    #: What has to be unpacked as a whole before it can be looked at.
    spooled: int = 8 << 30


#: Entries that are no larger are not looked at one by one.
SMALL_ENTRY = 1 << 20
#: What is written here is never packed better than this, so that a reader who counts a little differently takes it, too.
_DENSEST = Bounds().ratio // 2


def is_dense(size: int, packed: int, small: int = SMALL_ENTRY) -> bool:
    """Whether a file of so many bytes is packed so well that it has to be left as it is."""
    return size > small and size > _DENSEST * packed


def check_name(name: str) -> None:
    """The name of an entry leads nowhere else."""
    parts = name.replace("\\", "/").split("/")
    if not name or name.startswith("/") or ".." in parts or ":" in parts[0] or "\x00" in name:
        raise refused("hostile_archive", "A file in the archive has a path that leads elsewhere.")
