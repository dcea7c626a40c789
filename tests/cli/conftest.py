"""A home of its own for every test, and two ways to run the command: in this process, and as a real one."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner, Result

from quipu.cli.program import app
from tests.conventions import command

_PATIENCE_S = 60


@pytest.fixture(scope="session")
def model_cache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where the onnx embedder is built once for all tests of a worker."""
    return tmp_path_factory.mktemp("models")


@pytest.fixture(autouse=True)
def home(tmp_path: Path, model_cache: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """No setting of the machine reaches a test; without another word there is no model."""
    for name in list(os.environ):
        if name.startswith(("QUIPU_", "MEMORYWIRE_")) or name in ("NO_COLOR", "FORCE_COLOR", "COLUMNS"):
            monkeypatch.delenv(name)
    for name, folder in (("HOME", ""), ("XDG_CONFIG_HOME", "config"), ("XDG_DATA_HOME", "data")):
        monkeypatch.setenv(name, str(tmp_path / folder))
    monkeypatch.setenv("QUIPU_STORE", f"sqlite://{tmp_path / 'memory.db'}")
    monkeypatch.setenv("QUIPU_EMBEDDER", "none")
    monkeypatch.setenv("QUIPU_CACHE", str(model_cache))
    monkeypatch.setenv("QUIPU_DOWNLOAD", "false")
    monkeypatch.setenv("TZ", "UTC")
    monkeypatch.chdir(tmp_path)
    return tmp_path


@dataclass(frozen=True)
class Cli:
    """The command in this process."""

    runner: CliRunner

    def __call__(self, *words: str, input: str | bytes | None = None) -> Result:
        return self.runner.invoke(app, list(words), input=input)

    def said(self, *words: str, code: int = 0, input: str | bytes | None = None) -> str:
        """What a person reads."""
        result = self(*words, input=input)
        assert result.exit_code == code, result.output
        return result.stdout

    def json(self, *words: str, code: int = 0, input: str | bytes | None = None) -> Any:
        """The one document a program reads."""
        result = self(*words, "--json", input=input)
        assert result.exit_code == code, result.output
        assert result.stdout.count("\n") == 1, "one document, on one line"
        return json.loads(result.stdout)

    def lines(self, *words: str, code: int = 0, input: str | bytes | None = None) -> list[Any]:
        result = self(*words, "--json", input=input)
        assert result.exit_code == code, result.output
        return [json.loads(line) for line in result.stdout.splitlines()]

    def problem(self, *words: str, code: int = 1, input: str | bytes | None = None) -> Any:
        """The error a program reads; nothing else is printed."""
        result = self(*words, "--json", input=input)
        assert result.exit_code == code, result.output
        assert result.stdout == ""
        return json.loads(result.stderr)

    def remember(self, text: str, *words: str) -> str:
        """The id of a new memory."""
        return str(self.json("remember", text, *words)["id"])


@pytest.fixture
def cli() -> Iterator[Cli]:
    return Cli(CliRunner())


@dataclass(frozen=True)
class Process:
    """The command as a process of its own."""

    folder: Path

    @staticmethod
    def line(*words: str) -> list[str]:
        return command(*words)

    def __call__(
        self, *words: str, input: bytes | None = None, **environment: str
    ) -> subprocess.CompletedProcess[bytes]:
        return subprocess.run(
            self.line(*words),
            input=input,
            stdin=subprocess.DEVNULL if input is None else None,
            capture_output=True,
            timeout=_PATIENCE_S,
            cwd=self.folder,
            env={**os.environ, **environment},
            check=False,
        )


@pytest.fixture
def process(home: Path) -> Process:
    return Process(home)
