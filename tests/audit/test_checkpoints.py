"""Signed positions: made when asked and when due, and missed when they are taken away."""

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from quipu import Memory
from quipu.audit.keys import FileSigner, KeySigner, is_signed, key_id
from quipu.audit.model import TenantReport
from quipu.audit.operations import LIST_CHECKPOINTS, SIGN_CHECKPOINT, VERIFY
from quipu.errors import BackendUnavailableError, ConflictError, ForbiddenError, UnverifiableError
from quipu.ledger.ledger import JournalQuery
from quipu.memory.operations import REMEMBER
from quipu.model.principal import Permission
from tests.audit.conftest import TABLES, Audited, audited
from tests.audit.tampering import Owner
from tests.fixtures.memories import open_memory

T = "default"
Opened = Callable[..., Audited]


@pytest.fixture
def opened(tmp_path: Path) -> Opened:
    """Opens the same file, as another process would; signs with the key beside it."""

    def open_it(now: int = 0, **given: Any) -> Audited:
        memory = open_memory(path=tmp_path / "memory.db", tables=TABLES, new_id=None)
        memory.clock.now += now
        return audited(memory, signer=FileSigner(tmp_path / "memory.db.signing.key"), **given)

    return open_it


async def checked(memory: Audited) -> TenantReport:
    (tenant,) = (await memory(VERIFY)).tenants
    return tenant


async def test_what_was_signed_verifies_after_a_restart(opened: Opened, tmp_path: Path) -> None:
    first = opened()
    await first(REMEMBER, content="x")
    point = await first(SIGN_CHECKPOINT)
    await first.close()
    assert (tmp_path / "memory.db.signing.key").stat().st_mode & 0o077 == 0
    second = opened()
    found = await checked(second)
    assert (found.checkpoints, found.faults, found.unverifiable) == (1, (), ())
    listed = await second(LIST_CHECKPOINTS)
    assert listed.checkpoints == (point,)
    assert point.key_id in listed.keys
    await second.close()


async def test_whoever_writes_signs_without_having_asked_for_anything_of_the_audit(tmp_path: Path) -> None:
    place = str(tmp_path / "memory.db")
    async with Memory("ana", place, embedder="none") as memory:
        await memory.remember("Ana likes tea.")
    async with Memory("ana", place, embedder="none") as memory:
        assert len((await memory.call("list_checkpoints")).checkpoints) == 1


async def test_a_signature_whose_key_is_gone_is_unverifiable_and_not_wrong(
    opened: Opened, tmp_path: Path
) -> None:
    first = opened()
    await first(REMEMBER, content="x")
    await first(SIGN_CHECKPOINT)
    await first.close()
    (tmp_path / "memory.db.signing.key").unlink()
    second = opened()
    found = await checked(second)
    assert (found.faults, found.reasons) == ((), ("missing_key",))
    assert not (tmp_path / "memory.db.signing.key").exists(), "verifying makes no key"
    await second.close()


async def test_only_an_admin_makes_the_host_sign(memory: Audited) -> None:
    await memory(REMEMBER, content="x")
    reader = memory.memory.named(
        name="reader", permissions=frozenset({Permission.READ, Permission.WRITE, Permission.REVIEW})
    )
    with pytest.raises(ForbiddenError):
        await memory(SIGN_CHECKPOINT, reader)
    assert (await memory(LIST_CHECKPOINTS, reader)).checkpoints == ()
    with pytest.raises(ConflictError):
        await memory.audit.checkpoints.sign("nobody", "local")


# -- when one is due --------------------------------------------------------------------------------------------------


async def test_one_is_due_by_the_last_in_the_ledger_and_not_by_the_process(opened: Opened) -> None:
    """Many short processes are signed as often as one long one."""
    signed = []
    for now, writes in ((0, 1), (1_000, 1), (59_000, 1), (61_000, 1), (62_000, 0), (200_000, 0)):
        memory = opened(now)
        for number in range(writes):
            await memory(REMEMBER, content=f"x {number}")
        await memory.close()
        after = opened(now)
        signed.append(len(await after.ledger.checkpoints(T)))
        await after.ledger.close()
    assert signed == [1, 1, 1, 2, 2, 2], "never before, too soon, too soon, due, nothing new, nothing new"


