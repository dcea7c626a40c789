"""What an import must never do: let a secret in, write over, bring back what is gone, or leave half of a file."""

import json
import struct
from pathlib import Path
from typing import Any

import pytest

from quipu.errors import ConflictError, InvalidError
from quipu.memory.operations import FORGET, GET, LIST, REMEMBER, UPDATE
from quipu.model.record import Provenance, Record
from quipu.secrets.operations import ADD_SECRET
from quipu.sharing.dids import PublicKey
from quipu.sharing.items import owners_item
from quipu.transfer import operations as ops
from quipu.transfer.formats.spool import WrittenVectors
from tests.architecture.test_secrets import SECRET, kept
from tests.requirement import requirement
from tests.transfer.formats import shelf
from tests.transfer.room import Room, memories, open_room

ID = "00000000-0000-4000-8000-000000000000"


def one(id: str, text: str, **more: Any) -> bytes:
    return json.dumps({"results": [{"id": id, "memory": text, **more}]}).encode()


def bundle(*records: Record, incremental: bool = False, gone: tuple[str, ...] = ()) -> bytes:
    """A bundle that its owner has signed; with deletions."""
    head = {**shelf.HEAD, "export_type": "incremental" if incremental else "full"}
    items = [owners_item(record, shelf.OWNER, "main") for record in records]
    with shelf.Spool(is_rising=True) as stones:
        for name in gone:
            stones.add(json.dumps({"item_id": name, "deleted_at": "2026-05-06T10:00:00.000Z"}).encode())
        others = {"tombstones.jsonl": stones}
        return shelf.written("bundle", items, head=head, by=shelf.SIGNATORY, others=others)


def record(number: int, text: str, *, version: int = 1, later: int = 0) -> Record:
    return Record(
        id=f"mem_{number:026}",
        version=version,
        store_id="ms_1",
        agent_id="agent",
        type="semantic",
        content=text,
        provenance=Provenance(written_by="local"),
        created_at=1_700_000_000_000,
        updated_at=1_700_000_000_000 + later,
    )


@pytest.fixture
def known(room: Room, monkeypatch: pytest.MonkeyPatch) -> None:
    """The owner's document can be had."""

    async def key(_documents: object, kid: str, _purpose: str = "assertionMethod") -> PublicKey | None:
        return shelf.keys(kid)

    monkeypatch.setattr(type(room.container.sharing.host.documents), "key", key)


# -- secrets ----------------------------------------------------------------------------------------------------------


@requirement("oap:import.redaction")
async def test_a_secret_in_a_text_an_id_or_a_file_name_never_gets_in(tmp_path: Path) -> None:
    room = await open_room(str(tmp_path / "memory.db"))
    await room(ADD_SECRET, label="pass", value=SECRET)
    data = json.dumps(
        {
            "results": [
                {"id": ID, "memory": f"the password is {SECRET}"},
                {"id": SECRET, "memory": "an id that is a secret"},
                {"id": "x2", "memory": "in the metadata", "metadata": {"note": SECRET}},
            ]
        }
    ).encode()
    tried = await room.sent(data, file_name=f"{SECRET}.json")
    assert SECRET not in tried.model_dump_json()
    done = await room.committed(tried.import_id)
    assert (done.counts.accepted, done.counts.refused) == (2, 1)
    assert SECRET not in done.model_dump_json()
    assert SECRET not in (await room(ops.LIST_IMPORTS)).model_dump_json()
    assert not any(SECRET in text for text in await room.contents())
    await room.container.close()
    assert kept(tmp_path) == []


@requirement("oap:import.redaction")
async def test_a_secret_that_is_registered_between_trial_and_import_stays_out(tmp_path: Path) -> None:
    room = await open_room(str(tmp_path / "memory.db"))
    tried = await room.sent(one(ID, f"the password is {SECRET}"), file_name=f"{SECRET}.json")
    await room(ADD_SECRET, label="pass", value=SECRET)
    await room.committed(tried.import_id)
    await room.container.close()
    assert kept(tmp_path) == []


# -- what is there ----------------------------------------------------------------------------------------------------


@requirement("oap:import.taken-ids")
async def test_a_taken_id_is_not_written_over(room: Room) -> None:
    await room.brought(one(ID, "Ana likes tea"))
    done = await room.brought(one(ID, "Ana likes coffee"))
    assert (done.counts.accepted, done.counts.conflict) == (1, 1)
    assert await room.contents() == ["Ana likes coffee", "Ana likes tea"]
    assert (await room(GET, id=ID)).content == "Ana likes tea"
    # The same again is known by what it says.
    assert (await room.brought(one(ID, "Ana likes coffee"))).counts.duplicate == 1


@requirement("oap:import.tombstones")
async def test_what_was_forgotten_or_erased_here_does_not_come_back(room: Room) -> None:
    data = memories("Ana likes tea", "Ana likes coffee")
    await room.brought(data)
    await room(FORGET, ids=[ID])
    await room(FORGET, ids=[ID[:-1] + "1"], hard_delete=True)
    again = await room.brought(data)
    assert (again.counts.accepted, again.counts.refused) == (0, 2)
    assert {one.reason for one in again.rejected} == {"tombstone"}
    assert await room.contents() == []


