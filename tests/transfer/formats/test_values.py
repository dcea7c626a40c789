"""JSON of strangers is read a part at a time: what is wrong with one part refuses that one, and nothing breaks."""

import io
import json
import tracemalloc
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from quipu.errors import InvalidError
from quipu.ledger.canonical import canonical
from quipu.transfer.formats import values
from quipu.transfer.formats.loss import Loss

_JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**63) + 1, 2**63 - 1)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(st.characters(exclude_categories=["Cs"])),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(st.characters(exclude_categories=["Cs"])), inner, max_size=4),
    max_leaves=12,
)  # fmt: skip


class _Slow(io.BytesIO):
    """A stream that gives a few bytes at a time."""

    def __init__(self, data: bytes, piece: int) -> None:
        super().__init__(data)
        self._piece = piece

    def read(self, size: int | None = -1, /) -> bytes:
        return super().read(min(self._piece, size) if size is not None and size >= 0 else self._piece)


def found(data: bytes, **options: Any) -> list[Any]:
    """Each part's value, or the reason why there is none; the reason of the whole file at the end."""
    out: list[Any] = []
    try:
        for part in values.parts(io.BytesIO(data), **options):
            out.append(part.value if part.error is None else part.error.reason)
    except InvalidError as error:
        out.append(error)
    return [one.reason if isinstance(one, InvalidError) else one for one in out]


@given(st.lists(_JSON, max_size=5), st.integers(1, 7))
def test_a_document_gives_its_values_however_it_is_cut(given_: list[Any], piece: int) -> None:
    text = json.dumps(given_, ensure_ascii=False, indent=1).encode()
    assert [part.value for part in values.parts(_Slow(text, piece))] == given_
    document = json.dumps({"a": 1, "list": given_, "b": {"list": given_}, "c": "]"}).encode()
    parts = [(part.name, part.is_element, part.value) for part in values.parts(_Slow(document, piece))]
    assert parts == [
        ("a", False, 1),
        *(("list", True, value) for value in given_),
        ("b", False, {"list": given_}),
        ("c", False, "]"),
    ]


@given(_JSON)
def test_numbers_are_the_same_in_canonical_json_and_back(value: Any) -> None:
    assert values.parsed(canonical([value])) == [value]


def test_what_is_no_json_refuses_the_file_with_a_stable_word() -> None:
    deep = b"[" * 2000
    for data, reason in {
        b"": "bad_json",
        b"5": "bad_json",
        b"[": "bad_json",
        b'[{"a": "b]': "bad_json",
        b"[1 2]": "bad_json",
        b'{"a" 1}': "bad_json",
        b"[1] 2": "bad_json",
        b"{1: 2}": "bad_json",
        b"[NaN]": "bad_json",
        b'["\x00"]': "bad_json",
        "[1]".encode("utf-16"): "bad_encoding",
        b'["\xff\xfe"]': "bad_encoding",
        b"[" + deep + b"]" * 2000 + b"]": "too_deep",
        b'["' + b"x" * 200_000 + b'"]': "too_large",
        b"[" + b"9" * 5000 + b"]": "bad_number",
        b" " * 65_530 + b"[-" + b"9" * 5000 + b"]": "bad_number",
        b"9" * 5000: "bad_number",
        b"[1e99999999999999999999]": "bad_number",
    }.items():
        assert found(data, longest=150_000)[-1] == reason, data[:40]


def test_what_is_wrong_with_one_part_leaves_the_others() -> None:
    deep = b"[" * 100 + b"]" * 100
    for bad, reason in {
        b'{"a": 1, "b": {"c": 1, "c": 2}}': "duplicate_key",
        b'{"n": 1e999999}': "bad_number",
        b'{"n": -' + b"9" * 401 + b"}": "bad_number",
        b'{"n": ' + deep + b"}": "too_deep",
    }.items():
        assert found(b"[1, " + bad + b", 3]") == [1, reason, 3]
        assert found(b'{"list": [' + bad + b'], "other": ' + bad + b', "last": 3}') == [reason, reason, 3]
    assert found(b"[" + b"9" * 300 + b", 1e308]") == [float("9" * 300), 1e308]
    assert found(b'["' + b"9" * 5000 + b'"]') == ["9" * 5000], "only a number is too long"
    assert found(b'["a\\u0000b"]') == ["a\x00b"], "what cannot be kept is refused where it is kept"


