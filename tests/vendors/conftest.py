"""What holds for tests of vendors."""

from collections.abc import Iterator
from importlib.util import find_spec
from typing import TYPE_CHECKING

import pytest

from tests.postgres import Server

if TYPE_CHECKING:
    from tests.vendors.starting import Vendors

#: These share a process with LangGraph, so only its own environment collects them.
collect_ignore = [] if find_spec("langgraph") else ["inside"]


@pytest.fixture(scope="session")
def vendors(tmp_path_factory: pytest.TempPathFactory, postgres: Server) -> "Iterator[Vendors]":
    """Each vendor is started once, when it is first asked for, and ended with the run."""
    from tests.vendors.starting import started

    with started(tmp_path_factory.mktemp("embedder"), postgres) as vendors:
        yield vendors
