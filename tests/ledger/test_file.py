"""The file itself: what is refused, what is waited for, what survives a full disk, and how it is upgraded."""

import asyncio
import itertools
import os
import re
import select
import shutil
import stat
import subprocess
import sys
import tempfile
import threading
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path

import apsw
import pytest

from quipu.errors import BackendUnavailableError, InternalError, InvalidError, QuipuError, TamperedError
from quipu.ledger.sqlite import completeness, file
from quipu.ledger.sqlite.ledger import SqliteLedger
from quipu.model.record import MemoryType
from quipu.testing.builders import SPACE, TENANT, CountedIds, FixedClock, Scribe, adding, canonical, vector

NOBODY = 65_534
MARKS = itertools.count()
EXTRA = "CREATE TABLE extra (tenant TEXT NOT NULL) STRICT;"


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "memory.db"


def opened(path: Path, *extra_steps: str) -> SqliteLedger:
    steps = [*file.migrations(), *extra_steps]
    return SqliteLedger(path, clock=FixedClock(), mint_id=CountedIds(), canonical=canonical, steps=steps)


@asynccontextmanager
async def writing(path: Path, *extra_steps: str) -> AsyncIterator[Scribe]:
    ledger = opened(path, *extra_steps)
    try:
        scribe = await Scribe.at(ledger, FixedClock(), CountedIds(f"w{next(MARKS)}"))
        await ledger.adopt_space(TENANT, SPACE)
        yield scribe
    finally:
        await ledger.close()


async def filled(path: Path, records: int = 200) -> None:
    async with writing(path) as scribe:
        drafts = [scribe.drafted(f"record {number} " * 20) for number in range(records)]
        await scribe.commit(*(adding(draft, vector=vector(draft.id)) for draft in drafts))


def written(path: Path, data: bytes) -> None:
    path.write_bytes(data)


def contents(path: Path) -> bytes:
    return path.read_bytes()


def permitted(path: Path, mode: int) -> None:
    path.chmod(mode)


def refusal(path: Path) -> QuipuError:
    """Why the file is refused; whatever is there stays exactly as it is."""
    before = path.read_bytes() if path.is_file() else None
    with pytest.raises(QuipuError) as refused:
        opened(path)
    if before is not None:
        assert path.read_bytes() == before
        assert [item.name for item in path.parent.iterdir()] == [path.name]
    assert refused.value.message
    return refused.value


# -- files that are not ours ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "content",
    [
        b"not a database",
        b"x" * 100_000,
        b"SQLite format 3",
        b"SQLite format 3\x00" + b"\x07" * 5000,
        bytes(9000),
    ],
    ids=["text", "long", "header cut short", "header and noise", "zeros"],
)
def test_a_file_that_is_not_a_database_is_refused_and_left_alone(path: Path, content: bytes) -> None:
    path.write_bytes(content)
    error = refusal(path)
    assert isinstance(error, BackendUnavailableError)
    assert error.reason == "not_a_database"
    assert error.hint


@pytest.mark.parametrize("mode", ["delete", "wal"])
@pytest.mark.parametrize("application", [0, 1234])
def test_a_database_of_another_program_is_refused_and_left_alone(
    path: Path, mode: str, application: int
) -> None:
    connection = apsw.Connection(str(path))
    connection.pragma("journal_mode", mode)
    connection.pragma("application_id", application)
    connection.execute("CREATE TABLE theirs (x); INSERT INTO theirs VALUES ('precious')")
    connection.close()
    error = refusal(path)
    assert error.reason == "not_a_database"
    connection = apsw.Connection(str(path))
    assert connection.execute("SELECT x FROM theirs").fetchall() == [("precious",)]
    connection.close()


async def test_a_file_of_a_newer_version_is_refused_and_left_alone(path: Path) -> None:
    await filled(path)
    connection = apsw.Connection(str(path))
    connection.pragma("user_version", 99)
    connection.close()
    error = refusal(path)
    assert error.reason == "newer_schema"
    assert "99" in error.message
    assert "pgrade" in (error.hint or "")


