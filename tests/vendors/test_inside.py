"""Runs the tests that share a process with LangGraph, in its environment; none of them may be left out."""

import re
import subprocess
from pathlib import Path

import pytest

from tests.postgres import Server
from tests.vendors.sharing import ROOT, python_of

pytestmark = pytest.mark.vendor
INSIDE = "tests/vendors/inside"


def test_quipu_in_langgraph_and_langchain(postgres: Server, tmp_path: Path) -> None:
    url = postgres.database(is_empty=True)
    done = subprocess.run(
        [python_of("langgraph"), "-m", "pytest", "-q", "-W", "default", "-p", "no:cacheprovider", INSIDE],
        cwd=ROOT,
        env={
            "PATH": "/usr/bin:/bin",
            "HOME": str(tmp_path),
            "PYTHONPATH": "src",
            "QUIPU_TEST_POSTGRES": url,
            "LANGSMITH_TRACING": "false",
            "PYTHONDONTWRITEBYTECODE": "1",
        },
        capture_output=True,
        text=True,
        check=False,
    )
    postgres.drop(url)
    assert done.returncode == 0, done.stdout[-4000:] + done.stderr[-2000:]
    said = done.stdout.strip().splitlines()[-1]
    assert re.fullmatch(r"\d+ passed(, \d+ warnings?)? in .*", said), said
