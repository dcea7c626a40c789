"""A client with the older MCP SDK speaks to the server and to `quipu mcp`."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.faces.serving import served
from tests.requirement import requirement
from tests.vendors.sharing import ROOT, python_of

pytestmark = pytest.mark.vendor
CLIENT = Path(__file__).parent / "native" / "mcp1_client.py"
TOLD = {
    "protocol": "2025-11-25",
    "subscribe": True,
    "tools": ["remember", "recall", "forget", "merge", "expire"],
    "questions": 1,
    "found": 2,
    "wrong": [True, "validation_error"],
    "record": "Mara keeps bees",
    "prompt": 1,
    "gone": 1,
    "heard": "memory://stores",
}


def told(home: Path, *words: str) -> dict[str, object]:
    done = subprocess.run(
        [python_of("mcp1"), str(CLIENT), *words],
        cwd=ROOT,
        env={"PATH": "/usr/bin:/bin", "HOME": str(home), "PYTHONPATH": str(ROOT / "src")},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    return json.loads(done.stdout.splitlines()[-1])


@requirement("mcp:peers.older-sdk")
def test_over_http(tmp_path: Path) -> None:
    with served(tmp_path / "m.db") as at:
        assert told(tmp_path, "http", f"{at.url}/mcp", at.admin_token) == TOLD


@requirement("mcp:peers.older-sdk")
def test_over_stdio(tmp_path: Path) -> None:
    assert told(tmp_path, "stdio", sys.executable, f"sqlite:///{tmp_path}/m.db") == TOLD
