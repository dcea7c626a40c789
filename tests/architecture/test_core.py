"""The core is pure: it imports the standard library and itself, and nothing reaches in by the front door."""

import ast
import sys
from pathlib import Path

import pytest

from tests.architecture.tree import SOURCE, shown

CORE = [
    SOURCE / "errors.py",
    *(f for part in ("model", "rules", "ports", "service") for f in (SOURCE / part).rglob("*.py")),
]
#: third-party packages that one file of the core may use, with an ADR for each
EXCEPTIONS: dict[str, set[str]] = {}
#: words that say nothing about what a module is for
EMPTY_NAMES = {"utils", "util", "helpers", "helper", "common", "base", "core", "manager", "misc"}


def imported(file: Path) -> set[str]:
    """The top-level packages that a file imports."""
    nodes = list(ast.walk(ast.parse(file.read_text("utf-8"))))
    names = [alias.name for node in nodes if isinstance(node, ast.Import) for alias in node.names]
    names += [node.module for node in nodes if isinstance(node, ast.ImportFrom) and node.module]
    return {name.partition(".")[0] for name in names}


@pytest.mark.parametrize("file", CORE, ids=shown)
def test_the_core_imports_only_the_standard_library(file: Path) -> None:
    assert imported(file) <= sys.stdlib_module_names | {"quipu"} | EXCEPTIONS.get(file.stem, set())


@pytest.mark.parametrize("file", sorted(SOURCE.rglob("*.py")), ids=shown)
def test_nothing_inside_imports_the_front_door(file: Path) -> None:
    for node in ast.walk(ast.parse(file.read_text("utf-8"))):
        if isinstance(node, ast.Import):
            assert "quipu" not in {alias.name for alias in node.names}, (
                f"line {node.lineno}: import its module"
            )
        if isinstance(node, ast.ImportFrom) and node.module == "quipu":
            parts = {alias.name for alias in node.names}
            modules = {
                part for part in parts if (SOURCE / part).is_dir() or (SOURCE / f"{part}.py").is_file()
            }
            assert parts == modules, f"line {node.lineno}: import it from its module"


def test_module_names_are_words_of_the_domain() -> None:
    names = {shown(file): file.stem for file in SOURCE.rglob("*.py")}
    names |= {shown(folder): folder.name for folder in SOURCE.rglob("*") if folder.is_dir()}
    empty = {
        path for path, name in names.items() if name in EMPTY_NAMES or name.endswith(("_v2", "_new", "_old"))
    }
    assert not empty
