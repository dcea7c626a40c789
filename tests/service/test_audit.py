"""Proof: verify after everything, signed checkpoints, exports that are checked away from the ledger, backups."""

from __future__ import annotations

import json
import shutil
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import apsw
import pytest

from quipu import ConflictError, InvalidError, Memory
from quipu.crypto import keys
from quipu.crypto.canonical import canonical
from quipu.model.outcomes import Verification
from quipu.model.record import Record
from quipu.service.audit import Audit
from quipu.service.exported_audit import verified_export
from quipu.testing.builders import FixedClock
from tests.service.looks import found, kept


@pytest.fixture
async def busy(opened: Any, tmp_path: Path, clock: FixedClock) -> Memory:
    """A memory in which everything has happened once."""
    memory: Memory = opened(tmp_path / "memory.db")
    await memory.create_store("attic")
    one = await kept(memory, "tea at noon", user_id="mara", metadata={"n": 1, "large": 2**60})
    two = await kept(memory, "tea at twelve", user_id="mara")
    three = await kept(memory, "cake", tags=["sweet"], expires_at=clock() + 2**55)
    await memory.remember("cake and tea", id=three, update_strategy="append")
    await memory.merge(one, [two], strategy="merge_content")
    await memory.restore(two)
    await memory.expire({"type": "semantic"}, action="demote", filter={"tags": "sweet"})
    await memory.expire({"type": "semantic"}, action="archive", filter={"tags": "sweet"})
    gone = await kept(memory, "to be erased", store="attic")
    await memory.remember("to be erased later", id=gone)
    await memory.forget(ids=[gone], reason="asked")
    await memory.forget(ids=[gone], hard_delete=True)
    held = await memory.remember("held", approval_required=True)
    await memory.decide(held.extensions["proposal_id"], approved=True)
    await memory.import_records([{"content": "from afar", "created_at": 5}])
    await memory.recall("tea")
    await memory.delete_store("attic", confirm="attic")
    await memory.checkpoint()
    return memory


async def test_everything_that_happened_verifies(busy: Memory) -> None:
    told: list[tuple[int, int]] = []
    report = await busy.verify(lambda done, all: told.append((done, all)))
    assert (report.faults, report.unverifiable, report.holds) == ((), (), True)
    assert report.entries == report.head_seq == len(await busy.journal())
    assert report.records == (await busy.statistics())["versions"]
    assert report.checkpoints == 1
    assert report.last_checkpoint is not None
    assert told == [(report.entries, report.entries)]


async def test_a_checkpoint_signs_where_the_journal_stands(memory: Memory, clock: FixedClock) -> None:
    await memory.remember("x")
    point = await memory.checkpoint()
    entry = (await memory.journal())[-1]
    assert (point.seq, point.hash, point.at) == (entry.seq, entry.hash, clock())
    assert (await memory.verify()).last_checkpoint == point


async def test_closing_signs_when_that_is_due(opened: Any, tmp_path: Path, clock: FixedClock) -> None:
    from quipu.config import Config

    file = tmp_path / "memory.db"
    config = Config(checkpoint_every_s=60, checkpoint_every_entries=5)
    first: Memory = opened(file, config=config)
    await first.remember("x")
    await first.close()  # never signed before: the last signature is long ago
    second: Memory = opened(file, config=config)
    assert (await second.verify()).checkpoints == 1
    await second.remember("y")
    await second.close()  # neither long ago nor much since
    third: Memory = opened(file, config=config)
    assert (await third.verify()).checkpoints == 1
    for number in range(4):
        await third.remember(f"z {number}")
    await third.close()  # five entries since
    fourth: Memory = opened(file, config=config)
    assert (await fourth.verify()).checkpoints == 2
    await fourth.close()  # nothing new to sign
    fifth: Memory = opened(file, config=config)
    assert (await fifth.verify()).checkpoints == 2


