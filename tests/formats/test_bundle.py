"""Quipu bundle v1: what is written is read back, and every altered byte is found before an item is handed on."""

from __future__ import annotations

import hashlib
import io
import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from quipu.crypto.canonical import canonical
from quipu.crypto.keys import Ed25519Signer
from quipu.errors import QuipuError, TamperedError
from quipu.formats import bundle, values
from quipu.formats.reading import Opened, opened
from quipu.formats.signing import Signing
from quipu.model.moving import Format
from tests.formats import shelves
from tests.formats.shelves import CHECKING, HEAD, SIGNING, STRANGER, contents, good, packed, record, source
from tests.requirement import requirement

ITEMS = shelves.items(*(record(number) for number in range(1, 6)))


def archive(signing: Signing = SIGNING, head: dict[str, Any] | None = None) -> bytes:
    target = io.BytesIO()
    bundle.write_archive(target, contents(ITEMS, head or HEAD), signing)
    return target.getvalue()


def stream(signing: Signing = SIGNING) -> bytes:
    target = io.BytesIO()
    bundle.write_lines(target, contents(ITEMS), signing)
    return target.getvalue()


@requirement("moving:bundle.files")
@pytest.mark.parametrize("data", [archive(), stream()], ids=["archive", "lines"])
def test_a_bundle_is_told_by_looking_and_read_back(data: bytes) -> None:
    found = opened(source(data), CHECKING)
    assert (found.format, found.signature, found.owner) == (Format.BUNDLE, "valid", shelves.OWNER)
    assert found.export_id == "exp_1"
    assert good(found.items()) == json.loads(json.dumps(ITEMS))
    assert found.cap == 1.0


def test_the_same_contents_make_the_same_bytes() -> None:
    assert archive() == archive()
    assert stream() == stream()


@requirement("moving:bundle.files")
def test_items_are_canonical_json_one_a_line() -> None:
    files = shelves.unpacked(archive())
    assert set(files) == {
        "items.jsonl",
        "relations.jsonl",
        "tombstones.jsonl",
        "manifest.json",
        "signature.json",
    }
    assert files["items.jsonl"] == b"".join(canonical(item) + b"\n" for item in ITEMS)
    manifest = json.loads(files["manifest.json"])
    assert manifest["counts"] == {"items": 5, "relations": 0, "tombstones": 0}


@requirement("moving:bundle.signature")
@pytest.mark.parametrize("data", [archive(), stream()], ids=["archive", "lines"])
def test_a_stranger_s_signature_is_told_as_such(data: bytes) -> None:
    found = opened(source(data), STRANGER)
    assert found.signature == "foreign"
    assert found.cap == 0.9


@requirement("moving:bundle.signature")
def test_a_bundle_nobody_signed_is_believed_less() -> None:
    files = shelves.unpacked(archive())
    del files["signature.json"]
    found = opened(source(packed(files)), CHECKING)
    assert (found.signature, found.cap) == ("absent", 0.7)


def _changed(name: str, old: bytes, new: bytes) -> bytes:
    files = shelves.unpacked(archive())
    assert old in files[name]
    return packed(files | {name: files[name].replace(old, new, 1)})


def _signed_by_another() -> bytes:
    other = Ed25519Signer.fresh()
    files = shelves.unpacked(archive())
    body = json.loads(files["signature.json"]) | {"public_key": other.public_key, "kid": other.key_id}
    return packed(files | {"signature.json": canonical(body)})


def _stream_changed(old: bytes, new: bytes) -> bytes:
    assert old in stream()
    return stream().replace(old, new, 1)


ALTERED = {
    "an item": _changed("items.jsonl", b"fact 2", b"fact X"),
    "an item taken out": _changed("items.jsonl", canonical(ITEMS[1]) + b"\n", b""),
    "a tombstone put in": _changed("tombstones.jsonl", b"", b'{"item_id":"x"}\n'),
    "the manifest": _changed("manifest.json", b"exp_1", b"exp_2"),
    "the signature": _changed("signature.json", b'"jws":"', b'"jws":"A'),
    "somebody else's key": _signed_by_another(),
    "a file that nobody names": packed(shelves.unpacked(archive()) | {"entities.jsonl": b"{}\n"}),
    "an item in the stream": _stream_changed(b"fact 2", b"fact X"),
    "the stream's head": _stream_changed(b"exp_1", b"exp_2"),
    "the trailer": _stream_changed(b'"items":5', b'"items":4'),
}


