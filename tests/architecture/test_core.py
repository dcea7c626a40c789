"""The core is pure: it imports the standard library and itself, and nothing reaches in by the front door."""

import ast
import sys
from pathlib import Path

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


def through_the_front_door(file: Path) -> list[str]:
    """Where a file imports from the package itself what one of its modules has."""
    found: list[str] = []
    for node in ast.walk(ast.parse(file.read_text("utf-8"))):
        if isinstance(node, ast.Import) and "quipu" in {alias.name for alias in node.names}:
            found.append(f"{shown(file)}:{node.lineno}: import its module")
        if isinstance(node, ast.ImportFrom) and node.module == "quipu":
            parts = {alias.name for alias in node.names}
            modules = {
                part for part in parts if (SOURCE / part).is_dir() or (SOURCE / f"{part}.py").is_file()
            }
            if parts != modules:
                found.append(f"{shown(file)}:{node.lineno}: import it from its module")
    return found


def test_the_core_imports_only_the_standard_library() -> None:
    known = sys.stdlib_module_names | {"quipu"}
    foreign = {shown(file): imported(file) - known - EXCEPTIONS.get(file.stem, set()) for file in CORE}
    assert {file: names for file, names in foreign.items() if names} == {}


def test_nothing_inside_imports_the_front_door() -> None:
    assert [place for file in sorted(SOURCE.rglob("*.py")) for place in through_the_front_door(file)] == []


def test_module_names_are_words_of_the_domain() -> None:
    names = {shown(file): file.stem for file in SOURCE.rglob("*.py")}
    names |= {shown(folder): folder.name for folder in SOURCE.rglob("*") if folder.is_dir()}
    empty = {
        path for path, name in names.items() if name in EMPTY_NAMES or name.endswith(("_v2", "_new", "_old"))
    }
    assert not empty
