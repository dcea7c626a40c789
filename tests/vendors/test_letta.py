"""A real Letta server."""

import asyncio
import subprocess
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from quipu.mirrors.backend import Backend
from quipu.testing.backend.case import Keeper
from quipu.testing.embedders import WordEmbedder
from quipu.testing.scenarios.reference import SIXTEEN
from tests.fixtures.postgres import Server
from tests.vendors.contract import VendorContract, VendorScenarios
from tests.vendors.letta_server import letta_server
from tests.vendors.shared import vendor_at

pytestmark = [
    pytest.mark.vendor(name="letta"),
    pytest.mark.asyncio(loop_scope="module"),
    pytest.mark.timeout(600),
]


@pytest.fixture(scope="module")
def database(postgres: Server) -> str:
    return postgres.new_database()


@pytest.fixture(scope="module", autouse=True)
def letta(postgres: Server, database: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with letta_server(postgres, database, tmp_path_factory.mktemp("letta"), WordEmbedder(384)) as url:
        TestLetta.url, TestLetta.server, TestLetta.address = url, postgres, database
        TestScenarios.url = url
        yield url


class TestScenarios(VendorScenarios):
    #: The server embeds by itself, and this one knows nothing of what words mean.
    embedder = WordEmbedder(384)
    scenarios = tuple(one for one in SIXTEEN if not one.needs_meaning)


class TestLetta(VendorContract):
    server: Server
    address: str
    #: One more than it ever answers.
    page = 101

    @pytest.fixture
    async def unreachable(self, tmp_path: Path) -> Backend:
        return vendor_at("letta://127.0.0.1:9", tmp_path)

    async def traces(self, backend: Backend, marker: str) -> Sequence[str]:
        """Every row of every table; the pages of deleted rows are the database's to reuse."""

        def dumped() -> str:
            program = self.server._bin / "pg_dump"
            done: Any = subprocess.run(
                [program, self.address], capture_output=True, text=True, check=True, **self.server._as
            )
            return done.stdout

        dump = await asyncio.to_thread(dumped)
        return [line for line in dump.splitlines() if marker in line]

    async def test_an_older_version_whose_answer_was_lost_does_not_stand_for_the_new(
        self, keeper: Keeper
    ) -> None:
        first = await keeper.put("green elephants swim")
        lost = replace(first, version=2, content="violins are made of maple", native_id=None)
        (second,) = await keeper.put_all([lost])
        assert [(kept.text, kept.mark) for kept in await keeper.held()] == [(lost.content, lost.mark)]
        assert await keeper.found("violins maple") == [second.native_id]

    async def test_a_server_of_another_version_is_warned_of(self, backend: Backend) -> None:
        health = await backend.health()
        assert (health.version, health.warnings) == ("0.16.8", ())