@pytest.mark.parametrize("version", [0, 1, len(file.migrations()) - 1])
async def test_a_file_that_says_it_is_older_than_it_is_is_refused_and_left_alone(
    path: Path, version: int
) -> None:
    await filled(path, records=3)
    former = path.with_name(f"{path.name}.schema-{version}.backup")
    written(former, b"of an upgrade long ago")
    connection = apsw.Connection(str(path))
    connection.pragma("user_version", version)
    connection.close()
    before = contents(path)
    with pytest.raises(BackendUnavailableError) as refused:
        opened(path)
    assert refused.value.reason == "half_migrated"
    assert f"version {version}" in refused.value.message
    assert "backup" in (refused.value.hint or "")
    assert contents(path) == before
    assert contents(former) == b"of an upgrade long ago"
    assert {item.name for item in path.parent.iterdir()} == {path.name, former.name}


@pytest.mark.parametrize(
    ("loss", "told"),
    [
        ("DROP TABLE mirrored", "table mirrored"),
        ("DROP TABLE journal", "table journal"),
        ("ALTER TABLE outbox RENAME TO elsewhere", "table outbox"),
    ],
)
async def test_a_file_that_lacks_part_of_its_schema_is_refused_and_left_alone(
    path: Path, loss: str, told: str
) -> None:
    await filled(path, records=3)
    connection = apsw.Connection(str(path))
    connection.execute(loss)
    connection.close()
    error = refusal(path)
    assert (error.reason, told in error.message) == ("half_migrated", True)
    assert "backup" in (error.hint or "")


async def test_an_upgrade_of_a_file_that_lacks_a_table_changes_nothing(path: Path) -> None:
    await filled(path, records=3)
    connection = apsw.Connection(str(path))
    connection.execute("DROP TABLE webhook")
    version = connection.pragma("user_version")
    with pytest.raises(QuipuError) as caught:
        opened(path, EXTRA)
    assert caught.value.reason == "half_migrated"
    assert connection.pragma("user_version") == version
    assert connection.execute("SELECT count(*) FROM sqlite_schema WHERE name = 'extra'").fetchall() == [(0,)]
    connection.close()


def test_every_table_that_the_schema_has_is_looked_for(path: Path) -> None:
    file.prepare(path, file.migrations())
    connection = apsw.Connection(str(path))
    made = {
        name
        for (name,) in connection.execute("SELECT name FROM sqlite_schema WHERE type = 'table'").fetchall()
        if not name.startswith("sqlite_")
    }
    connection.close()
    assert completeness.promised(file.migrations()) == made


def test_a_directory_is_refused(tmp_path: Path) -> None:
    assert isinstance(refusal(tmp_path), InvalidError)


@pytest.mark.parametrize(
    "name", ["pipe", "a\0b.db", "l" * 300, "file/memory.db"], ids=["pipe", "nul", "long", "in a file"]
)
def test_what_cannot_be_a_file_is_refused_at_once(tmp_path: Path, name: str) -> None:
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "file").write_bytes(b"")
    with pytest.raises(BackendUnavailableError) as refused:
        opened(tmp_path / name)
    assert refused.value.reason == "cannot_open"


def test_a_path_without_a_directory_is_refused(tmp_path: Path) -> None:
    assert refusal(tmp_path / "missing" / "memory.db").reason == "cannot_open"
    (tmp_path / "file").write_text("")
    assert refusal(tmp_path / "file" / "memory.db").reason == "cannot_open"


async def test_an_empty_file_becomes_a_database(path: Path) -> None:
    written(path, b"")
    async with writing(path) as scribe:
        await scribe.put()
    connection = apsw.Connection(str(path))
    assert connection.pragma("application_id") == file.APPLICATION_ID
    connection.close()


# -- read-only --------------------------------------------------------------------------------------------------


@contextmanager
def as_an_ordinary_user() -> Iterator[None]:
    """Root may write everywhere; for these tests it must not."""
    is_root = os.geteuid() == 0
    if is_root:
        os.seteuid(NOBODY)
    try:
        yield
    finally:
        if is_root:
            os.seteuid(0)


@pytest.fixture
def shared() -> Iterator[Path]:
    """A folder that an ordinary user can enter."""
    folder = Path(tempfile.mkdtemp())
    folder.chmod(0o755)
    yield folder
    folder.chmod(0o755)
    shutil.rmtree(folder)


def test_a_read_only_directory_is_said_to_be_one(shared: Path) -> None:
    shared.chmod(0o555)
    with as_an_ordinary_user():
        error = refusal(shared / "memory.db")
    assert isinstance(error, BackendUnavailableError)
    assert error.reason == "cannot_open"
    assert "writable" in (error.hint or "")
    assert list(shared.iterdir()) == []


