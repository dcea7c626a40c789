"""What holds for every test."""

import os
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import settings

from tests import conventions
from tests.ledgers import ledger_url
from tests.postgres import empty_url, fresh_url, postgres, postgres_url

__all__ = [
    "empty_url",
    "fresh_url",
    "ledger_url",
    "postgres",
    "postgres_url",
]  # one server for all that ask for it

FACES = Path(__file__).parent / "faces"

# Tests start Quipu as a process hundreds of times. Where bytecode is not to be kept, each would compile all of it again.
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
sys.dont_write_bytecode = False

# Nobody outside this machine is asked, so nobody outside is trusted. Else every client reads a hundred and fifty
# authorities when it is made, which takes longer than most tests do.
os.environ.pop("SSL_CERT_FILE", None)
os.environ["SSL_CERT_DIR"] = os.devnull

# No deadline per example: a busy machine is no fault of the code. `timeout` in pyproject.toml bounds a test.
settings.register_profile("quipu", deadline=None, print_blob=True)
# What is checked before a change lands gives the same answer each time; `make explore` looks for more, by chance.
settings.register_profile("steady", settings.get_profile("quipu"), derandomize=True)
settings.register_profile("explore", settings.get_profile("quipu"), max_examples=400)
settings.load_profile("quipu")
conventions.watch()


@pytest.fixture(scope="session", autouse=True)
def _checked_to_the_end() -> Iterator[None]:
    """What servers of several tests do when they end is nobody's test."""
    yield
    assert conventions.faults() == []


@pytest.fixture(autouse=True)
def _checked_telemetry() -> Iterator[None]:
    """Whatever memory does in a test is also shown in every convention, and must follow it."""
    conventions.forget_ways()
    yield
    assert conventions.faults() == []


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Files with slow tests come first; in the folder of a contract that has a manifest, every test claims a requirement."""
    slow = {item.path for item in items if any(map(item.get_closest_marker, ("slow", "vendor")))}
    items.sort(key=lambda item: item.path not in slow)
    contracts = {FACES / file.stem for file in (FACES / "requirements").glob("*.toml")}
    silent = [
        item.nodeid
        for item in items
        if contracts.intersection(item.path.parents) and not any(item.iter_markers("requirement"))
    ]
    if silent:
        raise pytest.UsageError("these tests claim no @requirement:\n  " + "\n  ".join(silent))
