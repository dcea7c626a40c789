"""The command as a real process: exit codes, pipes, terminals, signals."""

import io
import json
import os
import pty
import select
import shlex
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from quipu.cli.program import run
from tests.cli.conftest import PATIENCE_S, Cli, line, process, started, wait_until

#: Fails whatever becomes of its words.
FAILS = ("remember", "x", "--store-url", "sqlite:///proc/quipu/x.db")


# -- pipes ------------------------------------------------------------------------------------------------------------


def test_a_pipeline_carries_text_in_and_one_document_out(cli: Cli) -> None:
    kept = process("remember", "-", "--json", input="Mara är vegetarian\n".encode())
    assert (kept.returncode, kept.stderr) == (0, b"")
    assert cli.json("show", json.loads(kept.stdout)["id"])["content"] == "Mara är vegetarian"


def test_a_reader_that_leaves_early_changes_no_exit_code(cli: Cli, home: Path) -> None:
    for number in range(20):
        cli.remember(f"{number} " + "x" * 4000)
    (home / "plain").write_text("x" * 2000, "utf-8")
    doctor = ("doctor", "--quick", "--store-url", str(home / "plain"))
    for words, code in ((("list", "--json"), 0), (("list",), 0), (doctor, 1), (FAILS, 2)):
        reading, writing = os.pipe()
        os.close(reading)
        try:
            done = subprocess.run(
                line(*words), stdout=writing, stderr=subprocess.PIPE, timeout=PATIENCE_S, check=False
            )
        finally:
            os.close(writing)
        assert done.returncode == code, (words, done.stderr)
        assert b"Traceback" not in done.stderr
        assert b"BrokenPipe" not in done.stderr


@pytest.mark.parametrize("way", ["broken", "full"])
def test_an_error_that_cannot_be_shown_keeps_its_exit_code(way: str) -> None:
    if way == "broken":
        reading, shown = os.pipe()
        os.close(reading)
    else:
        shown = os.open("/dev/full", os.O_WRONLY)
    try:
        done = subprocess.run(
            line(*FAILS), stdout=subprocess.PIPE, stderr=shown, timeout=PATIENCE_S, check=False
        )
    finally:
        os.close(shown)
    assert done.returncode == 2


def test_an_answer_that_cannot_be_written_is_a_failure(cli: Cli) -> None:
    cli.remember("tea")
    with Path("/dev/full").open("wb") as full:
        done = subprocess.run(
            line("list"), stdout=full, stderr=subprocess.PIPE, timeout=PATIENCE_S, check=False
        )
    assert done.returncode == 2
    assert b"Traceback" not in done.stderr


@pytest.mark.parametrize(
    ("words", "closed", "code"), [("remember tea", ">&- 2>&-", 0), ("remember -", "<&-", 1)]
)
def test_a_stream_that_is_closed_keeps_nobody_from_working(words: str, closed: str, code: int) -> None:
    done = subprocess.run(  # noqa: S602  a shell is what closes streams
        f"{shlex.join(line(*words.split()))} {closed}",
        shell=True,
        check=False,
        timeout=PATIENCE_S,
        capture_output=True,
    )
    assert done.returncode == code, done
    assert b"Traceback" not in done.stderr


def test_a_stream_that_lacks_a_character_is_given_its_number(
    cli: Cli, monkeypatch: pytest.MonkeyPatch
) -> None:
    name = cli.remember("Zoë → 日本")
    for words in (["show", name], ["show", name, "--json"]):
        shown = io.BytesIO()
        stream = io.TextIOWrapper(shown, encoding="latin-1", errors="backslashreplace")
        with monkeypatch.context() as patch:
            patch.setattr(sys, "stdout", stream)
            assert run(words) == 0
            stream.flush()
        said = shown.getvalue().decode("latin-1")
        assert r"\u65e5\u672c" in said, words
    assert json.loads(said)["content"] == "Zoë → 日本"


# -- signals ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143), (signal.SIGHUP, 129)]
)
def test_a_command_that_is_stopped_says_so_and_ends_with_the_signal_s_code(
    cli: Cli, number: signal.Signals, code: int
) -> None:
    cli.remember("tea")
    with started("changes", "--since", "0", "--json") as running:
        assert running.stdout is not None
        assert running.stderr is not None
        assert json.loads(running.stdout.readline())["seq"]
        running.send_signal(number)
        assert running.wait(PATIENCE_S) == code
        assert running.stderr.read() == b"Interrupted\n"


def test_a_command_that_is_stopped_while_it_waits_for_input_ends_too(home: Path) -> None:
    with started("remember", "-") as running:
        assert running.stdin is not None
        wait_until(lambda: is_waiting(running.pid))
        running.send_signal(signal.SIGTERM)
        assert running.wait(PATIENCE_S) == 143
    assert not (home / "memory.db").exists()


def is_waiting(pid: int) -> bool:
    """Whether it reads from its pipe: then its handlers are set."""
    return Path(f"/proc/{pid}/wchan").read_text("utf-8").endswith("pipe_read") or _syscall(pid) == "0 0x0"


def _syscall(pid: int) -> str:
    """The call that it waits in, and the stream."""
    try:
        return " ".join(Path(f"/proc/{pid}/syscall").read_text("utf-8").split()[:2])
    except OSError:
        return ""


