"""Access over an in-memory ledger, or over both engines, asked through `dispatch`."""

import os
from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import Any

import pytest

from quipu.access.budgets import Budgets
from quipu.access.model import TABLES, IssuedTokenResponse
from quipu.access.operations import CREATE_TOKEN
from quipu.access.service import AccessService, access_service
from quipu.errors import QuipuError
from quipu.ledger.ledger import Ledger
from quipu.ledger.sqlite.driver import SqliteDriver
from quipu.model.principal import Principal, local
from quipu.operation import AnyOperation, Context, Services, dispatch
from quipu.secrets.redaction import Guard
from tests.fixtures.ledgers import database, engine, ledger, new_driver, postgres
from tests.fixtures.memories import Clock, Untraced, ids_from

__all__ = ["database", "engine", "ledger", "new_driver", "postgres"]

REVIEWABLE = ("remember", "merge", "forget", "recall")


class DetectorsOnly:
    """A redactor without registered values."""

    async def guard(self, tenant: str, run_id: str | None) -> Guard:
        return Guard(checked_at=1 << 60)


@dataclass
class Access:
    """The service and everything a test looks at."""

    ledger: Ledger
    service: AccessService
    services: Services
    clock: Clock

    async def __call__(self, operation: AnyOperation, who: Principal | None = None, /, **fields: Any) -> Any:
        """Run an operation; without a principal, as the person at the file."""
        return await dispatch(Context(who or local(), self.clock, self.services), operation, fields)

    async def token(self, name: str, *roles: str, by: Principal | None = None, **fields: Any) -> str:
        """The text of a new token."""
        return (await self.issued(name, *roles, by=by, **fields)).text

    async def issued(
        self, name: str, *roles: str, by: Principal | None = None, **fields: Any
    ) -> IssuedTokenResponse:
        return await self(CREATE_TOKEN, by, name=name, roles=roles or ("agent",), **fields)

    async def shown(self, text: str) -> Principal:
        """Who shows this text."""
        return await self.service.credentials.principal(text)

    async def new(self, name: str, *roles: str, by: Principal | None = None, **fields: Any) -> Principal:
        """Somebody with a new token."""
        return await self.shown(await self.token(name, *roles, by=by, **fields))


def over(ledger: Ledger, clock: Clock | None = None, redactor: Any = None, **given: Any) -> Access:
    """One server's access to a ledger."""
    clock = clock or Clock()
    service = access_service(
        ledger=ledger,
        redactor=redactor or DetectorsOnly(),
        detectors=Guard(),
        clock=clock,
        new_id=given.pop("new_id", None) or ids_from(),
        random=os.urandom,
        reviewable=REVIEWABLE,
        budgets=Budgets(ledger, rate=given.pop("rate", 0), recall_budget=given.pop("recall_budget", 0)),
        **given,
    )
    services = Services.of(service.bindings, service.budgets, Untraced())
    return Access(ledger, service, services, clock)


async def refusal(awaited: Any) -> tuple[str, str | None]:
    """The code and the reason of an error."""
    with pytest.raises(QuipuError) as refused:
        await awaited
    return refused.value.code, refused.value.reason


@pytest.fixture
def tables() -> Any:
    return TABLES


@pytest.fixture
async def access() -> AsyncIterator[Access]:
    ledger = Ledger(SqliteDriver(":memory:"), TABLES)
    opened = over(ledger)
    await ledger.open_tenant("default", opened.clock())
    yield opened
    await ledger.close()