# -- damage in the ledger -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("damage", "kind"),
    [
        (
            "UPDATE record SET content = 'cake' WHERE version = 1 AND content = 'tea at noon'",
            "altered_record",
        ),
        ("DELETE FROM record WHERE content = 'from afar'", "missing_record"),
        ("UPDATE record SET salt = NULL WHERE content = 'from afar'", "emptied_record"),
        ("UPDATE record SET terms = NULL WHERE content = 'from afar'", "index_differs"),
        ("UPDATE record SET died = NULL WHERE content = 'tea at noon' AND version = 1", "life_differs"),
        (
            "DROP TRIGGER journal_is_never_changed; UPDATE journal SET actor = 'eve' WHERE seq = 3",
            "altered_entry",
        ),
        ("DROP TRIGGER journal_is_never_cut; DELETE FROM journal WHERE seq = 3", "gap"),
        ("DROP TRIGGER journal_is_never_cut; DELETE FROM journal WHERE seq > 5", "wrong_head"),
        (
            "DROP TRIGGER journal_is_never_changed; UPDATE journal SET records = 'x' WHERE seq = 3",
            "altered_entry",
        ),
        ("UPDATE record SET metadata = 'x' WHERE content = 'from afar'", "altered_record"),
        ("UPDATE checkpoint SET hash = zeroblob(32)", "rewritten"),
        ("UPDATE checkpoint SET at = at + 1", "bad_signature"),
    ],
)
async def test_damage_is_found_and_named(
    busy: Memory, opened: Any, tmp_path: Path, damage: str, kind: str
) -> None:
    copy = tmp_path / "copy.db"
    await busy.backup(copy)
    shutil.copy(tmp_path / "memory.db.key", tmp_path / "copy.db.key")
    connection = apsw.Connection(str(copy))
    connection.execute(damage)
    connection.close()
    damaged: Memory = opened(copy)
    report = await damaged.verify()
    assert not report.holds
    assert kind in {fault.kind for fault in report.faults}


@pytest.mark.parametrize(
    ("damage", "kind"),
    [
        ("UPDATE record SET content = 'coffee' WHERE content = 'from afar'", "altered_record"),
        ("DELETE FROM record WHERE content = 'from afar'", "missing_record"),
        ("DELETE FROM store WHERE name = 'main'", "damaged_file"),
    ],
)
async def test_the_fault_that_led_to_others_is_named_first(
    busy: Memory, opened: Any, tmp_path: Path, damage: str, kind: str
) -> None:
    await busy.close()
    _altered(tmp_path / "memory.db", damage)
    report = await opened(tmp_path / "memory.db").verify()
    assert report.faults[0].kind == kind


@pytest.mark.parametrize(
    "damage",
    [
        "UPDATE proposal SET request = replace(request, 'pay 5', 'pay 9999') WHERE status = 'pending'",
        "UPDATE proposal SET agent_id = 'eve' WHERE status = 'pending'",
        "UPDATE proposal SET held_by = '[]' WHERE status = 'pending'",
        "UPDATE proposal SET request = '{\"content\":[]}' WHERE status = 'pending'",
        "UPDATE proposal SET request = '[1]' WHERE status = 'pending'",
        "UPDATE proposal SET request = json_set(request, '$.type', 'nonsense') WHERE status = 'pending'",
        "UPDATE proposal SET created_at = created_at - 1 WHERE status = 'pending'",
        "INSERT INTO proposal SELECT tenant, 'prp_01J00000000000000000000000', operation, agent_id, record_id, request,"
        " writer, held_by, status, created_at, lapses_at, reviewer, reviewed_at, reason, approvals, given, because,"
        " salt, traits FROM proposal WHERE status = 'pending'",
    ],
)
async def test_what_waits_is_what_was_held_or_nobody_can_say_yes_to_it(
    busy: Memory, opened: Any, tmp_path: Path, damage: str
) -> None:
    await busy.remember("held, pay 5 now", approval_required=True, metadata={"n": 2**60, "part": 0.5})
    assert (await busy.verify()).holds
    await busy.close()
    _altered(tmp_path / "memory.db", damage)
    memory: Memory = opened(tmp_path / "memory.db")
    report = await memory.verify()
    assert [fault.kind for fault in report.faults] == ["altered_proposal"]
    (altered,) = {fault.id for fault in report.faults}
    seen = await memory.review(str(altered))
    assert seen.proposal.status == "pending"
    with pytest.raises(ConflictError) as refused:
        await memory.decide(str(altered), approved=True)
    assert refused.value.reason == "altered_proposal"
    assert not any("pay" in str(record.content) for record in (await memory.list()).records)
    await memory.decide(str(altered), approved=False)
    assert (await memory.verify()).holds


