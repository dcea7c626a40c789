"""Quipu's bundle: what is written is read back, and every altered byte is found before an item is handed on."""

import hashlib
import io
import json
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from quipu.errors import InvalidError, QuipuError, TamperedError, UnverifiableError
from quipu.jose import b64
from quipu.ledger.canonical import canonical
from quipu.sharing import receipts
from quipu.transfer.formats import proofs as signing
from quipu.transfer.formats.loss import Loss
from quipu.transfer.formats.spool import Spool
from tests.requirement import requirement
from tests.search.drawn import records
from tests.transfer.formats.shelf import (
    AT,
    HEAD,
    OWNER,
    PUBLIC_KEY,
    SIGNATORY,
    dropped,
    good,
    items_of,
    keys,
    packed,
    read,
    reasons,
    record,
    signatory,
    unpacked,
    written,
)

ITEMS = items_of(*(record(number) for number in range(1, 6)))
ARCHIVE = written("bundle", ITEMS, by=SIGNATORY)
STREAM = written("bundle", ITEMS, by=SIGNATORY, as_lines=True)
both = pytest.mark.parametrize("data", [ARCHIVE, STREAM], ids=["archive", "lines"])


@requirement("formats:bundle.files")
@both
def test_a_bundle_is_known_by_what_is_in_it_and_read_back(data: bytes) -> None:
    found = read(data, known=keys)
    assert (found.format, found.signature, found.owner) == ("bundle", "valid", OWNER)
    assert (found.export_id, found.kid, found.is_proven) == ("exp_1", SIGNATORY.kid, True)
    assert good(found.items()) == good(found.items()) == ITEMS
    assert list(found.tombstones()) == []
    assert (found.confidence(is_own=True), found.confidence(is_own=False)) == (1.0, 0.9)
    assert dropped(found) == {}


def test_the_same_contents_make_the_same_bytes() -> None:
    assert written("bundle", ITEMS, by=SIGNATORY) == ARCHIVE
    assert written("bundle", ITEMS, by=SIGNATORY, as_lines=True) == STREAM


@requirement("formats:bundle.files")
def test_items_are_canonical_json_one_a_line() -> None:
    files = unpacked(ARCHIVE)
    named = {"items.jsonl", "relations.jsonl", "tombstones.jsonl", "manifest.json", "signature.json"}
    assert set(files) == named
    assert files["items.jsonl"] == b"".join(canonical(item) + b"\n" for item in ITEMS)
    manifest = json.loads(files["manifest.json"])
    assert manifest["counts"] == {"items": 5, "relations": 0, "tombstones": 0}
    assert manifest["files"]["items.jsonl"] == hashlib.sha256(files["items.jsonl"]).hexdigest()
    assert {"format": "quipu-bundle", "version": 1, **HEAD}.items() <= manifest.items()


@requirement("formats:bundle.round-trip")
@given(st.lists(records(), max_size=4))
def test_a_round_trip_loses_nothing(given_: list[Any]) -> None:
    items = items_of(*given_)
    for as_lines in (False, True):
        loss = Loss()
        found = read(written("bundle", items, loss, by=SIGNATORY, as_lines=as_lines), known=keys)
        again = written("bundle", good(found.items()), by=SIGNATORY, as_lines=as_lines)
        assert read(again).items() is not None
        if not loss.report().mapped:  # but for numbers that other readers of JSON would round
            assert good(found.items()) == json.loads(json.dumps(items))


def test_a_number_that_other_readers_would_round_is_written_as_text() -> None:
    loss = Loss()
    data = written("bundle", items_of(record(metadata={"n": [2**60], "m": 2**53 - 1})), loss)
    assert [(one.origin, one.to, one.count) for one in loss.report().mapped] == [
        ("a number beyond 2^53", "text", 1)
    ]
    (item,) = good(read(data).items())
    assert item["extensions"]["quipu"]["metadata"] == {"n": [str(2**60)], "m": 2**53 - 1}


