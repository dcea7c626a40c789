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
        "print(json.dumps(asyncio.run(all_walks())))"
    )
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True)
    traced = {title: set(files) for title, files in json.loads(done.stdout.splitlines()[-1]).items()}
    page = (ROOT / "docs" / "explanation" / "architecture.md").read_text("utf-8")
    told = {
        title: set(re.findall(r"^\d+\. `([^`]+)`", body, re.M))
        for title, body in re.findall(r"^### Walk: (.+?)\n(.*?)(?=^#|\Z)", page, re.M | re.S)
    }
    assert told == traced, "run `python -m tests.architecture.walks` and put the walks on the page"