@pytest.mark.parametrize(
    "damage",
    [
        "UPDATE proposal SET held_by = '7' WHERE status = 'pending'",
        "UPDATE proposal SET given = '[{\"who\": 1}]' WHERE status = 'pending'",
        "UPDATE proposal SET given = '7' WHERE status = 'pending'",
    ],
)
async def test_a_proposal_that_cannot_be_read_is_told_as_altered(
    busy: Memory, opened: Any, tmp_path: Path, damage: str
) -> None:
    await busy.remember("held, pay 5 now", approval_required=True)
    await busy.close()
    _altered(tmp_path / "memory.db", damage)
    report = await opened(tmp_path / "memory.db").verify()
    assert [fault.kind for fault in report.faults] == ["altered_proposal"]


async def test_several_people_have_to_agree_as_many_as_were_asked_for(
    opened: Any, tmp_path: Path, clock: FixedClock
) -> None:
    memory: Memory = opened(tmp_path / "memory.db")
    await memory.set_rules({"rules": [{"id": "two", "when": {}, "effect": "hold", "approvals": 2}]})
    held = await memory.remember("pay 5 now")
    await memory.close()
    _altered(tmp_path / "memory.db", "UPDATE proposal SET approvals = 1")
    again: Memory = opened(tmp_path / "memory.db")
    with pytest.raises(ConflictError, match="not what was held"):
        await again.decide(held.extensions["proposal_id"], approved=True)


def _altered(file: Path, damage: str) -> None:
    connection = apsw.Connection(str(file))
    connection.execute(damage)
    connection.close()


async def test_a_signature_of_an_unknown_key_is_unverifiable_not_wrong(
    busy: Memory, opened: Any, tmp_path: Path
) -> None:
    """The backup has no key beside it, so it is opened with a new one."""
    copy = tmp_path / "copy.db"
    await busy.backup(copy)
    report = await opened(copy).verify()
    assert (report.faults, report.holds) == ((), True)
    assert len(report.unverifiable) == 1


async def test_a_backup_is_whole_and_is_not_written_over(busy: Memory, opened: Any, tmp_path: Path) -> None:
    copy = tmp_path / "copy.db"
    told: list[tuple[int, int]] = []
    await busy.backup(copy, progress=lambda done, all: told.append((done, all)))
    assert told[-1][0] == told[-1][1]
    other: Memory = opened(copy)
    assert (await other.verify()).holds
    assert await found(other, "tea") == await found(busy, "tea")
    with pytest.raises(InvalidError):
        await busy.backup(copy)


class Meanwhile:
    """A ledger in which something happens just before its records are read."""

    def __init__(self, ledger: Any, happens: Callable[[], Awaitable[object]]) -> None:
        self._ledger, self._happens = ledger, happens

    def __getattr__(self, name: str) -> Any:
        return getattr(self._ledger, name)

    async def every_version(self, tenant: str) -> AsyncIterator[Record]:
        await self._happens()
        async for record in self._ledger.every_version(tenant):
            yield record


async def verified_while(memory: Memory, happens: Callable[[], Awaitable[object]]) -> Verification:
    service: Any = await memory._service()
    parts = service.audit._parts
    audit = Audit(replace(parts, ledger=Meanwhile(parts.ledger, happens)), service.audit._access)
    return await audit.verify(memory._principal)


async def test_writes_during_a_verification_are_no_faults(busy: Memory) -> None:
    changed, forgotten, erased = [
        (await busy.remember(f"{what} meanwhile")).id for what in ("changed", "forgotten", "erased")
    ]

    async def others() -> None:
        new = await busy.remember("new")
        await busy.remember("newer", id=new.id)
        await busy.remember("changed now", id=changed)
        await busy.forget(ids=[forgotten, (await busy.remember("short-lived")).id])
        await busy.forget(ids=[erased], hard_delete=True)

    assert (await verified_while(busy, others)).faults == ()


@pytest.mark.parametrize(
    ("damage", "kind"),
    [
        ("UPDATE record SET born = 99999 WHERE content = 'mine'", "life_differs"),
        ("UPDATE record SET died = 99999 WHERE content = 'mine'", "life_differs"),
        ("UPDATE record SET content = 'yours' WHERE content = 'mine'", "altered_record"),
    ],
)
async def test_a_version_cannot_hide_behind_the_end_of_the_journal(
    opened: Any, tmp_path: Path, damage: str, kind: str
) -> None:
    file = tmp_path / "memory.db"
    memory = opened(file)
    await memory.remember("mine")
    connection = apsw.Connection(str(file))
    for (trigger,) in connection.execute("SELECT name FROM sqlite_master WHERE type = 'trigger'").fetchall():
        connection.execute(f"DROP TRIGGER {trigger}")
    connection.execute(damage)
    connection.close()
    report = await memory.verify()
    assert kind in {fault.kind for fault in report.faults}


