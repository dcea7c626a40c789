"""What an operator meets: long copies under short limits, limits of the server's own, commits cut off, large agents."""

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import psycopg
import pytest

from quipu.errors import BackendUnavailableError, ConflictError
from quipu.ledger import transfer
from quipu.ledger.postgres import database as connections
from quipu.ledger.postgres import grants, running, statements
from quipu.ledger.postgres.database import Place
from quipu.ledger.postgres.ledger import PostgresLedger
from quipu.ledger.postgres.statements import Connection
from quipu.ledger.postgres.transaction import transaction
from quipu.model.access import Token
from quipu.model.change import AddToken, Erase, Settle, Stage
from quipu.model.disclosure import Question, Standing, Writes
from quipu.model.journal import Op
from quipu.model.record import Link
from quipu.model.search import Selection, Snapshot
from quipu.rules.receipts import Hand, receipt
from quipu.testing.builders import AGENT, TENANT, CountedIds, FixedClock, Scribe, canonical
from tests.ledger.postgres.opening import opened
from tests.postgres import Server, name_of

PATIENCE_S = 30.0
#: How many wait for somebody else's lock.
_WAITING = (
    "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'"
)


@asynccontextmanager
async def writing(url: str, mark: str = "1", **more: Any) -> AsyncIterator[Scribe]:
    ledger = opened(url, mark=mark, **more)
    try:
        yield await Scribe.at(ledger, FixedClock(), CountedIds(mark))
    finally:
        await ledger.close()


def ledger_of(scribe: Scribe) -> PostgresLedger:
    assert isinstance(scribe.ledger, PostgresLedger)
    return scribe.ledger


def staged(name: str) -> Stage:
    return Stage(
        proposal_id=name,
        operation="remember",
        agent_id=AGENT,
        request={"content": "tea"},
        held_by=("imports",),
        lapses_at=None,
    )


def receipted(standing: Standing, name: str) -> Writes:
    made = receipt(
        standing.end,
        id=name,
        type="consent",
        at=1,
        principal="did:web:user.example",
        agent="did:web:b.example",
        hand=Hand("did:web:memory.example#key-1", lambda message: f"signed {len(message)} bytes"),
        canonical=canonical,
        grant_id=None,
    )
    return Writes(receipts=[made])


# -- limits on time -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("limit", ["idle", "transaction"])
async def test_a_backup_takes_as_long_as_it_takes(
    postgres: Server, fresh_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, limit: str
) -> None:
    """While the copy is read back nothing is said to the server, which must not think that nobody is there."""
    if limit == "idle":
        monkeypatch.setattr(connections, "_IDLE_MS", 300)
    else:
        postgres.execute(f"ALTER DATABASE {name_of(fresh_url)} SET transaction_timeout = '300ms'")
    whole = transfer.chain.missing_faults

    def slow(*asked: Any) -> Any:
        time.sleep(0.7)
        return whole(*asked)

    async with writing(fresh_url) as scribe:
        await scribe.put("kept")
        monkeypatch.setattr(transfer.chain, "missing_faults", slow)
        await scribe.ledger.backup(tmp_path / "copy.db")
    assert (tmp_path / "copy.db").exists()


@pytest.mark.parametrize("setting", ["statement_timeout", "transaction_timeout"])
async def test_who_runs_into_a_limit_of_the_server_is_told_which(
    postgres: Server, fresh_url: str, setting: str
) -> None:
    postgres.execute(f"ALTER DATABASE {name_of(fresh_url)} SET {setting} = '200ms'")
    async with writing(fresh_url) as scribe:

        async def long(connection: Connection) -> None:
            async with transaction(connection):
                await connection.execute("SELECT pg_sleep(5)")

        with pytest.raises(BackendUnavailableError) as refused:
            await ledger_of(scribe)._read(long)
        assert refused.value.reason == "busy"
        assert setting in (refused.value.hint or "")
        # The next one is not kept from anything.
        assert (await scribe.put("after")).born == 2


# -- a commit of lending that nobody heard the end of ---------------------------------------------------------------