# -- who signed -------------------------------------------------------------------------------------------------------


@requirement("formats:bundle.signature")
@both
def test_a_key_that_cannot_be_had_proves_nothing(data: bytes) -> None:
    def unreachable(_kid: str) -> None:
        raise UnverifiableError("nobody answers")

    for known in (lambda _kid: None, unreachable):
        found = read(data, known=known)
        assert (found.signature, found.kid, found.is_proven) == ("unknown", SIGNATORY.kid, False)
        assert found.confidence(is_own=True) == 0.7


@requirement("formats:bundle.signature")
def test_a_key_counts_as_its_document_says() -> None:
    moments = {
        "valid": replace(PUBLIC_KEY, expires=AT + 10**9),
        "unknown": replace(PUBLIC_KEY, revoked=AT + 10**9),
    }
    for expected, key in moments.items():
        assert read(ARCHIVE, known=lambda _kid, key=key: key).signature == expected
    # Retired before the file says that it was made, and already past.
    retired = replace(PUBLIC_KEY, expires=AT - 10**9)
    assert read(ARCHIVE, known=lambda _kid: retired).signature == "unknown"


@requirement("formats:bundle.signature")
def test_a_bundle_that_nobody_signed_is_believed_less() -> None:
    for data in (written("bundle", ITEMS), written("bundle", ITEMS, as_lines=True)):
        found = read(data, known=keys)
        assert (found.signature, found.kid, found.confidence(is_own=True)) == ("absent", None, 0.7)
        assert good(found.items()) == ITEMS


@requirement("formats:bundle.signature")
@both
def test_who_signs_for_another_owner_is_refused(data: bytes) -> None:
    stranger, _ = signatory("did:web:stranger.example", 2)
    for as_lines in (False, True):
        forged = written("bundle", ITEMS, by=stranger, as_lines=as_lines)
        with pytest.raises(TamperedError) as refused:
            read(forged, known=keys)
        assert refused.value.reason == "wrong_signature"
    thief, _ = signatory(OWNER, 3)  # says that it is the owner's key, and is not
    with pytest.raises(TamperedError):
        read(written("bundle", ITEMS, by=thief), known=keys)


def _changed(name: str, old: bytes, new: bytes) -> bytes:
    files = unpacked(ARCHIVE)
    assert old in files[name]
    return packed(files | {name: files[name].replace(old, new, 1)})


def _stream_changed(old: bytes, new: bytes) -> bytes:
    assert old in STREAM
    return STREAM.replace(old, new, 1)


ALTERED = {
    "an item": _changed("items.jsonl", b"fact 2", b"fact X"),
    "an item taken out": _changed("items.jsonl", canonical(ITEMS[1]) + b"\n", b""),
    "a tombstone put in": _changed("tombstones.jsonl", b"", b'{"item_id":"x"}\n'),
    "the manifest": _changed("manifest.json", b"exp_1", b"exp_2"),
    "the owner": _changed("manifest.json", OWNER.encode(), b"did:web:other.example"),
    "the signature": _changed("signature.json", b'"jws":"', b'"jws":"A'),
    "a file that nobody names": packed(unpacked(ARCHIVE) | {"entities.jsonl": b"{}\n"}),
    "an item in the stream": _stream_changed(b"fact 2", b"fact X"),
    "the stream's head": _stream_changed(b"exp_1", b"exp_2"),
    "the trailer": _stream_changed(b'"items":5', b'"items":4'),
}


@requirement("formats:bundle.signature")
@pytest.mark.parametrize("name", ALTERED)
def test_what_was_altered_is_refused_before_an_item_is_read(name: str) -> None:
    with pytest.raises(TamperedError) as refused:
        read(ALTERED[name], known=keys)
    assert refused.value.reason in ("wrong_signature", "wrong_digest")


