"""The page that shows the way of remember and recall through the files is true."""

import json
import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parent.parent.parent


def test_the_page_lists_every_file_that_remember_and_recall_pass() -> None:
    # In a process of its own: threads that other tests have started are not traced.
    code = (
        "import asyncio, json; from tests.architecture.walks import all_walks; "
        "print(json.dumps({title: walk.lines() for title, walk in asyncio.run(all_walks()).items()}))"
    )
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True)
    traced = {title: _unordered(lines) for title, lines in json.loads(done.stdout.splitlines()[-1]).items()}
    page = (ROOT / "docs" / "explanation" / "architecture.md").read_text("utf-8")
    shown = {
        title: _unordered(body.splitlines())
        for title, body in re.findall(r"^### Walk: (.+?)\n(.*?)(?=^#|\Z)", page, re.M | re.S)
    }
    assert shown == traced, "run `python -m tests.architecture.walks`: it puts the walks on the page"


def _unordered(lines: list[str]) -> list[tuple[str, set[str]]]:
    """Each step, and what it calls in whatever order."""
    found = [re.findall(r"`([^`]+)`", line) for line in lines]
    return [(files[0], set(files[1:])) for files in found if files]
