"""Prints the ten longest modules and functions: a report for the reviewer, not a gate."""

import ast
from pathlib import Path

SOURCE = Path(__file__).parent.parent / "src" / "quipu"


def functions(file: Path) -> list[tuple[int, str]]:
    """Every function of a file with its length in lines."""
    place = file.relative_to(SOURCE.parent)
    return [
        ((node.end_lineno or node.lineno) - node.lineno + 1, f"{place}:{node.lineno} {node.name}")
        for node in ast.walk(ast.parse(file.read_text("utf-8")))
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
    ]


def show(title: str, rows: list[tuple[int, str]]) -> None:
    """The ten longest rows under a title."""
    print(f"longest {title}")
    for length, name in sorted(rows, reverse=True)[:10]:
        print(f"  {length:5}  {name}")


if __name__ == "__main__":
    files = sorted(SOURCE.rglob("*.py"))
    modules = [(len(f.read_text("utf-8").splitlines()), str(f.relative_to(SOURCE.parent))) for f in files]
    print(f"{len(files)} modules, {sum(length for length, _ in modules)} lines")
    show("modules", modules)
    show("functions", [row for file in files for row in functions(file)])
