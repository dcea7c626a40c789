"""The server: what is said when it is not there, what is waited for, what survives its restart, who hears of a commit."""

import asyncio
import json
import time
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import httpx
import psycopg
import pytest

from quipu.errors import BackendUnavailableError, ConflictError, QuipuError
from quipu.ledger.postgres import database as connections
from quipu.ledger.postgres import faults, groups, source
from quipu.ledger.postgres.database import Database, Place
from quipu.ledger.postgres.ledger import PostgresLedger
from quipu.ledger.postgres.turn import Job, Turn
from quipu.model.access import KeptSecret, Token
from quipu.model.change import AddToken, Close, KeepSecret
from quipu.model.journal import Mention, Op
from quipu.model.record import Ending
from quipu.testing.builders import SPACE, TENANT, CountedIds, FixedClock, Scribe, adding, vector
from tests.faces.serving import Program
from tests.ledger.postgres.opening import opened
from tests.postgres import Server, name_of, serving

PATIENCE_S = 30.0


async def until(holds: Callable[[], bool]) -> None:
    """Wait for something that is bound to come."""
    async with asyncio.timeout(PATIENCE_S):
        while not holds():  # noqa: ASYNC110  it comes from the database, not from this loop
            await asyncio.sleep(0.01)


@asynccontextmanager
async def writing(url: str, mark: str = "1", **more: object) -> AsyncIterator[Scribe]:
    ledger = opened(url, mark=mark, **more)
    try:
        scribe = await Scribe.at(ledger, FixedClock(), CountedIds(mark))
        await ledger.adopt_space(TENANT, SPACE)
        yield scribe
    finally:
        await ledger.close()


def ledger_of(scribe: Scribe) -> PostgresLedger:
    assert isinstance(scribe.ledger, PostgresLedger)
    return scribe.ledger


# -- a server that is not there -----------------------------------------------------------------------------------


async def refusal(url: str) -> QuipuError:
    ledger = opened(url)
    with pytest.raises(QuipuError) as refused:
        await ledger.open(TENANT)
    await ledger.close()
    assert "secret-password" not in f"{refused.value.message} {refused.value.hint} {refused.value!r}"
    return refused.value


async def test_a_server_that_does_not_run_is_said_not_to(tmp_path: str) -> None:
    for url in (
        f"postgresql://quipu:secret-password@/x?host={tmp_path}",
        "postgresql://quipu:secret-password@127.0.0.1:1/x",
    ):
        error = await refusal(url)
        assert (error.code, error.reason) == ("backend_unavailable", "unreachable")
        assert error.hint
        assert error.__cause__ is not None


async def test_a_database_that_does_not_exist_is_named_as_the_fault(postgres: Server) -> None:
    assert (await refusal(postgres.url("nowhere"))).reason == "no_database"


async def test_a_user_who_may_not_come_in_is_told_so(postgres: Server, postgres_url: str) -> None:
    postgres.execute("CREATE ROLE stranger LOGIN CONNECTION LIMIT 0")
    postgres.execute("CREATE ROLE reader LOGIN")
    assert (await refusal(postgres_url.replace("quipu@", "stranger@"))).reason == "too_many_connections"
    assert (await refusal(postgres_url.replace("quipu@", "nobody@"))).reason == "denied"
    assert (await refusal(postgres_url.replace("quipu@", "reader@"))).reason == "denied"


