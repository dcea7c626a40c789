"""The import contracts of pyproject.toml hold, and each of them is able to fail."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.architecture.tree import ROOT

ARROW = "the arrow"
DOOR = "only bootstrap names a ledger, an embedder, a key"

#: what is planted: the file, its one line, the contract that must refuse it
PLANTS = {
    "a rule that asks a service": ("rules/planted.py", "import quipu.service", ARROW),
    "a model that knows a rule": ("model/planted.py", "import quipu.rules", ARROW),
    "a service that knows a face": ("service/planted.py", "import quipu.faces.memorywire", ARROW),
    "a ledger that knows its neighbour": ("ledger/sqlite/planted.py", "import quipu.crypto", ARROW),
    "a face that knows the facade": ("faces/memorywire/planted.py", "import quipu.memory", ARROW),
    "a client that wires": ("client/planted.py", "import quipu.bootstrap", ARROW),
    "a face that knows its neighbour": (
        "faces/rest/planted.py",
        "import quipu.faces.memorywire",
        "faces are independent, over one plumbing",
    ),
    "a module that nobody placed": ("planted.py", "", ARROW),
    "a face that nobody placed": ("faces/planted.py", "", "faces are independent, over one plumbing"),
    "a ledger that nobody placed": ("ledger/planted.py", "", "ledgers are independent"),
    "a face that names a ledger": ("faces/memorywire/planted.py", "import quipu.ledger.sqlite", DOOR),
    "a command that names a ledger": ("cli/planted.py", "import quipu.ledger.sqlite", DOOR),
    "a command that makes its own key": ("cli/planted.py", "import quipu.crypto", DOOR),
    "a face that reads settings": (
        "faces/memorywire/planted.py",
        "import quipu.config",
        "settings are handed in",
    ),
    "a face that leans on a fake": (
        "faces/memorywire/planted.py",
        "import quipu.testing",
        "the product does not import its test kit",
    ),
    "a service that opens a database": ("service/planted.py", "import apsw", "the core is pure"),
    "a port that speaks numpy": ("ports/planted.py", "import numpy", "the core is pure"),
    "a rule that looks at the clock": ("rules/planted.py", "import time", "what is decided touches nothing"),
    "a model that waits": ("model/planted.py", "import asyncio", "what is decided touches nothing"),
}


def lint_imports(tree: Path) -> subprocess.CompletedProcess[str]:
    """import-linter over the `quipu` that stands in a tree."""
    return subprocess.run(
        [Path(sys.executable).with_name("lint-imports"), "--no-cache", "--no-logo"],
        cwd=tree,
        env={**os.environ, "PYTHONPATH": str(tree / "src"), "COLUMNS": "200"},
        check=False,
        capture_output=True,
        encoding="utf-8",
    )


def broken(tree: Path) -> dict[str, str]:
    """The contracts that a tree breaks, each with what is said about it."""
    answer = lint_imports(tree)
    assert "Contracts:" in answer.stdout, f"import-linter did not judge:\n{answer.stdout}{answer.stderr}"
    told = answer.stdout.partition("Broken contracts")[2]
    parts = re.split(r"^(.+)\n-{4,}$", told, flags=re.M)
    return dict(zip(parts[1::2], parts[2::2], strict=True))


def test_the_code_keeps_every_contract() -> None:
    answer = lint_imports(ROOT)
    assert answer.returncode == 0, answer.stdout + answer.stderr


def planted(tree: Path, plants: dict[str, str]) -> Path:
    """A copy of the source in which each of the named files holds one more line."""
    shutil.copytree(ROOT / "src", tree / "src", ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copy(ROOT / "pyproject.toml", tree)
    for file, line in plants.items():
        with (tree / "src" / "quipu" / file).open("a", encoding="utf-8") as program:
            program.write(f"\n{line}\n")
    return tree


@pytest.fixture(scope="module")
def refused(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """What is said about a tree in which everything is planted at once, each in a file of its own."""
    plants = {file.replace("planted", name_of(plant)): line for plant, (file, line, _) in PLANTS.items()}
    return broken(planted(tmp_path_factory.mktemp("planted"), plants))


def name_of(plant: str) -> str:
    return f"planted_{plant.replace(' ', '_')}"


@pytest.mark.parametrize("plant", PLANTS)
def test_a_planted_violation_is_caught(plant: str, refused: dict[str, str]) -> None:
    file, _, contract = PLANTS[plant]
    module = ".".join(("quipu", *Path(file).parent.parts, name_of(plant)))
    assert re.search(rf"{re.escape(module)}\b", refused[contract])


def test_a_circle_is_caught(tmp_path: Path) -> None:
    there, back = "import quipu.rules.planted_back", "import quipu.rules.planted_there"
    plants = {"rules/planted_there.py": there, "rules/planted_back.py": back}
    assert "no cycles" in broken(planted(tmp_path, plants))