def test_a_line_is_read_as_strictly() -> None:
    for data, reason in {
        b'{"a": 1, "a": 2}': "duplicate_key",
        b'{"half": ': "bad_json",
        b"\xff\xfe": "bad_encoding",
        b'["\\ud800"]': "bad_encoding",
        b"[NaN]": "bad_json",
        b"[1e999]": "bad_json",
        b"[" * 100 + b"]" * 100: "too_deep",
        b"[" * 100_000: "bad_json",
        b"[" + b"9" * 5000 + b"]": "bad_json",
    }.items():
        with pytest.raises(InvalidError) as refused:
            values.parsed(data)
        assert refused.value.reason == reason, data[:40]
    assert values.parsed(b'\xef\xbb\xbf["\\ud83d\\ude00"]') == ["\U0001f600"]


def test_half_a_character_is_replaced_and_counted_however_the_file_is_cut() -> None:
    data = rb'["\ud800 \ud83d\ude00 \udc00", "\\ud800 \\\udbff\ud83d\ude00", "\udbff", "\ud800\ud800\n"]'
    for piece in range(1, len(data) + 1):
        loss = Loss()
        text = [part.value for part in values.parts(_Slow(data, piece), loss)]
        assert text == ["\ufffd \U0001f600 \ufffd", "\\ud800 \\\ufffd\U0001f600", "\ufffd", "\ufffd\ufffd\n"]
        assert [(one.origin, one.count) for one in loss.report().mapped] == [("half a character", 6)]


@given(
    st.lists(
        st.sampled_from([b"\\", b'\\"', b"\\u00e9", b"\\ud83d", b"\\ude00", b"\\n", b"x", b"ud83d", b"\\\\"])
    ),
    st.integers(1, 9),
)
def test_escapes_are_read_as_the_standard_library_reads_them(escapes: list[bytes], piece: int) -> None:
    data = b'["' + b"".join(escapes) + b'"]'
    try:
        expected = json.loads(data)[0].encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    except ValueError:
        return
    assert [part.value for part in values.parts(_Slow(data, piece))] == [expected]


def test_memory_does_not_grow_with_a_document() -> None:
    class Endless(io.RawIOBase):
        left = 20 << 20

        def read(self, size: int = -1, /) -> bytes:
            self.left -= 1 << 16
            return (
                b'{"a": "' + b"x" * (1 << 16) + b'"},'
                if self.left > 0
                else b"0]"
                if self.left > -(1 << 16)
                else b""
            )

    class Opened(Endless):
        is_begun = False

        def read(self, size: int = -1, /) -> bytes:
            if size == 0:
                return b""
            if not self.is_begun:
                self.is_begun = True
                return b"["
            return super().read(size)

    tracemalloc.start()
    try:
        count = sum(1 for _ in values.parts(Opened()))  # type: ignore[arg-type]  a stream that is only read
        _, most = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert count == 20 * 16
    assert most < 4 << 20


def test_times_are_read_as_others_write_them() -> None:
    for given_, expected in {
        1_700_000_000: "2023-11-14T22:13:20Z",
        1_700_000_000_500: "2023-11-14T22:13:20.500Z",
        1_700_000_000.5: "2023-11-14T22:13:20.500Z",
        "2025-03-04": "2025-03-04T00:00:00Z",
        "2025-03-04T05:06:07+02:00": "2025-03-04T03:06:07Z",
        "1950-01-01": "1970-01-01T00:00:00Z",
        "yesterday": None,
        "9" * 400: None,
        -5: None,
        True: None,
        1e300: None,
    }.items():
        assert values.when(given_) == expected, given_