# -- the offline verifier -----------------------------------------------------------------------------------------


def lines_of(folder: Path) -> dict[str, list[str]]:
    return {file.name: file.read_text("utf-8").splitlines() for file in folder.iterdir()}


def folders(place: Path) -> set[str]:
    return {item.name for item in place.iterdir() if item.is_dir()}


def offline(files: dict[str, list[str]]) -> Verification:
    return verified_export(files, canonical, keys.verify)


@pytest.fixture
async def exported(busy: Memory, tmp_path: Path) -> dict[str, list[str]]:
    folder = tmp_path / "journal"
    count = await busy.export_journal(folder)
    files = lines_of(folder)
    assert count == sum(map(len, files.values()))
    return files


def test_an_export_verifies_by_its_files_alone(exported: dict[str, list[str]]) -> None:
    assert set(exported) == {"journal.ndjson", "checkpoints.ndjson", "keys.json", "records.ndjson"}
    report = offline(exported)
    assert (report.faults, report.unverifiable) == ((), ())
    assert report.entries == len(exported["journal.ndjson"])
    assert report.records == len(exported["records.ndjson"])
    assert report.checkpoints == len(exported["checkpoints.ndjson"]) == 1


def test_the_journal_holds_no_content(exported: dict[str, list[str]]) -> None:
    told = "\n".join(exported["journal.ndjson"])
    for word in ("tea", "cake", "afar", "mara", "sweet"):
        assert word not in told
    assert "erased later" not in "\n".join(exported["records.ndjson"])


@pytest.mark.parametrize("name", ["journal.ndjson", "records.ndjson", "checkpoints.ndjson"])
def test_any_flipped_character_is_found(exported: dict[str, list[str]], name: str) -> None:
    """Many characters of each line, different places in each. What is left of an erased record proves nothing more."""
    for number, line in enumerate(exported[name]):
        if '"salt":""' in line:
            continue
        for place in range(number % 7, len(line), 29):
            swapped = "1" if line[place] != "1" else "2"
            flipped = line[:place] + swapped + line[place + 1 :]
            files = {**exported, name: [*exported[name][:number], flipped, *exported[name][number + 1 :]]}
            if _same(line, flipped):
                continue
            report = offline(files)
            assert report.faults or report.unverifiable, f"line {number + 1}, character {place}"


def _same(line: str, other: str) -> bool:
    """A change that JSON does not tell apart is none."""
    try:
        return bool(json.loads(line) == json.loads(other))
    except ValueError:
        return False


def test_removed_moved_and_cut_lines_are_found(exported: dict[str, list[str]]) -> None:
    journal, records = exported["journal.ndjson"], exported["records.ndjson"]
    damages: dict[str, tuple[dict[str, list[str]], str]] = {
        "an entry left out": ({"journal.ndjson": journal[:3] + journal[4:]}, "gap"),
        "two entries swapped": (
            {"journal.ndjson": [*journal[:3], journal[4], journal[3], *journal[5:]]},
            "gap",
        ),
        "an entry twice": ({"journal.ndjson": [*journal[:4], *journal[3:]]}, "gap"),
        "a name twice": (
            {"journal.ndjson": [*journal[:2], journal[2].replace("{", '{"actor":"eve",', 1), *journal[3:]]},
            "altered_entry",
        ),
        "the end cut off": ({"journal.ndjson": journal[:-3]}, "truncated"),
        "a line that is no object": ({"journal.ndjson": [*journal[:2], "[]", *journal[3:]]}, "altered_entry"),
        "an object that is no entry": (
            {"journal.ndjson": [*journal[:2], "{}", *journal[3:]]},
            "altered_entry",
        ),
        "a checkpoint that is none": ({"checkpoints.ndjson": ["{}"]}, "bad_signature"),
        "an entry of an unknown kind": (
            {"journal.ndjson": [journal[0].replace("genesis", "dance")]},
            "altered_entry",
        ),
        "an entry that mentions a text": (
            {"journal.ndjson": [journal[0].replace('"records":[]', '"records":["x"]')]},
            "altered_entry",
        ),
        "a record left out": ({"records.ndjson": records[1:]}, "missing_record"),
        "a record too many": (
            {"records.ndjson": [*records, '{"id": "mem_X", "version": 1}']},
            "unjournaled_record",
        ),
    }
    for what, (changed, kind) in damages.items():
        report = offline({**exported, **changed})
        assert kind in {fault.kind for fault in report.faults}, what


