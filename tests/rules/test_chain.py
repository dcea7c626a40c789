"""The chain, the digests, and what no alteration gets past."""

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import fields, replace
from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from hypothesis import assume, given
from hypothesis import strategies as st

from quipu.crypto.keys import Ed25519Signer, verify
from quipu.errors import UnverifiableError
from quipu.model.journal import GENESIS, Checkpoint, Entry, Mention, Op
from quipu.model.record import Ending, Link, MemoryType, PrivacyIntent, Provenance, Record, State, Tier
from quipu.rules import chain
from quipu.service.exported_audit import verified_export
from quipu.testing import strategies
from quipu.testing.builders import canonical, mention, sealed, tied

SIGNER = Ed25519Signer(Ed25519PrivateKey.from_private_bytes(bytes(32)))
#: What no digest covers: where a version stands in the chain, and the digest itself.
BESIDE = {"born", "died", "ending", "merged_into", "salt", "digest"}


def check(message: bytes, key_id: str, signature: str) -> bool:
    return verify(message, key_id, signature, {SIGNER.key_id: SIGNER.public_key})


def entry(op: Op = Op.RECALL, at: int = 5, **told: Any) -> Entry:
    """An entry that has no place in a chain yet."""
    known: dict[str, Any] = {
        "tenant": "t",
        "seq": 0,
        "actor": "a",
        "store": None,
        "agent": None,
        "run": None,
        "node": None,
        "records": (),
        "detail": {},
        "prev": "",
        "hash": "",
    }
    return Entry(op=op, at=at, **{**known, **told})


def journal(length: int = 5) -> list[Entry]:
    middle = [
        entry(at=5 + number, detail={"n": number}, records=(Mention(f"mem_{number}", 1, "ab" * 32),))
        for number in range(length - 1)
    ]
    return tied([entry(Op.GENESIS), *middle])


def signed(at: Entry, signer: Ed25519Signer = SIGNER) -> Checkpoint:
    draft = Checkpoint(
        tenant=at.tenant, seq=at.seq, hash=at.hash, at=at.at, key_id=signer.key_id, signature=""
    )
    return replace(draft, signature=signer.sign(canonical(chain.checkpoint_body(draft))))


def walked(entries: Iterable[Entry], *points: Checkpoint) -> list[tuple[str, int | None]]:
    """What a check of a chain finds: (what, where)."""
    walk = chain.Walk(canonical, wanted={point.seq: None for point in points})
    walk.follow(entries)
    found = [(fault.kind, fault.seq) for fault in walk.faults]
    for point in points:
        for fault in chain.checkpoint_faults(point, walk, canonical, check):
            assert not isinstance(fault, UnverifiableError)
            found.append((fault.kind, fault.seq))
    return found


# -- the chain --------------------------------------------------------------------------------------------------


def test_a_sound_chain_has_no_faults() -> None:
    entries = journal()
    assert entries[0].prev == GENESIS
    assert walked(entries, *map(signed, entries)) == []
    assert walked([]) == []


@given(
    told=st.lists(
        st.builds(
            entry,
            op=st.sampled_from(Op),
            actor=strategies.texts(),
            store=st.none() | strategies.texts(),
            agent=st.none() | strategies.texts(),
            detail=strategies.json_objects().map(lambda drawn: dict(chain.exact(drawn))),  # type: ignore[arg-type]  an object stays one
            records=st.lists(st.builds(Mention, strategies.texts(), st.integers(1, 3), st.just("d"))).map(
                tuple
            ),
        ),
        max_size=5,
    )
)
def test_any_entries_can_be_tied_into_a_chain(told: Sequence[Entry]) -> None:
    assert walked(tied([entry(Op.GENESIS), *told])) == []


CHANGED: Mapping[str, Any] = {
    "tenant": "other",
    "seq": 9,
    "at": 66,
    "actor": "b",
    "op": Op.FORGET,
    "store": "s",
    "agent": "g",
    "run": "r",
    "node": "n",
    "records": (Mention("mem_other", 1, "ab" * 32),),
    "detail": {"n": 77},
    "prev": "ef" * 32,
    "hash": "ef" * 32,
}


@pytest.mark.parametrize("place", range(5))
@pytest.mark.parametrize("name", [field.name for field in fields(Entry)])
def test_an_entry_changed_in_any_field_is_the_first_that_is_named(name: str, place: int) -> None:
    entries = journal()
    entries[place] = replace(entries[place], **{name: CHANGED[name]})
    found = walked(entries)
    assert found
    assert found[0][1] in (place + 1, CHANGED["seq"])


