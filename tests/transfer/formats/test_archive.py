"""Hostile archives are refused before anything of them is unpacked, and torn files are told as such."""

import bz2
import gzip
import io
import json
import lzma
import stat
import struct
import tarfile
import tracemalloc
import zipfile
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from quipu.errors import InvalidError, QuipuError
from quipu.transfer.formats.archive import Bounds, Source, lines
from tests.requirement import requirement
from tests.transfer.formats.shelf import good, packed, read, reasons, source

PLAIN = {"results": [{"id": "a", "memory": "tea"}]}


def _named(name: str, **attributes: int) -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        info = zipfile.ZipInfo("x" if "\x00" in name else name)
        info.filename = name
        for attribute, value in attributes.items():
            setattr(info, attribute, value)
        archive.writestr(info, "x")
    return buffer.getvalue()


def _bomb() -> bytes:
    return packed({"memories.json": b" " * (50 << 20)})


def _many() -> bytes:
    return packed({f"{number}.json": "x" for number in range(50)})


def _twice() -> bytes:
    return packed({"a.json": "one", "b.json": "two"}).replace(b"b.json", b"a.json")


def _encrypted() -> bytes:
    data = bytearray(_named("a.json"))
    data[data.index(b"PK\x01\x02") + 8] |= 1
    return bytes(data)


def _odd_packing() -> bytes:
    data = bytearray(_named("a.json"))
    struct.pack_into("<H", data, data.index(b"PK\x01\x02") + 10, 14)
    return bytes(data)


def _lying(claimed: int) -> bytes:
    """An entry that says it is smaller than what it unpacks to."""
    data = bytearray(packed({"memories.json": b"[" + b" " * (200 << 10) + b"]"}))
    for mark, at in ((b"PK\x01\x02", 24), (b"PK\x03\x04", 22)):
        struct.pack_into("<I", data, data.index(mark) + at, claimed)
    return bytes(data)


def _nested() -> bytes:
    inner = packed({"results.json": PLAIN})
    return packed({"inner.zip": inner, "deeper/inner.zip": packed({"x.zip": inner})})


def _overlapping() -> bytes:
    """Two entries of the table that are the same bytes of the file."""
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        archive.writestr("a.json", "one")
        archive.writestr("b.json", "two")
        archive.filelist[1].header_offset = 0
    return buffer.getvalue()


def _misnamed() -> bytes:
    """A name that is not the UTF-8 it says it is."""
    return _named("\u00e4\u00e4.json").replace("\u00e4".encode(), b"\xff\xfe")


HOSTILE: dict[str, tuple[Callable[[], bytes], str]] = {
    "a path upwards": (lambda: _named("../../etc/passwd"), "hostile_archive"),
    "a path upwards inside": (lambda: _named("items/../../x.json"), "hostile_archive"),
    "an absolute path": (lambda: _named("/etc/passwd"), "hostile_archive"),
    "a drive": (lambda: _named("C:/x.json"), "hostile_archive"),
    "backslashes": (lambda: _named("..\\x.json"), "hostile_archive"),
    "a NUL in a name": (lambda: _named("a.json\x00/../x"), "hostile_archive"),
    "a name without end": (lambda: _named("x" * 5000), "hostile_archive"),
    "a link": (lambda: _named("a.json", external_attr=(stat.S_IFLNK | 0o777) << 16), "hostile_archive"),
    "a named pipe": (lambda: _named("a.json", external_attr=(stat.S_IFIFO | 0o600) << 16), "hostile_archive"),
    "one name twice": (_twice, "hostile_archive"),
    "entries that are the same bytes": (_overlapping, "hostile_archive"),
    "an encrypted entry": (_encrypted, "encrypted_archive"),
    "packed in an odd way": (_odd_packing, "packed_file"),
    "a bomb": (_bomb, "too_large"),
    "archives inside archives": (_nested, "unknown_format"),
    "a name in no encoding": (_misnamed, "bad_file"),
    "cut short": (lambda: _many()[:-30], "bad_file"),
    "cut in the middle": (lambda: _many()[:100], "bad_file"),
}


