"""Commands that are stopped from outside, that nobody reads, or that find a stream closed: real processes and pipes."""

from __future__ import annotations

import asyncio
import json
import os
import shlex
import signal
import subprocess
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

import apsw
import pytest

from quipu.bootstrap import addresses, databases
from quipu.cli import output
from tests.cli.conftest import Cli, Process
from tests.cli.test_process import read_all, wait_for

#: Large enough that copying it takes a while, and small enough for every disk.
BYTES = 160_000_000
LINES = b"".join(json.dumps({"content": f"fact {n}"}).encode() + b"\n" for n in range(600))


@contextmanager
def started(home: Path, *words: str, ignores: int | None = None) -> Generator[subprocess.Popen[bytes]]:
    """A command that runs; whatever becomes of the test, it ends."""
    before = None if ignores is None else signal.signal(ignores, signal.SIG_IGN)
    try:
        running = subprocess.Popen(
            Process.line(*words),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            cwd=home,
        )
    finally:
        if ignores is not None:
            signal.signal(ignores, before)
    with running:
        try:
            yield running
        finally:
            running.kill()


def altered(home: Path) -> None:
    """Somebody changes what was remembered, behind the back of the journal."""
    with apsw.Connection(str(home / "memory.db")) as connection:
        connection.execute("UPDATE record SET content = 'coffee'")
    connection.close()


def left(home: Path) -> list[str]:
    """What is there of a copy."""
    return [one.name for one in home.glob("copy.db*")]


# -- nobody reads -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("words", "code"),
    [(["verify"], 2), (["verify", "--json"], 2), (["doctor"], 1), (["doctor", "--json"], 1), (["list"], 0)],
)
def test_a_reader_that_leaves_early_changes_no_exit_code(
    cli: Cli, home: Path, words: list[str], code: int
) -> None:
    cli.remember("tea")
    altered(home)
    reading, writing = os.pipe()
    os.close(reading)
    try:
        done = subprocess.run(
            Process.line(*words), stdout=writing, stderr=subprocess.PIPE, cwd=home, timeout=60, check=False
        )
    finally:
        os.close(writing)
    assert b"Traceback" not in done.stderr
    assert done.returncode == code


def test_who_follows_changes_ends_when_nobody_reads(cli: Cli, home: Path) -> None:
    cli.remember("tea")
    cli.remember("cake")
    with started(home, "changes", "--since", "0") as running:
        assert running.stdout is not None
        assert running.stdout.readline()
        running.stdout.close()
        cli.remember("bread")  # the next that it would tell
        assert running.wait(60) == 0


@pytest.mark.parametrize("way", ["broken", "full"])
@pytest.mark.parametrize("words", [[], ["--json"]])
def test_an_error_that_cannot_be_told_keeps_its_exit_code(home: Path, way: str, words: list[str]) -> None:
    if way == "broken":
        reading, told = os.pipe()
        os.close(reading)
    else:
        told = os.open("/dev/full", os.O_WRONLY)
    try:
        done = subprocess.run(
            Process.line("remember", "x", "--store-url", "sqlite:///proc/quipu/x.db", *words),
            stdout=subprocess.PIPE,
            stderr=told,
            cwd=home,
            timeout=60,
            check=False,
        )
    finally:
        os.close(told)
    assert done.returncode == 2


@pytest.mark.parametrize(("words", "code"), [("remember -", 1), ("import -", 0), ("list", 0)])
def test_standard_input_that_is_closed_is_an_empty_one(process: Process, words: str, code: int) -> None:
    line = shlex.join(process.line(*words.split()))
    done = subprocess.run(  # noqa: S602  a shell is what closes streams
        f"{line} <&-", shell=True, cwd=process.folder, check=False, timeout=60, capture_output=True
    )
    assert b"unexpectedly" not in done.stderr
    assert done.returncode == code


# -- signals ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143), (signal.SIGHUP, 129)]
)
def test_a_backup_that_is_stopped_leaves_nothing(cli: Cli, home: Path, number: int, code: int) -> None:
    cli.remember("tea")
    connection = apsw.Connection(str(home / "memory.db"))
    connection.execute("CREATE TABLE filling (bytes); INSERT INTO filling VALUES (zeroblob(?))", (BYTES,))
    connection.execute("DROP TABLE filling")
    connection.close()
    with started(home, "backup", "copy.db") as running:
        wait_for(lambda: any(one.stat().st_size for one in home.glob("copy.db.*.draft")))
        running.send_signal(number)
        assert running.wait(60) == code
        assert running.stderr is not None
        assert running.stderr.read() == b"Interrupted\n"
    assert left(home) == []
    cli.said("backup", "copy.db")