def test_an_export_without_its_signatures_is_not_called_proven(exported: dict[str, list[str]]) -> None:
    """Whoever takes the checkpoints away can rewrite the rest, hashes included."""
    report = offline({**exported, "checkpoints.ndjson": []})
    assert report.faults == ()
    assert [why for why in report.unverifiable if "not signed" in why]


async def test_an_export_holds_though_others_write_meanwhile(busy: Memory) -> None:
    service = await busy._service()
    first = await busy.remember("changed while the export is written")
    files: dict[str, list[str]] = {}
    async for name, line in service.audit.exported(busy._principal):
        if name not in files:  # once before each file
            await busy.remember(f"written before {name}")
            await busy.remember(f"changed before {name}", id=first.id)
            await busy.checkpoint()
        files.setdefault(name, []).append(line)
    report = offline(files)
    assert (report.faults, report.unverifiable) == ((), ())


def test_an_erased_record_that_has_content_again_is_found(exported: dict[str, list[str]]) -> None:
    records = [json.loads(line) for line in exported["records.ndjson"]]
    for record in records:
        if not record["salt"]:
            record["content"] = "made up"
    report = offline({**exported, "records.ndjson": [json.dumps(record) for record in records]})
    assert {fault.kind for fault in report.faults} == {"altered_record"}


def test_faults_are_told_in_the_order_of_the_journal(exported: dict[str, list[str]]) -> None:
    journal = exported["journal.ndjson"]
    report = offline({**exported, "journal.ndjson": [*journal[:2], *journal[3:6], *journal[7:]]})
    positions = [fault.seq or 0 for fault in report.faults]
    assert positions == sorted(positions)


def test_without_keys_signatures_cannot_be_checked_and_that_is_said(exported: dict[str, list[str]]) -> None:
    files = {name: lines for name, lines in exported.items() if name != "keys.json"}
    report = offline(files)
    assert (report.faults, len(report.unverifiable)) == ((), 1)


def test_without_records_only_the_chain_is_checked(exported: dict[str, list[str]]) -> None:
    files = {name: lines for name, lines in exported.items() if name != "records.ndjson"}
    report = offline(files)
    assert (report.faults, report.records) == ((), 0)


def test_a_signature_of_somebody_else_is_found(exported: dict[str, list[str]]) -> None:
    signer = keys.Ed25519Signer.fresh()
    point = json.loads(exported["checkpoints.ndjson"][-1])
    forged = json.dumps({**point, "signature": signer.sign(b"something else")})
    report = offline({**exported, "checkpoints.ndjson": [forged]})
    assert [fault.kind for fault in report.faults] == ["bad_signature"]


def test_empty_lines_and_an_empty_export_are_harmless(exported: dict[str, list[str]]) -> None:
    assert offline({**exported, "journal.ndjson": [*exported["journal.ndjson"], ""]}).holds
    report = offline({})
    assert (report.holds, report.entries, report.last_checkpoint) == (True, 0, None)


# -- what others do while it is read ------------------------------------------------------------------------------


class MeanwhileOnce:
    """A ledger in which something happens just before its records are read for the first time."""

    def __init__(self, ledger: Any, happens: Callable[[], Awaitable[object]]) -> None:
        self._ledger, self._happens = ledger, happens
        self._has_happened = False

    def __getattr__(self, name: str) -> Any:
        return getattr(self._ledger, name)

    async def every_version(self, tenant: str) -> AsyncIterator[Record]:
        if not self._has_happened:
            self._has_happened = True
            await self._happens()
        async for record in self._ledger.every_version(tenant):
            yield record


async def test_history_that_is_pruned_during_a_verification_is_no_fault(busy: Memory) -> None:
    """The versions were alive when the journal was walked, and are empty when they are read."""
    one = await busy.remember("the first of two")
    await busy.remember("the second", id=one.id)
    gone = await busy.remember("forgotten")
    await busy.forget(ids=[gone.id])
    service: Any = await busy._service()
    ledger, tenant = service.audit._parts.ledger, busy._principal.tenant

    async def others() -> None:
        await ledger.prune(tenant, (await ledger.head(tenant)).seq)

    assert (await verified_while(busy, others)).faults == ()


