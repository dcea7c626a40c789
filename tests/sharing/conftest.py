"""A host that shares, one that borrows, and whoever is given a grant."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.sharing.grantee import Grantee
from tests.sharing.network import Host, Network, hosts


@pytest.fixture
async def network(tmp_path: Path) -> AsyncIterator[Network]:
    async with hosts(tmp_path, "memory.example", "contractor.example") as (network, _):
        yield network


@pytest.fixture
def lender(network: Network) -> Host:
    return network.hosts["memory.example"]


@pytest.fixture
def own(network: Network) -> Host:
    return network.hosts["contractor.example"]


@pytest.fixture
def grantee(lender: Host, own: Host) -> Grantee:
    return Grantee(lender, own)


@pytest.fixture
async def host(tmp_path: Path) -> AsyncIterator[Host]:
    """One alone."""
    async with hosts(tmp_path, "memory.example") as (_, [one]):
        yield one