def test_errors_are_told_apart_and_never_quote_the_database() -> None:
    said = "the secret stands in here"
    for error, reason in (
        (psycopg.errors.DiskFull(said), "disk_full"),
        (psycopg.errors.ReadOnlySqlTransaction(said), "read_only"),
        (psycopg.errors.LockNotAvailable(said), "busy"),
        (psycopg.errors.DeadlockDetected(said), "busy"),
        (psycopg.errors.DataCorrupted(said), "corrupt"),
        (psycopg.errors.OutOfMemory(said), "no_memory"),
        (psycopg.errors.IoError(said), "io_error"),
        (psycopg.errors.AdminShutdown(said), "unreachable"),
        (psycopg.errors.IdleSessionTimeout(said), "unreachable"),
        (psycopg.errors.IdleInTransactionSessionTimeout(said), "unreachable"),
        (psycopg.OperationalError(said), "unreachable"),
        (psycopg.errors.UniqueViolation(said), "constraint"),
        (psycopg.errors.SyntaxError(said), "ledger"),
    ):
        told = faults.meaning(error)
        assert told.reason == reason
        assert said not in f"{told.message} {told.hint}"
    assert isinstance(faults.meaning(psycopg.errors.UniqueViolation()), ConflictError)
    for error, is_lost in (
        (psycopg.errors.AdminShutdown(), True),
        (psycopg.errors.IdleSessionTimeout(), True),
        (psycopg.errors.IdleInTransactionSessionTimeout(), True),
        (psycopg.errors.ConnectionFailure(), True),
        (psycopg.errors.ProtocolViolation(), True),
        (psycopg.OperationalError("the connection is closed"), True),
        (psycopg.OperationalError("connection failed: FATAL:  the database system is starting up"), True),
        (psycopg.errors.LockNotAvailable(), False),
        (psycopg.OperationalError('connection failed: FATAL:  database "x" does not exist'), False),
    ):
        told = faults.meaning(error)
        told.__cause__ = error
        assert faults.came_from_a_lost_line(told) is is_lost


@pytest.mark.parametrize(
    "lost", [("DELETE FROM tenant",), ("DELETE FROM tenant", "DELETE FROM store")], ids=["head", "store too"]
)
async def test_a_tenant_that_has_lost_its_head_is_said_to_be_damaged(
    postgres: Server, postgres_url: str, lost: tuple[str, ...]
) -> None:
    async with writing(postgres_url) as scribe:
        await scribe.put("there")
    for statement in lost:
        postgres.execute(statement, name_of(postgres_url))
    ledger = opened(postgres_url)
    with pytest.raises(BackendUnavailableError) as refused:
        await ledger.open(TENANT)
    assert refused.value.reason == "corrupt"
    assert await ledger.tenants() == []  # nothing was written over what is left
    await ledger.close()


async def test_what_the_server_cannot_look_into_is_said_to_be_damaged(
    postgres: Server, postgres_url: str
) -> None:
    async with writing(postgres_url) as scribe:
        await scribe.put("there")
        told = r'{"consent_id": "\u0000"}'
        postgres.execute("UPDATE record SET privacy = %(told)s", name_of(postgres_url), told=told)
        with pytest.raises(BackendUnavailableError) as refused:
            await scribe.found("there")
        assert refused.value.reason == "corrupt"
        assert refused.value.hint


# -- what every connection holds to -------------------------------------------------------------------------------


@pytest.mark.parametrize(("given", "kept"), [("off", "on"), ("on", "on"), ("remote_apply", "remote_apply")])
async def test_an_acknowledged_commit_is_on_disk_whatever_the_database_is_set_to(
    postgres: Server, fresh_url: str, given: str, kept: str
) -> None:
    postgres.execute(f"ALTER DATABASE {name_of(fresh_url)} SET synchronous_commit = {given}")
    ledger = opened(fresh_url)
    await ledger.tenants()
    async with ledger._database.connection() as connection:
        found = await (await connection.execute("SHOW synchronous_commit")).fetchone()
    await ledger.close()
    assert found == (kept,)


@pytest.mark.parametrize("level", ["repeatable read", "serializable"])
async def test_turns_are_taken_whatever_level_of_isolation_the_database_is_set_to(
    postgres: Server, fresh_url: str, level: str
) -> None:
    postgres.execute(f"ALTER DATABASE {name_of(fresh_url)} SET default_transaction_isolation = '{level}'")
    async with writing(fresh_url, "1") as one, writing(fresh_url, "2") as other:
        await asyncio.gather(*(scribe.put(f"text {n}") for n in range(20) for scribe in (one, other)))
        assert len(await one.scanned()) == 40
        assert await one.audit() == []