@pytest.mark.parametrize("is_committed", [True, False], ids=["kept", "lost"])
async def test_a_decision_nobody_heard_the_end_of_is_made_once(
    postgres_url: str, monkeypatch: pytest.MonkeyPatch, is_committed: bool
) -> None:
    breaks = [True]
    whole = grants._write

    async def broken(connection: Connection, *asked: Any) -> None:
        await whole(connection, *asked)
        if breaks:
            breaks.pop()
            if is_committed:
                await connection.execute("COMMIT")
            await connection.close()

    decided: list[Writes] = []
    async with writing(postgres_url) as scribe:
        monkeypatch.setattr(grants, "_write", broken)

        def decide(standing: Standing) -> Writes:
            decided.append(receipted(standing, f"r{len(decided)}"))
            return decided[-1]

        done = await scribe.ledger.lending.decide(TENANT, Question(once=("p",), now=1), decide)
        kept = await scribe.ledger.lending.receipts(TENANT)
        assert not breaks
        assert [one.id for one in kept] == [one.id for one in done.receipts]
        assert done.receipts == decided[-1].receipts
        assert len(decided) == (1 if is_committed else 2)


# -- locks ------------------------------------------------------------------------------------------------------------


async def test_a_commit_that_was_taken_back_for_somebody_else_is_made_again(
    postgres: Server, postgres_url: str
) -> None:
    """Two that wait for one another: the server takes one of them back."""
    holding = b"UPDATE proposal SET because = because WHERE id = %s"
    async with writing(postgres_url) as scribe:
        for name in ("prp_1", "prp_2"):
            await scribe.commit(staged(name), op=Op.HOLD)
        settling = [Settle(proposal_id=name, approved=True, reviewer="carla") for name in ("prp_2", "prp_1")]
        async with await psycopg.AsyncConnection.connect(postgres_url) as other:
            await other.execute(holding, ["prp_1"])
            deciding = asyncio.create_task(scribe.commit(*settling, op=Op.DECIDE))
            async with asyncio.timeout(PATIENCE_S):
                while not postgres.execute(_WAITING, name_of(postgres_url))[0][0]:  # noqa: ASYNC110  the server knows
                    await asyncio.sleep(0.02)
            await other.execute(holding, ["prp_2"])
        await deciding
        assert {one.status for one in await scribe.ledger.proposals(TENANT)} == {"approved"}
        assert await scribe.audit() == []


# -- others ---------------------------------------------------------------------------------------------------------


async def test_others_hear_of_what_is_pruned(postgres_url: str) -> None:
    heard = asyncio.Event()
    async with writing(postgres_url) as scribe, writing(postgres_url, "2") as other:
        record = await scribe.put("old")
        await scribe.forget(record)
        ledger_of(other).on_commit(lambda tenants: heard.set() if TENANT in tenants else None)
        await other.ledger.open(TENANT)
        async with asyncio.timeout(PATIENCE_S):
            await heard.wait()  # it listens from now on
        await asyncio.sleep(0.2)
        heard.clear()
        assert await scribe.ledger.prune(TENANT, (await scribe.ledger.head(TENANT)).seq) == 1
        async with asyncio.timeout(PATIENCE_S):
            await heard.wait()


async def test_limits_of_a_token_may_be_as_large_as_in_a_file(postgres_url: str) -> None:
    async with writing(postgres_url) as scribe:
        token = Token(
            tenant=TENANT,
            id="tok_1",
            name="bot",
            prefix="qp",
            permissions=frozenset(),
            created_at=1,
            created_by="ana",
            rate=2**62,
            recall_budget=2**31,
        )
        await scribe.commit(AddToken(token=token, digest="00" * 32), op=Op.ISSUE_TOKEN)
        assert [(one.rate, one.recall_budget) for one in await scribe.ledger.tokens(TENANT)] == [
            (2**62, 2**31)
        ]


# -- what was made out of an erased record meanwhile -----------------------------------------------------------------


async def test_of_callers_who_share_a_turn_the_one_who_erases_sees_what_the_others_made(
    postgres_url: str,
) -> None:
    async with writing(postgres_url) as scribe:
        source = await scribe.put("tea at noon")
        decided_at = (await scribe.ledger.head(TENANT)).seq
        erasing = scribe.committing(Erase(id=source.id), op=Op.ERASE, erases_as_of=decided_at)
        async with ledger_of(scribe)._database.connection() as connection:
            await connection.execute("BEGIN")
            await statements.first(connection, "lock_head", tenant=TENANT)
            first = asyncio.create_task(scribe.put("keeps the turn waiting"))
            await asyncio.sleep(0.2)
            second = asyncio.create_task(
                scribe.put("tea, in short", links=(Link(source.id, "compacted_from"),))
            )
            third = asyncio.create_task(ledger_of(scribe).commit(erasing))
            await asyncio.sleep(0.2)
            await connection.execute("ROLLBACK")
        await first
        await second
        with pytest.raises(ConflictError) as refused:
            await third
        assert refused.value.reason == "version_mismatch"
        assert (await scribe.ledger.read(TENANT, [source.id]))[source.id].content == "tea at noon"


