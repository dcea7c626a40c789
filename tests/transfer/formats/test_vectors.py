"""vectors.safetensors: other programs read what is written, and nothing that is read is believed before it is looked at."""

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

from quipu.errors import InvalidError, TamperedError
from quipu.transfer.formats import spool
from quipu.transfer.formats.loss import Loss
from quipu.transfer.formats.spool import VECTORS_FILE, WrittenVectors
from quipu.transfer.formats.vectors import Vectors
from tests.requirement import requirement
from tests.transfer.formats.shelf import (
    SIGNATORY,
    good,
    items_of,
    keys,
    packed,
    read,
    record,
    source,
    unpacked,
    written,
)

WIDE = 3
NAMES = ["mem_1", "mem_2", "ü\n", '"quoted"', "mem_5"]


def numbers(place: int, width: int = WIDE) -> bytes:
    return struct.pack(f"<{width}f", *(place + part / 8 for part in range(width)))


def made(names: Sequence[str] = NAMES) -> dict[str, bytes]:
    written_ = WrittenVectors("words", WIDE)
    for place in reversed(range(len(names))):
        written_.add(names[place], numbers(place))
    try:
        return {name: b"".join(pieces()) for name, pieces in written_.files().items()}
    finally:
        written_.close()


def opened(files: dict[str, bytes]) -> Vectors:
    return Vectors(source(packed(files)), list(files))


def headed(head: object, data: bytes = b"") -> dict[str, bytes]:
    raw = json.dumps(head).encode()
    return {VECTORS_FILE: len(raw).to_bytes(8, "little") + raw + data}


@requirement("formats:bundle.vectors")
def test_other_programs_read_what_is_written() -> None:
    (data,) = made().values()
    assert int.from_bytes(data[:8], "little") % 8 == 0, "others map the numbers where they lie"
    found = load(data)
    assert set(found) == set(NAMES)
    for place, name in enumerate(NAMES):
        assert found[name].dtype == np.float32
        assert found[name].tobytes() == numbers(place)


@requirement("formats:bundle.vectors")
def test_what_others_write_is_read() -> None:
    tensors = {f"mem_{place}": np.frombuffer(numbers(place), "<f4") for place in range(9)}
    found = opened({VECTORS_FILE: save(tensors, {"model": "words", "dimensions": "3"})})
    assert (found.model, found.dimensions, len(found)) == ("words", 3, 9)
    assert [found.of(name) for name in tensors] == [numbers(place) for place in range(9)]


def test_vectors_are_read_back_in_the_order_of_their_items() -> None:
    found = opened(made())
    expected = [numbers(0), None, numbers(2), numbers(4)]
    assert [found.of(name) for name in ("mem_1", "nobody", "ü\n", "mem_5")] == expected
    assert found.of("mem_2") is None, "what was passed over is made anew"