async def test_texts_are_kept_whatever_encoding_the_database_is_set_to(
    postgres: Server, fresh_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    postgres.execute(f"ALTER DATABASE {name_of(fresh_url)} SET client_encoding = 'LATIN1'")
    monkeypatch.setenv("PGCLIENTENCODING", "LATIN1")
    async with writing(fresh_url) as scribe:
        record = await scribe.put("東京 in Straßen")
        assert [one.content for one in await scribe.ledger.versions(TENANT, record.id)] == ["東京 in Straßen"]
        assert await scribe.found("東京") == {record.id}


@pytest.mark.parametrize("encoding", ["SQL_ASCII", "LATIN1"])
async def test_a_database_that_cannot_keep_every_text_is_refused_and_left_alone(
    postgres: Server, encoding: str
) -> None:
    name = f"kept_as_{encoding.lower()}"
    postgres.execute(f"CREATE DATABASE {name} TEMPLATE template0 ENCODING '{encoding}' LOCALE 'C'")
    error = await refusal(postgres.url(name))
    assert (error.code, error.reason) == ("backend_unavailable", "not_utf8")
    assert encoding in error.message
    assert "createdb --encoding=UTF8" in (error.hint or "")
    assert postgres.execute("SELECT 1 FROM pg_tables WHERE schemaname = 'public'", name) == []
    postgres.drop(postgres.url(name))


async def test_the_journal_is_not_truncated_either(postgres: Server, postgres_url: str) -> None:
    async with writing(postgres_url) as scribe:
        await scribe.put()
        with pytest.raises(psycopg.errors.RaiseException, match="append-only"):
            postgres.execute("TRUNCATE journal", name_of(postgres_url))
        assert len(await scribe.entries()) == 2


# -- turns --------------------------------------------------------------------------------------------------------


@pytest.fixture
def holding(postgres_url: str) -> Iterator[psycopg.Connection[tuple[object, ...]]]:
    """Somebody else's connection."""
    with psycopg.connect(postgres_url) as connection:
        yield connection


def hold(connection: psycopg.Connection[tuple[object, ...]], tenant: str = TENANT) -> None:
    connection.execute("SELECT 1 FROM tenant WHERE tenant = %s FOR UPDATE", [tenant])


async def test_a_write_waits_for_the_tenants_turn_and_readers_do_not(
    postgres_url: str, holding: psycopg.Connection[tuple[object, ...]]
) -> None:
    async with writing(postgres_url) as scribe:
        other = await Scribe.at(scribe.ledger, scribe.clock, tenant="other")
        await scribe.put("first")
        hold(holding)
        waiting = asyncio.create_task(scribe.put("second"))
        for _ in range(20):
            assert len(await scribe.found("first second")) == 1
        await other.put("other tenants do not wait")
        assert not waiting.done()
        holding.commit()
        await asyncio.wait_for(waiting, PATIENCE_S)
        assert len(await scribe.found("first second")) == 2


async def test_a_write_that_waits_too_long_fails_and_can_be_repeated(
    postgres_url: str,
    holding: psycopg.Connection[tuple[object, ...]],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(connections, "LOCK_PATIENCE_MS", 50)
    async with writing(postgres_url) as scribe:
        draft = scribe.drafted("patient")
        hold(holding)
        with pytest.raises(BackendUnavailableError) as refused:
            await scribe.put_drafted(draft)
        assert refused.value.reason == "busy"
        holding.rollback()
        await scribe.put_drafted(draft)
        assert await scribe.audit() == []


async def test_a_write_that_was_handed_in_is_done_though_its_caller_goes_away(
    postgres_url: str, holding: psycopg.Connection[tuple[object, ...]]
) -> None:
    async with writing(postgres_url) as scribe:
        hold(holding)
        draft = scribe.drafted("left behind")
        waiting = asyncio.create_task(scribe.put_drafted(draft))
        await scribe.found("anything")
        waiting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await waiting
        holding.commit()
        await scribe.put("after it")
        assert await scribe.found("left behind") == {draft.id}
        assert await scribe.audit() == []


async def test_others_hear_of_a_write_though_its_caller_goes_away(
    postgres_url: str, holding: psycopg.Connection[tuple[object, ...]]
) -> None:
    async with writing(postgres_url) as scribe:
        ledger = ledger_of(scribe)
        heard: list[frozenset[str]] = []
        told: list[str] = []
        ledger.on_commit(heard.append)
        ledger.on_written(lambda commits: told.extend(commit.draft.op.value for commit in commits))
        hold(holding)
        waiting = asyncio.create_task(scribe.put("left behind"))
        await scribe.found("anything")
        waiting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await waiting
        heard.clear()
        holding.commit()
        await until(lambda: bool(heard) and bool(told))
        assert (heard[0], told) == (frozenset({TENANT}), ["remember"])


async def test_a_mirror_comes_between_two_turns(
    postgres_url: str, holding: psycopg.Connection[tuple[object, ...]]
) -> None:
    """Else a commit that saw no mirror could end after the mirror was filled, and be missing there for good."""
    async with writing(postgres_url) as scribe:
        outbox = scribe.ledger.outbox
        hold(holding)
        registering = asyncio.create_task(outbox.register(TENANT, "new", is_written=True))
        for _ in range(20):
            assert await outbox.standings(TENANT) == []
        assert not registering.done()
        holding.commit()
        await registering
        assert [standing.name for standing in await outbox.standings(TENANT)] == ["new"]
        await outbox.register("nobody yet", "new", is_written=True)


async def test_writes_that_wait_are_done_before_the_ledger_is_closed(postgres_url: str) -> None:
    async with writing(postgres_url) as scribe:
        waiting = [asyncio.create_task(scribe.put(f"text {number}")) for number in range(50)]
        await asyncio.sleep(0)
        await scribe.ledger.close()
        await asyncio.gather(*waiting)
    async with writing(postgres_url, "2") as reader:
        assert len(await reader.scanned()) == 50


async def test_commits_that_wait_together_share_a_transaction(
    postgres: Server, postgres_url: str, holding: psycopg.Connection[tuple[object, ...]]
) -> None:
    async with writing(postgres_url) as scribe:
        hold(holding)
        waiting = [asyncio.create_task(scribe.put(f"text {number}")) for number in range(100)]
        await scribe.found("anything")
        holding.commit()
        await asyncio.gather(*waiting)
        written = postgres.execute("SELECT count(DISTINCT xmin::text) FROM journal", name_of(postgres_url))
        assert written[0][0] <= 4
        assert len(await scribe.entries()) == 101
        assert await scribe.audit() == []


async def test_one_that_fails_leaves_the_others_of_its_group_alone(
    postgres_url: str, holding: psycopg.Connection[tuple[object, ...]]
) -> None:
    """Some are refused by us, some by the database, which then undoes everything of the transaction."""
    async with writing(postgres_url) as scribe:
        record = await scribe.put("there already")
        token = Token(
            tenant=TENANT,
            id="tok_1",
            name="t",
            prefix="p",
            permissions=frozenset(),
            created_at=1,
            created_by="t",
        )
        await scribe.commit(AddToken(token=token, digest="ab" * 32), op=Op.ISSUE_TOKEN)
        before = (await scribe.ledger.head(TENANT)).seq
        hold(holding)
        good = [
            asyncio.create_task(scribe.put(f"good {number}", vector=vector(number))) for number in range(5)
        ]
        stale = asyncio.create_task(scribe.put_drafted(scribe.drafted("two", id=record.id)))
        same = replace(token, id="tok_2")
        taken = asyncio.create_task(
            scribe.commit(
                AddToken(token=same, digest="ab" * 32), adding(scribe.drafted("never")), op=Op.ISSUE_TOKEN
            )
        )
        good += [asyncio.create_task(scribe.put(f"good {number}")) for number in range(5, 10)]
        await scribe.found("anything")
        holding.commit()
        outcomes = await asyncio.gather(stale, taken, return_exceptions=True)
        assert [getattr(outcome, "reason", None) for outcome in outcomes] == [
            "version_mismatch",
            "constraint",
        ]
        born = sorted([record.born for record in await asyncio.gather(*good)])
        assert born == list(range(before + 1, before + 11))
        assert len(await scribe.found("good", limit=20)) == 10
        assert await scribe.found("never") == set()
        assert await scribe.audit() == []


async def test_nothing_of_a_failed_caller_is_seen_by_the_next_of_its_group(
    postgres_url: str, holding: psycopg.Connection[tuple[object, ...]]
) -> None:
    async with writing(postgres_url) as scribe:
        there = await scribe.put("there already")
        before = (await scribe.ledger.head(TENANT)).seq
        hold(holding)
        draft = scribe.drafted("the same id twice", id="mem_twice")
        secret = KeptSecret(tenant=TENANT, id="sec_1", label="l", created_at=1, created_by="t")
        half = asyncio.create_task(
            scribe.ledger.commit(
                scribe.committing(adding(draft), Close(record=there, ending=Ending.FORGOTTEN)),
                scribe.committing(KeepSecret(secret=secret, sealed=b"x"), op=Op.KEEP_SECRET),
                scribe.committing(adding(scribe.drafted("taken", id=there.id))),
            )
        )
        whole = asyncio.create_task(scribe.put_drafted(draft))
        changed = asyncio.create_task(scribe.change(there, content="still there"))
        await scribe.found("anything")
        holding.commit()
        with pytest.raises(ConflictError):
            await half
        assert [(await task).born for task in (whole, changed)] == [before + 1, before + 2]
        assert (await scribe.ledger.guard(TENANT)).position == 0
        assert await scribe.audit() == []


async def test_what_nobody_foresaw_in_a_commit_is_told_to_its_caller_alone(postgres_url: str) -> None:
    async with writing(postgres_url) as scribe:
        outcomes = await asyncio.gather(
            scribe.put("good"),
            scribe.put("a \x00 that no database keeps"),
            scribe.commit(reason="half a character: \ud800", mentions=[Mention("mem_1", 1, "0" * 64)]),
            scribe.put("good"),
            return_exceptions=True,
        )
        assert [isinstance(outcome, Exception) for outcome in outcomes] == [False, True, True, False]
        assert isinstance(outcomes[1], QuipuError)
        assert len(await scribe.found("good")) == 2


# -- restarts -----------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def own() -> Iterator[Server]:
    """A server that may be stopped."""
    yield from serving(fsync="on")


async def test_a_ledger_goes_on_when_its_server_was_restarted(own: Server) -> None:
    url = own.database()
    async with writing(url) as scribe:
        record = await scribe.put("before", vector=vector(1))
        assert await scribe.found("before") == {record.id}
        for stopped in (own.stop, own.kill):
            stopped()
            own.start()
            assert await scribe.found("before", vector(1)) == {record.id}
            record = await scribe.change(record, vector=vector(1))
            assert await scribe.found("before", vector(1)) == {record.id}
        assert await scribe.audit() == []


async def test_connections_that_the_server_ends_for_their_idleness_are_replaced(
    postgres: Server, fresh_url: str
) -> None:
    postgres.execute(f"ALTER DATABASE {name_of(fresh_url)} SET idle_session_timeout = '500ms'")

    async def all_ended() -> None:
        left = "SELECT 1 FROM pg_stat_activity WHERE datname = %(name)s"
        async with asyncio.timeout(PATIENCE_S):
            while postgres.execute(left, name=name_of(fresh_url)):  # noqa: ASYNC110  the server does it
                await asyncio.sleep(0.01)

    async with writing(fresh_url) as scribe:
        record = await scribe.put("kept", vector=vector(1))
        await all_ended()
        assert (await scribe.ledger.head(TENANT)).seq == record.born
        await all_ended()
        assert await scribe.found("kept", vector(1)) == {record.id}
        await all_ended()
        await scribe.put("more")
        assert await scribe.audit() == []


async def test_what_is_asked_for_during_a_restart_waits_for_it(own: Server) -> None:
    url = own.database()
    async with writing(url) as scribe:
        record = await scribe.put("before")
        own.kill()
        asked = [
            asyncio.create_task(scribe.found("before")),
            asyncio.create_task(scribe.ledger.head(TENANT)),
            asyncio.create_task(scribe.put("during")),
        ]
        await asyncio.sleep(0)
        await asyncio.to_thread(own.start)
        found, _head, _during = await asyncio.gather(*asked)
        assert found == {record.id}
        assert len(await scribe.found("during")) == 1
        assert await scribe.audit() == []


@pytest.mark.slow
def test_a_program_ends_in_time_and_says_why_in_lines_of_json_while_its_database_is_away(
    own: Server, tmp_path: Path
) -> None:
    settings = {"QUIPU_STORE": own.database(), "QUIPU_SHUTDOWN_GRACE_S": "1", "XDG_DATA_HOME": str(tmp_path)}
    with Program(tmp_path / "unused.db", **settings) as program:
        with httpx.Client(base_url=program.url, headers=_bearer(program.token), timeout=PATIENCE_S) as client:
            for tenant in ("one", "two", "three"):
                client.post("/quipu/v1/tenants", json={"tenant": tenant}).raise_for_status()
                asked = {"name": "it", "roles": ["admin"], "tenant": tenant}
                issued = client.post("/quipu/v1/tokens", json=asked).raise_for_status().json()
                item = {"agent_id": "a", "type": "semantic", "content": "tea"}
                client.post(
                    "/memorywire/v0/remember", json=item, headers=_bearer(issued["text"])
                ).raise_for_status()
        own.kill()
        try:
            began = time.monotonic()
            assert program.stop() == 0
            assert time.monotonic() - began < PATIENCE_S / 2, "a tenant is not waited for after the other"
        finally:
            own.start()
        said = [json.loads(line)["message"] for line in program.log.splitlines()]
    assert "Not every journal was signed: there was no time left." in said


def _bearer(token: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {token}"}


async def test_a_server_that_stays_away_is_said_to_be_away(
    own: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    url = own.database()
    async with writing(url) as scribe:
        await scribe.put("before")
        monkeypatch.setattr(ledger_of(scribe)._database, "_patience_s", 0.2)
        monkeypatch.setattr(groups, "RETURN_PATIENCE_S", 0.2)
        own.stop()
        try:
            for asked in (scribe.put("nowhere"), scribe.ledger.head(TENANT), scribe.found("before")):
                with pytest.raises(BackendUnavailableError) as refused:
                    await asked
                assert refused.value.reason == "unreachable"
        finally:
            own.start()
        assert len(await scribe.scanned()) == 1


class LosesTheAnswer:
    """A line that breaks after the server has committed, before it could say so; or before it was asked to."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, *, is_committed: bool) -> None:
        self.breaks = 1
        whole = Turn.apply

        async def broken(turn: Turn, *jobs: Job) -> None:
            await whole(turn, *jobs)
            if self.breaks:
                self.breaks -= 1
                if is_committed:
                    await turn.connection.execute("COMMIT")
                await turn.connection.close()

        monkeypatch.setattr(Turn, "apply", broken)


@pytest.mark.parametrize("is_committed", [True, False], ids=["kept", "lost"])
async def test_a_commit_nobody_heard_the_end_of_is_made_once(
    postgres_url: str, monkeypatch: pytest.MonkeyPatch, is_committed: bool
) -> None:
    async with writing(postgres_url) as scribe:
        line = LosesTheAnswer(monkeypatch, is_committed=is_committed)
        record = await scribe.put("once")
        assert line.breaks == 0
        assert record.born == 2
        assert await scribe.scanned() == [record.id]
        assert await scribe.audit() == []


async def test_a_commit_cut_off_late_is_told_as_it_ended(
    postgres_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It may have waited long for its turn: that is no reason to say that it was lost."""
    async with writing(postgres_url) as scribe:
        monkeypatch.setattr(groups, "RETURN_PATIENCE_S", -1.0)
        LosesTheAnswer(monkeypatch, is_committed=True)
        record = await scribe.put("kept")
        assert await scribe.scanned() == [record.id]
        LosesTheAnswer(monkeypatch, is_committed=False)
        with pytest.raises(BackendUnavailableError) as refused:
            await scribe.put("lost")
        assert refused.value.reason == "unreachable"
        assert await scribe.scanned() == [record.id]
        assert await scribe.audit() == []


# -- several processes --------------------------------------------------------------------------------------------


async def test_others_hear_of_a_commit(postgres_url: str) -> None:
    heard: list[frozenset[str]] = []
    async with writing(postgres_url, "1") as scribe:
        listener = opened(postgres_url, mark="2")
        listener.on_commit(heard.append)
        await listener.open(TENANT)
        await until(lambda: bool(heard))  # it listens from now on
        heard.clear()
        await scribe.put("news")
        await until(lambda: frozenset({TENANT}) in heard)
        await listener.close()


async def test_whoever_commits_hears_of_it_at_once(postgres_url: str) -> None:
    heard: list[frozenset[str]] = []
    async with writing(postgres_url) as scribe:
        ledger_of(scribe).on_commit(heard.append)
        await scribe.put()
        assert set(heard) == {frozenset({TENANT})}


async def test_an_announcement_tells_tenant_and_position_and_nothing_else(postgres_url: str) -> None:
    async with writing(postgres_url) as scribe:
        channel = ledger_of(scribe)._announcer.channel
        async with await psycopg.AsyncConnection.connect(postgres_url, autocommit=True) as connection:
            await connection.execute(f'LISTEN "{channel}"'.encode())
            await scribe.put("content nobody may read", metadata={"secret": 1})
            async for notice in connection.notifies(timeout=PATIENCE_S, stop_after=1):
                assert notice.payload == '{"tenant": "default", "seq": 2}'
                break
            else:
                pytest.fail("nothing was announced")


async def test_nonsense_on_the_channel_is_not_heard(postgres: Server, postgres_url: str) -> None:
    heard: list[frozenset[str]] = []
    async with writing(postgres_url) as scribe:
        ledger = ledger_of(scribe)
        ledger.on_commit(heard.append)
        await ledger.open(TENANT)
        await until(lambda: bool(heard))
        heard.clear()
        for payload in ("", "nonsense", "[]", 7_000 * "[", '{"tenant": 7}', '{"tenant": "other"}'):
            postgres.execute(
                "SELECT pg_notify(%(channel)s, %(payload)s)",
                name_of(postgres_url),
                channel=ledger._announcer.channel,
                payload=payload,
            )
        await until(lambda: bool(heard))
        assert heard == [frozenset({"other"})]


async def test_listening_is_taken_up_again_when_the_line_broke(postgres: Server, postgres_url: str) -> None:
    heard: list[frozenset[str]] = []
    async with writing(postgres_url) as scribe:
        ledger = ledger_of(scribe)
        ledger.on_commit(heard.append)
        await ledger.open(TENANT)
        await until(lambda: bool(heard))
        heard.clear()
        cut = postgres.execute(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
            " WHERE query LIKE '%LISTEN \"quipu%' AND pid <> pg_backend_pid()"
        )
        assert cut
        # Whoever begins to listen again looks at everything once.
        await until(lambda: bool(heard))


async def test_two_processes_see_each_other_at_once(postgres_url: str) -> None:
    async with writing(postgres_url, "1") as one, writing(postgres_url, "2") as other:
        for number in range(10):
            record = await one.put(f"turn {number}", vector=vector(number))
            assert record.id in await other.found("turn", vector(number), limit=50)
            changed = await other.change(record, content=f"changed {number}", vector=vector(number))
            assert (await one.ledger.read(TENANT, [record.id]))[record.id] == changed
            await one.commit(Close(record=changed, ending=Ending.FORGOTTEN), op=Op.FORGET)
            assert await other.found("turn changed", limit=50) == set()
        assert await one.audit() == []


async def test_a_partition_is_read_at_one_moment_though_others_write_meanwhile(
    postgres_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with writing(postgres_url, "1") as one, writing(postgres_url, "2") as other:
        for step in ("_load", "_follow"):
            whole = getattr(source, step)

            async def overtaken(*given: object, whole: Any = whole, **named: object) -> object:
                """Somebody commits between two statements of a reader."""
                await other.put("late word")
                return await whole(*given, **named)

            await one.put("word")
            before = len(await one.scanned())
            monkeypatch.setattr(source, step, overtaken)
            found = await one.search("word", limit=50)
            monkeypatch.setattr(source, step, whole)
            assert found.in_reach == len(found.candidates) == before
            found = await one.search("word", limit=50)
            assert found.in_reach == len(found.candidates) == before + 1


async def test_a_database_in_a_schema_of_its_own(postgres: Server, empty_url: str) -> None:
    place = Place(empty_url, "memory")
    postgres.execute("CREATE TABLE theirs (precious text)", name_of(empty_url))
    assert (await refusal(empty_url)).reason == "not_a_database"
    async with writing(empty_url, place=place) as scribe:
        record = await scribe.put("kept", vector=vector(1))
        assert await scribe.found("kept", vector(1)) == {record.id}
        assert (await scribe.ledger.statistics(TENANT))["bytes"] > 0
        await scribe.erase(record.id)
        await scribe.ledger.compact()
        assert await scribe.ledger.integrity_faults() == []
    tables = postgres.execute("SELECT schemaname, tablename FROM pg_tables", name_of(empty_url))
    assert {schema for schema, table in tables if table in ("record", "journal")} == {"memory"}


async def nothing(connection: object) -> None:
    """The tables are there."""


@pytest.mark.parametrize("schema", [None, "memory"])
async def test_pgvector_may_live_in_any_schema(postgres: Server, empty_url: str, schema: str | None) -> None:
    postgres.execute('CREATE SCHEMA "All Extensions"', name_of(empty_url))
    postgres.execute('CREATE EXTENSION vector SCHEMA "All Extensions"', name_of(empty_url))
    async with writing(empty_url, place=Place(empty_url, schema)) as scribe:
        record = await scribe.put("kept", vector=vector(1))
        assert await scribe.found("nothing", vector(1)) == {record.id}
        assert await scribe.ledger.integrity_faults() == []
    tables = postgres.execute(
        "SELECT schemaname FROM pg_tables WHERE tablename = 'record'", name_of(empty_url)
    )
    assert tables == [(schema or "public",)]


async def test_two_schemas_of_one_database_share_pgvector(empty_url: str) -> None:
    """It was created in the first one's."""
    for schema in ("one", "other"):
        async with writing(empty_url, place=Place(empty_url, schema)) as scribe:
            await scribe.put("kept", vector=vector(1))
            assert len(await scribe.found("kept", vector(1))) == 1


@pytest.mark.parametrize("way", ["giving back", "looking after"])
async def test_a_caller_that_goes_away_takes_no_connection_along(
    postgres_url: str, monkeypatch: pytest.MonkeyPatch, way: str
) -> None:
    """Else the pool is one short for good: with every caller that leaves at the wrong moment, until there is none."""
    database = Database(Place(postgres_url), size=1, prepare=nothing)
    entered, left = asyncio.Event(), asyncio.Event()

    async def used() -> None:
        async with database.connection():
            entered.set()
            await left.wait()

    async def slow(connection: object) -> None:
        """It is asked whether it still works."""
        entered.set()
        await left.wait()

    await database.run(nothing)
    pool = database._pool
    assert pool is not None
    await until(lambda: pool.get_stats()["pool_available"] == 1)
    if way == "looking after":
        monkeypatch.setattr(pool, "check_connection", slow)
    caller = asyncio.create_task(used() if way == "giving back" else database.wait_for_return())
    await entered.wait()
    async with pool._lock:  # somebody else is at it
        if way == "giving back":
            left.set()
        for _ in range(5):
            await asyncio.sleep(0)
        caller.cancel()
        with pytest.raises(asyncio.CancelledError):
            await caller
    left.set()
    await until(lambda: pool.get_stats()["pool_available"] == 1)
    await database.close()


@pytest.mark.parametrize(("given", "noticed"), [("", "10"), ("&keepalives_idle=99", "99")])
async def test_a_machine_that_has_gone_without_a_word_is_noticed(
    postgres_url: str, given: str, noticed: str
) -> None:
    database = Database(Place(postgres_url + given), size=1, prepare=nothing)
    await database.run(nothing)
    own = await database.connect()
    async with database.connection() as pooled:
        for connection in (own, pooled):
            told = connection.info.get_parameters()
            assert told["keepalives_idle"] == noticed
            assert told["tcp_user_timeout"] == "25000"
    await own.close()
    await database.close()


async def test_a_pool_that_is_used_up_says_so(postgres_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    database = Database(Place(postgres_url), size=1, prepare=nothing, patience_s=0)
    await database.run(nothing)
    await until(lambda: database._pool is not None and database._pool.get_stats()["pool_available"] == 1)
    monkeypatch.setattr(connections, "_SOON_S", 0.05)
    async with database.connection():
        with pytest.raises(BackendUnavailableError) as refused:
            async with database.connection():
                pass
    assert refused.value.reason == "too_many_connections"
    assert "raise QUIPU_POOL_SIZE" in (refused.value.hint or "")
    await database.close()
