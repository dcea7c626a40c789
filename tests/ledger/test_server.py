"""PostgreSQL: what is said when it is not there, what is forced, what survives its end, who hears of a commit."""

import asyncio
import os
import threading
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any

import psycopg
import pytest

from quipu.errors import BackendUnavailableError, QuipuError
from quipu.ledger import groups
from quipu.ledger.index import Known, Owner
from quipu.ledger.ledger import Ledger
from quipu.ledger.postgres import driver as drivers
from quipu.ledger.postgres import listen
from quipu.ledger.postgres.driver import PostgresDriver
from quipu.ledger.postgres.faults import meaning
from quipu.ledger.queries import SQL, Query
from quipu.model.search import Selection, Snapshot
from tests.fixtures.postgres import Server, empty, name_of
from tests.ledger.builders import T, commit, faults, put

PATIENCE_S = 30.0


@pytest.fixture
def address(database: str) -> str:
    """A database without rows."""
    empty(database)
    return database


@pytest.fixture
def fresh(postgres: Server) -> str:
    """A database of the test's own, to be set otherwise."""
    return postgres.new_database()


@asynccontextmanager
async def opened(address: str, tables: Sequence[Any], **options: Any) -> AsyncIterator[Ledger]:
    ledger = Ledger(PostgresDriver(address, size=4, **options), tables)
    try:
        yield ledger
    finally:
        await ledger.close()


async def until(holds: Callable[[], bool]) -> None:
    """Wait for something that is bound to come."""
    async with asyncio.timeout(PATIENCE_S):
        while not holds():  # noqa: ASYNC110  it comes from the database, not from this loop
            await asyncio.sleep(0.01)


# -- a server that is not there -----------------------------------------------------------------------------------------


def refusal(address: str) -> QuipuError:
    with pytest.raises(QuipuError) as refused:
        PostgresDriver(address, patience_s=2.0).close()
    assert "secret-password" not in f"{refused.value.message} {refused.value.hint} {refused.value!r}"
    return refused.value


def test_why_a_database_cannot_be_opened_is_said_at_once(postgres: Server, tmp_path: Path) -> None:
    for nowhere in (
        f"postgresql://quipu:secret-password@/x?host={tmp_path}",
        "postgresql://quipu:secret-password@127.0.0.1:1/x",
    ):
        assert refusal(nowhere).reason == "unreachable"
    assert refusal(postgres.url("nowhere_at_all")).reason == "no_database"


def test_a_user_who_may_not_come_in_is_told_so(own_server: Server, database: str) -> None:
    own_server.execute("CREATE ROLE stranger LOGIN CONNECTION LIMIT 0")
    assert refusal(database.replace("quipu@", "stranger@")).reason == "too_many_connections"
    assert refusal(database.replace("quipu@", "nobody@")).reason == "denied"


@pytest.mark.parametrize("encoding", ["SQL_ASCII", "LATIN1"])
def test_a_database_that_cannot_keep_every_text_is_refused_and_left_alone(
    postgres: Server, encoding: str
) -> None:
    name = f"kept_as_{encoding.lower()}_{os.getpid()}"
    postgres.execute(f"CREATE DATABASE {name} TEMPLATE template0 ENCODING '{encoding}' LOCALE 'C'")
    assert refusal(postgres.url(name)).reason == "not_utf8"
    assert postgres.execute("SELECT 1 FROM pg_tables WHERE schemaname = 'public'", name) == []
    postgres.execute(f"DROP DATABASE {name}")


def test_errors_are_told_apart_and_never_quote_the_database() -> None:
    said = "the secret stands in here"
    for error, reason in (
        (psycopg.errors.DiskFull(said), "disk_full"),
        (psycopg.errors.ReadOnlySqlTransaction(said), "read_only"),
        (psycopg.errors.LockNotAvailable(said), "busy"),
        (psycopg.errors.DeadlockDetected(said), "busy"),
        (psycopg.errors.QueryCanceled(said), "busy"),
        (psycopg.errors.DataCorrupted(said), "damaged_file"),
        (psycopg.errors.AdminShutdown(said), "unreachable"),
        (psycopg.OperationalError(said), "unreachable"),
        (psycopg.OperationalError('FATAL:  database "x" does not exist'), "no_database"),
        (psycopg.OperationalError("FATAL:  sorry, too many clients already"), "too_many_connections"),
    ):
        told = meaning(error)
        assert told is not None
        assert told.reason == reason
        assert said not in f"{told.message} {told.hint}"
    assert (
        meaning(psycopg.errors.UniqueViolation(said)) is None
    )  # a statement's fault: told to its caller alone


