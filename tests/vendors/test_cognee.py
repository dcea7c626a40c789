"""Cognee, for real."""

from __future__ import annotations

import os
import signal
from collections.abc import Sequence
from pathlib import Path

import pytest

from quipu.backends.process import ProcessBackend
from quipu.errors import BackendUnavailableError
from quipu.testing.backend.case import Keeper
from quipu.testing.embedders import WordEmbedder
from quipu.testing.scenarios import LEAST
from tests.vendors.contract import Played, VendorContract
from tests.vendors.sharing import made, setup

pytestmark = [pytest.mark.vendor, pytest.mark.slow, pytest.mark.timeout(900)]


class TestCognee(VendorContract):
    vendor, url = "cognee", "cognee://quipu"


class TestQuipuOverCognee(Played):
    vendor, url = "cognee", "cognee://quipu"
    size = LEAST


class Killing(WordEmbedder):
    """Ends the worker that asks it, for as long as it is told to."""

    worker: ProcessBackend | None = None

    async def embed(self, texts: Sequence[str]) -> Sequence[bytes]:
        if self.worker is not None and self.worker._process is not None:
            os.kill(self.worker._process._process.pid, signal.SIGKILL)
        return await super().embed(texts)


async def test_what_was_added_and_not_yet_embedded_when_the_worker_ended_is_found_later(
    tmp_path: Path,
) -> None:
    embedder = Killing(384)
    backend = made(setup("cognee://quipu", "cognee", tmp_path, embedder), "cognee")
    assert isinstance(backend, ProcessBackend)
    await backend.open()
    keeper = Keeper(backend)
    copy = keeper.copy("tea at noon")
    embedder.worker = backend
    with pytest.raises(BackendUnavailableError):
        await keeper.put_all([copy])
    embedder.worker = None
    await backend.open()
    (kept,) = await keeper.put_all([copy])
    assert await keeper.found("tea at noon") == [kept.native_id]
    await backend.close()
