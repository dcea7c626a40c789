"""A home of its own for every test, and two ways to run the command: in this process, and as a real one."""

import io
import json
import os
import select
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from quipu.cli.program import Surroundings, run

PATIENCE_S = 60
_TERMINALS = ("NO_COLOR", "FORCE_COLOR", "COLUMNS", "LINES")


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty home; recall goes by words alone."""
    for name in _TERMINALS:
        monkeypatch.delenv(name, raising=False)
    for name, folder in (("HOME", ""), ("XDG_CONFIG_HOME", "config"), ("XDG_DATA_HOME", "data")):
        monkeypatch.setenv(name, str(tmp_path / folder))
    monkeypatch.setenv("QUIPU_STORE", f"sqlite://{tmp_path / 'memory.db'}")
    monkeypatch.setenv("QUIPU_EMBEDDER", "none")
    monkeypatch.setenv("TZ", "UTC")
    monkeypatch.chdir(tmp_path)
    return tmp_path


@dataclass(frozen=True)
class Result:
    """What a run came to."""

    code: int
    out: str
    err: str


@dataclass
class Cli:
    """The command in this process."""

    capsys: pytest.CaptureFixture[str]
    monkeypatch: pytest.MonkeyPatch
    surroundings: Surroundings | None = None

    def __call__(self, *words: str, input: str | bytes = b"") -> Result:
        data = input.encode() if isinstance(input, str) else input
        self.monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(data), encoding="utf-8"))
        self.capsys.readouterr()
        code = run(words, self.surroundings)
        shown = self.capsys.readouterr()
        return Result(code, shown.out, shown.err)

    def says(self, *words: str, code: int = 0, input: str | bytes = b"") -> str:
        """What a person reads."""
        result = self(*words, input=input)
        assert result.code == code, result
        return result.out

    def json(self, *words: str, code: int = 0, input: str | bytes = b"") -> Any:
        """The one document that a program reads."""
        result = self("--json", *words, input=input)
        assert result.code == code, result
        assert result.out.count("\n") == 1, "one document, on one line"
        return json.loads(result.out)

    def problem(self, *words: str, code: int = 1, input: str | bytes = b"") -> Any:
        """The error that a program reads; nothing else is printed."""
        result = self("--json", *words, input=input)
        assert result.code == code, result
        assert result.out == ""
        return json.loads(result.err)

    def remember(self, text: str, *words: str, input: str = "") -> str:
        """The id of a new memory."""
        return str(self.json("remember", text, *words, input=input)["id"])


@pytest.fixture
def cli(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Cli:
    return Cli(capsys, monkeypatch)


def line(*words: str) -> list[str]:
    """The command as a process is started with it."""
    return [sys.executable, "-m", "quipu.cli.program", *words]


def process(
    *words: str, input: bytes | None = None, **environment: str
) -> subprocess.CompletedProcess[bytes]:
    """The command as a process of its own."""
    return subprocess.run(
        line(*words),
        input=input,
        stdin=subprocess.DEVNULL if input is None else None,
        capture_output=True,
        timeout=PATIENCE_S,
        env={**os.environ, **environment},
        check=False,
    )


@contextmanager
def started(
    *words: str, ignores: signal.Signals | None = None, **how: Any
) -> Iterator[subprocess.Popen[bytes]]:
    """A command that runs; whatever becomes of the test, it ends.

    A run of tests may be started with signals ignored, and a process inherits that: they are set here.
    """
    wanted = dict.fromkeys((signal.SIGTERM, signal.SIGHUP), signal.SIG_DFL)
    before = {number: signal.signal(number, way) for number, way in wanted.items()}
    before[signal.SIGINT] = signal.signal(signal.SIGINT, signal.default_int_handler)
    if ignores is not None:
        signal.signal(ignores, signal.SIG_IGN)
    streams = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE, **how}
    try:
        running = subprocess.Popen(line(*words), **streams)
    finally:
        for number, way in before.items():
            signal.signal(number, way)
    with running:
        try:
            yield running
        finally:
            running.kill()


def wait_until(happened: Callable[[], bool], seconds: float = 30) -> None:
    """Until it has; a bounded wait, not a guess how long it takes."""
    end = time.monotonic() + seconds
    while not happened():
        assert time.monotonic() < end, "it did not happen in time"
        select.select([], [], [], 0.01)