# -- plans ----------------------------------------------------------------------------------------------------------


def _fill(postgres: Server, url: str, records: int) -> None:
    """One large agent among many small tenants."""
    postgres.execute(
        """INSERT INTO record (row, tenant, id, version, born, store_id, agent_id, type, tier, state, content, confidence,
          provenance, created_at, updated_at, salt, digest)
        SELECT 10 + n, CASE WHEN n <= %(records)s THEN 'default' ELSE 'other' || n %% 200 END, 'mem_' || lpad(n::text, 26, '0'), 1, 1, 'ms_1', 'ana', 'semantic', 'long_term', 'live',
          repeat('word ', 40), 1, '{}', n, n, '\\x00', decode(repeat('00', 32), 'hex')
        FROM generate_series(1, %(records)s + 4000) AS n""",
        name_of(url),
        records=records,
    )
    postgres.execute("ANALYZE record", name_of(url))


#: How many records were found along indexes.
_READ = "SELECT sum(idx_tup_read) FROM pg_stat_user_indexes WHERE relname = 'record'"


async def test_no_page_of_a_walk_looks_at_all_records(postgres: Server, fresh_url: str) -> None:
    """However often a connection has read such a page: a plan for whatever values would sort all of them for each."""
    records = 20_000
    async with writing(fresh_url, pool_size=1) as scribe:
        _fill(postgres, fresh_url, records)
        selection = Selection(tenant=TENANT, agent_id=AGENT)
        assert len([1 async for _ in scribe.ledger.scan(selection, Snapshot(None, 0))]) == records

    (read,) = postgres.execute(_READ, name_of(fresh_url))
    assert records <= read[0] < 3 * records


def test_what_may_be_left_out_is_planned_for_what_is_given() -> None:
    assert {"page_at", "page_of_agent_at", "newest_entries", "proposals"} <= statements._PLANNED_ANEW
    assert {"links_at", "derived_from"} <= statements._PLANNED_ANEW
    assert not {"head", "lock_head", "record_newest", "add_version"} & statements._PLANNED_ANEW


# -- users who may little --------------------------------------------------------------------------------------------


@pytest.fixture
def outsider(postgres: Server, fresh_url: str) -> str:
    """The same database, by a user who owns nothing in it."""
    postgres.execute("DROP ROLE IF EXISTS outsider")
    postgres.execute("CREATE ROLE outsider LOGIN")
    return fresh_url.replace("quipu@", "outsider@")


async def test_who_may_look_into_no_schema_is_told_so(
    postgres: Server, fresh_url: str, outsider: str
) -> None:
    postgres.execute("REVOKE ALL ON SCHEMA public FROM PUBLIC", name_of(fresh_url))
    ledger = opened(outsider)
    with pytest.raises(BackendUnavailableError) as refused:
        await ledger.open(TENANT)
    assert refused.value.reason == "denied"
    await ledger.close()


async def test_who_may_not_look_into_a_schema_is_not_led_to_the_one_behind_it(
    postgres: Server, fresh_url: str, outsider: str
) -> None:
    """Both are Quipu's, and the user may do everything in the other one."""
    async with writing(fresh_url) as scribe:
        await scribe.put("of the others")
    async with writing(fresh_url, place=Place(fresh_url, "mine")) as scribe:
        await scribe.put("mine")
    postgres.execute("GRANT ALL ON ALL TABLES IN SCHEMA public TO outsider", name_of(fresh_url))
    place = Place(outsider, "mine")
    ledger = opened(outsider, place=place)
    with pytest.raises(BackendUnavailableError) as refused:
        await ledger.head(TENANT)
    assert refused.value.reason == "denied"
    await ledger.close()
    with pytest.raises(BackendUnavailableError) as refused:
        await running.status(place)
    assert refused.value.reason == "denied"
    ledger = opened(outsider)
    assert (await ledger.head(TENANT)).seq == 2
    await ledger.close()
    postgres.execute("DROP OWNED BY outsider", name_of(fresh_url))