async def test_what_is_erased_and_pruned_again_and_again_is_no_fault(busy: Memory) -> None:
    """Each look at a record finds that somebody was there; the next one does not."""
    kept = await busy.remember("the first of two")
    service: Any = await busy._service()
    ledger, tenant = service.audit._parts.ledger, busy._principal.tenant

    async def others() -> None:
        await busy.remember("the second", id=kept.id)
        await ledger.prune(tenant, (await ledger.head(tenant)).seq)
        await busy.forget(ids=[kept.id], hard_delete=True)

    assert (await verified_while(busy, others)).faults == ()


async def test_an_alteration_is_found_though_others_erase_the_same_record_s_neighbours(
    opened: Any, tmp_path: Path
) -> None:
    file = tmp_path / "memory.db"
    memory: Memory = opened(file)
    mine, other = await memory.remember("mine"), await memory.remember("other")

    async def others() -> None:
        await memory.forget(ids=[other.id], hard_delete=True)
        connection = apsw.Connection(str(file))
        connection.execute("UPDATE record SET content = 'yours', terms = NULL WHERE content = 'mine'")
        connection.close()

    report = await verified_while(memory, others)
    assert {(fault.kind, fault.id) for fault in report.faults} == {
        ("altered_record", mine.id),
        ("index_differs", mine.id),
    }


@pytest.mark.parametrize("what", ["erased", "pruned"])
async def test_an_export_is_begun_again_when_something_is_emptied_meanwhile(
    busy: Memory, tmp_path: Path, what: str
) -> None:
    one = await busy.remember("MARKER the first of two")
    await busy.remember("the second", id=one.id)
    service: Any = await busy._service()
    parts, tenant = service.audit._parts, busy._principal.tenant

    async def others() -> None:
        if what == "erased":
            await busy.forget(ids=[one.id], hard_delete=True)
        else:
            await parts.ledger.prune(tenant, (await parts.ledger.head(tenant)).seq)

    service.audit._parts = replace(parts, ledger=MeanwhileOnce(parts.ledger, others))
    folder = tmp_path / "proof"
    await busy.export_journal(folder)
    report = offline(lines_of(folder))
    assert (report.faults, report.unverifiable) == ((), ())
    assert "MARKER" not in (folder / "records.ndjson").read_text("utf-8")
    assert folders(tmp_path) == {"proof"}


async def test_an_export_that_never_is_left_alone_says_so_and_leaves_nothing(
    busy: Memory, tmp_path: Path
) -> None:
    service: Any = await busy._service()
    parts = service.audit._parts

    async def others() -> None:
        await busy.forget(ids=[(await busy.remember("short-lived")).id], hard_delete=True)

    service.audit._parts = replace(parts, ledger=Meanwhile(parts.ledger, others))
    with pytest.raises(ConflictError) as refused:
        await busy.export_journal(tmp_path / "deep" / "proof")
    assert refused.value.reason == "erased_meanwhile"
    assert folders(tmp_path / "deep") == set()


async def test_an_export_that_breaks_off_leaves_what_was_there(busy: Memory, tmp_path: Path) -> None:
    folder = tmp_path / "proof"
    await busy.export_journal(folder)
    before = lines_of(folder)
    await busy.remember("more")
    service: Any = await busy._service()
    parts = service.audit._parts

    async def full() -> None:
        raise OSError(28, "No space left on device")

    service.audit._parts = replace(parts, ledger=Meanwhile(parts.ledger, full))
    for place in (folder, tmp_path / "other"):
        with pytest.raises(OSError, match="No space left"):
            await busy.export_journal(place)
    assert lines_of(folder) == before
    assert folders(tmp_path) == {"proof"}


def test_without_its_records_an_export_proves_only_the_chain(exported: dict[str, list[str]]) -> None:
    told = {name: lines for name, lines in exported.items() if name != "records.ndjson"}
    report = offline(told)
    assert (report.faults, report.records) == ((), 0)
    assert report.reasons == ("missing_records",)
    assert f"{len(exported['records.ndjson'])} versions" in report.unverifiable[0]


async def test_a_journal_that_tells_of_no_record_needs_none(opened: Any, tmp_path: Path) -> None:
    memory: Memory = opened()
    await memory.export_journal(tmp_path / "proof")
    assert not (tmp_path / "proof" / "records.ndjson").exists()
    report = offline(lines_of(tmp_path / "proof"))
    assert (report.holds, report.unverifiable, report.reasons) == (True, (), ())