@pytest.mark.parametrize("place", range(5))
def test_an_entry_changed_and_hashed_again_breaks_the_link_behind_it(place: int) -> None:
    entries = journal()
    points = [signed(entries[-1])]
    altered = replace(entries[place], actor="somebody else")
    entries[place] = replace(altered, hash=chain.entry_hash(altered, canonical))
    found = walked(entries, *points)
    assert found[0] == (("broken_link", place + 2) if place < 4 else ("rewritten", 5))


def test_a_chain_written_anew_does_not_pass_through_its_checkpoint() -> None:
    entries = journal()
    points = [signed(entries[2])]
    forged = tied([replace(one, actor="somebody else") for one in entries])
    assert walked(forged, *points) == [("rewritten", 3)]


@given(st.data())
def test_removing_an_entry_is_named(data: st.DataObject) -> None:
    entries = journal(8)
    place = data.draw(st.integers(0, 6))
    found = walked([*entries[:place], *entries[place + 1 :]])
    assert ("gap", place + 2) in found[:1]


@given(st.data())
def test_inserting_an_entry_is_named(data: st.DataObject) -> None:
    entries = journal(8)
    place = data.draw(st.integers(0, 7))
    inserted = data.draw(st.sampled_from([*entries, tied([entry(Op.GENESIS), entry(at=9)])[1]]))
    assert walked([*entries[: place + 1], inserted, *entries[place + 1 :]])


@given(st.permutations(range(6)))
def test_reordering_entries_is_named(order: Sequence[int]) -> None:
    assume(order != sorted(order))
    entries = journal(6)
    assert walked([entries[place] for place in order])


@pytest.mark.parametrize("left", range(5))
def test_a_chain_cut_short_is_told_by_a_checkpoint(left: int) -> None:
    entries = journal()
    assert walked(entries[:left]) == []
    assert walked(entries[:left], signed(entries[-1])) == [("truncated", 5)]


def test_a_chain_that_does_not_begin_with_genesis_is_named() -> None:
    assert walked(tied([entry()])) == [("no_genesis", 1)]


def test_time_that_runs_back_is_named() -> None:
    assert walked(tied([entry(Op.GENESIS, at=9), entry(at=8), entry(at=9)])) == [("time_runs_back", 2)]


@pytest.mark.parametrize("detail", [{"n": float("nan")}, {"n": 2**60}, {"\ud800": 1}])
def test_an_entry_that_has_no_canonical_bytes_is_named(detail: dict[str, Any]) -> None:
    entries = journal()
    entries[2] = replace(entries[2], detail=detail)
    assert walked(entries) == [("altered_entry", 3)]


# -- checkpoints ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "value"),
    [("tenant", "other"), ("seq", 4), ("hash", "ab" * 32), ("at", 99), ("signature", "AAAA")],
)
def test_a_changed_checkpoint_is_named(name: str, value: Any) -> None:
    entries = journal()
    point = replace(signed(entries[2]), **{name: value})
    assert ("bad_signature", point.seq) in walked(entries, point)


def test_a_checkpoint_of_an_unknown_key_cannot_be_checked() -> None:
    entries = journal()
    point = signed(entries[2], Ed25519Signer.fresh())
    walk = chain.Walk(canonical, wanted={point.seq: None})
    walk.follow(entries)
    (found,) = chain.checkpoint_faults(point, walk, canonical, check)
    assert isinstance(found, UnverifiableError)


def test_a_checkpoint_under_the_name_of_another_key_is_wrong() -> None:
    entries = journal()
    point = replace(signed(entries[2], Ed25519Signer.fresh()), key_id=SIGNER.key_id)
    assert walked(entries, point) == [("bad_signature", 3)]


# -- digests ----------------------------------------------------------------------------------------------------


def whole_record() -> Record:
    return sealed(
        Record(
            tenant="t",
            id="mem_1",
            version=1,
            store_id="ms_1",
            agent_id="a",
            type=MemoryType.SEMANTIC,
            content="text",
            provenance=Provenance(written_by="w"),
            created_at=1,
            updated_at=1,
        )
    )


