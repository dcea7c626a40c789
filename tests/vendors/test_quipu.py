"""Another Quipu as a mirror: a second `quipu serve`, a process of its own, reached as anybody reaches it."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path

import pytest

from quipu.backends.remote import make
from quipu.ports.backend import Backend, Setup
from tests.vendors.contract import Played
from tests.vendors.starting import Vendors

pytestmark = pytest.mark.slow


class TestQuipuOverQuipu(Played):
    """The server is shared; it embeds with its own model, whatever the scenario's memory embeds with."""

    vendor = "quipu"

    def reached(self, vendors: Vendors, place: Path) -> AbstractAsyncContextManager[Backend]:
        @asynccontextmanager
        async def open_client() -> AsyncIterator[Backend]:
            server = vendors.quipu
            url = server.url.replace("http://", f"quipu+http://:{server.token}@")
            backend = make(Setup(name="quipu", url=url, scheme="quipu+http", folder=place))
            await backend.open()
            yield backend
            await backend.close()

        return open_client()
