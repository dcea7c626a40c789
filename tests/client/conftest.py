from collections.abc import AsyncIterator

import pytest

from tests.client.network import Served


@pytest.fixture
async def served() -> AsyncIterator[Served]:
    made = Served()
    yield made
    await made.close()