def test_many_vectors_are_several_files(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(spool, "VECTORS_PER_FILE", 4)
    names = [f"mem_{place:02}" for place in range(42)]
    files = made(names)
    assert list(files)[:2] == [VECTORS_FILE, "vectors-2.safetensors"]
    assert len(files) == 11
    for place, data in enumerate(files.values()):
        assert sorted(load(data)) == names[4 * place : 4 * place + 4]
    found = Vectors(source(packed(files)), list(reversed(files)))
    assert [found.of(name) for name in names] == [numbers(place) for place in range(42)]
    assert found.of(names[0]) is None


def test_a_name_that_comes_twice_is_written_once() -> None:
    assert len(load(next(iter(made(["a", "a", "b", "__metadata__"]).values())))) == 2


ABOUT = {"model": "words", "dimensions": "3"}
WRONG: dict[str, dict[str, bytes]] = {
    "nothing": {VECTORS_FILE: b""},
    "a length beyond all": {VECTORS_FILE: b"\xff" * 8 + b"{}"},
    "a head that is cut": {VECTORS_FILE: (100).to_bytes(8, "little") + b'{"__metadata__":{'},
    "no JSON": {VECTORS_FILE: (4).to_bytes(8, "little") + b"{]}}"},
    "no offsets": headed({"__metadata__": ABOUT, "a": {"dtype": "F32", "shape": [3]}}),
    "offsets backwards": headed(
        {"__metadata__": ABOUT, "a": {"dtype": "F32", "shape": [3], "data_offsets": [12, 0]}}
    ),
    "offsets below zero": headed(
        {"__metadata__": ABOUT, "a": {"dtype": "F32", "shape": [3], "data_offsets": [-12, 0]}}
    ),
    "dimensions beyond all": headed({"__metadata__": {"model": "m", "dimensions": "9" * 99}}),
    "too many dimensions": headed({"__metadata__": {"model": "m", "dimensions": "999999"}}),
    "no dimensions": headed({"__metadata__": {"model": "m", "dimensions": "0"}}),
    "no model": headed({"__metadata__": {"dimensions": "3"}}),
    "two models": headed({"__metadata__": ABOUT})
    | {"vectors-2.safetensors": headed({"__metadata__": ABOUT | {"model": "other"}})[VECTORS_FILE]},
}


@requirement("formats:import.limits")
@pytest.mark.parametrize("name", WRONG)
def test_what_is_no_such_file_is_refused(name: str) -> None:
    with pytest.raises(InvalidError) as refused:
        opened(WRONG[name])
    assert refused.value.reason == "bad_file"


def test_numbers_that_are_cut_off_are_refused() -> None:
    (data,) = made().values()
    with pytest.raises(InvalidError) as refused:
        opened({VECTORS_FILE: data[:-1]}).of("mem_5")
    assert refused.value.reason == "bad_file"


def test_numbers_of_another_kind_are_passed_over() -> None:
    tensors = {"a": {"dtype": "F16", "shape": [3], "data_offsets": [0, 6]}}
    assert opened(headed({"__metadata__": ABOUT, **tensors}, bytes(6))).of("a") is None


@given(st.binary(max_size=200), st.integers(0, 220))
def test_whatever_stands_there_is_refused_or_read(data: bytes, size: int) -> None:
    try:
        found = opened({VECTORS_FILE: size.to_bytes(8, "little") + data})
    except InvalidError:
        return
    assert len(found) == 0


ITEMS = items_of(*(record(number) for number in range(1, 6)))


def bundle(*, as_lines: bool = False, loss: Loss | None = None) -> bytes:
    brought = WrittenVectors("words", WIDE)
    for place, item in reversed(list(enumerate(ITEMS))):
        brought.add(item["item_id"], numbers(place))
    try:
        return written("bundle", ITEMS, loss, by=SIGNATORY, vectors=brought, as_lines=as_lines)
    finally:
        brought.close()


@requirement("formats:bundle.vectors")
def test_a_bundle_counts_its_vectors_and_answers_for_their_bytes() -> None:
    files = unpacked(bundle())
    assert json.loads(files["manifest.json"])["counts"]["vectors"] == 5
    found = read(bundle(), known=keys)
    side = found.vectors()
    assert side is not None
    assert [side.of(item["item_id"]) for item in good(found.items())] == [
        numbers(place) for place in range(5)
    ]
    with pytest.raises(TamperedError) as refused:
        read(packed(files | {VECTORS_FILE: files[VECTORS_FILE][:-1] + b"\x00"}), known=keys)
    assert refused.value.reason == "wrong_digest"
    with pytest.raises(InvalidError) as lost:
        read(packed({name: data for name, data in files.items() if name != VECTORS_FILE}), known=keys)
    assert lost.value.reason == "bad_file"
    assert bundle() == bundle()
    with zipfile.ZipFile(io.BytesIO(bundle())) as archive:
        assert archive.getinfo(VECTORS_FILE).compress_type == zipfile.ZIP_STORED
    assert read(written("bundle", ITEMS)).vectors() is None


def test_a_stream_of_lines_has_no_vectors_and_says_so() -> None:
    loss = Loss()
    found = read(bundle(as_lines=True, loss=loss), known=keys)
    assert found.vectors() is None
    assert [(one.field, one.count) for one in loss.report().dropped] == [("vectors", 5)]
