"""Vendors that run for all cases of a class."""

from collections.abc import AsyncIterator
from typing import Any

import pytest
import pytest_asyncio

from quipu.mirrors.backend import Backend


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