async def test_one_is_due_after_many_entries_while_others_write(opened: Opened) -> None:
    memory = opened()
    memory.audit.checkpoints.every_entries = 5
    await memory(REMEMBER, content="x")
    await memory(SIGN_CHECKPOINT)
    for number in range(9):
        await memory(REMEMBER, content=f"x {number}")
    async with asyncio.timeout(30):
        while len(await memory.ledger.checkpoints(T)) < 2:
            await memory(REMEMBER, content="more")
    found = await checked(memory)
    assert (found.faults, found.unverifiable) == ((), ())
    await memory.close()


async def test_a_server_signs_what_a_process_that_is_gone_has_left(opened: Opened) -> None:
    first = opened()
    await first(REMEMBER, content="x")
    await first(SIGN_CHECKPOINT)
    await first(REMEMBER, content="y")
    await first.ledger.close()  # killed: nothing was signed
    second = opened(59_000)
    await second.audit.checkpoints.look(T)
    assert len(await second.ledger.checkpoints(T)) == 1
    for _ in range(3):
        second.memory.clock.now += 61_000
        await second.audit.checkpoints.look(T)
    assert len(await second.ledger.checkpoints(T)) == 2, "its own entry is no reason to sign again"
    await second.close()


async def test_what_cannot_be_signed_keeps_nobody_from_writing_or_closing(
    opened: Opened, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "memory.db.signing.key").write_text("no key")
    memory = opened()
    await memory(REMEMBER, content="x")
    with pytest.raises(BackendUnavailableError):
        await memory(SIGN_CHECKPOINT)
    await memory.close()
    assert "could not be signed" in caplog.text


# -- in the ledger ----------------------------------------------------------------------------------------------------


async def test_a_signature_that_was_taken_away_is_missed(busy: Audited, owner: Owner) -> None:
    point = await busy(SIGN_CHECKPOINT)
    (entry,) = await busy.ledger.entries(T, JournalQuery(op="checkpoint"))
    assert (entry.seq, entry.detail["checkpoint"]) == (point.seq + 1, point.seq)
    owner("DELETE FROM checkpoint")
    assert [fault.kind for fault in (await checked(busy)).faults] == ["missing_checkpoint"]


async def test_a_signature_that_no_entry_names_is_told(busy: Audited, owner: Owner) -> None:
    await busy(SIGN_CHECKPOINT)
    owner(
        "INSERT INTO checkpoint (tenant, seq, hash, at, key_id, signature) "
        "SELECT tenant, 3, hash, at, key_id, signature FROM checkpoint"
    )
    assert [fault.kind for fault in (await checked(busy)).faults] == [
        "unjournaled_checkpoint",
        "bad_signature",
    ]


async def test_two_who_sign_at_once_sign_two_positions(busy: Audited) -> None:
    points = await asyncio.gather(*(busy(SIGN_CHECKPOINT) for _ in range(5)))
    assert len({point.seq for point in points}) == 5
    assert (await checked(busy)).faults == ()


# -- keys -------------------------------------------------------------------------------------------------------------


def test_two_who_come_at_once_end_up_with_one_key(tmp_path: Path) -> None:
    one, two = FileSigner(tmp_path / "a" / "key"), FileSigner(tmp_path / "a" / "key")
    assert (one.known_keys, one.key_id) == ({}, two.key_id)
    assert two.known_keys == one.known_keys == {one.key_id: one.public_key}
    assert is_signed(b"x", one.key_id, two.sign(b"x"), one.known_keys)


def test_a_key_is_believed_under_its_own_name_only() -> None:
    mine, theirs = KeySigner.fresh(), KeySigner.fresh()
    assert is_signed(b"x", mine.key_id, mine.sign(b"x"), mine.known_keys)
    assert not is_signed(b"y", mine.key_id, mine.sign(b"x"), mine.known_keys)
    assert not is_signed(b"x", mine.key_id, theirs.sign(b"x"), {mine.key_id: theirs.public_key})
    assert not is_signed(b"x", mine.key_id, mine.sign(b"x") + "==", mine.known_keys)
    with pytest.raises(UnverifiableError):
        is_signed(b"x", theirs.key_id, theirs.sign(b"x"), mine.known_keys)


def test_a_key_that_anybody_can_sign_for_proves_nothing() -> None:
    weak = "AQ" + "A" * 41
    assert not is_signed(b"x", key_id(weak), "AQ" + "A" * 84, {key_id(weak): weak})
