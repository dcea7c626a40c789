"""A server with the rig in it for each test; files whose tests leave nothing behind have one for all of them."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.faces.http.rig import Rig
from tests.faces.serving import Served, served


@pytest.fixture
def rig() -> Rig:
    return Rig()


@pytest.fixture
def at(rig: Rig) -> Iterator[Served]:
    with served(more=rig.faces) as at:
        yield at
