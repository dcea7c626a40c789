"""Tar archives are read as zip archives are, and hostile ones are refused before anything of them is handed on."""

from __future__ import annotations

import gzip
import io
import tarfile
from collections.abc import Callable, Mapping

import pytest
from hypothesis import given
from hypothesis import strategies as st

from quipu.errors import InvalidError, QuipuError
from quipu.formats.archives import Bounds, Source
from quipu.formats.reading import opened
from quipu.model.moving_formats import Format
from tests.formats import shelves
from tests.formats.shelves import CHECKING, good, source
from tests.formats.test_bundle import ITEMS, archive
from tests.requirement import requirement

FILES = shelves.unpacked(archive())


def tar(files: Mapping[str, bytes] = FILES, format: int = tarfile.PAX_FORMAT, **told: object) -> bytes:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w", format=format) as target:
        for name, data in files.items():
            info = tarfile.TarInfo(name)
            info.size, info.mtime = len(data), 1_700_000_000.5  # type: ignore[assignment]  a fraction makes a pax header
            if format != tarfile.PAX_FORMAT:
                info.mtime = 1_700_000_000
            for member, value in told.items():
                setattr(info, member, value)
            target.addfile(info, io.BytesIO(data))
    return buffer.getvalue()


@requirement("moving:import.tar")
@pytest.mark.parametrize("format", [tarfile.PAX_FORMAT, tarfile.GNU_FORMAT, tarfile.USTAR_FORMAT])
@pytest.mark.parametrize("packing", [bytes, gzip.compress], ids=["plain", "gzip"])
@pytest.mark.parametrize("folder", ["", "./"])
def test_a_bundle_may_be_a_tar_archive(format: int, packing: Callable[[bytes], bytes], folder: str) -> None:
    data = tar({folder + name: body for name, body in FILES.items()}, format)
    found = opened(source(packing(data)), CHECKING)
    assert (found.format, found.signature) == (Format.BUNDLE, "valid")
    assert good(found.items()) == ITEMS


@requirement("moving:import.tar")
def test_a_folder_of_markdown_may_be_one_too() -> None:
    long = "items/" + "ü" * 120 + ".md"
    body = b"---\nid: a\nkind: fact\n---\nMara rows\n"
    for format in (tarfile.PAX_FORMAT, tarfile.GNU_FORMAT):
        read = source(gzip.compress(tar({"items/a.md": body, long: body}, format)))
        assert read.names == ("items/a.md", long)
        assert read.whole(long) == body


def test_files_of_a_tar_archive_are_read_side_by_side() -> None:
    read = source(tar({"a": b"1\n2\n3\n", "b": b"4\n5"}))
    one, other = read.open("a"), read.open("b")
    assert [one.readline(), other.readline(), one.readline(), other.readline()] == [
        b"1\n",
        b"4\n",
        b"2\n",
        b"5",
    ]
    assert (one.read(), other.read(), other.readline()) == (b"3\n", b"", b"")


def _altered(name: str) -> bytes:
    return tar({**FILES, name: FILES[name].replace(b"fact 2", b"fact X")})


@requirement("moving:bundle.signature")
def test_what_was_altered_in_a_tar_archive_is_refused() -> None:
    with pytest.raises(QuipuError) as refused:
        opened(source(_altered("items.jsonl")), CHECKING)
    assert refused.value.reason == "wrong_digest"


def _sparse() -> bytes:
    return tar({"a.md": b"x"}, pax_headers={"GNU.sparse.major": "1"})


def _huge_name() -> bytes:
    return tar({"a.md": b"x"}, pax_headers={"path": "x" * 100_000})


def _lying_size() -> bytes:
    return tar({"a.md": b"x"}, pax_headers={"size": "999999999999"})


def _bomb() -> bytes:
    return gzip.compress(tar({"conversations.json": b" " * (50 << 20)}, tarfile.USTAR_FORMAT))