async def test_a_file_on_a_read_only_disk_is_refused_and_left_alone(shared: Path) -> None:
    path = shared / "memory.db"
    await filled(path)
    permitted(path, 0o444)
    permitted(shared, 0o555)
    with as_an_ordinary_user():
        error = refusal(path)
    assert error.reason in ("read_only", "cannot_open")


def test_a_file_nobody_may_read_is_refused(shared: Path) -> None:
    path = shared / "memory.db"
    path.write_bytes(b"secret")
    path.chmod(0)
    with as_an_ordinary_user(), pytest.raises(BackendUnavailableError) as refused:
        opened(path)
    assert refused.value.reason == "cannot_open"


async def test_a_read_only_file_is_read_and_refuses_writes(shared: Path) -> None:
    path = shared / "memory.db"
    await filled(path)
    permitted(shared, 0o777)
    permitted(path, 0o444)
    with as_an_ordinary_user():
        ledger = opened(path)
        scribe = Scribe(ledger, FixedClock(), CountedIds("x"), "")
        assert len(await scribe.scanned()) == 200
        with pytest.raises(BackendUnavailableError) as refused:
            await ledger.open("another tenant")
        assert refused.value.reason == "read_only"
        await ledger.close()


# -- a full disk ------------------------------------------------------------------------------------------------


@pytest.fixture
def connections() -> Iterator[list[apsw.Connection]]:
    """Every connection opened meanwhile, so that a test can take its space away."""
    known: list[apsw.Connection] = []
    apsw.connection_hooks.append(known.append)
    yield known
    apsw.connection_hooks.remove(known.append)


def allow_pages(connections: list[apsw.Connection], path: Path, more: int) -> None:
    for connection in connections:
        try:
            if connection.filename == str(path):
                connection.pragma("max_page_count", connection.pragma("page_count") + more)
        except apsw.ConnectionClosedError:
            continue


async def test_a_full_disk_fails_the_write_and_nothing_else(
    path: Path, connections: list[apsw.Connection]
) -> None:
    async with writing(path) as scribe:
        kept = await scribe.put("kept", vector=vector(1))
        before = await scribe.ledger.head(TENANT)
        allow_pages(connections, path, 1)
        large = [scribe.drafted("large " * 50_000) for _ in range(3)]
        outcomes = await asyncio.gather(
            *(scribe.commit(adding(draft, vector=vector(draft.id))) for draft in large),
            return_exceptions=True,
        )
        for outcome in outcomes:
            assert isinstance(outcome, BackendUnavailableError)
            assert outcome.reason == "disk_full"
            assert "large" not in f"{outcome.message} {outcome.hint}"
        assert await scribe.ledger.head(TENANT) == before
        assert await scribe.scanned() == [kept.id]
        assert await scribe.found("kept large", vector(1)) == {kept.id}
        allow_pages(connections, path, 10_000)
        again = await scribe.put_drafted(large[0], vector=vector("again"))
        assert again.born == before.seq + 1
        assert await scribe.ranked(vector("again"), limit=1) == [large[0].id]
        assert await scribe.audit() == []
        assert await scribe.ledger.integrity_faults() == []


async def test_a_disk_that_is_full_while_the_file_is_made_leaves_nothing_half_made(path: Path) -> None:
    def small(connection: apsw.Connection) -> None:
        connection.pragma("max_page_count", 3)

    apsw.connection_hooks.append(small)
    try:
        with pytest.raises(BackendUnavailableError) as refused:
            opened(path)
    finally:
        apsw.connection_hooks.remove(small)
    assert refused.value.reason == "disk_full"
    async with writing(path) as scribe:
        await scribe.put()
        assert await scribe.audit() == []


# -- damage -----------------------------------------------------------------------------------------------------


