"""Hostile archives are refused before anything of them is unpacked, and torn files are told as such."""

from __future__ import annotations

import io
import json
import stat
import struct
import zipfile
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from quipu.errors import InvalidError, QuipuError
from quipu.formats import json_stream
from quipu.formats.archives import Bounds, Source, lines
from quipu.formats.reading import opened
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


HOSTILE: dict[str, tuple[Callable[[], bytes], str]] = {
    "a path upwards": (lambda: _named("../../etc/passwd"), "hostile_archive"),
    "a path upwards inside": (lambda: _named("items/../../x.md"), "hostile_archive"),
    "an absolute path": (lambda: _named("/etc/passwd"), "hostile_archive"),
    "a drive": (lambda: _named("C:/x.md"), "hostile_archive"),
    "backslashes": (lambda: _named("..\\x.md"), "hostile_archive"),
    "a link": (lambda: _named("a.md", external_attr=(stat.S_IFLNK | 0o777) << 16), "hostile_archive"),
    "one name twice": (_twice, "hostile_archive"),
    "an encrypted entry": (_encrypted, "encrypted_archive"),
    "packed in an odd way": (_odd_packing, "bad_file"),
    "a bomb": (_bomb, "too_large"),
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
