"""Another Quipu ledger passes the suite of backends."""

from __future__ import annotations

import hashlib
from collections.abc import AsyncIterator, Sequence
from pathlib import Path

import pytest

from quipu.backends.ledgers import LedgerBackend
from quipu.errors import BackendUnavailableError
from quipu.ledger.sqlite.ledger import SqliteLedger
from quipu.ports.backend import Backend
from quipu.ports.embedder import Embedder
from quipu.testing.backend import BackendContract
from quipu.testing.backend.case import Keeper
from quipu.testing.builders import CountedIds, FixedClock, canonical
from quipu.testing.embedders import WordEmbedder


def ledger_backend(path: Path, embedder: Embedder | None = None) -> LedgerBackend:
    clock, salts = FixedClock(), CountedIds()
    return LedgerBackend(
        lambda: SqliteLedger(path, clock=clock, mint_id=CountedIds(), canonical=canonical),
        embedder=embedder or WordEmbedder(),
        clock=clock,
        mint_salt=lambda: hashlib.sha256(salts("salt").encode()).digest()[:16],
        canonical=canonical,
    )


class TestLedgerBackend(BackendContract):
    @pytest.fixture
    async def backend(self, tmp_path: Path) -> AsyncIterator[Backend]:
        self.folder = tmp_path
        backend = ledger_backend(tmp_path / "mirror.db")
        await backend.open()
        yield backend
        await backend.close()

    @pytest.fixture
    def unreachable(self, tmp_path: Path) -> Backend:
        (tmp_path / "file").write_text("not a folder")
        return ledger_backend(tmp_path / "file" / "mirror.db")

    async def traces(self, backend: Backend, marker: str) -> Sequence[str]:
        return [file.name for file in self.folder.iterdir() if marker.encode() in file.read_bytes()]


async def test_a_mirror_of_another_embedder_is_refused(tmp_path: Path) -> None:
    first = ledger_backend(tmp_path / "mirror.db", WordEmbedder(64))
    await first.open()
    await Keeper(first).put("tea at noon")
    await first.close()
    second = ledger_backend(tmp_path / "mirror.db", WordEmbedder(32))
    await second.open()
    for asked in (Keeper(second).put("coffee"), Keeper(second).asked("tea")):
        with pytest.raises(BackendUnavailableError) as refused:
            await asked
        assert refused.value.reason == "embedding_mismatch"
    await second.close()