@requirement("formats:import.limits")
@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_archives_are_refused(name: str) -> None:
    made, reason = HOSTILE[name]
    with pytest.raises(InvalidError) as refused:
        read(made())
    assert refused.value.reason == reason
    assert "passwd" not in str(refused.value), "nothing of the file is echoed"


@requirement("formats:import.limits")
def test_an_archive_with_too_many_files_or_too_large_is_refused() -> None:
    for bounds in (Bounds(entries=10), Bounds(directory=100), Bounds(unpacked=10)):
        with pytest.raises(InvalidError) as refused:
            Source(io.BytesIO(_many()), "many.zip", bounds)
        assert refused.value.reason == "too_large"


@requirement("formats:import.limits")
def test_many_small_bombs_are_counted_together() -> None:
    data = packed({f"{number}.json": b" " * (1 << 20) for number in range(20)})
    assert len(data) < 30_000
    with pytest.raises(InvalidError) as refused:
        Source(io.BytesIO(data), "many.zip")
    assert refused.value.reason == "too_large"
    assert Source(io.BytesIO(data), "many.zip", Bounds(small=32 << 20)).is_archive


@requirement("formats:import.limits")
@pytest.mark.parametrize("claimed", [10, 0])
def test_an_archive_that_lies_about_its_entries_gives_no_more_than_it_says(claimed: int) -> None:
    entry = Source(io.BytesIO(_lying(claimed)), "x.zip").open("memories.json")
    got = 0
    with suppress(InvalidError):
        while piece := entry.read(1 << 16):
            got += len(piece)
    assert got <= claimed
    longer = Source(io.BytesIO(_lying(300 << 10)), "x.zip").open("memories.json")
    with pytest.raises(InvalidError) as refused:
        list(lines(longer))
    assert refused.value.reason == "bad_file"


@requirement("formats:import.limits")
@given(st.binary(max_size=200), st.integers(0, 600), st.integers(0, 255))
def test_an_archive_with_a_wrong_byte_is_read_or_refused_and_never_breaks(
    extra: bytes, at: int, byte: int
) -> None:
    data = bytearray(packed({"conversations.json": json.dumps([{"mapping": {}}]), "x": extra}))
    data[at % len(data)] = byte
    try:
        for _ in read(bytes(data)).items():
            pass
    except QuipuError as refused:
        if refused.reason is None:
            raise


def _with_a_larger_record(data: bytes) -> bytes:
    """The same archive; its small record says that the table is small, and a larger one beside it what it is."""
    at = data.rfind(b"PK\x05\x06")
    entries, size, start = struct.unpack_from("<HII", data, at + 10)
    record = struct.pack("<4sQHHIIQQQQ", b"PK\x06\x06", 44, 45, 45, 0, 0, entries, entries, size, start)
    locator = struct.pack("<4sIQI", b"PK\x06\x07", 0, at, 1)
    end = bytearray(data[at:])
    struct.pack_into("<I", end, 12, 46)
    return data[:at] + record + locator + bytes(end)


@requirement("formats:import.limits")
def test_a_table_of_contents_is_as_large_as_its_readers_believe() -> None:
    data = _with_a_larger_record(packed({f"{number}.json": "x" for number in range(300)}))
    assert len(zipfile.ZipFile(io.BytesIO(data)).infolist()) == 300, "a reader believes the larger one"
    with pytest.raises(InvalidError) as refused:
        Source(io.BytesIO(data), "many.zip", Bounds(directory=1_000))
    assert refused.value.reason == "too_large"
    assert len(Source(io.BytesIO(data), "many.zip").names) == 300


# -- packed by other tools --------------------------------------------------------------------------------------------


def _zstd(data: bytes) -> bytes:
    """A frame of one segment whose only block holds the bytes as they are (RFC 8878)."""
    size = len(data).to_bytes(4, "little")
    return b"\x28\xb5\x2f\xfd\xa0" + size + (len(data) << 3 | 1).to_bytes(3, "little") + data


