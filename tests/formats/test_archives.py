"""Hostile archives are refused before anything of them is unpacked, and torn files are told as such."""

from __future__ import annotations

import bz2
import gzip
import io
import json
import lzma
import stat
import struct
import tracemalloc
import zipfile
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from quipu.errors import InvalidError, QuipuError
from quipu.formats import json_stream
from quipu.formats.archives import Bounds, Source, lines
from quipu.formats.reading import opened
from quipu.model.moving import Format
from quipu.testing.strategies import json_values
from tests.formats.shelves import CHECKING, packed, source
from tests.requirement import requirement


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
    return packed({"conversations.json": b" " * (50 << 20)})


def _many() -> bytes:
    return packed({f"{number}.md": "x" for number in range(50)})


def _twice() -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        archive.writestr("a.md", "one")
        archive.writestr("b.md", "two")
    return buffer.getvalue().replace(b"b.md", b"a.md")


def _encrypted() -> bytes:
    data = bytearray(_named("a.md"))
    at = data.index(b"PK\x01\x02")
    data[at + 8] |= 1
    return bytes(data)


def _odd_packing() -> bytes:
    data = bytearray(_named("a.md"))
    struct.pack_into("<H", data, data.index(b"PK\x01\x02") + 10, 14)
    return bytes(data)


def _lying(claimed: int) -> bytes:
    """An entry that says it is smaller than what it unpacks to."""
    data = bytearray(packed({"conversations.json": b"[" + b" " * (2 << 20) + b"]"}))
    for mark, at in ((b"PK\x01\x02", 24), (b"PK\x03\x04", 22)):
        struct.pack_into("<I", data, data.index(mark) + at, claimed)
    return bytes(data)


def _nested() -> bytes:
    inner = packed({"conversations.json": json.dumps([{"mapping": {}}])})
    return packed({"inner.zip": inner, "deeper/inner.zip": packed({"x.zip": inner})})


def _overlapping() -> bytes:
    """Two entries of the table that are the same bytes of the file."""
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        archive.writestr("a.md", "one")
        archive.writestr("b.md", "two")
        archive.filelist[1].header_offset = 0
    return buffer.getvalue()


def _misnamed() -> bytes:
    """A name that is not the UTF-8 it says it is."""
    return _named("\u00e4\u00e4.md").replace("\u00e4".encode(), b"\xff\xfe")


HOSTILE: dict[str, tuple[Callable[[], bytes], str]] = {
    "a path upwards": (lambda: _named("../../etc/passwd"), "hostile_archive"),
    "a path upwards inside": (lambda: _named("items/../../x.md"), "hostile_archive"),
    "an absolute path": (lambda: _named("/etc/passwd"), "hostile_archive"),
    "a drive": (lambda: _named("C:/x.md"), "hostile_archive"),
    "backslashes": (lambda: _named("..\\x.md"), "hostile_archive"),
    "a link": (lambda: _named("a.md", external_attr=(stat.S_IFLNK | 0o777) << 16), "hostile_archive"),
    "one name twice": (_twice, "hostile_archive"),
    "an encrypted entry": (_encrypted, "encrypted_archive"),
    "packed in an odd way": (_odd_packing, "packed_file"),
    "a bomb": (_bomb, "too_large"),
    "archives inside archives": (_nested, "unknown_format"),
    "a name in no encoding": (_misnamed, "bad_file"),
    "a named pipe": (lambda: _named("a.md", external_attr=(stat.S_IFIFO | 0o600) << 16), "hostile_archive"),
    "cut short": (lambda: _many()[:-30], "bad_file"),
    "cut in the middle": (lambda: _many()[:100], "bad_file"),
}


@requirement("moving:import.limits")
@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_archives_are_refused(name: str) -> None:
    made, reason = HOSTILE[name]
    with pytest.raises(InvalidError) as refused:
        opened(source(made()), CHECKING)
    assert refused.value.reason == reason


@requirement("moving:import.limits")
def test_an_archive_with_too_many_files_or_too_large_is_refused() -> None:
    for bounds in (Bounds(entries=10), Bounds(directory=100), Bounds(unpacked=10)):
        with pytest.raises(InvalidError) as refused:
            Source(io.BytesIO(_many()), "many.zip", bounds)
        assert refused.value.reason == "too_large"


