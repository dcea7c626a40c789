"""vectors.safetensors: other programs read what is written, and nothing that is read is believed before it is looked at."""

from __future__ import annotations

import io
import json
import struct
import zipfile
from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from safetensors.numpy import load, save

from quipu.errors import InvalidError
from quipu.formats import bundle, vectors
from quipu.formats.archives import Source
from quipu.formats.reading import opened
from quipu.formats.vectors import FILE, Vectors, Written
from tests.formats import shelves
from tests.formats.shelves import CHECKING, HEAD, SIGNING, packed, record, source
from tests.requirement import requirement

WIDE = 3
NAMES = ["mem_1", "mem_2", "ü\n", '"quoted"', "mem_5"]


def numbers(place: int, width: int = WIDE) -> bytes:
    return struct.pack(f"<{width}f", *(place + part / 8 for part in range(width)))


def files(names: Sequence[str] = NAMES) -> dict[str, bytes]:
    written = Written("words", WIDE)
    for place in reversed(range(len(names))):
        written.add(names[place], numbers(place))
    try:
        return {name: b"".join(pieces()) for name, pieces in written.files().items()}
    finally:
        written.close()


def read(given: dict[str, bytes]) -> Vectors:
    return Vectors(source(packed(given)), list(given))


def named(head: object, data: bytes = b"") -> dict[str, bytes]:
    raw = json.dumps(head).encode()
    return {FILE: len(raw).to_bytes(8, "little") + raw + data}


@requirement("moving:bundle.vectors")
def test_other_programs_read_what_is_written() -> None:
    (data,) = files().values()
    assert int.from_bytes(data[:8], "little") % 8 == 0, "others map the numbers where they lie"
    found = load(data)
    assert set(found) == set(NAMES)
    for place, name in enumerate(NAMES):
        assert found[name].dtype == np.float32
        assert found[name].tobytes() == numbers(place)


@requirement("moving:bundle.vectors")
def test_what_others_write_is_read() -> None:
    tensors = {f"mem_{place}": np.frombuffer(numbers(place), "<f4") for place in range(9)}
    data = save(tensors, {"model": "words", "dimensions": "3"})
    found = read({FILE: data})
    assert (found.model, found.dimensions, len(found)) == ("words", 3, 9)
    assert [found.of(name) for name in tensors] == [numbers(place) for place in range(9)]


def test_vectors_are_read_back_in_the_order_of_their_items() -> None:
    found = read(files())
    assert [found.of(name) for name in ("mem_1", "nobody", "ü\n", "mem_5")] == [
        numbers(0), None, numbers(2), numbers(4),
    ]  # fmt: skip
    assert found.of("mem_2") is None, "what was passed over is made anew"


def test_many_vectors_are_several_files(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(vectors, "PER_FILE", 4)
    names = [f"mem_{place:02}" for place in range(42)]
    made = files(names)
    assert len(made) == 11
    assert list(made)[:2] == [FILE, "vectors-2.safetensors"]
    for place, data in enumerate(made.values()):
        assert sorted(load(data)) == names[4 * place : 4 * place + 4]
    found = Vectors(source(packed(made)), list(reversed(made)))
    assert [found.of(name) for name in names] == [numbers(place) for place in range(42)]
    assert found.of(names[0]) is None


def test_a_name_that_comes_twice_is_written_once() -> None:
    assert len(load(next(iter(files(["a", "a", "b", "__metadata__"]).values())))) == 2


ABOUT = {"model": "words", "dimensions": "3"}
WRONG: dict[str, dict[str, bytes]] = {
    "nothing": {FILE: b""},
    "a length beyond all": {FILE: b"\xff" * 8 + b"{}"},
    "a head that is cut": {FILE: (100).to_bytes(8, "little") + b'{"__metadata__":{'},
    "no JSON": {FILE: (4).to_bytes(8, "little") + b"{]}}"},
    "no offsets": named({"__metadata__": ABOUT, "a": {"dtype": "F32", "shape": [3]}}),
    "offsets backwards": named({"__metadata__": ABOUT, "a": {"dtype": "F32", "shape": [3], "data_offsets": [12, 0]}}),
    "dimensions beyond all": named({"__metadata__": {"model": "m", "dimensions": "9" * 99}}),
    "no model": named({"__metadata__": {"dimensions": "3"}}),
    "two models": named({"__metadata__": ABOUT}) | {
        "vectors-2.safetensors": named({"__metadata__": ABOUT | {"model": "other"}})[FILE]
    },
}  # fmt: skip


@pytest.mark.parametrize("name", WRONG)
def test_what_is_no_such_file_is_refused(name: str) -> None:
    with pytest.raises(InvalidError) as refused:
        read(WRONG[name])
    assert refused.value.reason == "bad_file"


def test_numbers_that_are_cut_off_are_refused() -> None:
    (data,) = files().values()
    found = read({FILE: data[:-1]})
    with pytest.raises(InvalidError):
        found.of("mem_5")


def test_numbers_of_another_kind_are_passed_over() -> None:
    tensors = {"a": {"dtype": "F16", "shape": [3], "data_offsets": [0, 6]}}
    assert read(named({"__metadata__": ABOUT, **tensors}, bytes(6))).of("a") is None


@given(st.binary(max_size=200), st.integers(0, 220))
def test_whatever_stands_there_is_refused_or_read(data: bytes, size: int) -> None:
    try:
        found = read({FILE: size.to_bytes(8, "little") + data})
    except InvalidError:
        return
    assert len(found) == 0


def _bundle() -> bytes:
    items = shelves.items(*(record(number) for number in range(1, 6)))
    written = Written("words", WIDE)
    for place, item in reversed(list(enumerate(items))):
        written.add(item["item_id"], numbers(place))
    contents = shelves.contents(items)
    target = io.BytesIO()
    whole = bundle.Contents(head=dict(HEAD), files=contents.files, vectors=written)
    bundle.write_archive(target, whole, SIGNING)
    written.close()
    return target.getvalue()


@requirement("moving:bundle.vectors")
def test_a_bundle_counts_its_vectors_and_answers_for_their_bytes() -> None:
    unpacked = shelves.unpacked(_bundle())
    manifest = json.loads(unpacked["manifest.json"])
    assert manifest["counts"]["vectors"] == 5
    found = opened(source(_bundle()), CHECKING).vectors()
    assert found is not None
    assert found.of(f"mem_{2:026}") == numbers(1)
    changed = unpacked | {FILE: unpacked[FILE][:-1] + b"\x00"}
    with pytest.raises(Exception, match="digest"):
        opened(source(packed(changed)), CHECKING)
    lost = {name: data for name, data in unpacked.items() if name != FILE}
    with pytest.raises(InvalidError) as refused:
        opened(source(packed(lost)), CHECKING)
    assert refused.value.reason == "bad_file"
    assert _bundle() == _bundle()


def test_vectors_and_items_are_read_side_by_side() -> None:
    found = opened(Source(io.BytesIO(_bundle())), CHECKING)
    side = found.vectors()
    assert side is not None
    assert [side.of(item["item_id"]) for item in shelves.good(found.items())] == [
        numbers(place) for place in range(5)
    ]
    with zipfile.ZipFile(io.BytesIO(_bundle())) as archive:
        assert archive.getinfo(FILE).compress_type == zipfile.ZIP_STORED
