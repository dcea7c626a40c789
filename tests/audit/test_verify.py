"""Whatever somebody alters who has the database is told, and nothing else."""

from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from quipu.audit.chain import Life, Lives
from quipu.audit.model import TenantReport
from quipu.audit.operations import SIGN_CHECKPOINT, VERIFY
from quipu.audit.verify import Verifier
from quipu.bootstrap import open_container
from quipu.config import Settings
from quipu.errors import ForbiddenError, NotFoundError
from quipu.ledger.commit import Commit
from quipu.ledger.ledger import Ledger
from quipu.ledger.reader import Reader
from quipu.memory.operations import FORGET, REMEMBER, UPDATE
from quipu.model.journal import Draft
from quipu.model.principal import Permission, local
from quipu.operation import dispatch
from quipu.testing.embedders import WordEmbedder
from tests.audit.conftest import TABLES, Audited, audited
from tests.audit.tampering import Owner, live, others, verifier
from tests.fixtures.memories import open_memory

T = "default"
#: Key columns of the tables of the ledger itself.
KEYS = {
    "record": ("tenant", "id", "version"),
    "journal": ("tenant", "seq"),
    "checkpoint": ("tenant", "seq"),
    "head": ("tenant",),
    "link": ("tenant", "from_id", "to_id", "rel", "born"),
    "vector": ("tenant", "id", "version", "space"),
}
#: What nobody can say any more of a memory that was erased: its salt is gone.
FORGOTTEN = (*("store_id", "agent_id", "user_id", "type", "tier", "confidence", "created_at", "updated_at"),)
#: The head also counts for who searches; nothing else hangs on that.
COUNTING = ("space", "refilled", "changed")


async def report(memory: Audited) -> TenantReport:
    return await memory.audit.verifier.tenant(T)


def kinds(found: TenantReport) -> set[str]:
    return {fault.kind for fault in found.faults}


async def signed_twice(memory: Audited) -> None:
    for _ in range(2):
        await memory(SIGN_CHECKPOINT)


async def test_everything_that_happened_verifies(busy: Audited) -> None:
    await signed_twice(busy)
    found = await busy(VERIFY)
    assert (found.verified, found.faults, found.unverifiable) == (True, (), ())
    (tenant,) = found.tenants
    assert (tenant.tenant, tenant.faults, tenant.unverifiable) == (T, (), ())
    statistics = await busy.ledger.statistics(T)
    assert (tenant.entries, tenant.records) == (statistics["entries"], statistics["versions"])
    assert (tenant.head_seq, tenant.checkpoints, tenant.side_rows) == (tenant.entries, 2, 2)