@given(st.binary(max_size=200), st.integers(0, 400), st.integers(0, 255))
def test_an_archive_with_a_wrong_byte_is_read_or_refused_and_never_breaks(
    extra: bytes, at: int, byte: int
) -> None:
    data = bytearray(packed({"conversations.json": json.dumps([{"mapping": {}}]) * 3, "x": extra}))
    data[at % len(data)] = byte
    try:
        for _ in opened(source(bytes(data)), CHECKING).items():
            pass
    except QuipuError as refused:
        if refused.reason is None:
            raise


def test_a_line_that_is_too_long_is_refused_by_itself() -> None:
    found = list(lines(io.BytesIO(b"one\n\n" + b"x" * 100 + b"\nthree\nfour"), longest=10))
    assert [number for number, _ in found] == [1, 3, 4, 5]
    assert isinstance(found[1][1], InvalidError)
    assert found[3][1] == b"four"


@given(st.lists(json_values(), max_size=5), st.integers(1, 7))
def test_an_array_is_read_element_by_element_however_it_is_cut(values: list[object], piece: int) -> None:
    class Slow(io.BytesIO):
        def read(self, size: int | None = -1, /) -> bytes:
            return super().read(piece)

    text = json.dumps(values, ensure_ascii=False, indent=1).encode()
    assert [json.loads(part.raw) for part in json_stream.parts(Slow(text))] == values
    text = json.dumps({"a": 1, "list": values, "b": "]"}, ensure_ascii=True).encode()
    found = [(part.name, part.is_element, json.loads(part.raw)) for part in json_stream.parts(Slow(text))]
    assert found == [("a", False, 1), *(("list", True, value) for value in values), ("b", False, "]")]


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        (b"", "bad_json"),
        (b"[", "bad_json"),
        (b'[{"a": "b]', "bad_json"),
        (b"[1 2]", "bad_json"),
        (b'{"a" 1}', "bad_json"),
        (b"[1] 2", "bad_json"),
        (b"{1: 2}", "bad_json"),
        ("[1]".encode("utf-16"), "bad_encoding"),
        (b"[" + b"[" * 100 + b"]" * 100 + b"]", "too_deep"),
        (b'["' + b"x" * 200_000 + b'"]', "too_large"),
    ],
)
def test_what_is_no_json_is_refused(text: bytes, reason: str) -> None:
    with pytest.raises(InvalidError) as refused:
        list(json_stream.parts(io.BytesIO(text), longest=100_000))
    assert refused.value.reason == reason


@requirement("moving:import.limits")
@pytest.mark.parametrize("made", [lambda: _lying(10), lambda: _lying(0)], ids=["10", "0"])
def test_an_archive_that_lies_about_its_entries_gives_no_more_than_it_says(made: Callable[[], bytes]) -> None:
    with pytest.raises(InvalidError) as refused:
        for _ in opened(source(made()), CHECKING).items():
            pass
    assert refused.value.reason in ("bad_file", "bad_json", "unknown_format")


@requirement("moving:import.limits")
def test_many_small_bombs_are_counted_together() -> None:
    data = packed({f"{number}.md": b" " * (1 << 20) for number in range(20)})
    assert len(data) < 30_000
    with pytest.raises(InvalidError) as refused:
        Source(io.BytesIO(data), "many.zip")
    assert refused.value.reason == "too_large"
    assert Source(io.BytesIO(data), "many.zip", Bounds(small=32 << 20)).is_archive


@requirement("moving:import.limits")
def test_entries_that_share_their_bytes_are_told_apart_by_their_names() -> None:
    found = [item for _, item in opened(source(_overlapping()), CHECKING).items()]
    assert [isinstance(item, QuipuError) for item in found] == [False, True]


@requirement("moving:import.limits")
@pytest.mark.parametrize(
    ("number", "is_read"),
    [("9" * 5_000, False), ("1e999999", False), ("-" + "9" * 401, False), ("9" * 300, True), ("1e308", True)],
)
def test_numbers_that_no_one_can_hold_refuse_their_item_alone(number: str, is_read: bool) -> None:
    text = f'[{{"id": "a", "memory": "tea", "metadata": {{"n": {number}}}}}, {{"id": "b", "memory": "jam"}}]'
    found = [item for _, item in opened(source(text.encode()), CHECKING, Format.MEM0).items()]
    assert [isinstance(item, QuipuError) for item in found] == [not is_read, False]