@requirement("oap:import.tombstones")
async def test_undone_and_brought_in_again_it_is_there_once(room: Room) -> None:
    data = memories("Ana likes tea")
    for _ in range(3):
        done = await room.brought(data)
        assert done.counts.accepted == 1
        await room.undone(done.import_id)
        assert await room.contents() == []
    await room.brought(data)
    assert await room.contents() == ["Ana likes tea"]


@requirement("oap:import.tombstones")
async def test_what_was_erased_by_undoing_never_returns(room: Room) -> None:
    done = await room.brought(memories("Ana likes tea"))
    await room.undone(done.import_id, hard_delete=True)
    assert (await room.brought(memories("Ana likes tea"))).counts.refused == 1


async def test_undoing_leaves_what_somebody_has_changed_since(room: Room) -> None:
    done = await room.brought(memories("Ana likes tea", "Ana likes coffee"))
    await room(UPDATE, id=ID, content="Ana likes green tea")
    await room.undone(done.import_id)
    assert await room.contents() == ["Ana likes green tea"]


# -- half a file ------------------------------------------------------------------------------------------------------


async def test_an_import_that_is_cut_off_is_gone_on_with_by_sending_the_file_again(tmp_path: Path) -> None:
    data = memories(*(f"fact {number}" for number in range(1_200)))
    room = await open_room(str(tmp_path / "memory.db"))
    writes, calls = room.container.transfer.imports.writes, 0
    pipeline, commit = writes.pipeline, type(writes.pipeline).commit

    async def dies(self: Any, *given: Any, **more: Any) -> Any:
        nonlocal calls
        calls += 1
        if calls == 2:
            raise ConflictError("The server is gone.", reason="gone")
        return await commit(self, *given, **more)

    type(pipeline).commit = dies  # type: ignore[method-assign]
    try:
        with pytest.raises(ConflictError):
            await room.brought(data)
    finally:
        type(pipeline).commit = commit  # type: ignore[method-assign]
    await room.container.close()

    room = await open_room(str(tmp_path / "memory.db"))
    (listed,) = (await room(ops.LIST_IMPORTS)).imports
    assert (listed.status, listed.counts.accepted) == ("running", 500)
    done = await room.brought(data)
    assert (done.counts.duplicate, done.counts.accepted) == (500, 700)
    assert len(await room.contents()) == 1_000  # a page of a list
    (listed,) = (await room(ops.LIST_IMPORTS)).imports
    assert (listed.status, listed.counts.accepted) == ("done", 1_200)
    await room.undone(done.import_id)
    await room.undone(done.import_id)
    assert await room.contents() == []
    await room.container.close()


async def test_one_bad_item_does_not_spoil_the_others(room: Room) -> None:
    done = await room.brought(memories("Ana likes tea", "", "x" * 2_000_000, "Ana likes coffee"))
    assert (done.counts.accepted, done.counts.refused) == (2, 2)
    assert await room.contents() == ["Ana likes coffee", "Ana likes tea"]


# -- what the owner of a bundle may do --------------------------------------------------------------------------------


@requirement("oap:import.taken-ids")
@pytest.mark.usefixtures("known")
async def test_a_newer_version_of_the_same_owner_follows_and_nobody_elses(room: Room) -> None:
    await room.brought(bundle(record(1, "Ana lives in Porto"), record(2, "Ana likes tea")))
    await room(UPDATE, id=record(2, "").id, content="Ana likes milk")
    later = bundle(
        record(1, "Ana lives in Lisbon", later=1_000),
        record(2, "Ana likes coffee", later=1_000),
        incremental=True,
    )
    done = await room.brought(later)
    assert (done.signature, done.counts.updated, done.counts.conflict) == ("valid", 1, 1)
    assert await room.contents() == ["Ana likes coffee", "Ana likes milk", "Ana lives in Lisbon"]
    await room.undone(done.import_id)
    assert await room.contents() == ["Ana likes milk", "Ana lives in Porto"]


@requirement("oap:import.tombstones")
@pytest.mark.usefixtures("known")
async def test_deletions_are_followed_for_what_the_owner_brought_and_nobody_changed(room: Room) -> None:
    own = await room(REMEMBER, content="ours")
    await room.brought(bundle(record(1, "Ana lives in Porto"), record(2, "Ana likes tea")))
    await room(UPDATE, id=record(2, "").id, content="Ana likes milk")
    room.clock.now += 1_000_000_000_000
    gone = (record(1, "").id, record(2, "").id, own.id, "mem_never_here")
    done = await room.brought(bundle(gone=gone, incremental=True))
    assert (done.counts.removed, done.counts.kept) == (1, 2)
    assert await room.contents() == ["Ana likes milk", "ours"]
    # No older file brings in what is gone where it was made.
    assert (await room.brought(one("mem_never_here", "once"))).counts.refused == 1
    await room.undone(done.import_id)
    assert await room.contents() == ["Ana likes milk", "Ana lives in Porto", "ours"]
    assert (await room.brought(one("mem_never_here", "twice"))).counts.accepted == 1


