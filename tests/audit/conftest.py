"""Audited memories for the tests of this room."""

from collections.abc import AsyncIterator, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from quipu.audit.anchors import Anchor
from quipu.audit.checkpoints import Checkpoints
from quipu.audit.keys import KeySigner, Signer
from quipu.audit.model import ANCHORS
from quipu.audit.service import AuditService, audit_service
from quipu.governance.text_classes import classes
from quipu.ledger.ledger import Ledger
from quipu.memory.scope import STORES
from quipu.operation import Context, Services
from quipu.secrets.model import SECRETS
from tests.audit.tampering import Owner, live
from tests.fixtures.memories import TestMemory, Unlimited, Untraced, open_memory

TABLES = (STORES, SECRETS, ANCHORS)


@dataclass(frozen=True)
class Audited:
    """A memory and its audit; called like the memory."""

    memory: TestMemory
    audit: AuditService
    signer: Signer

    async def __call__(self, *given: Any, **fields: Any) -> Any:
        return await self.memory(*given, **fields)

    @property
    def ledger(self) -> Ledger:
        return self.memory.ledger

    async def close(self) -> None:
        await self.memory.service.read_log.close()
        await self.audit.close()
        await self.ledger.close()


class NoneWaits:
    """Imports are another room; here nothing of them waits for a person."""

    async def withdraw(self, ctx: Context, import_id: str, *, dry_run: bool) -> int:
        return 0

    async def note_undone(self, ctx: Context, import_id: str) -> None:
        """Nobody asks."""


def audited(
    memory: TestMemory,
    *,
    signer: Signer | None = None,
    anchors: Sequence[Anchor] = (),
    every_ms: int = 60_000,
) -> Audited:
    """The audit over a memory, as bootstrap puts it together."""
    signer = signer or KeySigner.fresh()
    checkpoints = Checkpoints(memory.ledger, signer, memory.clock, every_ms)
    audit = audit_service(
        ledger=memory.ledger,
        memory=memory.service,
        signer=signer,
        checkpoints=checkpoints,
        anchors=anchors,
        detect=classes,
        imports=NoneWaits(),
    )
    checkpoints.signed = audit.publish_due
    memory.ledger.on_commit(checkpoints.committed)
    bindings = {**memory.services.bindings, **{one.operation.name: one for one in audit.bindings}}
    memory.services = Services(bindings, Unlimited(), Untraced())
    return Audited(memory, audit, signer)


@pytest.fixture
def tables() -> Sequence[Any]:
    return TABLES


@pytest.fixture
async def memory() -> AsyncIterator[Audited]:
    """An empty one."""
    opened = audited(open_memory(tables=TABLES))
    yield opened
    await opened.close()


@pytest.fixture
async def busy(ledger: Ledger) -> AsyncIterator[Audited]:
    """A memory in which everything has happened, on each engine."""
    opened = audited(open_memory(ledger))
    await live(opened.memory)
    yield opened
    await opened.memory.service.read_log.close()
    await opened.audit.close()


@pytest.fixture
def owner(engine: str, busy: Audited, tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Owner]:
    """Somebody who has the same database."""
    place = tmp_path / "memory.db" if engine == "sqlite" else request.getfixturevalue("database")
    found = Owner(place)
    yield found
    found.close()