# -- what is forced -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("given", "kept"),
    [("off", "on"), ("local", "on"), ("remote_write", "on"), ("on", "on"), ("remote_apply", "remote_apply")],
)
def test_an_acknowledged_commit_is_on_disk_whatever_the_database_is_set_to(
    postgres: Server, fresh: str, given: str, kept: str
) -> None:
    postgres.execute(f"ALTER DATABASE {name_of(fresh)} SET synchronous_commit = {given}")
    driver = PostgresDriver(fresh, size=2)
    try:
        with driver.writing("") as cursor:
            assert cursor.row(Query("SHOW synchronous_commit")) == (kept,)
    finally:
        driver.close()


@pytest.mark.parametrize("level", ["repeatable read", "serializable"])
async def test_writers_take_turns_whatever_level_of_isolation_the_database_is_set_to(
    postgres: Server, fresh: str, tables: Sequence[Any], level: str
) -> None:
    postgres.execute(f"ALTER DATABASE {name_of(fresh)} SET default_transaction_isolation = '{level}'")
    postgres.execute(f"ALTER DATABASE {name_of(fresh)} SET default_transaction_read_only = on")
    async with opened(fresh, tables) as one, opened(fresh, tables) as other:
        with one._driver.writing("") as cursor:
            assert cursor.row(Query("SHOW transaction_isolation")) == ("read committed",)
        with one._driver.reading() as cursor:
            assert cursor.row(Query("SHOW transaction_isolation")) == ("repeatable read",)
            assert cursor.row(Query("SHOW transaction_read_only")) == ("on",)
        work = [
            ledger.commit(commit(put(f"mem_{n}_{i}")))
            for n in range(15)
            for i, ledger in enumerate((one, other))
        ]
        await asyncio.gather(*work)
        assert (await one.head(T)).seq == 30
        assert await faults(one) == []


