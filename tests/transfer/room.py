"""A whole installation that files are brought into, and files for it."""

import json
from collections.abc import AsyncIterator
from dataclasses import dataclass, replace
from typing import Any

from quipu.audit.operations import UNDO
from quipu.memory.operations import LIST
from quipu.model.principal import Principal
from quipu.operation import dispatch
from quipu.transfer import operations as ops
from quipu.transfer.model import ImportReport
from tests.governance.office import Office, open_office

CARLA = "carla"


def memories(*texts: str, **more: Any) -> bytes:
    """What mem0 answers when it is asked for everything."""
    results = [
        {
            "id": f"00000000-0000-4000-8000-{number:012d}",
            "memory": text,
            "created_at": "2025-01-02T03:04:05+00:00",
            **more,
        }
        for number, text in enumerate(texts)
    ]
    return json.dumps({"results": results}).encode()


async def pieces(data: bytes, size: int = 1 << 16) -> AsyncIterator[bytes]:
    for start in range(0, len(data), size):
        yield data[start : start + size]


@dataclass
class Room(Office):
    """An office with files."""

    async def sent(self, data: bytes, who: Principal | None = None, **fields: Any) -> ImportReport:
        """Tried."""
        ctx = replace(self.context(who), upload=pieces(data))
        return await dispatch(ctx, ops.IMPORT_FILE, fields)

    async def committed(self, import_id: str, who: Principal | None = None) -> ImportReport:
        return await self(ops.COMMIT_IMPORT, who, id=import_id)

    async def brought(self, data: bytes, who: Principal | None = None, **fields: Any) -> ImportReport:
        """Tried and carried out."""
        return await self.committed((await self.sent(data, who, **fields)).import_id, who)

    async def contents(self, who: Principal | None = None, **fields: Any) -> list[str]:
        page = await self(LIST, who, limit=1000, **fields)
        return sorted(record.content for record in page.records)

    async def undone(self, import_id: str, **fields: Any) -> Any:
        return await self(UNDO, import_id=import_id, dry_run=False, **fields)


async def open_room(address: str = ":memory:", **options: Any) -> Room:
    office = await open_office(address, **options)
    return Room(office.container, office.clock)
