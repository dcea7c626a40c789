"""A server at work, and clients of it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import count
from pathlib import Path

import pytest

from quipu.model.access import Role
from quipu.model.principal import Permission, local
from tests.faces.serving import Served, served


@pytest.fixture(scope="module")
def at(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    """One server for the tests of a module; each test writes for an agent of its own."""
    store: Path = tmp_path_factory.mktemp("mcp") / "memory.db"
    with served(store, mcp_extension=True) as running:
        yield running


@pytest.fixture(params=["2026-07-28", "legacy"])
def mode(request: pytest.FixtureRequest) -> str:
    """Both generations."""
    return request.param


@pytest.fixture
def agent(request: pytest.FixtureRequest) -> str:
    return f"agent-{abs(hash(request.node.nodeid))}"


Mint = Callable[..., str]
_NUMBERS = count()


@pytest.fixture
def mint(at: Served) -> Mint:
    """Makes tokens of tenant `default`, or of another."""

    def token(
        *permissions: Permission,
        tenant: str = "default",
        agents: tuple[str, ...] = ("*",),
        user: str | None = None,
    ) -> str:
        issued = at.do(
            at.service.tokens.issue(
                local(tenant),
                name=f"token-{next(_NUMBERS)}",
                permissions=permissions,
                roles=() if permissions else (Role.AGENT,),
                agents=agents,
                user_id=user,
            )
        )
        return issued.text

    return token