async def test_a_damaged_page_is_named_and_never_read_as_truth(path: Path) -> None:
    await filled(path, 500)
    data = bytearray(contents(path))
    pages = range(0, len(data), file.PAGE_SIZE)
    for start in pages[-len(pages) // 3 :]:
        data[start : start + 300] = b"\xa5" * 300
    written(path, data)
    ledger = opened(path)
    scribe = Scribe(ledger, FixedClock(), CountedIds("x"), "")
    faults = await ledger.integrity_faults()
    assert faults
    assert {fault.kind for fault in faults} == {"damaged_file"}
    with pytest.raises((BackendUnavailableError, TamperedError)) as refused:
        await scribe.audit()
    assert refused.value.reason in ("corrupt", "altered_record", "altered_entry")
    await ledger.close()


async def test_a_file_cut_short_is_said_to_be_damaged(path: Path) -> None:
    await filled(path, 500)
    data = contents(path)
    written(path, data[: len(data) // 3 // file.PAGE_SIZE * file.PAGE_SIZE])
    with pytest.raises(BackendUnavailableError) as refused:
        opened(path)
    assert refused.value.reason == "corrupt"
    assert "backup" in (refused.value.hint or "")


async def test_a_flipped_byte_in_a_text_is_found_by_the_digest(path: Path) -> None:
    async with writing(path) as scribe:
        record = await scribe.put("the password of the safe is tomatoes")
    data = contents(path)
    assert data.count(b"tomatoes") == 1
    written(path, data.replace(b"tomatoes", b"potatoes"))
    async with writing(path) as scribe:
        assert [told.split(":")[0] for told in await scribe.audit()] == [f"altered_record at {record.born}"]


@pytest.mark.parametrize(
    ("was", "now", "reason"),
    [
        (b"tomatoes", b"\xff\xfematoes", "corrupt"),
        (b'{"ripe":1}', b'{"ripe":1,', "altered_record"),
        (b'{"ripe":1}', b'X"ripe":1}', "altered_record"),
        (b"episodic", b"episodiX", "altered_record"),
        (b'["garden"]', b'["garden",', "altered_record"),
    ],
    ids=["a text that is no Unicode", "JSON that has no end", "JSON that is none", "a type", "tags"],
)
async def test_a_row_that_cannot_be_read_back_is_said_to_be_altered(
    path: Path, was: bytes, now: bytes, reason: str
) -> None:
    async with writing(path) as scribe:
        record = await scribe.put(
            "tomatoes in the garden", metadata={"ripe": 1}, tags=("garden",), type=MemoryType.EPISODIC
        )
    data = contents(path)
    assert was in data
    written(path, data.replace(was, now))
    ledger = opened(path)
    scribe = Scribe(ledger, FixedClock(), CountedIds("x"), "")
    for look in (ledger.read(TENANT, [record.id]), ledger.versions(TENANT, record.id), scribe.audit()):
        with pytest.raises((BackendUnavailableError, TamperedError)) as refused:
            await look
        assert refused.value.reason == reason
        assert "backup" in (refused.value.hint or "")
    await ledger.close()


async def test_a_store_that_cannot_be_read_back_is_said_to_be_altered(path: Path) -> None:
    await filled(path, 1)
    written(path, contents(path).replace(b"long_term", b"long_terX"))
    ledger = opened(path)
    with pytest.raises(TamperedError) as refused:
        await ledger.stores(TENANT)
    assert refused.value.reason == "altered_store"
    await ledger.close()


# -- upgrades ---------------------------------------------------------------------------------------------------


def version_of(path: Path) -> int:
    connection = apsw.Connection(str(path))
    version = int(connection.pragma("user_version"))
    connection.close()
    return version


def test_the_schema_is_the_sum_of_the_migrations() -> None:
    schema = Path(file.__file__).with_name("schema.sql").read_text("utf-8")

    def made(*steps: str) -> list[tuple[object, ...]]:
        connection = apsw.Connection(":memory:")
        for step in steps:
            connection.execute(step)
        rows = connection.execute("SELECT type, name, tbl_name, sql FROM sqlite_schema").fetchall()
        connection.close()
        return sorted(((*row[:3], plain(row[3] or "")) for row in rows), key=repr)

    def plain(statement: str) -> str:
        """Without comments and line breaks, which a later column does not bring."""
        return " ".join(re.sub(r"--[^\n]*", "", statement).split())

    assert made(schema) == made(*file.migrations())


async def test_an_upgrade_makes_a_backup_first(path: Path) -> None:
    steps = len(file.migrations())
    await filled(path)
    async with writing(path, EXTRA) as scribe:
        assert len(await scribe.scanned()) == 200
        await scribe.put("written after the upgrade")
        assert await scribe.audit() == []
    assert version_of(path) == steps + 1
    backup = path.with_name(f"{path.name}.schema-{steps}.backup")
    assert version_of(backup) == steps
    async with writing(backup) as scribe:
        assert len(await scribe.scanned()) == 200
        assert await scribe.audit() == []
    assert refusal_of_an_older_program(path) == "newer_schema"


def refusal_of_an_older_program(path: Path) -> str | None:
    with pytest.raises(BackendUnavailableError) as refused:
        opened(path)
    return refused.value.reason


async def test_who_had_the_file_open_before_an_upgrade_writes_no_more(path: Path) -> None:
    async with writing(path) as older:
        await older.put("before")
        async with writing(path, EXTRA) as newer:
            for _ in range(3):  # a lone writer's second write goes another way
                with pytest.raises(BackendUnavailableError) as refused:
                    await older.put("by somebody who does not know the new tables")
                assert (refused.value.reason, refused.value.retryable) == ("newer_schema", False)
            await newer.put("after")
        assert len(await older.scanned()) == 2, "who only reads may go on"


async def test_an_upgrade_takes_away_what_a_killed_one_has_left(path: Path) -> None:
    await filled(path)
    backup = f"{path.name}.schema-{len(file.migrations())}.backup"
    for name in (f"{backup}.x1_y.draft", f"{backup}.x1_y.draft-journal", "mine.draft"):
        path.with_name(name).write_text("half a copy")
    async with writing(path, EXTRA) as scribe:
        assert len(await scribe.scanned()) == 200
    assert {item.name for item in path.parent.iterdir()} == {path.name, backup, "mine.draft"}


async def test_no_backup_is_made_when_there_is_nothing_to_upgrade(path: Path) -> None:
    await filled(path)
    await filled(path)
    assert [item.name for item in path.parent.iterdir()] == [path.name]


async def test_an_upgrade_that_fails_leaves_the_file_as_it_was(path: Path) -> None:
    await filled(path)
    with pytest.raises(InternalError):
        opened(path, EXTRA, "CREATE TABLE another (x INTEGER) STRICT; CREATE NONSENSE;")
    assert version_of(path) == len(file.migrations())
    async with writing(path) as scribe:
        assert len(await scribe.scanned()) == 200
        assert await scribe.audit() == []
    async with writing(path, EXTRA) as scribe:
        assert len(await scribe.scanned()) == 200


UPGRADE = """
import asyncio, sys
from pathlib import Path
from tests.ledger.test_file import EXTRA, opened
print("ready", flush=True)
sys.stdin.readline()
asyncio.run(opened(Path(sys.argv[1]), EXTRA).close())
"""


class Child:
    """A small program in a process of its own, which says a word and waits for a line."""

    def __init__(self, program: str, path: Path) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-c", program, str(path)],
            cwd=Path(__file__).parents[2],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        )

    def wait_for_word(self) -> None:
        assert self._process.stdout is not None
        assert select.select([self._process.stdout], [], [], 60)[0]
        assert self._process.stdout.readline()

    def go_on(self) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write(b"\n")
        self._process.stdin.flush()

    def finish(self) -> int:
        self._process.communicate(timeout=60)
        return self._process.returncode


async def test_processes_that_upgrade_at_once_do_it_once(path: Path) -> None:
    steps = len(file.migrations())
    await filled(path)
    children = [Child(UPGRADE, path) for _ in range(4)]
    for child in children:
        child.wait_for_word()
    for child in children:
        child.go_on()
    assert [child.finish() for child in children] == [0, 0, 0, 0]
    assert version_of(path) == steps + 1
    assert version_of(path.with_name(f"{path.name}.schema-{steps}.backup")) == steps
    assert len(list(path.parent.iterdir())) == 2


# -- sharing ----------------------------------------------------------------------------------------------------

LOCK = """
import apsw, sys
connection = apsw.Connection(sys.argv[1])
connection.execute("BEGIN IMMEDIATE")
print("locked", flush=True)
sys.stdin.readline()
connection.execute("COMMIT")
"""


async def test_a_write_waits_for_another_process_that_is_writing(path: Path) -> None:
    async with writing(path) as scribe:
        await scribe.put("first")
        child = Child(LOCK, path)
        child.wait_for_word()
        waiting = asyncio.create_task(scribe.put("second"))
        for _ in range(50):
            assert len(await scribe.found("first second")) == 1, "readers do not wait"
        assert not waiting.done()
        child.go_on()
        await asyncio.wait_for(waiting, 60)
        assert child.finish() == 0
        assert len(await scribe.found("first second")) == 2


async def test_a_write_that_waits_too_long_fails_and_can_be_repeated(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(file, "BUSY_MS", 50)
    async with writing(path) as scribe:
        draft = scribe.drafted("patient")
        child = Child(LOCK, path)
        child.wait_for_word()
        with pytest.raises(BackendUnavailableError) as refused:
            await scribe.put_drafted(draft)
        assert refused.value.reason == "busy"
        child.go_on()
        assert child.finish() == 0
        await scribe.put_drafted(draft)
        assert await scribe.audit() == []


async def test_a_write_that_was_handed_in_is_done_though_its_caller_goes_away(path: Path) -> None:
    async with writing(path) as scribe:
        child = Child(LOCK, path)
        child.wait_for_word()
        draft = scribe.drafted("left behind")
        waiting = asyncio.create_task(scribe.put_drafted(draft))
        await scribe.found("anything")
        waiting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await waiting
        child.go_on()
        assert child.finish() == 0
        await scribe.put("after it")
        assert await scribe.found("left behind") == {draft.id}
        assert await scribe.audit() == []


def test_a_ledger_outlives_the_loops_it_was_used_from(path: Path) -> None:
    ledger = opened(path)
    child = asyncio.run(left_waiting(ledger))
    child.go_on()
    assert child.finish() == 0
    assert len(asyncio.run(counted(ledger))) == 2
    asyncio.run(ledger.close())


async def left_waiting(ledger: SqliteLedger) -> Child:
    """A write that cannot be done before its loop has ended."""
    scribe = await Scribe.at(ledger, FixedClock(), CountedIds("l"))
    child = Child(LOCK, ledger.path)
    child.wait_for_word()
    waiting = asyncio.create_task(scribe.put("left behind"))
    await scribe.found("anything")
    waiting.cancel()
    return child


async def counted(ledger: SqliteLedger) -> list[str]:
    scribe = await Scribe.at(ledger, FixedClock(), CountedIds("c"))
    await asyncio.wait_for(scribe.put("after it"), 60)
    return await scribe.scanned()


async def test_writes_that_wait_are_done_before_the_file_is_closed(path: Path) -> None:
    ledger = opened(path)
    scribe = await Scribe.at(ledger, FixedClock())
    waiting = [asyncio.create_task(scribe.put(f"text {number}")) for number in range(50)]
    await asyncio.sleep(0)
    await ledger.close()
    await asyncio.gather(*waiting)
    async with writing(path) as reader:
        assert len(await reader.scanned()) == 50


@pytest.mark.skipif(not Path("/proc/self/fd").is_dir(), reason="the system does not list open files")
def test_a_thread_that_ends_leaves_nothing_open(path: Path) -> None:
    """Some servers answer every request on an event loop in a thread of its own."""
    loop = asyncio.new_event_loop()
    ledger = opened(path)
    scribe = loop.run_until_complete(Scribe.at(ledger, FixedClock(), CountedIds("l")))
    loop.run_until_complete(scribe.put("something"))
    found: list[set[str]] = []

    def ask() -> None:
        found.append(asyncio.run(scribe.found("something")))

    def asked(times: int) -> int:
        for _ in range(times):
            thread = threading.Thread(target=ask)
            thread.start()
            thread.join()
        return len(list(Path("/proc/self/fd").iterdir()))

    before = asked(8)  # by now all readers have been started
    assert asked(20) <= before
    assert len({frozenset(ids) for ids in found}) == 1
    loop.run_until_complete(ledger.close())
    loop.close()


#: Asks for the lock that nobody gets who is not alone with the file, as SQLite does before it throws the log away.
ALONE = """
import fcntl, sys
with open(sys.argv[1], "r+b") as file:
    try:
        fcntl.lockf(file, fcntl.LOCK_EX | fcntl.LOCK_NB, 510, 0x40000002)
    except OSError:
        print("not alone")
    else:
        print("alone")
"""


def is_alone(path: Path) -> bool:
    """What a program learns that has just opened the file."""
    told = subprocess.run([sys.executable, "-c", ALONE, path], check=True, capture_output=True, text=True)
    return told.stdout.strip() == "alone"


async def test_who_opens_a_file_twice_still_has_it_to_itself(path: Path) -> None:
    """A lock belongs to the whole process, and is gone when any part of it closes the file behind SQLite's back.

    Then whoever reads the file with a program of its own, and is done, takes the log away.
    """
    async with writing(path) as scribe:
        await scribe.put("one")
        assert not is_alone(path)
        async with writing(path) as another:
            await another.put("two")
            assert not is_alone(path)
        assert not is_alone(path)
        await scribe.put("three")
    assert is_alone(path)


#: Opens a file, forks, and lets the child try.
FORKED = """
import asyncio, os, sys
from pathlib import Path
from quipu.errors import BackendUnavailableError
from quipu.ledger.sqlite.ledger import SqliteLedger
from quipu.testing.builders import CountedIds, FixedClock, Scribe, canonical

async def parent(path):
    ledger = SqliteLedger(path, clock=FixedClock(), mint_id=CountedIds(), canonical=canonical)
    scribe = await Scribe.at(ledger, FixedClock(), CountedIds("w"))
    await scribe.put("of the parent")
    await scribe.found("parent")
    return scribe

async def child(scribe):
    for work in (lambda: scribe.put("of the child"), lambda: scribe.found("parent"), scribe.scanned):
        try:
            await asyncio.wait_for(work(), 10)
        except BackendUnavailableError as error:
            print(error.reason, flush=True)
    await asyncio.wait_for(scribe.ledger.close(), 10)

async def after(scribe):
    await scribe.put("of the parent again")
    print(len(await scribe.scanned()), await scribe.audit(), flush=True)
    await scribe.ledger.close()

loop = asyncio.new_event_loop()
scribe = loop.run_until_complete(parent(Path(sys.argv[1])))
if not (pid := os.fork()):
    asyncio.new_event_loop().run_until_complete(child(scribe))
    os._exit(0)
os.waitpid(pid, 0)
loop.run_until_complete(after(scribe))
"""


def test_a_forked_child_is_told_to_open_the_file_itself(path: Path) -> None:
    told = subprocess.run(
        [sys.executable, "-c", FORKED, path], check=True, capture_output=True, text=True, timeout=60
    )
    assert told.stdout.split("\n") == ["closed", "closed", "closed", "2 []", ""]


#: Opens a file, forks, and lets the child open it anew while the parent has it open, and once that has closed it.
FORKED_AND_OPENED = """
import asyncio, os, sys
from pathlib import Path
from quipu.errors import BackendUnavailableError
from quipu.ledger.sqlite.ledger import SqliteLedger
from quipu.testing.builders import CountedIds, FixedClock, Scribe, canonical

async def opened(path, mark):
    ledger = SqliteLedger(path, clock=FixedClock(), mint_id=CountedIds(mark), canonical=canonical)
    return await Scribe.at(ledger, FixedClock(), CountedIds(mark))

async def child(path, is_closed):
    try:
        scribe = await opened(path, "c")
        print("opened", flush=True)
        os.read(is_closed, 1)
        await scribe.put("of the child")
        await scribe.ledger.close()
        print("kept", flush=True)
    except BackendUnavailableError as error:
        print(error.reason, error.retryable, flush=True)

def forked(path, is_closed):
    if not (pid := os.fork()):
        asyncio.new_event_loop().run_until_complete(child(path, is_closed))
        os._exit(0)
    return pid

loop, path, (is_closed, closing) = asyncio.new_event_loop(), Path(sys.argv[1]), os.pipe()
scribe = loop.run_until_complete(opened(path, "p"))
loop.run_until_complete(scribe.put("of the parent"))
pids = [forked(path, is_closed), forked(path.with_name("another.db"), is_closed)]
loop.run_until_complete(scribe.ledger.close())
os.write(closing, b"..")
for pid in pids:
    os.waitpid(pid, 0)
os.write(closing, b".")
os.waitpid(forked(path, is_closed), 0)
"""


def told_by_forks(path: Path) -> list[str]:
    told = subprocess.run(
        [sys.executable, "-c", FORKED_AND_OPENED, path],
        check=True,
        capture_output=True,
        text=True,
        timeout=60,
    )
    return told.stdout.split("\n")


async def test_a_file_that_was_open_at_a_fork_is_not_opened_by_the_child(path: Path) -> None:
    """It would have none of the locks that it believes to have: what it is told is kept would be gone."""
    lines = told_by_forks(path)
    assert sorted(lines[:3]) == ["forked False", "kept", "opened"], "another file may be opened"
    assert lines[3:] == ["opened", "kept", ""], "and this one, by who was forked after it was closed"
    async with writing(path) as scribe:
        assert len(await scribe.scanned()) == 2


# -- a file that is taken away while it is open ---------------------------------------------------------------------


@pytest.mark.parametrize("became", ["deleted", "moved", "replaced"])
async def test_a_write_to_a_file_that_is_not_at_its_place_is_refused(path: Path, became: str) -> None:
    async with writing(path) as scribe:
        await scribe.put("one")
        await scribe.ledger.backup(path.with_name("copy.db"))
        elsewhere = path.with_name("elsewhere.db")
        if became == "deleted":
            os.unlink(path)
        else:
            os.rename(path, elsewhere)
        if became == "replaced":
            shutil.copy(path.with_name("copy.db"), path)
        for _ in range(3):  # a lone writer's second write goes another way
            with pytest.raises(BackendUnavailableError) as refused:
                await scribe.put("two")
            assert (refused.value.reason, refused.value.retryable) == ("moved", False)
        if became != "deleted":
            os.replace(elsewhere, path)
            await scribe.put("three")
            assert len(await scribe.scanned()) == 2
            assert not await scribe.audit()


# -- backups ----------------------------------------------------------------------------------------------------


async def test_a_backup_is_a_ledger_of_its_own(path: Path) -> None:
    copy = path.with_name("copy.db")
    async with writing(path) as scribe:
        record = await scribe.put("kept", vector=vector(1))
        await scribe.ledger.backup(copy)
        await scribe.put("only in the original")
    async with writing(copy) as scribe:
        assert await scribe.scanned() == [record.id]
        assert await scribe.ranked(vector(1)) == [record.id]
        assert await scribe.audit() == []


async def test_two_backups_to_one_place_do_not_meet(path: Path) -> None:
    """The second had thrown the first one's draft away, and the first put the half of the second in place."""
    await filled(path, 1)
    padding = apsw.Connection(str(path))
    padding.execute("CREATE TABLE padding (x); INSERT INTO padding VALUES (zeroblob(80000000))")
    padding.close()
    await asyncio.to_thread(path.chmod, 0o640)
    copy = path.with_name("copy.db")
    async with writing(path) as first, writing(path) as second:
        late = threading.Event()

        def told(done: int, total: int) -> None:
            if done == total:
                late.wait(30)  # as good as done, while the other begins

        slow = asyncio.create_task(first.ledger.backup(copy, told))
        quick = asyncio.create_task(second.ledger.backup(copy, lambda *_: late.set()))
        done = await asyncio.gather(slow, quick, return_exceptions=True)
    (refused,) = [one for one in done if one is not None]
    assert isinstance(refused, InvalidError)
    assert list(path.parent.glob("copy*")) == [copy]
    assert stat.S_IMODE(copy.stat().st_mode) == 0o640
    async with writing(copy) as scribe:
        assert len(await scribe.scanned()) == 1
        assert await scribe.ledger.integrity_faults() == []


async def test_a_backup_that_cannot_be_written_leaves_nothing(path: Path) -> None:
    async with writing(path) as scribe:
        await scribe.put()
        with pytest.raises(BackendUnavailableError) as refused:
            await scribe.ledger.backup(path.parent / "missing" / "copy.db")
        assert refused.value.reason == "backup"
        assert not (path.parent / "missing").exists()


async def test_a_backup_is_done_though_others_write_all_the_while(path: Path) -> None:
    await filled(path, 1)
    other = apsw.Connection(str(path))
    other.execute("CREATE TABLE padding (x); INSERT INTO padding VALUES (zeroblob(40000000))")
    steps: list[int] = []

    def told(done: int, _: int) -> None:
        steps.append(done)
        assert len(steps) < 20, "it begins again and again"
        other.execute("UPDATE tenant SET created_at = created_at + 1")

    copy = path.with_name("copy.db")
    async with writing(path) as scribe:
        await scribe.ledger.backup(copy, told)
        other.close()
    assert len(steps) > 1
    assert steps == sorted(steps)
    async with writing(copy) as scribe:
        assert len(await scribe.scanned()) == 1
        assert await scribe.audit() == []
        assert await scribe.ledger.integrity_faults() == []


@pytest.mark.parametrize("is_reader", [False, True])
async def test_statements_are_planned_once_and_not_for_every_value(path: Path, is_reader: bool) -> None:
    """This build of SQLite would otherwise plan most statements anew each time they run, at many times their cost."""
    await filled(path, 1)
    connection = file.connect(path, is_reader=is_reader)
    assert connection.config(apsw.SQLITE_DBCONFIG_ENABLE_QPSG, -1) == 1
    connection.close()


async def test_a_reader_waits_for_no_lock_that_somebody_else_holds(path: Path) -> None:
    first = opened(path)
    await first.open(TENANT)
    await first.close()
    other = apsw.Connection(str(path))
    other.execute("BEGIN IMMEDIATE")
    reader = opened(path)
    async with asyncio.timeout(10):  # a writer waits for it for half a minute
        await reader.open(TENANT)
        assert (await reader.head(TENANT)).seq == 1
    other.execute("ROLLBACK")
    other.close()
    await reader.close()
