"""The schema: the sum of its steps, made once, upgraded once, and left alone when it is not ours to touch."""

import asyncio
import re
import subprocess
import sys
from pathlib import Path

import psycopg
import pytest

from quipu.errors import QuipuError
from quipu.ledger.postgres import migrating, running
from quipu.ledger.postgres.database import Place, check_pgvector, check_server
from quipu.testing.builders import TENANT, FixedClock, Scribe
from tests.ledger.postgres.opening import opened
from tests.postgres import Server, name_of

ROOT = Path(__file__).parents[3]
EXTRA = "CREATE TABLE extra (tenant text NOT NULL);"


def described(postgres: Server, url: str) -> str:
    """Everything the server knows of a schema, in its own words."""
    done = postgres.run("pg_dump", "--schema-only", "--no-owner", "--restrict-key=quipu", url)
    return re.sub(r"^--.*\n", "", done, flags=re.M)


async def test_the_schema_is_the_sum_of_the_migrations(postgres: Server, empty_url: str) -> None:
    whole = postgres.database(is_empty=True)
    schema = Path(migrating.__file__).with_name("schema.sql").read_text("utf-8")
    postgres.execute("CREATE EXTENSION vector", name_of(whole))
    postgres.execute(schema, name_of(whole))
    assert await running.init(Place(empty_url)) == len(migrating.migrations())
    made = described(postgres, empty_url)
    assert "CREATE TABLE public.journal" in made
    assert made == described(postgres, whole)
    postgres.drop(whole)


async def refusal(url: str, *extra: str) -> QuipuError:
    ledger = opened(url, steps=[*migrating.migrations(), *extra])
    with pytest.raises(QuipuError) as refused:
        await ledger.open(TENANT)
    await ledger.close()
    return refused.value


async def test_an_empty_database_becomes_ours_when_it_is_first_used(postgres: Server, empty_url: str) -> None:
    ledger = opened(empty_url)
    scribe = await Scribe.at(ledger, FixedClock())
    await scribe.put()
    assert await scribe.audit() == []
    await ledger.close()
    status = await running.status(Place(empty_url))
    assert (status.version, status.tenants, status.is_replica) == (status.newest, 1, False)
    assert status.pgvector
    assert status.sizes["record"] > 0


async def test_a_database_of_another_program_is_refused_and_left_alone(
    postgres: Server, empty_url: str
) -> None:
    name = name_of(empty_url)
    postgres.execute("CREATE TABLE theirs (x text)", name)
    postgres.execute("INSERT INTO theirs VALUES ('precious')", name)
    before = described(postgres, empty_url)
    for asked in (refusal(empty_url), failed_init(empty_url)):
        error = await asked
        assert error.reason == "not_a_database"
        assert "schema" in (error.hint or "")
    assert described(postgres, empty_url) == before


async def failed_init(url: str) -> QuipuError:
    with pytest.raises(QuipuError) as refused:
        await running.init(Place(url))
    return refused.value


async def test_a_newer_schema_is_refused_and_left_alone(postgres: Server, fresh_url: str) -> None:
    postgres.execute("INSERT INTO quipu_migration (number) VALUES (99)", name_of(fresh_url))
    before = described(postgres, fresh_url)
    error = await refusal(fresh_url)
    assert error.reason == "newer_schema"
    assert "99" in error.message
    with pytest.raises(QuipuError) as refused:
        await running.upgrade(Place(fresh_url))
    assert refused.value.reason == "newer_schema"
    assert described(postgres, fresh_url) == before


async def test_an_older_schema_waits_for_its_operator(fresh_url: str) -> None:
    error = await refusal(fresh_url, EXTRA)
    assert error.reason == "older_schema"
    assert "db migrate" in (error.hint or "")
    steps = [*migrating.migrations(), EXTRA]
    assert await running.upgrade(Place(fresh_url), steps) == 1
    assert await running.upgrade(Place(fresh_url), steps) == 0
    ledger = opened(fresh_url, steps=steps)
    scribe = await Scribe.at(ledger, FixedClock())
    await scribe.put()
    await ledger.close()
    assert (await refusal(fresh_url)).reason == "newer_schema"


async def test_an_upgrade_needs_something_to_upgrade(empty_url: str) -> None:
    with pytest.raises(QuipuError) as refused:
        await running.upgrade(Place(empty_url))
    assert refused.value.reason == "no_schema"
    assert (await running.status(Place(empty_url))).version is None


async def test_an_upgrade_that_fails_leaves_everything_as_it_was(postgres: Server, fresh_url: str) -> None:
    before = described(postgres, fresh_url)
    with pytest.raises(QuipuError):
        await running.upgrade(Place(fresh_url), [*migrating.migrations(), EXTRA, "CREATE NONSENSE;"])
    assert described(postgres, fresh_url) == before
    ledger = opened(fresh_url)
    await Scribe.at(ledger, FixedClock())
    await ledger.close()