OTHER: Mapping[str, Any] = {
    "tenant": "other",
    "id": "mem_2",
    "version": 2,
    "store_id": "ms_2",
    "agent_id": "b",
    "user_id": "",
    "session_id": "",
    "type": MemoryType.EMOTIONAL,
    "tier": Tier.SHORT_TERM,
    "state": State.ARCHIVED,
    "content": "text ",
    "metadata": {"a": None},
    "tags": ("",),
    "links": (Link("", ""),),
    "confidence": 0.999,
    "importance": 0.0,
    "source": "",
    "provenance": Provenance(written_by="w", receipt=""),
    "details": {"": None},
    "privacy": PrivacyIntent(),
    "created_at": 2,
    "updated_at": 2,
    "expires_at": 0,
}


@pytest.mark.parametrize("name", [field.name for field in fields(Record) if field.name not in BESIDE])
def test_every_field_a_reader_could_see_is_covered_by_the_digest(name: str) -> None:
    record = whole_record()
    assert getattr(record, name) != OTHER[name]
    assert chain.digest(replace(record, **{name: OTHER[name]}), record.salt, canonical) != record.digest


@pytest.mark.parametrize("name", [field.name for field in fields(Provenance)])
def test_every_part_of_the_provenance_is_covered(name: str) -> None:
    record = whole_record()
    other: dict[str, Any] = {"trust": "user", "captured_at": 0}
    provenance = replace(record.provenance, **{name: other.get(name, "changed")})
    if name == "trust":
        provenance = replace(record.provenance, trust=type(record.provenance.trust)("user"))
    assert chain.digest(replace(record, provenance=provenance), record.salt, canonical) != record.digest


def test_the_digest_depends_on_the_salt_and_on_nothing_beside() -> None:
    record = whole_record()
    assert chain.digest(record, b"other", canonical) != record.digest
    moved = replace(record, born=3, died=4, ending=Ending.MERGED, merged_into="mem_2")
    assert chain.digest(moved, record.salt, canonical) == record.digest


@given(strategies.json_objects(), strategies.json_objects())
def test_two_records_have_one_digest_only_if_they_say_the_same(
    one: Mapping[str, Any], other: Mapping[str, Any]
) -> None:
    record = whole_record()
    digests = [
        chain.digest(replace(record, metadata=metadata), record.salt, canonical) for metadata in (one, other)
    ]
    assert (digests[0] == digests[1]) == (told_apart(one) == told_apart(other))


