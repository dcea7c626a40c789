"""A whole ledger moved from a file into PostgreSQL and back: every row, every hash, every answer of a search."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import apsw
import pytest

from quipu.errors import ConflictError, InvalidError, QuipuError, TamperedError
from quipu.ledger import transfer
from quipu.ledger.postgres import running
from quipu.ledger.postgres.database import Place
from quipu.ledger.sqlite import portable
from quipu.ledger.sqlite.ledger import SqliteLedger
from quipu.ledger.transfer import TABLES, Tables
from quipu.model.access import KeptSecret, Token
from quipu.model.change import AddToken, AddWebhook, Dismiss, KeepSecret, Once, Settle, Stage
from quipu.model.journal import Checkpoint, Op
from quipu.model.principal import Permission
from quipu.model.runs import Driver, KeepRef, MintedRef, Note, OpenRun, Run, RunStep, Variable
from quipu.ports.backend import Container
from quipu.ports.ledger import Ledger, Space
from quipu.ports.outbox import CopyState, Mirrored, Settlement
from quipu.testing.builders import SPACE, CountedIds, FixedClock, Scribe, adding, canonical, linked, vector
from quipu.testing.ledger.governance import a_webhook
from quipu.testing.ledger.grants import lent_once
from tests.ledger.postgres.opening import opened
from tests.postgres import Server, name_of

WIDER = Space("wider", 12)


def file_ledger(path: Path) -> SqliteLedger:
    return SqliteLedger(path, clock=FixedClock(), mint_id=CountedIds(), canonical=canonical)


async def lived_in(ledger: Ledger, tenant: str) -> Scribe:
    """A tenant to which everything has happened once."""
    scribe = await Scribe.at(ledger, FixedClock(), CountedIds(tenant[0]), tenant=tenant)
    await ledger.adopt_space(tenant, SPACE)
    await lent_once(scribe)
    await ledger.outbox.register(tenant, "mirror", is_written=True)
    home = Container(tenant=tenant, store_id=scribe.main, agent_id="ana")
    kept = Mirrored(record_id="mem_m", container=home, version=1, state=CopyState.KEPT, native_id="n")
    await ledger.outbox.settle(tenant, "mirror", Settlement(kept=[kept]))
    team = await scribe.open_store("team")
    first = await scribe.put(
        "Ana drinks maté 🧉", metadata={"a": [1, 2.5, 1e-300, 2**53 + 1]}, vector=vector(1)
    )
    second = await scribe.change(first, content="Ana drinks tea", tags=("red",), vector=vector(2))
    other = await scribe.put("linked", links=linked(first.id), store_id=team.id, user_id="u", session_id="s")
    gone = await scribe.put("forgotten", vector=vector(3))
    await scribe.forget(gone)
    merged = await scribe.put("merged away")
    await scribe.merge(merged, second)
    await scribe.touch(second.id)
    await scribe.demote(other)
    erased = await scribe.put("erased", vector=vector(4))
    await scribe.erase(erased.id)
    once = Once(
        principal="p",
        operation="remember",
        key="k",
        fingerprint="f",
        answer={"id": "é"},
        record_ids=(second.id,),
    )
    await scribe.commit(adding(scribe.drafted("answered")), once=once, reason="because “so”")
    for name in ("p1", "p2"):
        stage = Stage(
            proposal_id=name, operation="remember", agent_id="ana", request={"content": "held"}, held_by=("rule",),
            lapses_at=9,
        )  # fmt: skip
        await scribe.commit(stage, op=Op.HOLD)
    await scribe.commit(Settle(proposal_id="p1", approved=True, reviewer="bo", reason="fine"), op=Op.DECIDE)
    token = Token(
        tenant=tenant, id="tok_1", name="bot", prefix="qp", permissions=frozenset(Permission), created_at=1,
        created_by="t", rate=5,
    )  # fmt: skip
    await scribe.commit(AddToken(token=token, digest="ab" * 32), op=Op.ISSUE_TOKEN)
    secret = KeptSecret(tenant=tenant, id="sec_1", label="db", created_at=1, created_by="t")
    await scribe.commit(KeepSecret(secret=secret, sealed=b"\x00\xff sealed"), op=Op.KEEP_SECRET)
    await scribe.commit(AddWebhook(webhook=a_webhook(tenant), sealed=b"\x00\xff key"), op=Op.ADD_WEBHOOK)
    await scribe.commit(Dismiss(suggestion_id="sug_1"), op=Op.DISMISS_RULE)
    run = Run(
        tenant=tenant, id="run_1", workflow_id="w", driver=Driver.EXTERNAL, created_at=1, inputs={"a": "é"}
    )
    await scribe.commit(OpenRun(run=run), op=Op.OPEN_RUN)
    step = RunStep(
        run_id="run_1", variables=(Variable("v", {"a": [1]}, (second.id,)),), note=Note("pad", "é")
    )
    await scribe.commit(step, op=Op.STEP_RUN)
    ref = MintedRef(tenant=tenant, ref="mem_1", agent_id="ana", store_id=team.id, created_at=1)
    await scribe.commit(KeepRef(ref=ref), op=Op.KEEP_REF)
    head = await ledger.head(tenant)
    await ledger.add_checkpoint(
        Checkpoint(tenant=tenant, seq=head.seq, hash=head.hash, at=head.at, key_id="k", signature="s")
    )
    await ledger.prune(tenant, second.born)
    missing = await ledger.without_vector(tenant, WIDER, 2)  # on its way to another space
    await ledger.add_vectors(tenant, WIDER, [(record, vector(record.id, 12)) for record in missing])
    return scribe


async def told(scribe: Scribe) -> dict[str, Any]:
    """Everything the port says of a tenant."""
    ledger, tenant = scribe.ledger, scribe.tenant
    ids = [record.id async for record in ledger.every_version(tenant)]
    return {
        "audit": await scribe.audit(),
        "head": await ledger.head(tenant),
        "entries": await scribe.entries(),
        "run": await ledger.run(tenant, "run_1"),
        "events": await ledger.run_events(tenant, "run_1"),
        "variables": await ledger.run_variables(tenant, "run_1"),
        "notes": await ledger.run_notes(tenant, "run_1", "pad"),
        "versions": [record async for record in ledger.every_version(tenant)],
        "marks": await ledger.marks(tenant, ids),
        "reasons": [await ledger.reasons(tenant, record_id) for record_id in ids],
        "stores": await ledger.stores(tenant),
        "proposals": await ledger.proposals(tenant),
        "checkpoints": await ledger.checkpoints(tenant),
        "tokens": await ledger.tokens(tenant),
        "guard": await ledger.guard(tenant),
        "space": await ledger.space(tenant),
        "found": await scribe.search("ana drinks linked", vector("q"), limit=50),
        "past": [await scribe.search("ana drinks", vector("q"), seq=seq) for seq in range(4, 9)],
        "neighbours": await scribe.neighbours(*ids),
        "left": {record.id for record in await ledger.without_vector(tenant, WIDER, 50)},
    }


async def dumped(tables: Tables) -> dict[str, dict[str, list[Sequence[Any]]]]:
    """Every row of every table; a version's number is its place among its tenant's."""
    found: dict[str, dict[str, list[Sequence[Any]]]] = {}
    for tenant in await tables.tenants():
        rows: dict[str, list[Sequence[Any]]] = {}
        for table in TABLES:
            rows[table] = [tuple(row) async for page in tables.dump(table, tenant) for row in page]
        places = {row[0]: place for place, row in enumerate(rows["record"])}
        rows["record"] = [(places[row[0]], *row[1:]) for row in rows["record"]]
        rows["vector"] = sorted((row[0], places[row[1]], *row[2:]) for row in rows["vector"])
        found[tenant] = rows
    return found


async def test_everything_arrives_and_comes_back(empty_url: str, tmp_path: Path) -> None:
    path, back = tmp_path / "memory.db", tmp_path / "back.db"
    ledger = file_ledger(path)
    scribes = [await lived_in(ledger, tenant) for tenant in ("default", "other")]
    steps: list[tuple[int, int]] = []
    async with portable.reading(path) as source, running.tables(Place(empty_url), is_target=True) as target:
        done = await transfer.copy(source, target, canonical, lambda *told: steps.append(told))
    assert (done.tenants, steps[-1]) == (2, (done.rows, done.rows))
    assert steps == sorted(steps)
    async with running.tables(Place(empty_url)) as source, portable.archive(back) as target:
        assert await transfer.copy(source, target, canonical) == done
    copy, again = opened(empty_url), file_ledger(back)
    for scribe in scribes:
        original = await told(scribe)
        assert original["audit"] == []
        for other in (copy, again):
            theirs = await Scribe.at(other, FixedClock(), tenant=scribe.tenant)
            assert await told(theirs) == original
    async with (
        portable.reading(path) as first,
        running.tables(Place(empty_url)) as second,
        portable.reading(back) as third,
    ):
        whole = await dumped(first)
        assert all(whole[tenant][table] for tenant in whole for table in TABLES), "every table is proved"
        assert await dumped(second) == whole
        assert await dumped(third) == whole
    for other in (ledger, copy, again):
        await other.close()


async def test_a_copy_is_written_on(empty_url: str, tmp_path: Path) -> None:
    path = tmp_path / "memory.db"
    ledger = file_ledger(path)
    await lived_in(ledger, "default")
    await ledger.close()
    async with portable.reading(path) as source, running.tables(Place(empty_url), is_target=True) as target:
        await transfer.copy(source, target, canonical)
    copy = opened(empty_url, mark="later")
    scribe = await Scribe.at(copy, FixedClock(), CountedIds("later"))
    record = await scribe.put("written after the move", vector=vector("later"))
    assert await scribe.ranked(vector("later"), limit=1) == [record.id]
    assert await scribe.found("written after") == {record.id}
    again = await scribe.commit(
        once=Once(principal="p", operation="remember", key="k", fingerprint="f", answer={})
    )
    assert again.replayed == {"id": "é"}
    assert await scribe.audit() == []
    await copy.close()


async def test_a_target_that_holds_something_is_refused_and_left_alone(
    postgres_url: str, tmp_path: Path
) -> None:
    path = tmp_path / "memory.db"
    ledger = file_ledger(path)
    await lived_in(ledger, "default")
    await ledger.close()
    other = opened(postgres_url)
    scribe = await Scribe.at(other, FixedClock(), tenant="theirs")
    before = await scribe.entries()
    with pytest.raises(ConflictError) as refused:
        async with (
            portable.reading(path) as source,
            running.tables(Place(postgres_url), is_target=True) as target,
        ):
            await transfer.copy(source, target, canonical)
    assert refused.value.reason == "not_empty"
    assert await scribe.entries() == before
    assert [tenant.id for tenant in await other.tenants()] == ["theirs"]
    await other.close()
    with pytest.raises(InvalidError):
        async with portable.archive(path):
            pytest.fail("a file that is there is never written over")


@pytest.mark.parametrize(
    "lie",
    [
        "UPDATE record SET content = 'a lie' WHERE content LIKE 'Ana%'",
        "DELETE FROM record WHERE content = 'linked'",
        "UPDATE tenant SET seq = seq - 1",
    ],
)
async def test_a_source_that_does_not_verify_is_not_copied(
    postgres: Server, empty_url: str, tmp_path: Path, lie: str
) -> None:
    path = tmp_path / "memory.db"
    ledger = file_ledger(path)
    await lived_in(ledger, "default")
    await ledger.close()
    connection = apsw.Connection(str(path))
    connection.execute(lie)
    connection.close()
    with pytest.raises(TamperedError) as refused:
        async with (
            portable.reading(path) as source,
            running.tables(Place(empty_url), is_target=True) as target,
        ):
            await transfer.copy(source, target, canonical)
    assert refused.value.reason == "copy_differs"
    assert postgres.execute("SELECT count(*) FROM journal", name_of(empty_url)) == [(0,)]


def names_in(folder: Path) -> list[str]:
    return [item.name for item in folder.iterdir()]


async def test_a_copy_that_breaks_off_leaves_nothing(
    postgres: Server, empty_url: str, tmp_path: Path
) -> None:
    path, back = tmp_path / "memory.db", tmp_path / "back.db"
    ledger = file_ledger(path)
    await lived_in(ledger, "default")
    await ledger.close()

    def broken_off(done: int, _total: int) -> None:
        if done > 20:
            raise QuipuError("no more")

    for target in (running.tables(Place(empty_url), is_target=True), portable.archive(back)):
        with pytest.raises(QuipuError, match="no more"):
            async with portable.reading(path) as source, target as tables:
                await transfer.copy(source, tables, canonical, broken_off)
    assert postgres.execute("SELECT count(*) FROM tenant", name_of(empty_url)) == [(0,)]
    assert names_in(tmp_path) == ["memory.db"]


async def test_a_backup_is_a_file_that_opens_anywhere(postgres_url: str, tmp_path: Path) -> None:
    ledger = opened(postgres_url)
    scribe = await lived_in(ledger, "default")
    before = await told(scribe)
    await ledger.backup(tmp_path / "copy.db")
    await scribe.put("only in the original")
    await ledger.close()
    copy = file_ledger(tmp_path / "copy.db")
    assert await told(await Scribe.at(copy, FixedClock())) == before
    await copy.close()