async def test_a_copy_that_is_given_up_leaves_nothing_and_blames_no_disk(
    process: Process, home: Path
) -> None:
    process("import", "-", input=LINES * 10)
    places = addresses.address(str(home / "memory.db")), addresses.address(str(home / "copy.db"))
    for delay in (0.0, 0.001, 0.002, 0.004, 0.008, 0.016):  # now a thread reads, now one writes
        copying = asyncio.current_task()
        assert copying is not None
        loop, is_told = asyncio.get_running_loop(), False

        def give_up(_done: int, _of: int) -> None:
            nonlocal is_told
            if not is_told:
                is_told = True
                loop.call_later(delay, copying.cancel)  # noqa: B023  called before the next turn

        with pytest.raises(asyncio.CancelledError):
            await databases.copy(*places, progress=give_up)
        copying.uncancel()
        assert left(home) == []


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_an_import_that_is_stopped_says_what_is_in_and_how_to_take_it_back(
    cli: Cli, home: Path, number: int, code: int
) -> None:
    with started(home, "import", "-", "--json") as running:
        assert running.stdin is not None
        running.stdin.write(LINES)
        running.stdin.flush()
        wait_for(lambda: b"fact 1" in read_all(home))  # the first chunk of 500 is in
        running.send_signal(number)
        assert running.wait(60) == code
        assert running.stderr is not None
        warned = json.loads(running.stderr.readline())["warning"]
    assert "500 lines" in warned
    name = next(word for word in warned.split() if word.startswith("imp_")).rstrip(".")
    assert f"`quipu imports undo {name}`" in warned
    assert cli.json("imports", "undo", name)["forgotten"] == 500
    assert cli.json("list")["records"] == []


def test_a_command_that_outlives_its_terminal_goes_on(cli: Cli, home: Path) -> None:
    with started(home, "import", "-", ignores=signal.SIGHUP) as running:
        assert running.stdin is not None
        running.stdin.write(b'{"content": "one"}\n')
        running.stdin.flush()
        wait_for(lambda: b"genesis" in read_all(home))
        running.send_signal(signal.SIGHUP)
        running.stdin.write(b'{"content": "two"}\n')
        running.stdin.close()
        assert running.wait(60) == 0
    assert len(cli.json("list")["records"]) == 2


# -- what acts on a terminal ------------------------------------------------------------------------------------------

EVIL = "tea \x9b31m\x7f\u202egnp.exe \u061c\x1b[2J"


@pytest.mark.parametrize("words", [["list", "--json"], ["export"]])
def test_json_on_a_terminal_acts_on_nothing_and_reads_back_the_same(
    process: Process, cli: Cli, words: list[str]
) -> None:
    cli.said("import", "-", input=json.dumps({"content": EVIL}))
    shown = process(*words).stdout.decode()
    assert shown.rstrip("\n").isprintable()
    found = json.loads(shown)
    assert (found["records"][0] if "records" in found else found)["content"] == EVIL


def test_nothing_that_is_printed_acts_on_a_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    """Whoever forgets to clean a name from a foreign file has it cleaned."""
    output.console().print(f"owner {EVIL}", markup=False)
    output.notes().print(f"lost {EVIL}", markup=False)
    told = capsys.readouterr()
    for text in (told.out, told.err):
        assert text.count("\N{REPLACEMENT CHARACTER}") == 5
        assert text.rstrip("\n").isprintable()


@pytest.mark.parametrize("columns", ["0", "1", "20"])
def test_an_id_is_whole_on_the_narrowest_screen(process: Process, cli: Cli, columns: str) -> None:
    kept = cli.remember("tea")
    assert kept in "".join(process("list", COLUMNS=columns).stdout.decode().split())


# -- a log that is not the file's ---------------------------------------------------------------------------------------


def test_a_backup_put_beside_the_former_log_is_told_what_went_wrong(home: Path, cli: Cli) -> None:
    cli.said("import", "-", input=LINES)
    cli.said("backup", "copy.db")
    cli.said("import", "-", input=LINES * 20)
    with started(home, "import", "-") as running:
        assert running.stdin is not None
        running.stdin.write(LINES * 5)
        running.stdin.flush()
        wait_for(lambda: (home / "memory.db-wal").exists() and len(read_all(home)) > 0)
        wait_for(lambda: (home / "memory.db-wal").stat().st_size > 500_000)
        running.kill()
        running.wait(60)
    (home / "memory.db").write_bytes((home / "copy.db").read_bytes())
    found = cli.json("doctor", code=1)
    failed = next(check for check in found["checks"] if check["status"] == "fail")
    assert "-wal and -shm" in failed["advice"]
    for suffix in ("", "-wal", "-shm"):
        (home / f"memory.db{suffix}").unlink(missing_ok=True)
    (home / "memory.db").write_bytes((home / "copy.db").read_bytes())
    assert cli.json("verify")["holds"] is True