def _tar(data: bytes) -> bytes:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as archive:
        info = tarfile.TarInfo("a.txt")
        info.size = len(data)
        archive.addfile(info, io.BytesIO(data))
    return buffer.getvalue()


PACKERS: dict[str, tuple[Callable[[bytes], bytes], str]] = {
    "zstd": (_zstd, "zstd -d"),
    "xz": (lzma.compress, "xz -d"),
    "bzip2": (bz2.compress, "bzip2 -d"),
    "gzip": (gzip.compress, "gzip -d"),
    "tar": (_tar, "tar -xf"),
}


@requirement("formats:packed-otherwise")
@pytest.mark.parametrize("packer", PACKERS)
def test_who_sends_what_another_tool_has_packed_is_told_by_which_and_what_to_do(packer: str) -> None:
    packs, unpacks = PACKERS[packer]
    for format_ in (None, "bundle", "text"):
        with pytest.raises(InvalidError, match=packer) as refused:
            read(packs(b"- Mara likes tea\n"), format_)
        assert refused.value.reason == "packed_file"
        assert unpacks in (refused.value.hint or "")
        assert "Mara" not in str(refused.value)


@requirement("formats:packed-otherwise")
@pytest.mark.parametrize("text", ["BZh9 is the plate of the car", "7z is short for seven zeds", "(a note)"])
def test_a_text_that_only_begins_like_something_packed_is_read(text: str) -> None:
    assert len(good(read(text).items())) == 1


# -- lines and documents ----------------------------------------------------------------------------------------------


@requirement("formats:import.limits")
def test_a_line_that_is_too_long_is_refused_by_itself() -> None:
    found = list(lines(io.BytesIO(b"one\n\n" + b"x" * 100 + b"\nthree\nfour"), longest=10))
    assert [number for number, _ in found] == [1, 3, 4, 5]
    assert isinstance(found[1][1], InvalidError)
    assert found[3][1] == b"four"


@requirement("formats:import.limits")
@pytest.mark.parametrize(
    ("number", "reason"),
    [("1e999999", "bad_number"), ("-" + "9" * 401, "bad_number"), ("9" * 300, None), ("1e308", None)],
)
def test_numbers_that_no_one_can_hold_refuse_their_item_alone(number: str, reason: str | None) -> None:
    text = f'[{{"id": "a", "memory": "tea", "metadata": {{"n": {number}}}}}, {{"id": "b", "memory": "jam"}}]'
    assert reasons(read(text, "mem0").items()) == [reason, None]


@requirement("formats:import.limits")
@pytest.mark.parametrize("depth", [70, 5_000, 200_000])
def test_nesting_without_end_is_refused_and_breaks_nothing(depth: int) -> None:
    deep = "[" * depth + "]" * depth
    found: list[Any] = []
    try:
        found += reasons(read(f'[{{"memory": "tea", "metadata": {{"n": {deep}}}}}]', "mem0").items())
    except InvalidError as refused:
        found.append(refused.reason)
    assert found == ["too_deep"]


@requirement("formats:import.limits")
def test_a_text_of_nothing_but_escapes_takes_no_more_memory_than_any_other() -> None:
    data = b'[{"memory": "' + b"\\n" * (1 << 20) + b'x"}]'
    tracemalloc.start()
    try:
        (item,) = good(read(data, "mem0").items())
        _, most = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert len(item["content"]["text"]) == (1 << 20) + 1
    assert most < 8 * len(data)


def test_a_file_may_be_read_by_several_at_once() -> None:
    plain = source("one\ntwo\nthree\n")
    first, second = plain.open(), plain.open()
    assert (first.readline(), second.readline(), first.readline(), second.read()) == (
        b"one\n",
        b"one\n",
        b"two\n",
        b"two\nthree\n",
    )
    second.close()
    assert first.readline() == b"three\n"
    assert plain.open().read() == b"one\ntwo\nthree\n"