async def test_texts_are_kept_whatever_encoding_the_database_is_set_to(
    postgres: Server, fresh: str, tables: Sequence[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    postgres.execute(f"ALTER DATABASE {name_of(fresh)} SET client_encoding = 'LATIN1'")
    monkeypatch.setenv("PGCLIENTENCODING", "LATIN1")
    async with opened(fresh, tables) as ledger:
        await ledger.commit(commit(put(content="東京 in Straßen")))
        assert [one.content for one in await ledger.versions(T, "mem_1")] == ["東京 in Straßen"]
        assert await faults(ledger) == []


async def test_a_transaction_that_failed_in_silence_is_no_success(
    address: str, tables: Sequence[Any]
) -> None:
    """PostgreSQL answers the COMMIT of a failed transaction with ROLLBACK, and with no error."""

    def swallowed(ledger: Ledger) -> None:
        with ledger._driver.writing(T) as cursor:
            cursor.run(SQL["add_tenant"], tenant="kept?", at=1)
            with suppress(psycopg.Error):
                cursor.run(Query("SELECT nothing FROM nowhere"))

    async with opened(address, tables) as ledger:
        with pytest.raises(BackendUnavailableError) as refused:
            swallowed(ledger)
        assert refused.value.reason == "rolled_back"
        assert await ledger.tenants() == []


async def test_texts_are_compared_byte_by_byte_as_in_a_file(
    postgres: Server, address: str, tables: Sequence[Any]
) -> None:
    """In an order of words `B` and `a_1` would change places, and a page would leave some out."""
    ids = ["mem_B", "mem_a", "mem_a1", "mem_a_1", "mem_Z", "mem_é", "mem_z"]
    async with opened(address, tables) as ledger:
        await ledger.commit(commit(*(put(record_id) for record_id in ids)))
        found = [one.id async for one in ledger.scan(Selection(tenant=T), Snapshot(None, 1))]
        assert found == sorted(ids, key=str.encode, reverse=True)
        assert [one.id async for one in ledger.every_version(T)] == sorted(ids, key=str.encode)
    otherwise = postgres.execute(
        "SELECT table_name || '.' || column_name FROM information_schema.columns WHERE table_schema = 'public' "
        "AND data_type = 'text' AND collation_name IS DISTINCT FROM 'C'",
        name_of(address),
    )
    assert otherwise == []


async def test_what_may_be_left_out_is_planned_for_what_is_given(address: str, tables: Sequence[Any]) -> None:
    """A plan that is kept would be made for all values: without an agent it walks, and with one it must not."""
    async with opened(address, tables) as ledger:
        with ledger._driver.reading() as cursor:
            assert isinstance(cursor, drivers.PostgresCursor)
            for _ in range(12):
                cursor.rows(SQL["head"], tenant=T)
                cursor.rows(SQL["records_at"], tenant=T, ids=["a"], seq=1)
            prepared = cursor.connection.execute("SELECT count(*) FROM pg_prepared_statements").fetchone()
            assert prepared == (0,)


# -- turns --------------------------------------------------------------------------------------------------------------


@pytest.fixture
def holding(address: str) -> Iterator[psycopg.Connection[Any]]:
    """Somebody else's connection."""
    with psycopg.connect(address) as connection:
        yield connection


async def test_a_write_waits_for_the_tenants_turn_and_nobody_else_does(
    address: str, tables: Sequence[Any], holding: psycopg.Connection[Any]
) -> None:
    async with opened(address, tables) as ledger:
        await ledger.commit(commit(put()))
        holding.execute("SELECT 1 FROM head WHERE tenant = %s FOR UPDATE", [T])
        waiting = asyncio.create_task(ledger.commit(commit(put("mem_2"))))
        for _ in range(10):
            assert set(await ledger.records(T, ["mem_1", "mem_2"])) == {"mem_1"}
        await ledger.commit(commit(put(), tenant="other"))
        assert not waiting.done()
        holding.commit()
        await asyncio.wait_for(waiting, PATIENCE_S)
        assert await faults(ledger) == []


async def test_a_write_that_waits_too_long_says_so_and_can_be_repeated(
    address: str, tables: Sequence[Any], holding: psycopg.Connection[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(drivers, "_WRITING", drivers._WRITING.replace("'10s'", "'50ms'"))
    monkeypatch.setattr(groups, "_PATIENCE_S", 0.1)
    async with opened(address, tables) as ledger:
        await ledger.commit(commit(put()))
        holding.execute("SELECT 1 FROM head WHERE tenant = %s FOR UPDATE", [T])
        with pytest.raises(BackendUnavailableError) as refused:
            await ledger.commit(commit(put("mem_2")))
        assert refused.value.reason == "busy"
        holding.rollback()
        await ledger.commit(commit(put("mem_2")))
        assert await faults(ledger) == []


async def test_a_process_that_stands_still_in_a_transaction_does_not_hold_its_tenant_for_ever(
    address: str, tables: Sequence[Any]
) -> None:
    async with opened(address, tables) as ledger:
        with ledger._driver.writing(T) as cursor:
            assert cursor.row(Query("SHOW idle_in_transaction_session_timeout")) == ("1min",)
            assert cursor.row(Query("SHOW lock_timeout")) == ("10s",)


# -- a server that goes away --------------------------------------------------------------------------------------------


async def test_a_ledger_goes_on_when_its_connections_were_cut(
    postgres: Server, address: str, tables: Sequence[Any]
) -> None:
    cut = (
        f"SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = '{name_of(address)}' "  # noqa: S608  a name of ours
        "AND pid <> pg_backend_pid()"
    )
    async with opened(address, tables) as ledger:
        await ledger.commit(commit(put()))
        await asyncio.gather(*(ledger.head(T) for _ in range(8)))
        for number in range(2, 8):
            postgres.execute(cut)
            if number % 2:
                await ledger.commit(commit(put(f"mem_{number}")))
            assert (await ledger.head(T)).seq >= 1
        assert await faults(ledger) == []


@pytest.mark.slow
async def test_the_server_killed_under_its_writers_loses_nothing_that_was_acknowledged(
    tables: Sequence[Any],
) -> None:
    server = Server()
    kept: set[str] = set()
    try:
        async with opened(server.new_database(), tables) as ledger:
            stopped = asyncio.Event()

            async def write(writer: int) -> None:
                number = 0
                while not stopped.is_set():
                    record_id = f"mem_{writer}_{number}"
                    number += 1
                    with suppress(QuipuError):
                        await ledger.commit(commit(put(record_id)))
                        kept.add(record_id)

            async with asyncio.timeout(120), asyncio.TaskGroup() as group:
                for writer in range(8):
                    group.create_task(write(writer))
                for _ in range(3):
                    before = len(kept)
                    while len(kept) < before + 100:  # noqa: ASYNC110  the writers count
                        await asyncio.sleep(0.01)
                    await asyncio.to_thread(server.kill)
                    await asyncio.to_thread(server.start)
                stopped.set()
            assert set(await ledger.records(T, sorted(kept))) == kept
            assert await faults(ledger) == []
    finally:
        server.stop()
    assert len(kept) >= 300


def test_a_forked_child_does_not_use_its_parents_connections(address: str, tables: Sequence[Any]) -> None:
    driver = PostgresDriver(address, size=2)
    Ledger(driver, tables)
    child = os.fork()
    if child == 0:  # pragma: no cover  in the child
        try:
            with driver.reading():
                os._exit(1)
        except BackendUnavailableError as error:
            driver.close()
            os._exit(0 if error.reason == "forked" else 2)
        finally:
            os._exit(3)
    _, status = os.waitpid(child, 0)
    assert os.waitstatus_to_exitcode(status) == 0
    with driver.reading() as cursor:
        cursor.rows(SQL["tenants"], tenant="", limit=1)
    driver.close()


# -- other processes ----------------------------------------------------------------------------------------------------


async def test_others_hear_of_a_commit_after_it(address: str, tables: Sequence[Any]) -> None:
    async with opened(address, tables) as one, opened(address, tables) as other:
        heard: list[str] = []
        other.on_commit(lambda tenant, seq, commits: heard.append(tenant))
        one.listen()
        other.listen()
        await until(lambda: heard == [""])  # it listens from now on, and nobody knows what was said before
        await one.commit(commit(put()))
        await until(lambda: T in heard)
        assert set(await other.records(T, ["mem_1"])) == {"mem_1"}


async def test_a_commit_itself_announces_nothing(address: str, tables: Sequence[Any]) -> None:
    """A NOTIFY inside of the transaction takes a lock that all tenants share until it is durable."""
    said: list[str] = []
    execute = drivers.PostgresCursor._execute

    def noted(self: Any, query: Query, values: Any) -> Any:
        said.append(query.text)
        return execute(self, query, values)

    async with opened(address, tables) as ledger:
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(drivers.PostgresCursor, "_execute", noted)
            ledger.listen()
            await ledger.commit(commit(put()))
    assert said
    assert not [text for text in said if "notify" in text.lower()]


async def test_nonsense_on_the_channel_is_not_heard(
    postgres: Server, address: str, tables: Sequence[Any]
) -> None:
    async with opened(address, tables) as ledger:
        heard: list[str] = []
        ledger.on_commit(lambda tenant, seq, commits: heard.append(tenant))
        ledger.listen()
        await until(lambda: heard == [""])
        for nonsense in ("", "x" * 7000, "a\nb", "\x01"):
            with psycopg.connect(address, autocommit=True) as connection:
                connection.execute("SELECT pg_notify('quipu_commits', %s)", [nonsense])
                connection.execute("SELECT pg_notify('another', 'acme')")
        with psycopg.connect(address, autocommit=True) as connection:
            connection.execute("SELECT pg_notify('quipu_commits', 'end')")
        await until(lambda: "end" in heard)
        assert heard == ["", "end"]


async def test_listening_is_taken_up_again_when_the_line_broke(
    postgres: Server, address: str, tables: Sequence[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(listen, "_RETRY_S", 0.01)
    async with opened(address, tables) as ledger:
        heard: list[str] = []
        ledger.on_commit(lambda tenant, seq, commits: heard.append(tenant))
        ledger.listen()
        await until(lambda: heard == [""])
        postgres.execute(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'quipu-listen'"
        )
        await until(lambda: heard.count("") >= 3)  # it broke, and it listens again
        with psycopg.connect(address, autocommit=True) as connection:
            connection.execute("SELECT pg_notify('quipu_commits', 'acme')")
        await until(lambda: "acme" in heard)


async def test_a_partition_is_read_at_one_moment_though_others_write_meanwhile(
    address: str, tables: Sequence[Any]
) -> None:
    agent = Owner("agent", is_store=False)
    async with opened(address, tables) as one, opened(address, tables) as other:
        await one.commit(commit(put("mem_1")))
        asked, wrote = threading.Event(), threading.Event()

        def work(reader: Any) -> Any:
            reader.head()
            asked.set()
            assert wrote.wait(PATIENCE_S)
            return reader.news(agent, Known())

        reading = asyncio.create_task(one.read(T, work))
        await asyncio.to_thread(asked.wait)
        await other.commit(commit(put("mem_2"), put("mem_1", content="new", expects=1)))
        wrote.set()
        news = await reading
        assert [(row.id, row.version, row.died) for row in news.rows] == [("mem_1", 1, None)]
        assert news.known.seq == 1