@requirement("formats:bundle.signature")
def test_a_digest_is_compared_also_where_nobody_signed() -> None:
    for data in (written("bundle", ITEMS), written("bundle", ITEMS, as_lines=True)):
        files = unpacked(data) if data.startswith(b"PK") else None
        altered = (
            data.replace(b"fact 2", b"fact X")
            if files is None
            else packed(files | {"items.jsonl": files["items.jsonl"].replace(b"fact 2", b"fact X")})
        )
        with pytest.raises(TamperedError) as refused:
            read(altered)
        assert refused.value.reason == "wrong_digest"


@requirement("formats:bundle.signature")
@given(st.data())
def test_any_other_byte_is_found(data: st.DataObject) -> None:
    whole = bytearray(data.draw(st.sampled_from([STREAM, ARCHIVE])))
    at = data.draw(st.integers(0, len(whole) - 2))
    whole[at] = data.draw(st.integers(0, 255).filter(lambda value: value != whole[at]))
    try:
        found = read(bytes(whole), "bundle", known=keys)
        items = good(found.items())
    except QuipuError as error:
        if error.reason is None:
            raise
        return
    # Base64 and zip have more than one way to write a thing: then it says the very same.
    assert items == ITEMS


@requirement("formats:import.limits")
@given(st.sampled_from([STREAM, ARCHIVE]), st.data())
def test_a_bundle_that_is_cut_short_is_refused(data: bytes, drawn: st.DataObject) -> None:
    cut = drawn.draw(st.integers(2, len(data) - 1))
    with pytest.raises(QuipuError) as refused:
        read(data[:-cut], "bundle", known=keys)
    assert refused.value.reason in {"bad_file", "bad_json", "bad_encoding", "wrong_digest", "wrong_signature"}


def test_a_stream_without_its_last_line_is_refused() -> None:
    whole = STREAM.rstrip(b"\n")
    for data in (whole[: whole.rindex(b"\n") + 1], STREAM + b"{}\n", STREAM + b'{"trailer": {}}\n'):
        with pytest.raises(InvalidError) as refused:
            read(data)
        assert refused.value.reason == "bad_file"


def test_a_bundle_of_a_later_version_is_refused() -> None:
    for data in (
        _changed("manifest.json", b'"version":1', b'"version":2'),
        _stream_changed(b'"version":1', b'"version":2'),
    ):
        with pytest.raises(InvalidError) as refused:
            read(data)
        assert refused.value.reason == "unsupported_version"


@requirement("formats:import.limits")
def test_a_manifest_that_is_none_refuses_the_file() -> None:
    files = unpacked(ARCHIVE)
    for manifest in (
        b"{",
        b"[]",
        b"null",
        b"[" * 100_000,
        b'{"format": "quipu-bundle", "format": "x"}',
        b"\xff",
    ):
        with pytest.raises(InvalidError) as refused:
            read(packed({**files, "manifest.json": manifest}), "bundle")
        assert refused.value.reason in {"bad_json", "bad_file", "duplicate_key", "bad_encoding"}, manifest[
            :20
        ]
    with pytest.raises(InvalidError) as refused:
        read(packed({"items.jsonl": b""}), "bundle")
    assert refused.value.reason == "bad_file"


def _resigned(files: dict[str, bytes], **changes: Any) -> bytes:
    """The archive with other files, as its owner would have signed it."""
    manifest = {**json.loads(files["manifest.json"]), **changes}
    manifest["files"] = {
        name: hashlib.sha256(data).hexdigest() for name, data in files.items() if name.endswith("l")
    }
    return packed(
        {
            **files,
            "manifest.json": canonical(manifest),
            "signature.json": canonical(signing.signed(manifest, SIGNATORY)),
        }
    )


