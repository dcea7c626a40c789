"""Prints the shape of the tree: lines, modules, folders, the two walks, and where an operation's fields are listed.

A report for people, never a gate.
"""

import ast
import re
import sys
from collections import Counter
from pathlib import Path

ROOT = Path(__file__).parent.parent
SOURCE = ROOT / "src" / "quipu"
GENERATED = {"api.py", "sync.py", "catalogue.py"}


def modules(folder: Path) -> list[Path]:
    return sorted(path for path in folder.rglob("*.py") if "__pycache__" not in path.parts)


def lines(paths: list[Path]) -> int:
    return sum(len(path.read_text("utf-8").splitlines()) for path in paths)


def functions(path: Path) -> list[tuple[int, str]]:
    tree = ast.parse(path.read_text("utf-8"))
    kinds = (ast.FunctionDef, ast.AsyncFunctionDef)
    return [
        ((node.end_lineno or node.lineno) - node.lineno + 1, f"{path.relative_to(SOURCE)}:{node.name}")
        for node in ast.walk(tree)
        if isinstance(node, kinds)
    ]


def walks() -> dict[str, list[str]]:
    """The files of each walk, as docs/explanation/architecture.md lists them; a test holds the page to the truth."""
    page = (ROOT / "docs" / "explanation" / "architecture.md").read_text("utf-8")
    found: dict[str, list[str]] = {}
    for title, body in re.findall(r"^### Walk: (.+?)\n(.*?)(?=^#|\Z)", page, re.M | re.S):
        found[title] = re.findall(r"`([^`]+\.py)`", body)
    return found


def field_lists(names: tuple[str, ...]) -> list[str]:
    """Modules, not generated, that name most of an operation's own fields."""
    found: list[str] = []
    for path in modules(SOURCE):
        text = path.read_text("utf-8")
        if path.name not in GENERATED and sum(f"{name}" in text for name in names) >= len(names) - 1:
            found.append(str(path.relative_to(SOURCE)))
    return found


def main() -> int:
    source, tests = modules(SOURCE), modules(ROOT / "tests")
    by_hand = [path for path in source if path.name not in GENERATED]
    print(
        f"source: {lines(by_hand):,} lines in {len(by_hand)} modules, {lines(source) - lines(by_hand):,} generated"
    )
    print(f"tests: {lines(tests):,} lines in {len(tests)} modules")
    folders = Counter(str(path.parent.relative_to(SOURCE)) for path in source)
    print("largest folders: " + ", ".join(f"{name} {count}" for name, count in folders.most_common(3)))
    longest = sorted(((lines([path]), str(path.relative_to(SOURCE))) for path in by_hand), reverse=True)[:5]
    print("longest modules: " + ", ".join(f"{name} {count}" for count, name in longest))
    wide = sorted((found for path in by_hand for found in functions(path)), reverse=True)[:5]
    print("longest functions: " + ", ".join(f"{name} {count}" for count, name in wide))
    for title, files in walks().items():
        print(f"walk of {title}: {len(files)} files")
    recall = (
        "fresher_than_days",
        "min_relevance",
        "include_superseded",
        "quorum_k",
        "deadline_ms",
        "count_recall",
    )
    print("modules that list the fields of recall: " + ", ".join(field_lists(recall)))
    return 0


if __name__ == "__main__":
    sys.exit(main())