@requirement("moving:bundle.signature")
@pytest.mark.parametrize("name", ALTERED)
def test_what_was_altered_is_refused_before_an_item_is_read(name: str) -> None:
    with pytest.raises(TamperedError) as refused:
        opened(source(ALTERED[name]), CHECKING)
    assert refused.value.reason in ("wrong_signature", "wrong_digest")


@requirement("moving:bundle.signature")
@given(st.data())
def test_any_other_byte_in_a_stream_is_found(data: st.DataObject) -> None:
    whole = bytearray(stream())
    at = data.draw(st.integers(0, len(whole) - 2))
    byte = data.draw(st.integers(0, 255).filter(lambda value: value != whole[at]))
    whole[at] = byte
    try:
        found = opened(source(bytes(whole)), CHECKING, Format.BUNDLE)
    except QuipuError:
        return
    # The signature is base64, and JSON has more than one spelling: then it says the very same thing.
    assert good(found.items()) == json.loads(json.dumps(ITEMS))


@pytest.mark.parametrize("cut", [2, 40, 400])
def test_a_stream_that_is_cut_short_is_refused(cut: int) -> None:
    with pytest.raises(QuipuError):
        opened(source(stream()[:-cut]), CHECKING)


def test_a_stream_without_its_last_line_is_refused() -> None:
    whole = stream().rstrip(b"\n")
    with pytest.raises(QuipuError) as refused:
        opened(source(whole[: whole.rindex(b"\n") + 1]), CHECKING)
    assert refused.value.reason == "bad_file"


def test_a_bundle_of_a_later_version_is_refused() -> None:
    with pytest.raises(QuipuError) as refused:
        opened(source(archive(head={**HEAD, "version": 2})), CHECKING)
    assert refused.value.reason == "unsupported_version"


def test_a_line_that_is_no_item_stands_as_its_error() -> None:
    files = shelves.unpacked(archive())
    torn = files["items.jsonl"] + b'{"half": \n\xff\xfe\n[1]\n'
    manifest = json.loads(files["manifest.json"])
    manifest["files"]["items.jsonl"] = hashlib.sha256(torn).hexdigest()
    signed = SIGNING.jws(manifest)
    data = packed(
        files
        | {
            "items.jsonl": torn,
            "manifest.json": canonical(manifest),
            "signature.json": canonical(signed),
        }
    )
    found: Opened = opened(source(data), CHECKING)
    assert shelves.reasons(found.items()) == [None] * 5 + ["bad_json", "bad_encoding", "bad_json"]


def _unreadable() -> dict[str, Any]:
    good = SIGNING.jws({})
    deep = values.b64(b"[" * 100_000)
    return {
        "a header without end": {**good, "jws": f"{deep}..x"},
        "a header in no alphabet": {**good, "jws": "\u00e9..x", "kid": None},
        "no header and no name": {"jws": "..x", "public_key": good["public_key"]},
        "half a character": {**good, "jws": "\ud800..x"},
        "a key in no alphabet": {**good, "public_key": "\u00e9"},
        "no signature": {},
    }


@requirement("moving:bundle.signature")
@pytest.mark.parametrize("name", _unreadable())
def test_a_signature_that_cannot_be_read_is_a_wrong_one(name: str) -> None:
    files = shelves.unpacked(archive())
    files["signature.json"] = json.dumps(_unreadable()[name]).encode()
    with pytest.raises(TamperedError) as refused:
        opened(source(packed(files)), CHECKING)
    assert refused.value.reason == "wrong_signature"


@requirement("moving:bundle.signature")
def test_a_manifest_that_nobody_can_have_signed_is_not_signed() -> None:
    files = shelves.unpacked(archive())
    manifest = {**json.loads(files["manifest.json"]), "owner": "\ud800"}
    altered = packed({**files, "manifest.json": json.dumps(manifest)})
    with pytest.raises(TamperedError):
        opened(source(altered), CHECKING)
    del files["signature.json"]
    found = opened(source(packed({**files, "manifest.json": json.dumps(manifest)})), CHECKING)
    assert (found.signature, found.owner) == ("absent", None), "what the journal cannot tell is no name"