def told_apart(value: Any) -> Any:
    """JSON's own idea of equality: 1 and 1.0 are one number, true is not 1."""
    if isinstance(value, Mapping):
        return {key: told_apart(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [told_apart(item) for item in value]
    return (type(value) is bool, value)


@pytest.mark.parametrize(
    "lookalike",
    [{"$integer": str(2**60)}, {"$$integer": str(2**60)}, str(2**60), float(2**60)],
    ids=["an object", "an escaped object", "a text", "a rounded number"],
)
def test_nothing_looks_like_a_large_integer_but_itself(lookalike: Any) -> None:
    record = whole_record()
    digests = {
        chain.digest(replace(record, metadata={"n": value}), record.salt, canonical)
        for value in (2**60, lookalike, {"$integer": str(2**60)})
    }
    assert len(digests) == 2 + (lookalike != {"$integer": str(2**60)})


@given(strategies.records())
def test_any_record_has_a_digest_that_survives_an_export(record: Record) -> None:
    given_one = sealed(replace(record, version=1))
    entries = tied([entry(Op.GENESIS), entry(Op.REMEMBER, records=(mention(given_one),))])
    body = json.loads(json.dumps(chain.version_body(replace(given_one, born=2))))
    walk = chain.Walk(canonical)
    walk.follow(entries)
    assert list(chain.version_faults(body, walk)) == []
    assert list(chain.missing_faults(walk)) == []


# -- records against the journal --------------------------------------------------------------------------------


def told_of(record: Record, *later: Entry) -> chain.Walk:
    """A journal that tells of one record."""
    walk = chain.Walk(canonical)
    walk.follow(tied([entry(Op.GENESIS), entry(Op.REMEMBER, records=(mention(record),)), *later]))
    assert walk.faults == []
    return walk


def faults(record: Record, walk: chain.Walk) -> list[str]:
    found = [*chain.version_faults(chain.version_body(record), walk), *chain.missing_faults(walk)]
    return [fault.kind for fault in found]


def closing(record: Record, op: Op, **told: Any) -> Entry:
    return entry(op, records=(mention(record),), **told)


RECORD = replace(whole_record(), born=2)
EMPTIED = replace(RECORD, content="", salt=b"", provenance=Provenance(written_by=""), died=3)
FAULTY: Mapping[str, tuple[Callable[[], chain.Walk], Record, list[str]]] = {
    "as the journal says": (lambda: told_of(RECORD), RECORD, []),
    "another text": (lambda: told_of(RECORD), replace(RECORD, content="lie"), ["altered_record"]),
    "another digest": (lambda: told_of(RECORD), replace(RECORD, digest="ab" * 32), ["digest_differs"]),
    "another birth": (lambda: told_of(RECORD), replace(RECORD, born=1), ["life_differs"]),
    "closed in silence": (lambda: told_of(RECORD), replace(RECORD, died=3), ["life_differs"]),
    "closed": (lambda: told_of(RECORD, closing(RECORD, Op.FORGET)), replace(RECORD, died=3), []),
    "opened again in silence": (
        lambda: told_of(RECORD, closing(RECORD, Op.FORGET)),
        RECORD,
        ["life_differs"],
    ),
    "read": (lambda: told_of(RECORD, closing(RECORD, Op.RECALL)), RECORD, []),
    "demoted": (lambda: told_of(RECORD, closing(RECORD, Op.DEMOTE)), RECORD, []),
    "emptied in silence": (
        lambda: told_of(RECORD, closing(RECORD, Op.FORGET)),
        EMPTIED,
        ["emptied_record"],
    ),
    "erased": (lambda: told_of(RECORD, closing(RECORD, Op.ERASE)), EMPTIED, []),
    "erased, with a text put back": (
        lambda: told_of(RECORD, closing(RECORD, Op.ERASE)),
        replace(EMPTIED, content="planted"),
        ["altered_record"],
    ),
    "erased, with a source put back": (
        lambda: told_of(RECORD, closing(RECORD, Op.ERASE)),
        replace(EMPTIED, source="planted"),
        ["altered_record"],
    ),
    "erased, with an author put back": (
        lambda: told_of(RECORD, closing(RECORD, Op.ERASE)),
        replace(EMPTIED, provenance=Provenance(written_by="planted")),
        ["altered_record"],
    ),
    "pruned": (
        lambda: told_of(RECORD, closing(RECORD, Op.FORGET), entry(Op.PRUNE, detail={"horizon": 3})),
        EMPTIED,
        [],
    ),
    "pruned too early": (
        lambda: told_of(RECORD, closing(RECORD, Op.FORGET), entry(Op.PRUNE, detail={"horizon": 2})),
        EMPTIED,
        ["emptied_record"],
    ),
    "planted": (
        lambda: told_of(RECORD),
        replace(RECORD, id="mem_planted"),
        ["unjournaled_record", "missing_record"],
    ),
}


@pytest.mark.parametrize("case", FAULTY)
def test_a_record_is_checked_against_the_journal(case: str) -> None:
    walk, record, expected = FAULTY[case]
    assert faults(record, walk()) == expected


def test_a_new_version_closes_the_one_before() -> None:
    following = sealed(replace(RECORD, version=2, content="new"))
    walk = told_of(RECORD, closing(following, Op.UPDATE))
    assert list(chain.version_faults(chain.version_body(replace(RECORD, died=3)), walk)) == []
    assert faults(replace(following, born=3), walk) == []


@pytest.mark.parametrize("salt", ["zz", 7, None, [], "é"])
def test_a_salt_that_is_none_is_named(salt: Any) -> None:
    body = {**chain.version_body(RECORD), "salt": salt}
    assert [fault.kind for fault in chain.version_faults(body, told_of(RECORD))] in (
        ["altered_record"],
        ["emptied_record"],
    )


# -- exports ----------------------------------------------------------------------------------------------------


def exported() -> dict[str, str]:
    """An export as its files: three records, one changed, one erased, and checkpoints."""
    records = [sealed(replace(whole_record(), id=f"mem_{n}", content=f"text {n}")) for n in range(3)]
    changed = sealed(replace(records[0], version=2, metadata={"n": 2**60, "m": [1.5, None, "é"]}))
    entries = tied(
        [
            entry(Op.GENESIS),
            *(entry(Op.REMEMBER, records=(mention(record),)) for record in records),
            entry(Op.UPDATE, records=(mention(changed),), at=7),
            entry(Op.ERASE, records=(mention(records[1]),), at=8, detail={"count": 1}),
        ]
    )
    versions = [
        replace(records[0], born=2, died=5),
        replace(records[1], born=3, died=6, content="", salt=b"", provenance=Provenance(written_by="")),
        replace(records[2], born=4),
        replace(changed, born=5),
    ]
    points = [signed(entries[3]), signed(entries[5])]
    bodies: dict[str, list[Any]] = {
        "journal.ndjson": [{**chain.entry_body(one), "hash": one.hash} for one in entries],
        "records.ndjson": [chain.version_body(version) for version in versions],
        "checkpoints.ndjson": [{field.name: getattr(p, field.name) for field in fields(p)} for p in points],
        "keys.json": [{SIGNER.key_id: SIGNER.public_key}],
    }
    return {
        name: "".join(json.dumps(body, ensure_ascii=False, separators=(",", ":")) + "\n" for body in listed)
        for name, listed in bodies.items()
    }


EXPORT = exported()
TOMBSTONE = EXPORT["records.ndjson"].splitlines()[1:2]
#: Of a record whose salt is gone nobody can say any more what these were; nothing was said in them.
UNPROVABLE = {
    "store_id", "agent_id", "user_id", "session_id", "type", "tier", "state", "confidence", "importance",
    "created_at", "updated_at", "expires_at", "tenant",
}  # fmt: skip


def named(files: Mapping[str, str]) -> list[str]:
    found = verified_export({name: text.splitlines() for name, text in files.items()}, canonical, verify)
    return [fault.kind for fault in found.faults] + list(found.unverifiable)


def meant(text: str) -> Any:
    try:
        return [json.loads(line) for line in text.splitlines()]
    except ValueError:
        return None


def test_a_sound_export_passes() -> None:
    assert named(EXPORT) == []


@given(
    st.sampled_from(["journal.ndjson", "records.ndjson", "checkpoints.ndjson", "keys.json"]),
    st.data(),
    st.integers(1, 255),
)
def test_any_flipped_byte_of_an_export_is_named(name: str, data: st.DataObject, flip: int) -> None:
    raw = bytearray(EXPORT[name].encode("utf-8"))
    place = data.draw(st.integers(0, len(raw) - 1))
    raw[place] ^= flip
    text = raw.decode("utf-8", "replace")
    assume(text.splitlines()[1:2] == TOMBSTONE or name != "records.ndjson")
    assert named({**EXPORT, name: text}) or meant(text) == meant(EXPORT[name])


@pytest.mark.parametrize("name", ["journal.ndjson", "records.ndjson"])
@given(data=st.data())
def test_lines_removed_repeated_or_swapped_in_an_export_are_named(name: str, data: st.DataObject) -> None:
    lines = EXPORT[name].splitlines()
    place = data.draw(st.integers(0, len(lines) - 1))
    other = data.draw(st.integers(0, len(lines) - 1))
    removed = lines[:place] + lines[place + 1 :]
    repeated = [*lines[:place], lines[other], *lines[place:]]
    swapped = list(lines)
    swapped[place], swapped[other] = swapped[other], swapped[place]
    assert named({**EXPORT, name: "\n".join(removed)})
    assert named({**EXPORT, name: "\n".join(repeated)})
    if name == "journal.ndjson" and place != other:
        assert named({**EXPORT, name: "\n".join(swapped)})


@given(st.sampled_from(["journal.ndjson", "records.ndjson", "checkpoints.ndjson"]), st.data())
def test_any_value_of_an_export_replaced_by_any_other_is_named(name: str, data: st.DataObject) -> None:
    bodies = [json.loads(line) for line in EXPORT[name].splitlines()]
    body = data.draw(st.sampled_from(bodies))
    key = data.draw(st.sampled_from(sorted(body)))
    value = data.draw(strategies.json_values())
    assume(name != "records.ndjson" or body["salt"] or (value and key not in UNPROVABLE))
    assume(told_apart(value) != told_apart(body[key]))
    body[key] = value
    assert named({**EXPORT, name: "\n".join(json.dumps(one) for one in bodies)})


def test_an_export_cut_short_is_told_by_its_checkpoints() -> None:
    lines = EXPORT["journal.ndjson"].splitlines()
    for left in range(len(lines)):
        cut = {**EXPORT, "journal.ndjson": "\n".join(lines[:left]), "records.ndjson": ""}
        assert "truncated" in named(cut)


def test_an_export_without_its_keys_cannot_be_checked() -> None:
    found = named({**EXPORT, "keys.json": "{}"})
    assert found
    assert all("public key" in told for told in found)


@pytest.mark.parametrize(
    "line",
    [
        {},
        {"id": "mem_1"},
        {"version": 1, "born": 2},
        {"id": 7, "version": 1},
        {"id": "mem_1", "version": "1"},
    ],
)
def test_a_line_that_names_no_version_is_told_as_such(line: dict[str, Any]) -> None:
    (fault,) = chain.version_faults(line, chain.Walk(canonical))
    assert (fault.kind, fault.id, fault.seq) == ("unjournaled_record", None, line.get("born"))
    assert "None" not in fault.detail


# -- what nobody could have written, and how versions end -------------------------------------------------------------


def nested(depth: int) -> Any:
    value: Any = 1
    for _ in range(depth):
        value = [value]
    return value


@pytest.mark.parametrize("depth", [900, 960, 980, 990, 993, 5000])
def test_what_is_nested_too_deep_to_be_hashed_is_an_altered_line(depth: int) -> None:
    """At some depths it can still be parsed, and no longer be spelt."""
    deep = "[" * depth + "]" * depth
    lines = EXPORT["journal.ndjson"].splitlines()
    lines[1] = lines[1].replace('"detail":{', f'"detail":{{"deep":{deep},', 1).replace(",}", "}", 1)
    assert "altered_entry" in named({**EXPORT, "journal.ndjson": "\n".join(lines)})


def test_an_entry_or_a_version_that_has_no_canonical_bytes_is_altered() -> None:
    entries = journal()
    assert ("altered_entry", 2) in walked([entries[0], replace(entries[1], detail={"x": nested(2000)})])
    walk = chain.Walk(canonical)
    record = sealed(plain_record())
    walk.lives["mem_1", 1] = chain.Life(record.digest, 1)
    body = {**chain.version_body(replace(record, born=1)), "metadata": {"x": nested(2000)}}
    assert [fault.kind for fault in chain.version_faults(body, walk)] == ["altered_record"]


def plain_record() -> Record:
    return Record(
        tenant="t",
        id="mem_1",
        version=1,
        store_id="ms_1",
        agent_id="a",
        type=MemoryType.SEMANTIC,
        tier=Tier.LONG_TERM,
        state=State.LIVE,
        content="tea",
        confidence=1.0,
        provenance=Provenance(written_by="a"),
        created_at=1,
        updated_at=1,
    )


@pytest.mark.parametrize("name", ["seq", "at"])
def test_a_checkpoint_with_a_number_that_nobody_could_sign_is_not_signed(name: str) -> None:
    entries = journal()
    point = replace(signed(entries[1]), **{name: 2**60})
    assert ("bad_signature", point.seq) in walked(entries, point)


def test_a_member_that_no_version_has_is_found_in_an_emptied_one_too() -> None:
    lines = EXPORT["records.ndjson"].splitlines()
    lines[1] = lines[1][:-1] + ',"note":"planted"}'
    assert named({**EXPORT, "records.ndjson": "\n".join(lines)}) == ["altered_record"]


def test_what_a_new_record_was_made_of_ends_with_its_entry() -> None:
    first, made = Mention("mem_1", 1, "aa" * 32), Mention("mem_2", 1, "bb" * 32)
    walk = chain.Walk(canonical)
    walk.follow(
        tied(
            [
                entry(Op.GENESIS),
                entry(Op.REMEMBER, records=(first,)),
                entry(Op.REMEMBER, records=(made, first)),
            ]
        )
    )
    life = walk.lives["mem_1", 1]
    assert (life.died, life.ending, life.merged_into) == (3, Ending.MERGED, "mem_2")
    assert walk.lives["mem_2", 1].died is None


@pytest.mark.parametrize(
    ("op", "ending"),
    [
        (Op.FORGET, Ending.FORGOTTEN),
        (Op.EXPIRE, Ending.EXPIRED),
        (Op.SWEEP, Ending.EXPIRED),
        (Op.DELETE_STORE, Ending.FORGOTTEN),
        (Op.MERGE, Ending.MERGED),
        (Op.ERASE, None),
    ],
)
def test_a_version_ends_as_the_operation_says(op: Op, ending: Ending | None) -> None:
    one = Mention("mem_1", 1, "aa" * 32)
    detail = {"canonical": "mem_9"} if op is Op.MERGE else {}
    walk = chain.Walk(canonical)
    walk.follow(
        tied(
            [entry(Op.GENESIS), entry(Op.REMEMBER, records=(one,)), entry(op, records=(one,), detail=detail)]
        )
    )
    life = walk.lives["mem_1", 1]
    assert (life.died, life.ending, life.merged_into) == (3, ending, detail.get("canonical"))
