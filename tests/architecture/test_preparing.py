"""`make venv`: which Python the environment is made with."""

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.architecture.tree import ROOT

#: A Python that can make an environment and says so; what pip would install is not asked for here.
PYTHON = """#!/bin/sh
case "$*" in
  --version) echo "Python {version}" ;;
  "-c "*) exit {too_old} ;;
  "-m venv "*) echo "$*" >> made; mkdir -p .venv/bin; cp "$0" .venv/bin/python ;;
esac
"""


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    (tmp_path / "scripts").mkdir()
    shutil.copy(ROOT / "scripts" / "venv", tmp_path / "scripts" / "venv")
    for name in ("requirements.txt", "requirements-weights.txt", "pyproject.toml"):
        (tmp_path / name).touch()
    return tmp_path


def python(tree: Path, version: str) -> str:
    program = tree / f"python{version}"
    program.write_text(PYTHON.format(version=version, too_old=int(version.startswith("3.10"))), "utf-8")
    program.chmod(0o755)
    return str(program)


def prepared(tree: Path, named: str | None = None) -> subprocess.CompletedProcess[str]:
    """What `scripts/venv` did, with PYTHON= or without."""
    env = {name: value for name, value in os.environ.items() if name != "PYTHON"}
    return subprocess.run(
        [tree / "scripts" / "venv"],
        env=env | ({"PYTHON": named} if named else {}),
        capture_output=True,
        text=True,
        check=False,
    )


def made_with(tree: Path) -> str:
    return subprocess.check_output([tree / ".venv/bin/python", "--version"], text=True).strip()


def test_the_python_that_is_named_is_used_also_where_there_is_an_environment(tree: Path) -> None:
    assert prepared(tree, python(tree, "3.12.1")).returncode == 0
    assert prepared(tree, python(tree, "3.13.0")).returncode == 0
    assert made_with(tree) == "Python 3.13.0"
    assert "--clear" in (tree / "made").read_text("utf-8").splitlines()[1]


def test_without_a_name_or_with_the_same_the_environment_stays(tree: Path) -> None:
    named = python(tree, "3.12.1")
    for given in (named, None, named):
        done = prepared(tree, given)
        assert done.returncode == 0, done.stderr
    assert len((tree / "made").read_text("utf-8").splitlines()) == 1


@pytest.mark.parametrize("version", ["3.10.13", None])
def test_a_python_that_cannot_be_used_is_refused_and_harms_nothing(tree: Path, version: str | None) -> None:
    assert prepared(tree, python(tree, "3.12.1")).returncode == 0
    refused = prepared(tree, python(tree, version) if version else str(tree / "nowhere"))
    assert refused.returncode == 1
    assert "Python 3.11 or newer is needed" in refused.stderr
    assert made_with(tree) == "Python 3.12.1"
    assert prepared(tree).stdout == ""
