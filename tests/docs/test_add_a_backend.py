"""The page on adding a backend is carried out: the package is installed, its tests pass, and a memory is written to it."""

import os
import re
import subprocess
import sys
from pathlib import Path

PAGE = Path(__file__).parents[2] / "docs" / "howto" / "add-a-backend.md"
FILE = re.compile(r'^```\w+ title="([^"]+)"\n(.*?)^```$', re.M | re.S)


def test_the_page_makes_a_backend_that_passes_the_contract_and_mirrors_a_memory(tmp_path: Path) -> None:
    text = PAGE.read_text("utf-8")
    files = dict(FILE.findall(text))
    assert set(files) == {"shelf.py", "pyproject.toml", "test_shelf.py", "use.py"}
    assert len(files["test_shelf.py"].split("class ")[1].strip().splitlines()) < 10
    for name, content in files.items():
        (tmp_path / name).write_text(content, "utf-8")
    site = tmp_path / "site"
    environment = {
        **os.environ,
        "PYTHONPATH": str(site),
        "HOME": str(tmp_path),
        "PYTHONDONTWRITEBYTECODE": "1",
    }

    def python(*words: str) -> str:
        done = subprocess.run(
            [sys.executable, *words],
            capture_output=True,
            text=True,
            cwd=tmp_path,
            env=environment,
            check=False,
        )
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    offline = ("--no-deps", "--no-index", "--no-build-isolation")
    python("-m", "pip", "install", "--quiet", *offline, "--target", str(site), str(tmp_path))
    said = python("-m", "pytest", "-q", "-W", "error", "-p", "no:cacheprovider", "test_shelf.py")
    assert re.search(r"^\d+ passed in ", said, re.M), said
    (shown,) = re.findall(r"^```output\n(.*?)^```$", text, re.M | re.S)
    assert python("use.py") == shown
