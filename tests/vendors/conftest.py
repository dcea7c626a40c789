"""Vendors that run for all cases of a class."""

from collections.abc import AsyncIterator
from typing import Any

import pytest
import pytest_asyncio

from quipu.mirrors.backend import Backend
from tests.mirrors.scenarios import ways
from tests.vendors.contract import VendorScenarios


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Of a `VendorScenarios`, those that its class names."""
    if metafunc.cls is not None and issubclass(metafunc.cls, VendorScenarios):
        played = list(ways(metafunc.cls.scenarios))
        metafunc.parametrize(("scenario", "way"), played, ids=[f"{one.name}-{way}" for one, way in played])


@pytest_asyncio.fixture(loop_scope="module", scope="class")
async def running(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> AsyncIterator[Backend]:
    """The vendor of a `VendorContract`."""
    case: Any = request.cls
    case.folder = tmp_path_factory.mktemp("vendor")
    if case.needs_postgres:
        case.server = request.getfixturevalue("postgres")
        case.address = case.server.new_database()
    backend = case.made(case.folder / "mirror")
    await backend.open()
    yield backend
    await backend.close()