async def test_many_make_an_empty_database_ready_at_once(postgres: Server, empty_url: str) -> None:
    ledgers = [opened(empty_url, mark=f"m{number}") for number in range(12)]
    scribes = await asyncio.gather(*(Scribe.at(ledger, FixedClock()) for ledger in ledgers))
    assert len({scribe.main for scribe in scribes}) == 1
    assert await scribes[0].audit() == []
    await asyncio.gather(*(ledger.close() for ledger in ledgers))
    steps = postgres.execute("SELECT number FROM quipu_migration", name_of(empty_url))
    assert len(steps) == len(migrating.migrations())


UPGRADE = """
import asyncio, sys
from quipu.ledger.postgres import migrating, running
from quipu.ledger.postgres.database import Place, check_pgvector, check_server
from tests.ledger.postgres.test_migrations import EXTRA
print(asyncio.run(running.upgrade(Place(sys.argv[1]), [*migrating.migrations(), EXTRA])))
"""


def test_processes_that_upgrade_at_once_do_it_once(postgres: Server, fresh_url: str) -> None:
    with psycopg.connect(fresh_url) as busy:
        # Everybody waits for this one, so that they all come at the same moment.
        busy.execute("LOCK TABLE quipu_migration IN ACCESS EXCLUSIVE MODE")
        started = [
            subprocess.Popen([sys.executable, "-c", UPGRADE, fresh_url], cwd=ROOT, stdout=subprocess.PIPE)
            for _ in range(3)
        ]
        waiting = "SELECT count(*) FROM pg_locks WHERE NOT granted"
        while postgres.execute(waiting)[0][0] < 3:
            assert all(process.poll() is None for process in started)
        busy.rollback()
    told = sorted(process.communicate(timeout=60)[0].decode().strip() for process in started)
    assert [process.returncode for process in started] == [0, 0, 0]
    assert told == ["0", "0", "1"]


async def test_a_user_who_may_not_install_pgvector_is_told_what_is_missing(
    postgres: Server, empty_url: str
) -> None:
    postgres.execute("CREATE ROLE plain LOGIN")
    postgres.execute("GRANT ALL ON SCHEMA public TO plain", name_of(empty_url))
    error = await failed_init(empty_url.replace("quipu@", "plain@"))
    assert error.reason == "no_pgvector"
    assert "extension" in (error.hint or "")
    postgres.execute("CREATE EXTENSION vector", name_of(empty_url))
    assert await running.init(Place(empty_url.replace("quipu@", "plain@"))) > 0


@pytest.mark.parametrize(
    ("loss", "told"),
    [
        ("DELETE FROM quipu_migration WHERE number = 2", "step 2"),
        ("DROP TABLE mirrored", "table mirrored"),
        ("ALTER TABLE outbox SET SCHEMA elsewhere", "table outbox"),
    ],
)
async def test_a_schema_that_is_there_in_part_is_refused_and_left_alone(
    postgres: Server, fresh_url: str, loss: str, told: str
) -> None:
    postgres.execute("CREATE SCHEMA elsewhere", name_of(fresh_url))
    postgres.execute(loss, name_of(fresh_url))
    before = described(postgres, fresh_url)
    error = await refusal(fresh_url)
    assert (error.reason, told in error.message) == ("half_migrated", True)
    assert "backup" in (error.hint or "")
    assert described(postgres, fresh_url) == before


async def test_an_extension_that_was_taken_away_is_named(postgres: Server, fresh_url: str) -> None:
    postgres.execute("DROP EXTENSION vector CASCADE", name_of(fresh_url))
    error = await refusal(fresh_url)
    assert error.reason == "no_pgvector"
    assert "extension" in (error.hint or "")


async def test_an_extension_that_is_too_old_is_refused(postgres: Server, fresh_url: str) -> None:
    """The catalogue says so; the code behind it is of today."""
    postgres.execute(
        "UPDATE pg_extension SET extversion = '0.7.4' WHERE extname = 'vector'", name_of(fresh_url)
    )
    error = await refusal(fresh_url)
    assert (error.reason, "0.7.4" in error.message) == ("old_pgvector", True)
    assert "ALTER EXTENSION" in (error.hint or "")


def test_a_server_that_is_too_old_is_refused() -> None:
    """No old server runs here: what it would say of itself is handed in."""
    check_server(140_000)
    check_server(180_004)
    with pytest.raises(QuipuError) as refused:
        check_server(130_018)
    assert (refused.value.reason, "13" in refused.value.message) == ("old_server", True)


@pytest.mark.parametrize("version", ["0.8.0", "0.8.5", "0.10.0", "1.0", "0.9-dev"])
def test_an_extension_that_is_new_enough_is_not(version: str) -> None:
    check_pgvector(version)