def test_a_line_that_is_no_item_stands_as_its_error() -> None:
    files = unpacked(ARCHIVE)
    files["items.jsonl"] += b'{"half": \n\xff\xfe\n[1]\n{"a": "\\ud800"}\n' + b"[" * 5000 + b"\n"
    found = read(_resigned(files), known=keys)
    assert reasons(found.items()) == [None] * 5 + [
        "bad_json",
        "bad_encoding",
        "bad_json",
        "bad_encoding",
        "bad_json",
    ]
    body = STREAM.splitlines(keepends=True)
    body.insert(2, b'{"item": [1]}\n')
    body.insert(2, b'{"item":\n')
    trailer = {"counts": {}, "sha256": hashlib.sha256(b"".join(body[:-1])).hexdigest()}
    last = {"trailer": trailer, "signature": signing.signed(trailer, SIGNATORY)}
    found = read(b"".join(body[:-1]) + canonical(last) + b"\n", known=keys)
    assert reasons(found.items()) == [None, "bad_json", "bad_json", None, None, None, None]


def _unreadable() -> dict[str, Any]:
    def headed(**header: Any) -> dict[str, str]:
        return {"jws": f"{b64(canonical({'kid': SIGNATORY.kid, **header}))}..x"}

    good_one = signing.signed({}, SIGNATORY)["jws"]
    return {
        "a header without end": {"jws": f"{b64(b'[' * 100_000)}..x"},
        "a header in no alphabet": {"jws": "\u00e9..x"},
        "no header": {"jws": "..x"},
        "no number": {"jws": 5},
        "another text's": {"jws": good_one},
        "a header that asks for more": headed(alg="EdDSA", crit=["x"]),
        "a shared key": headed(alg="HS256"),
        "no algorithm": headed(alg="none"),
        "no signature": {},
        "a list": [],
    }


@requirement("formats:bundle.signature")
@pytest.mark.parametrize("name", _unreadable())
def test_a_signature_that_cannot_be_read_is_a_wrong_one(name: str) -> None:
    files = unpacked(ARCHIVE)
    files["signature.json"] = json.dumps(_unreadable()[name]).encode()
    with pytest.raises(TamperedError) as refused:
        read(packed(files), known=keys)
    assert refused.value.reason == "wrong_signature"


def test_what_a_manifest_says_is_no_name_where_it_cannot_be_kept() -> None:
    files = unpacked(written("bundle", ITEMS))
    for odd in ("a\u0000b", " ", 5, "x" * 1000, ["x"], None):
        found = read(
            _unsigned(files, owner=odd, export_id=odd, stores=[5, {"name": "a"}], chain_head={"seq": True})
        )
        assert (found.owner, found.export_id, found.position) == (None, None, None)
        assert found.stores == ({}, {"name": "a"})
    found = read(_unsigned(files, chain_head={"seq": 7}, export_type="incremental"))
    assert (found.position, found.is_incremental) == (7, True)


def _unsigned(files: dict[str, bytes], **changes: Any) -> bytes:
    return packed({**files, "manifest.json": json.dumps({**json.loads(files["manifest.json"]), **changes})})


# -- what else it holds -----------------------------------------------------------------------------------------------


def _log(item_id: str, count: int) -> list[dict[str, Any]]:
    entries: list[dict[str, Any]] = []
    last = None
    for number in range(count):
        last = receipts.log_entry(
            last, record_id="mem", item_id=item_id, version=number, op="updated", at=AT, actor="a", state="x"
        )
        entries.append(dict(last.entry))
    return entries


def _chain(count: int) -> list[dict[str, Any]]:
    bodies: list[dict[str, Any]] = []
    last = None
    for number in range(count):
        last = receipts.receipt(
            last, id=f"{number:026}", type="invocation", at=AT, principal=OWNER, agent="a", by=SIGNATORY
        )
        bodies.append(dict(last.body))
    return bodies