@requirement("oap:import.tombstones")
async def test_deletions_of_nobody_who_has_signed_are_not_followed(room: Room) -> None:
    await room.brought(bundle(record(1, "Ana lives in Porto")), foreign_owner=True)
    done = await room.brought(bundle(gone=(record(1, "").id,), incremental=True), foreign_owner=True)
    assert (done.signature, done.counts.removed) == ("unknown", 0)
    assert await room.contents() == ["Ana lives in Porto"]


@requirement("oap:import.trust")
async def test_a_signature_whose_key_cannot_be_had_needs_a_word(room: Room) -> None:
    with pytest.raises(InvalidError) as refused:
        await room.sent(bundle(record(1, "Ana lives in Porto")))
    assert refused.value.reason == "unknown_key"


# -- vectors ----------------------------------------------------------------------------------------------------------

#: As no embedder would make it, so that it is known again.
OWN_VECTOR = struct.pack("<64f", 1.0, *(0.0,) * 63)


def with_vectors(*texts: str, model: str = "words-64") -> bytes:
    items = [owners_item(record(place, text), shelf.OWNER, "main") for place, text in enumerate(texts)]
    vectors = WrittenVectors(model, 64)
    for item in reversed(items):
        vectors.add(item["item_id"], OWN_VECTOR)
    try:
        return shelf.written("bundle", items, by=shelf.SIGNATORY, vectors=vectors)
    finally:
        vectors.close()


async def with_their_vector(room: Room) -> list[str]:
    """The texts that are kept with the vector of the file."""
    ledger = room.container.ledger
    kept_ = [one async for one in ledger.every_version("default")]
    found = await ledger.vectors("default", [(one.id, one.version) for one in kept_])
    assert len(found) == len(kept_)
    return sorted(one.content for one in kept_ if found[one.id, one.version] == OWN_VECTOR)


@requirement("formats:import.vectors")
@pytest.mark.usefixtures("known")
async def test_vectors_of_a_known_key_are_used_but_for_texts_that_were_altered(room: Room) -> None:
    await room(ADD_SECRET, label="pass", value=SECRET)
    data = with_vectors("Ana likes tea", f"the password is {SECRET}")
    tried = await room.sent(data)
    assert (tried.counts.vectors_used, tried.counts.embedded_anew) == (1, 1)
    done = await room.committed(tried.import_id)
    assert (done.counts.vectors_used, done.counts.embedded_anew) == (1, 1)
    assert await with_their_vector(room) == ["Ana likes tea"]
    (listed,) = (await room(ops.LIST_IMPORTS)).imports
    assert (listed.counts.vectors_used, listed.counts.embedded_anew) == (1, 1)


@requirement("formats:import.vectors")
async def test_vectors_of_an_unknown_key_are_not_used(room: Room) -> None:
    done = await room.brought(with_vectors("Ana likes tea"), foreign_owner=True)
    assert (done.counts.accepted, done.counts.vectors_used, done.counts.embedded_anew) == (1, 0, 1)
    assert await with_their_vector(room) == []


@requirement("formats:import.vectors")
@pytest.mark.usefixtures("known")
async def test_vectors_of_another_model_are_not_used(room: Room) -> None:
    done = await room.brought(with_vectors("Ana likes tea", model="other"))
    assert (done.counts.accepted, done.counts.vectors_used, done.counts.embedded_anew) == (1, 0, 1)
    assert await with_their_vector(room) == []


# -- limits -----------------------------------------------------------------------------------------------------------


async def test_a_credential_brings_in_nothing_for_others(room: Room) -> None:
    writer = await room.token("writer", "agent", agents=("agent",), default_agent="agent")
    other = record(1, "for somebody else")
    foreign = bundle(Record(**{**{name: getattr(other, name) for name in other.__slots__}, "agent_id": "b"}))
    done = await room.brought(foreign, writer, foreign_owner=True)
    assert (done.counts.accepted, done.counts.refused) == (0, 1)


@requirement("oap:import.trust")
async def test_procedures_wait_unless_their_owner_has_signed(room: Room) -> None:
    machine = {"name": "door", "initial": "shut", "states": ["shut"], "transitions": []}
    procedure = record(1, json.dumps(machine))
    fields = {name: getattr(procedure, name) for name in procedure.__slots__}
    done = await room.brought(bundle(Record(**{**fields, "type": "procedural"})), foreign_owner=True)
    assert (done.counts.accepted, done.counts.held) == (0, 1)


@requirement("oap:import.trust")
@pytest.mark.usefixtures("known")
async def test_confidence_is_capped_by_who_has_signed(room: Room) -> None:
    await room.brought(bundle(record(1, "signed by somebody whose key is known")))
    nobody = [owners_item(record(2, "signed by nobody"), shelf.OWNER, "main")]
    await room.brought(shelf.written("bundle", nobody))
    await room.brought(b"- a line of text\n")
    page = await room(LIST, limit=10)
    assert {one.content: one.confidence for one in page.records} == {
        "signed by somebody whose key is known": 0.9,
        "signed by nobody": 0.7,
        "a line of text": 0.6,
    }
