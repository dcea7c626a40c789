"""A whole installation, asked as people ask it."""

from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import pytest

from quipu.access.operations import CREATE_TOKEN
from quipu.bootstrap import Container, http_app, open_container
from quipu.config import Settings
from quipu.embed.port import Embedder
from quipu.ledger.ledger import JournalQuery
from quipu.memory.operations import REMEMBER
from quipu.mirrors.copies import Mirror
from quipu.model.journal import Entry
from quipu.model.principal import Principal, local
from quipu.operation import AnyOperation, dispatch
from quipu.testing.embedders import WordEmbedder
from tests.fixtures.memories import Clock
from tests.web.person import BASE, Person


@dataclass
class House:
    """The installation, its pages, and who looks at them."""

    container: Container
    clock: Clock
    app: Any
    people: list[Person] = field(default_factory=list[Person])

    async def __call__(self, operation: AnyOperation, who: Principal | None = None, /, **fields: Any) -> Any:
        """Run an operation; without a principal, as the person at the file."""
        return await dispatch(self.container.context(who or local(agent_id="agent")), operation, fields)

    async def remember(self, content: Any, who: Principal | None = None, **fields: Any) -> str:
        return (await self(REMEMBER, who, content=content, **fields)).id

    async def token(self, name: str, *roles: str, **fields: Any) -> str:
        """The text of a new token."""
        return (await self(CREATE_TOKEN, name=name, roles=roles, **fields)).text

    async def principal(self, token: str) -> Principal:
        return await self.container.access.credentials.principal(token)

    def stranger(self, base: str = BASE) -> Person:
        """Somebody who is not signed in."""
        person = Person(self.app, base)
        self.people.append(person)
        return person

    async def person(self, name: str, *roles: str, **fields: Any) -> Person:
        """Somebody who is signed in with a new token."""
        person = self.stranger()
        seen = await person.sign_in(await self.token(name, *roles, **fields))
        assert seen.status == 200, seen.text
        return person

    async def entries(self, *ops: str) -> list[Entry]:
        await self.container.memory.read_log.flush()
        entries = await self.container.ledger.entries("default", JournalQuery(limit=10_000))
        return [entry for entry in entries if entry.op in ops or not ops]

    async def close(self) -> None:
        for person in self.people:
            await person.close()
        await self.container.close()


async def open_house(
    *,
    is_open: bool = False,
    store: str = ":memory:",
    embedder: Embedder | None = None,
    mirrors: Sequence[Mirror] = (),
    **settings: Any,
) -> House:
    clock = Clock()
    container = await open_container(
        Settings(**{"rate": 0, **settings}),
        stores=[store],
        embedder=embedder or WordEmbedder(),
        clock=clock,
        mirrors=mirrors,
    )
    return House(container, clock, http_app(container, is_open=is_open))


@pytest.fixture
async def house() -> AsyncIterator[House]:
    made = await open_house()
    yield made
    await made.close()


@pytest.fixture
async def open_server() -> AsyncIterator[House]:
    """A server that asks nobody who they are."""
    made = await open_house(is_open=True)
    yield made
    await made.close()