def _with_proofs(logs: list[Any], chain: list[Any], *, as_lines: bool = False, **head: Any) -> bytes:
    with (
        Spool(is_rising=True) as log_lines,
        Spool(is_rising=True) as receipt_lines,
        Spool(is_rising=True) as gone,
    ):
        for spool, entries in ((log_lines, logs), (receipt_lines, chain), (gone, [{"item_id": "gone"}])):
            for entry in entries:
                spool.add(canonical(entry))
        return written(
            "bundle",
            ITEMS,
            by=SIGNATORY,
            as_lines=as_lines,
            head={**HEAD, **head},
            others={"logs.jsonl": log_lines, "receipts.jsonl": receipt_lines, "tombstones.jsonl": gone},
        )


@requirement("formats:bundle.proofs")
@pytest.mark.parametrize("as_lines", [False, True])
def test_logs_and_receipts_are_chains_that_anybody_can_check(as_lines: bool) -> None:
    logs, chain = [*_log("a", 3), *_log("b", 2)], _chain(3)
    end = receipts.hashed(chain[-1])
    found = read(_with_proofs(logs, chain, as_lines=as_lines, receipts_head=end), known=keys)
    proofs = found.proofs()
    assert (proofs.logs, proofs.receipts, proofs.unverified, proofs.faults) == (5, 3, 0, [])
    assert good(found.tombstones()) == [{"item_id": "gone"}]
    assert good(found.items()) == ITEMS
    assert dropped(found) == {"logs.jsonl": 1, "receipts.jsonl": 1}, "no other host takes proofs over"
    assert read(_with_proofs(logs, chain, as_lines=as_lines)).proofs().unverified == 3


@requirement("formats:bundle.proofs")
def test_what_is_missing_or_altered_in_a_chain_is_found() -> None:
    logs, chain = _log("a", 4), _chain(4)

    def faults(logs: list[Any], chain: list[Any], **head: Any) -> list[tuple[str, str, int]]:
        found = read(_with_proofs(logs, chain, **head), known=keys).proofs()
        return [(one.kind, one.file, one.line) for one in found.faults]

    assert faults(logs[:1] + logs[2:], chain) == [("broken_log", "logs", 2), ("broken_log", "logs", 3)]
    assert faults([{**logs[0], "actor": "x"}, *logs[1:]], chain) == [("broken_log", "logs", 2)]
    assert faults(logs, chain[1:]) == [("broken_chain", "receipts", 1)]
    altered = [chain[0], {**chain[1], "agent_did": "x"}, *chain[2:]]
    assert faults(logs, altered) == [("bad_signature", "receipts", 2), ("broken_chain", "receipts", 3)]
    assert faults(logs, chain[:-1], receipts_head=receipts.hashed(chain[-1])) == [
        ("wrong_end", "receipts", 3)
    ]
    assert faults([*logs, 5], [*chain, "x"]) == [("bad_line", "logs", 5), ("bad_line", "receipts", 5)]


@requirement("formats:bundle.proofs")
def test_faults_without_end_are_not_all_kept() -> None:
    proofs = read(_with_proofs([{"item_id": "a"}] * 5_000, []), known=keys).proofs()
    assert len(proofs.faults) == 100


# -- in bounds --------------------------------------------------------------------------------------------------------


@requirement("formats:import.limits")
def test_what_packs_too_well_is_written_so_that_readers_take_it() -> None:
    items = items_of(*(record(number, content="z" * 500_000) for number in range(40)))
    data = written("bundle", items, by=SIGNATORY)
    assert [len(item["content"]["text"]) for item in good(read(data, known=keys).items())] == [500_000] * 40
    target = io.BytesIO(b"before")
    assert data == written("bundle", items, by=SIGNATORY)
    assert target.getvalue() == b"before"


def test_items_and_tombstones_of_a_stream_are_read_side_by_side() -> None:
    found = read(_with_proofs(_log("a", 2), _chain(2), as_lines=True), known=keys)
    items, tombstones = found.items(), found.tombstones()
    first = next(items)[1]
    assert next(tombstones)[1] == {"item_id": "gone"}
    assert [first, *(item for _, item in items)] == ITEMS
