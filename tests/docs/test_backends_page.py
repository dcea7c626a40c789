"""The page of vendors belongs to a run of their tests, and has a place for everything that is played today."""

import subprocess
import sys

from tests.architecture.tree import ROOT


def test_the_page_of_vendors_is_whole() -> None:
    done = subprocess.run(
        [sys.executable, "scripts/backends.py", "check"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
