"""An older ledger put in the place of a newer one: what was taken back or erased meanwhile stays so."""

import shutil
from pathlib import Path

import pytest

from quipu.audit.operations import VERIFY
from quipu.sharing import operations as ops
from quipu.sharing.grants import operations as grant_ops
from quipu.upkeep.operations import BACKUP
from tests.requirement import requirement
from tests.sharing.grantee import Grantee, reason
from tests.sharing.network import hosts

NAMES = ("memory.example", "contractor.example")


def put_back(folder: Path, backup: Path) -> None:
    for end in ("", "-wal", "-shm"):
        (folder / f"memory.example.db{end}").unlink(missing_ok=True)
    shutil.copy(backup, folder / "memory.example.db")


@requirement("oap:revocation.survives-a-restore")
@pytest.mark.parametrize("ends", ["one by one", "all at once"])
async def test_a_grant_that_was_taken_back_since_the_backup_stays_so(tmp_path: Path, ends: str) -> None:
    backup = tmp_path / "copy.db"
    async with hosts(tmp_path, *NAMES) as (_, [lender, own]):
        await lender.remember("The website is green.")
        grantee = Grantee(lender, own)
        kept = (await grantee.given()).grant_id
        ended = (await grantee.given()).grant_id
        await lender(BACKUP, target=str(backup))
        later = await grantee.given()
        if ends == "one by one":
            for name in (ended, later.grant_id):
                await lender(grant_ops.REVOKE_GRANT, id=name)
        else:
            await lender(grant_ops.REVOKE_ALL_GRANTS)
    put_back(tmp_path, backup)
    async with hosts(tmp_path, *NAMES) as (_, [lender, own]):
        grantee = Grantee(lender, own, ended)
        assert reason(await grantee.exchange()) == (401, "grant_revoked")
        status = await lender.http("GET", f"/.well-known/oap-revocation?grant_id={ended}")
        assert status.json()["status"] == "revoked"
        again = await lender.http("POST", "/oap/memory/grant", json=later.grant)
        assert again.json()["output"]["status"] == "revoked", "brought once more, by its signature"
        is_kept = ends == "one by one"
        standing = {one.id: one.status for one in (await lender(grant_ops.LIST_GRANTS)).grants}
        assert standing == {
            kept: "active" if is_kept else "revoked",
            ended: "revoked",
            later.grant_id: "revoked",
        }
        if is_kept:
            assert await Grantee(lender, own, kept).texts() == ["The website is green."], "the others go on"


@requirement("oap:erasure.survives-a-restore")
async def test_what_was_erased_since_the_backup_is_erased_again(tmp_path: Path) -> None:
    backup = tmp_path / "copy.db"
    async with hosts(tmp_path, *NAMES) as (_, [lender, own]):
        gone, kept = await lender.remember("The word is zyxwv."), await lender.remember("This stays.")
        grantee = Grantee(lender, own)
        shared = await grantee.given()
        await own(ops.BORROW, link=shared.link)
        await lender(BACKUP, target=str(backup))
        erased = await lender(ops.ERASE, ids=[gone], cascade=False)
    put_back(tmp_path, backup)
    async with hosts(tmp_path, *NAMES) as (_, [lender, own]):
        assert not (await lender.container.ledger.newest_versions("default", [gone]))[gone].is_emptied
        await lender.sharing.erasures.work("default")  # as a server does when it starts
        newest = await lender.container.ledger.newest_versions("default", [gone, kept])
        assert (newest[gone].is_emptied, newest[kept].is_emptied) == (True, False)
        (again,) = (await lender(ops.LIST_ERASURES)).erasures
        assert (again.id, again.step) == (erased.erasure.id, "done")
        assert [one.item_id for one in (await own(ops.LIST_BORROWED)).items] == [kept], (
            "told by the older ledger"
        )
        head = (await lender.container.ledger.head("default")).seq
        lender.sharing.erasures._looked_at.clear()
        await lender.sharing.erasures.work("default")
        assert (await lender.container.ledger.head("default")).seq == head, "once"
        assert (await lender(VERIFY)).tenants[0].faults == ()


@requirement("oap:sharing.verified")
@pytest.mark.parametrize(
    ("table", "change"),
    [
        ("share_grant", "uses = uses + 1"),
        ("shared_item", "at = at + 1"),
        ("erasure", "completed_at = 1"),
        ("cascade_step", "attempts = 9"),
    ],
)
async def test_verify_finds_rows_of_sharing_that_were_altered(
    tmp_path: Path, table: str, change: str
) -> None:
    import apsw

    async with hosts(tmp_path, *NAMES) as (_, [lender, own]):
        grantee = Grantee(lender, own)
        first, _ = await lender.remember("The word is zyxwv."), await lender.remember("This stays.")
        await grantee.given()
        await grantee.sees()
        await lender(ops.ERASE, ids=[first])
        assert (await lender(VERIFY)).tenants[0].faults == ()
        with apsw.Connection(str(tmp_path / "memory.example.db")) as connection:
            connection.execute(f"UPDATE {table} SET {change}")  # noqa: S608  names of this test
        faults = (await lender(VERIFY)).tenants[0].faults
        assert {fault.kind for fault in faults} == {"altered_row"}
        assert all(table in fault.detail for fault in faults)


@requirement("oap:sharing.verified")
async def test_receipts_and_logs_can_be_neither_altered_nor_taken_out_of_the_file(tmp_path: Path) -> None:
    import apsw

    async with hosts(tmp_path, *NAMES) as (_, [lender, own]):
        await lender.remember("The website is green.")
        grantee = Grantee(lender, own)
        await grantee.given()
        await grantee.sees()
        with apsw.Connection(str(tmp_path / "memory.example.db")) as connection:
            for table in ("receipt", "item_log"):
                for said in (f"DELETE FROM {table}", f"UPDATE {table} SET hash = ''"):  # noqa: S608  names of this test
                    with pytest.raises(apsw.ConstraintError, match="append-only"):
                        connection.execute(said)