def test_a_command_that_outlives_its_terminal_goes_on_until_it_is_asked_to_end(cli: Cli) -> None:
    cli.remember("tea")
    with started("changes", "--since", "0", "--json", ignores=signal.SIGHUP) as running:
        assert running.stdout is not None
        running.stdout.readline()
        running.send_signal(signal.SIGHUP)
        name = cli.remember("cake")
        assert name in json.loads(running.stdout.readline())["record_ids"]
        running.send_signal(signal.SIGTERM)
        assert running.wait(PATIENCE_S) == 143


def test_who_follows_changes_ends_when_nobody_reads(cli: Cli) -> None:
    cli.remember("tea")
    with started("changes", "--since", "0") as running:
        assert running.stdout is not None
        assert running.stderr is not None
        running.stdout.readline()
        running.stdout.close()
        cli.remember("cake")  # the next that it would show
        assert running.wait(PATIENCE_S) == 0
        assert running.stderr.read() == b""


# -- terminals --------------------------------------------------------------------------------------------------------


class Terminal:
    """A person at a terminal."""

    def __init__(self, *words: str, **environment: str) -> None:
        self._mine, theirs = pty.openpty()
        before = signal.signal(signal.SIGINT, signal.default_int_handler)
        try:
            self.running = subprocess.Popen(
                line(*words),
                stdin=theirs,
                stdout=theirs,
                stderr=theirs,
                env={**os.environ, "TERM": "xterm-256color", "COLUMNS": "120", **environment},
                start_new_session=True,
            )
        finally:
            signal.signal(signal.SIGINT, before)
        os.close(theirs)
        self.seen = ""

    def type(self, text: str) -> None:
        os.write(self._mine, text.encode())

    def until(self, text: str) -> None:
        wait_until(lambda: self._read() or text in self.seen, PATIENCE_S)

    def waits(self) -> None:
        """Until it sleeps in its question: a signal that comes a moment earlier is noticed only after an answer."""
        state = Path(f"/proc/{self.running.pid}/stat")
        wait_until(lambda: state.read_text("utf-8").rpartition(")")[2].split()[0] == "S", PATIENCE_S)

    def _read(self) -> bool:
        while self._mine >= 0 and select.select([self._mine], [], [], 0)[0]:
            try:
                data = os.read(self._mine, 65_536)
            except OSError:  # the other side is closed
                return False
            if not data:
                return False
            self.seen += data.decode("utf-8", "replace")
        return False

    def hang_up(self) -> None:
        os.close(self._mine)
        self._mine = -1

    def end(self) -> int:
        try:
            wait_until(lambda: self._read() or self.running.poll() is not None, PATIENCE_S)
            self._read()
            return self.running.wait(PATIENCE_S)
        finally:
            self.running.kill()
            self.running.wait(PATIENCE_S)
            if self._mine >= 0:
                self.hang_up()


def test_a_person_is_asked_before_memories_are_erased(cli: Cli) -> None:
    name = cli.remember("x")
    refused = Terminal("forget", name, "--hard-delete")
    refused.until("Go on?")
    refused.type("n\n")
    assert refused.end() == 1
    assert "Nothing was changed" in refused.seen
    stopped = Terminal("forget", name, "--hard-delete")
    stopped.until("Go on?")
    stopped.waits()
    stopped.running.send_signal(signal.SIGINT)
    assert stopped.end() == 130
    assert "Interrupted" in stopped.seen
    assert cli.json("show", name)["content"] == "x"
    agreed = Terminal("forget", name, "--hard-delete")
    agreed.until("Go on?")
    agreed.type("y\n")
    assert agreed.end() == 0
    assert cli.problem("show", name)["code"] == "not_found"


def test_a_secret_is_not_echoed(cli: Cli) -> None:
    cli.remember("x")
    asked = Terminal("secret", "add", "pin")
    asked.until(":")
    wait_until(lambda: not _echoes(asked))
    asked.type("swordfish-42\n")
    assert asked.end() == 0
    assert "swordfish" not in asked.seen


def _echoes(terminal: Terminal) -> bool:
    import termios

    return bool(termios.tcgetattr(terminal._mine)[3] & termios.ECHO)  # pyright: ignore[reportPrivateUsage]


def test_a_terminal_that_hangs_up_ends_what_has_no_end(cli: Cli) -> None:
    """Whether or not its signal arrives: a write that goes nowhere is a reader that left."""
    cli.remember("tea")
    watching = Terminal("changes", "--since", "0")
    watching.until("memory.remembered")
    watching.hang_up()
    cli.remember("cake")
    assert watching.end() == 0


def test_a_terminal_that_hangs_up_at_a_question_ends_the_command(cli: Cli) -> None:
    name = cli.remember("x")
    asked = Terminal("forget", name, "--hard-delete")
    asked.until("Go on?")
    asked.hang_up()
    assert asked.end() == 130
    assert cli.json("show", name)["content"] == "x"


def test_a_person_at_a_terminal_sees_colours_and_a_bar_and_is_asked() -> None:
    shown = Terminal("demo")
    shown.until("Your turn")
    shown.type("walnuts\n")
    shown.until("allergic to walnuts")
    shown.type("\n")
    assert shown.end() == 0
    assert "\x1b[1m" in shown.seen
    assert "━" in shown.seen


def test_the_installed_command_is_the_same() -> None:
    script = Path(sys.executable).with_name("quipu")
    done = subprocess.run([script, "--version"], capture_output=True, check=True)
    assert done.stdout == process("--version").stdout