def _wrong_sum() -> bytes:
    data = bytearray(tar({"a.md": b"x", "b.md": b"y"}, tarfile.USTAR_FORMAT))
    data[1024] ^= 1
    return bytes(data)


HOSTILE: dict[str, tuple[Callable[[], bytes], str]] = {
    "a path upwards": (lambda: tar({"../../etc/passwd": b"x"}), "hostile_archive"),
    "a path upwards inside": (lambda: tar({"items/../../x.md": b"x"}), "hostile_archive"),
    "an absolute path": (lambda: tar({"/etc/passwd": b"x"}), "hostile_archive"),
    "a drive": (lambda: tar({"C:/x.md": b"x"}), "hostile_archive"),
    "backslashes": (lambda: tar({"..\\x.md": b"x"}), "hostile_archive"),
    "a path upwards in a header of its own": (
        lambda: tar({"a.md": b"x"}, pax_headers={"path": "../x.md"}),
        "hostile_archive",
    ),
    "a symbolic link": (lambda: tar({"a.md": b""}, type=tarfile.SYMTYPE, linkname="/etc"), "hostile_archive"),
    "a hard link": (lambda: tar({"a.md": b""}, type=tarfile.LNKTYPE, linkname="b"), "hostile_archive"),
    "a device": (lambda: tar({"a.md": b""}, type=tarfile.CHRTYPE), "hostile_archive"),
    "a disk": (lambda: tar({"a.md": b""}, type=tarfile.BLKTYPE), "hostile_archive"),
    "a named pipe": (lambda: tar({"a.md": b""}, type=tarfile.FIFOTYPE), "hostile_archive"),
    "holes": (_sparse, "hostile_archive"),
    "one name twice": (lambda: tar({"a.md": b"x", "./a.md": b"y"}), "hostile_archive"),
    "a name without end": (_huge_name, "hostile_archive"),
    "more than there is": (_lying_size, "bad_file"),
    "a bomb": (_bomb, "too_large"),
    "cut short": (lambda: tar()[:1500], "bad_file"),
    "cut in the packing": (lambda: gzip.compress(tar())[:-200], "bad_file"),
    "a wrong sum": (_wrong_sum, "bad_file"),
}


@requirement("moving:import.tar")
@requirement("moving:import.limits")
@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_tar_archives_are_refused(name: str) -> None:
    made, reason = HOSTILE[name]
    with pytest.raises(InvalidError) as refused:
        opened(source(made()), CHECKING)
    assert refused.value.reason == reason


@requirement("moving:import.tar")
def test_a_tar_archive_has_bounds() -> None:
    many = tar({f"{number}.md": b"x" for number in range(50)})
    for data, bounds in (
        (many, Bounds(entries=49)),
        (many, Bounds(directory=100)),
        (gzip.compress(many), Bounds(spooled=10_000)),
    ):
        with pytest.raises(InvalidError) as refused:
            Source(io.BytesIO(data), "x", bounds)
        assert refused.value.reason == "too_large"
    assert len(Source(io.BytesIO(many), "x", Bounds(entries=50)).names) == 50


def test_what_gzip_packed_and_is_no_tar_is_to_be_unpacked_first() -> None:
    with pytest.raises(InvalidError) as refused:
        opened(source(gzip.compress(b"Mara rows\n" * 100)), CHECKING)
    assert refused.value.reason == "packed_file"


@given(st.data())
def test_any_torn_archive_is_read_or_refused(data: st.DataObject) -> None:
    whole = bytearray(tar())
    for _ in range(data.draw(st.integers(1, 4))):
        whole[data.draw(st.integers(0, len(whole) - 1))] = data.draw(st.integers(0, 255))
    try:
        found = opened(source(bytes(whole[: data.draw(st.integers(600, len(whole)))])), CHECKING)
    except QuipuError:
        return
    if found.format is Format.BUNDLE and found.signature == "valid":
        assert good(found.items()) == ITEMS