@requirement("moving:import.limits")
@pytest.mark.parametrize("depth", [70, 5_000, 200_000])
def test_nesting_without_end_is_refused_and_breaks_nothing(depth: int) -> None:
    deep = "[" * depth + "]" * depth
    text = f'[{{"id": "a", "memory": "tea", "metadata": {{"n": {deep}}}}}, {{"id": "b", "memory": "jam"}}]'
    found: list[object] = []
    try:
        found += [item for _, item in opened(source(text.encode()), CHECKING, Format.MEM0).items()]
    except InvalidError as refused:
        found += [refused]
    first = found[0]
    assert isinstance(first, InvalidError)
    assert first.reason in ("too_deep", "bad_json", "too_large")


def _zstd(data: bytes) -> bytes:
    """A frame of one segment whose only block holds the bytes as they are (RFC 8878)."""
    size = len(data).to_bytes(4, "little")
    return b"\x28\xb5\x2f\xfd\xa0" + size + (len(data) << 3 | 1).to_bytes(3, "little") + data


PACKERS: dict[str, Callable[[bytes], bytes]] = {
    "zstd": _zstd,
    "xz": lzma.compress,
    "bzip2": bz2.compress,
    "gzip": gzip.compress,
}


@requirement("moving:packed-otherwise")
@pytest.mark.parametrize("format", [None, Format.BUNDLE, Format.TEXT])
@pytest.mark.parametrize("packer", PACKERS)
def test_who_sends_what_another_tool_has_packed_is_told_by_which_and_what_to_do(
    packer: str, format: Format | None
) -> None:
    data = PACKERS[packer](b"- Mara likes tea\n")
    with pytest.raises(InvalidError, match=packer) as refused:
        opened(Source(io.BytesIO(data), f"mine.{packer}"), CHECKING, format)
    assert refused.value.reason == "packed_file"
    assert f"{packer} -d" in (refused.value.hint or "")
    assert "Mara" not in str(refused.value)


@requirement("moving:packed-otherwise")
@pytest.mark.parametrize("text", ["BZh9 is the plate of the car", "7z is short for seven zeds", "(a note)"])
def test_a_text_that_only_begins_like_something_packed_is_read(text: str) -> None:
    (item,) = opened(Source(io.BytesIO(text.encode())), CHECKING).items()
    assert not isinstance(item, InvalidError)


def _with_a_larger_record(data: bytes) -> bytes:
    """The same archive; its small record says that the table is small, and a larger one beside it what it is."""
    at = data.rfind(b"PK\x05\x06")
    entries, size, start = struct.unpack_from("<HII", data, at + 10)
    record = struct.pack("<4sQHHIIQQQQ", b"PK\x06\x06", 44, 45, 45, 0, 0, entries, entries, size, start)
    locator = struct.pack("<4sIQI", b"PK\x06\x07", 0, at, 1)
    end = bytearray(data[at:])
    struct.pack_into("<I", end, 12, 46)
    return data[:at] + record + locator + bytes(end)


@requirement("moving:import.limits")
def test_a_table_of_contents_is_as_large_as_its_readers_believe() -> None:
    data = _with_a_larger_record(packed({f"{number}.md": "x" for number in range(300)}))
    assert len(zipfile.ZipFile(io.BytesIO(data)).infolist()) == 300, "a reader believes the larger one"
    with pytest.raises(InvalidError) as refused:
        Source(io.BytesIO(data), "many.zip", Bounds(directory=1_000))
    assert refused.value.reason == "too_large"
    assert len(Source(io.BytesIO(data), "many.zip").names) == 300


@requirement("moving:import.limits")
def test_a_text_of_nothing_but_escapes_takes_no_more_memory_than_any_other() -> None:
    data = b'["' + b"\\n" * (1 << 20) + b'"]'
    tracemalloc.start()
    try:
        (part,) = json_stream.parts(io.BytesIO(data))
        _, most = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert len(part.raw) == len(data) - 2
    assert most < 8 * len(data)
