"""Writes everything that is derived from the operations and kept in files. A test fails when one of them is stale."""

import json
import subprocess
import sys
from pathlib import Path

from quipu import methods, reference, schemas
from quipu.bootstrap import OPERATIONS
from quipu.cli import errors
from quipu.http import openapi, problems
from quipu.schemas import Operations

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from scripts import pages  # noqa: E402  found by the line above

PACKAGE = ROOT / "src" / "quipu"


def artefacts(operations: Operations) -> dict[Path, str]:
    """Every generated file and its text."""
    reference_pages = ROOT / "docs" / "reference"
    texts = {
        PACKAGE / "api.py": _formatted(methods.async_source(operations)),
        PACKAGE / "sync.py": _formatted(methods.blocking_source(operations)),
        PACKAGE / "catalogue.py": _formatted(methods.catalogue_source(operations)),
        reference_pages / "operations.md": reference.markdown(operations),
        reference_pages / "errors.md": reference.errors_markdown(problems.STATUS, errors.FAILURES),
        reference_pages / "settings.md": pages.settings(),
        reference_pages / "commands.md": pages.commands(),
        reference_pages / "mcp-tools.md": pages.tools(operations),
        reference_pages / "backends.md": pages.backends(),
    }
    for manifest in sorted((ROOT / "tests" / "requirements").glob("*.toml")):
        texts[ROOT / "docs" / "specs" / f"{manifest.stem}.md"] = pages.contract(manifest)
    texts[ROOT / "docs" / "index.md"] = pages.index(ROOT / "docs", texts)
    for name, text in schemas.files(operations).items():
        texts[ROOT / "schemas" / name] = text
    document = json.dumps(openapi.document(operations), indent=2, ensure_ascii=False)
    texts[ROOT / "schemas" / "openapi.json"] = document + "\n"
    return texts


def stale(operations: Operations) -> list[Path]:
    """Files that are not what the operations say, and files that no operation asks for."""
    wanted = artefacts(operations)
    wrong = [path for path, text in wanted.items() if not path.exists() or path.read_text("utf-8") != text]
    return wrong + [path for path in sorted((ROOT / "schemas").glob("*.json")) if path not in wanted]


def _formatted(source: str) -> str:
    """As `ruff format` and its import order leave it, so that a generated file passes the lint."""
    ruff = [sys.executable, "-m", "ruff"]
    name = ["--stdin-filename", str(PACKAGE / "api.py")]
    for step in (["check", "--quiet", "--select", "I,F401", "--fix"], ["format"]):
        done = subprocess.run(
            [*ruff, *step, *name, "-"], input=source, capture_output=True, text=True, check=True, cwd=ROOT
        )
        source = done.stdout
    return source


def main() -> None:
    wanted = artefacts(OPERATIONS)
    for path in stale(OPERATIONS):
        if path in wanted:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(wanted[path], "utf-8")
        else:
            path.unlink()
        print(path.relative_to(ROOT))


if __name__ == "__main__":
    main()