@pytest.mark.timeout(120)
async def test_every_column_of_every_table_that_is_altered_is_told(
    busy: Audited, owner: Owner, engine: str
) -> None:
    """On a server fewer rows and values: what is checked is the same."""
    await signed_twice(busy)
    tables = [table for table in busy.ledger.tables if table.is_journaled]
    keys = {**KEYS, **{table.name: ("tenant", *table.key) for table in tables}}
    tried, silent = 0, []
    for table, key in keys.items():
        rows = owner.rows(table, key)
        if engine == "postgresql":
            rows = rows[len(rows) // 2 :][:1]
        for row in rows if len(rows) < 4 else rows[:: len(rows) // 2]:
            for column in row:
                for value in others(row[column]):
                    with owner.altered(table, row, key, column, value) as was_let:
                        if not was_let:
                            continue
                        tried += 1
                        if not (await report(busy)).fault_count:
                            silent.append((table, column, row.get("state")))
    assert tried > (300 if engine == "sqlite" else 100)
    may_be = {
        *(("record", name, "erased") for name in FORGOTTEN),
        *(("head", name, None) for name in COUNTING),
        # A vector is only looked at for its form: it may be missing, and it can be made anew.
        *(("vector", name, None) for name in (*KEYS["vector"], "data")),
    }
    assert [one for one in silent if one not in may_be] == []
    assert (await report(busy)).faults == ()


async def test_the_first_altered_entry_is_named(busy: Audited, owner: Owner) -> None:
    owner("UPDATE journal SET actor = 'eve' WHERE seq = 5")
    (fault, *_) = (await report(busy)).faults
    assert (fault.kind, fault.seq) == ("altered_entry", 5)


async def test_swapped_entries_are_told(busy: Audited, owner: Owner) -> None:
    for old, new in ((4, 1000), (5, 4), (1000, 5)):
        owner("UPDATE journal SET seq = ? WHERE seq = ?", new, old)
    assert [fault.seq for fault in (await report(busy)).faults][:2] == [4, 5]


@pytest.mark.parametrize("hides", [False, True], ids=["plainly", "with the head set back"])
async def test_an_end_that_was_cut_off_is_told(busy: Audited, owner: Owner, hides: bool) -> None:
    """Also when everything behind it is taken away so that the rest fits together."""
    await signed_twice(busy)
    (end,) = owner("SELECT seq, hash, at FROM journal WHERE seq = ?", (await busy.ledger.head(T)).seq - 2)
    owner("DELETE FROM journal WHERE seq > ?", end[0])
    if hides:
        owner("UPDATE head SET seq = ?, hash = ?, at = ?, changed = 0", *end)
    assert {"truncated"} <= kinds(await report(busy))


async def test_a_journal_that_was_written_anew_does_not_pass_through_its_signatures(
    busy: Audited, owner: Owner
) -> None:
    """Whoever has the database can tie every hash anew, but sign none."""
    from dataclasses import replace

    from quipu.ledger.digests import entry_hash

    await signed_twice(busy)
    entries = await busy.ledger.read(T, lambda reader: reader.chain(0, bytes(32), 1000))
    prev = bytes(32)
    for entry in entries:
        changed = replace(entry, prev=prev, actor="eve" if entry.seq == 3 else entry.actor)
        prev = entry_hash(T, changed)
        owner("UPDATE journal SET actor = ?, hash = ? WHERE seq = ?", changed.actor, prev, entry.seq)
    owner("UPDATE head SET hash = ?", prev)
    assert kinds(await report(busy)) == {"rewritten"}


async def test_tables_and_triggers_that_were_altered_are_told(
    busy: Audited, owner: Owner, engine: str
) -> None:
    """The owner of the SQLite file has dropped its triggers already."""
    if engine == "postgresql":
        owner("ALTER TABLE journal DISABLE TRIGGER journal_is_never_changed")
        owner("ALTER TABLE record DROP CONSTRAINT record_confidence")
        owner("CREATE RULE quiet AS ON DELETE TO record DO INSTEAD NOTHING")
    try:
        found = await busy(VERIFY)
        assert not found.verified
        assert {fault.kind for fault in found.faults} == {"altered_schema"}
        said = {fault.detail for fault in found.faults}
        if engine == "postgresql":
            assert said == {
                "record_confidence is missing",
                "journal_is_never_changed is not as it was made",
                "quiet is not ours",
            }
        else:
            assert "journal_is_never_cut is missing" in said
    finally:
        if engine == "postgresql":
            owner("ALTER TABLE journal ENABLE TRIGGER journal_is_never_changed")
            owner("ALTER TABLE record ADD CONSTRAINT record_confidence CHECK (confidence BETWEEN 0 AND 1)")
            owner("DROP RULE quiet ON record")
            assert (await busy(VERIFY)).verified


# -- tenants ----------------------------------------------------------------------------------------------------------


async def test_every_tenant_is_verified_by_itself_and_named(busy: Audited, owner: Owner) -> None:
    other = local("acme", agent_id="agent")
    kept = (await busy(REMEMBER, other, content="of somebody else")).id
    assert [one.tenant for one in (await busy(VERIFY, tenant="*")).tenants] == ["acme", T]
    owner("UPDATE record SET content = 'forged' WHERE id = ?", kept)
    found = await busy.audit.verifier.tenant(T)
    assert found.is_verified
    found = await busy.audit.verifier.tenant("acme")
    assert [fault.kind for fault in found.faults] == ["altered_record", "index_differs"]
    answer = await busy(VERIFY, tenant="*")
    assert (answer.verified, [one.is_verified for one in answer.tenants]) == (False, [False, True])


async def test_a_tenant_that_was_taken_off_the_list_is_verified_all_the_same(
    busy: Audited, owner: Owner
) -> None:
    owner("DELETE FROM tenant")
    (tenant,) = (await busy(VERIFY, tenant="*")).tenants
    assert (tenant.tenant, kinds(tenant)) == (T, {"missing_tenant"})


async def test_other_tenants_are_for_who_runs_the_server(memory: Audited) -> None:
    reader = memory.memory.named(name="reader", permissions=frozenset({Permission.READ}))
    assert (await memory(VERIFY, reader)).verified
    for tenant in ("*", "acme"):
        with pytest.raises(ForbiddenError):
            await memory(VERIFY, reader, tenant=tenant)
    with pytest.raises(NotFoundError):
        await memory(VERIFY, tenant="nobody")
    limited = memory.memory.named(name="limited", permissions=frozenset({Permission.READ}), agents=("mine",))
    with pytest.raises(ForbiddenError):
        await memory(VERIFY, limited)


# -- while others write -----------------------------------------------------------------------------------------------


class Meanwhile:
    """A ledger in which something happens before each of its reads."""

    def __init__(self, ledger: Ledger, happens: Callable[[], Awaitable[object]]) -> None:
        self._ledger, self._happens = ledger, happens
        self.times = 0

    def __getattr__(self, name: str) -> Any:
        return getattr(self._ledger, name)

    async def read(self, tenant: str, work: Callable[[Reader], Any]) -> Any:
        self.times += 1
        await self._happens()
        return await self._ledger.read(tenant, work)


@pytest.mark.parametrize("most_lives", [30, 200_000], ids=["in several walks", "in one walk"])
async def test_writes_during_a_verification_are_no_faults(busy: Audited, most_lives: int) -> None:
    kept = [(await busy(REMEMBER, content=f"before {number}")).id for number in range(60)]

    async def write() -> None:
        if len(kept) < 3:
            return
        one, two, three = kept.pop(), kept.pop(), kept.pop()
        await busy(UPDATE, id=one, content="changed")
        await busy(FORGET, ids=[two])
        await busy(FORGET, ids=[three], hard_delete=True)
        await busy(REMEMBER, content="new", links=[{"to": one, "rel": "about"}])
        await busy(SIGN_CHECKPOINT)

    ledger: Any = Meanwhile(busy.ledger, write)
    found = await Verifier(ledger=ledger, signer=busy.signer, most_lives=most_lives).tenant(T)
    assert (found.faults, found.unverifiable) == ((), ())
    assert found.checkpoints > 4


async def test_what_is_altered_is_told_though_others_write(busy: Audited, owner: Owner) -> None:
    kept = (await busy(REMEMBER, content="mine")).id
    owner("UPDATE record SET content = 'forged' WHERE id = ?", kept)
    owner("UPDATE store SET description = 'forged'")

    async def write() -> None:
        await busy(REMEMBER, content="new")

    for most_lives in (10, 200_000):
        ledger: Any = Meanwhile(busy.ledger, write)
        found = await Verifier(ledger=ledger, signer=busy.signer, most_lives=most_lives).tenant(T)
        assert kinds(found) == {"altered_record", "index_differs", "altered_row"}


async def test_a_version_cannot_hide_behind_the_end_of_the_journal(busy: Audited, owner: Owner) -> None:
    await busy(REMEMBER, content="mine")
    row = owner.rows("record", KEYS["record"])[-1]
    for column in ("born", "died"):
        with owner.altered("record", row, KEYS["record"], column, 99999):
            assert "life_differs" in kinds(await report(busy))
    assert (await report(busy)).is_verified


# -- memory -----------------------------------------------------------------------------------------------------------


async def test_a_row_that_no_entry_names_is_told(busy: Audited, owner: Owner) -> None:
    owner(
        "INSERT INTO store (tenant, id, name, scope, tier, created_at, salt, digest, seq) "
        "SELECT tenant, 'ms_x', 'x', scope, tier, created_at, salt, digest, seq FROM store"
    )
    assert kinds(await report(busy)) == {"unjournaled_row"}


async def test_a_row_that_lost_what_an_erased_memory_said_verifies_and_another_empty_one_does_not(
    tmp_path: Path,
) -> None:
    place = tmp_path / "memory.db"
    container = await open_container(Settings(), stores=[str(place)], embedder=WordEmbedder())
    ctx = lambda: container.context(local(agent_id="agent"))  # noqa: E731
    erased = (await dispatch(ctx(), REMEMBER, {"content": "x"})).id
    for content, of in (("y", {"id": erased}), ("z", {})):
        await dispatch(ctx(), REMEMBER, {"content": content, "approval_required": True, **of})
    await dispatch(ctx(), FORGET, {"ids": [erased], "hard_delete": True})
    owner = Owner(place)
    assert owner("SELECT count(*) FROM proposal WHERE salt IS NULL") == [(1,)]
    verify = container.audit.verifier
    assert (await verify.tenant(T)).faults == ()
    owner("UPDATE proposal SET salt = NULL, request = NULL, reason = NULL, traits = NULL")
    assert kinds(await verify.tenant(T)) == {"altered_row"}
    owner.close()
    await container.close()


def test_so_many_lives_are_remembered_and_no_more() -> None:
    lives = Lives(most=10)
    for number in range(100):
        name = f"mem_{number * 37 % 100:02}"
        if lives.wants(name):
            lives.begin(name, Life("", number))
    kept = [record_id for record_id, _, _ in lives.unseen()]
    assert len(kept) <= 10
    assert sorted(kept) == [f"mem_{number:02}" for number in range(len(kept))]
    assert lives.last == max(kept)


async def test_many_versions_are_verified_in_several_walks(busy: Audited, owner: Owner) -> None:
    whole = await report(busy)
    few = verifier(busy.ledger, busy.signer, most_lives=2)
    found = await few.tenant(T)
    assert (found.faults, found.records, found.entries) == ((), whole.records, whole.entries)
    (last,) = owner("SELECT max(id) FROM record")
    owner("DELETE FROM record WHERE id = ?", last[0])
    assert kinds(await few.tenant(T)) == {"missing_record"}


async def test_what_retention_emptied_verifies_and_what_somebody_emptied_does_not(
    busy: Audited, owner: Owner
) -> None:
    head = await busy.ledger.head(T)
    assert await busy.ledger.prune(T, head.seq, "system", busy.memory.clock())
    assert (await report(busy)).faults == ()
    kept = (await busy(REMEMBER, content="mine")).id
    owner(
        "UPDATE record SET salt = NULL, content = '', state = 'erased', terms = NULL, emptied = ?, "
        """provenance = '{"written_by":""}' WHERE id = ?""",
        head.seq + 1,
        kept,
    )
    owner("DELETE FROM vector WHERE id = ?", kept)
    assert kinds(await report(busy)) == {"emptied_record"}


async def test_an_entry_that_names_nothing_is_followed(memory: Audited) -> None:
    draft = Draft(op="note", actor="local", at=1)
    await memory.ledger.commit(Commit(tenant=T, draft=draft))
    assert (await report(memory)).is_verified


async def test_a_ledger_without_anything_verifies() -> None:
    opened = audited(open_memory(tables=TABLES))
    assert (await opened(VERIFY)).verified
    await live(opened.memory)
    assert (await opened(VERIFY)).verified
    await opened.close()
