"""A client with the older MCP SDK speaks to the server and to `quipu mcp`."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.docs.serving import served
from tests.requirement import requirement
from tests.vendors.environments import python_of
from tests.vendors.test_mcp import acting

pytestmark = pytest.mark.vendor(name="mcp1")
CLIENT = Path(__file__).with_name("mcp1_client.py")
TOLD = {
    "protocol": "2025-11-25",
    "subscribe": True,
    "tools": ["remember", "recall", "forget", "merge", "expire", "get", "list"],
    "questions": [True],
    "found": 2,
    "wrong": [True, "validation_error"],
    "record": "Mara keeps bees",
    "prompt": 1,
    "gone": 1,
    "heard": "memory://stores",
}


def told(*words: str) -> dict[str, Any]:
    done = subprocess.run(
        [python_of("mcp1"), str(CLIENT), *words],
        env={"PATH": "/usr/bin:/bin", "HOME": os.environ["HOME"]},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    return json.loads(done.stdout.splitlines()[-1])


@requirement("mcp:judges.older-sdk")
def test_over_http(tmp_path: Path) -> None:
    with served(tmp_path) as (url, token):
        assert told("http", f"{url}/mcp", acting(url, token)) == TOLD


@requirement("mcp:judges.older-sdk")
def test_over_stdio(tmp_path: Path) -> None:
    assert told("stdio", str(Path(sys.executable).with_name("quipu")), f"sqlite:///{tmp_path}/m.db") == TOLD
