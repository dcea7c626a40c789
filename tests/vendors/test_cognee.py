"""Cognee, for real."""

import os
import signal
from collections.abc import Sequence
from pathlib import Path

import pytest

from quipu.embed.port import Role
from quipu.errors import BackendUnavailableError
from quipu.mirrors.vendors.host import HostedBackend
from quipu.testing.backend.case import Keeper
from quipu.testing.embedders import WordEmbedder
from quipu.testing.scenarios.reference import SIXTEEN
from tests.vendors.contract import VendorContract, VendorScenarios
from tests.vendors.shared import vendor_at

pytestmark = [
    pytest.mark.vendor(name="cognee"),
    pytest.mark.asyncio(loop_scope="module"),
    pytest.mark.timeout(600),
]


class TestCognee(VendorContract):
    url = "cognee://quipu"


class TestScenarios(VendorScenarios):
    url = "cognee://quipu"
    scenarios = SIXTEEN


class Killing(WordEmbedder):
    """Ends the worker that asks it, for as long as it knows of one."""

    worker: HostedBackend | None = None

    async def embed(self, texts: Sequence[str], role: Role = "document") -> Sequence[bytes]:
        if self.worker is not None and self.worker.process_id is not None:
            os.kill(self.worker.process_id, signal.SIGKILL)
        return await super().embed(texts, role)


async def test_what_was_added_and_not_yet_embedded_when_the_worker_ended_is_found_later(
    tmp_path: Path,
) -> None:
    embedder = Killing(384)
    backend = vendor_at("cognee://quipu", tmp_path, embedder=embedder)
    assert isinstance(backend, HostedBackend)
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
