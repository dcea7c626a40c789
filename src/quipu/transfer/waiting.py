"""Files that were tried and wait to be carried out where several servers answer over one database: in the database, sealed.

A file is pieces, and a first row that says what was asked and reported of it. Whoever works on it holds that row; any
server carries out what another has tried. Of a ledger in a file, which one process serves, nothing is kept here.
"""

import json
import secrets
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any, BinaryIO, cast

from quipu.ledger.ledger import Ledger
from quipu.ledger.table import Key
from quipu.secrets.sealing import Sealing
from quipu.transfer.model import WAITING_FILES, ImportFileRequest, ImportReport, WaitingFile

_PIECE = 4 << 20
#: Whoever works on a file says so anew after each chunk; one that is silent for so long has ended.
_LEASE_MS = 120_000
#: So many files of a tenant wait; the ones that were sent first go.
_MOST = 32


@dataclass(frozen=True, slots=True, kw_only=True)
class Waiting:
    """What is known of a file that waits."""

    row: WaitingFile
    request: ImportFileRequest
    sender: str
    sha256: str
    report: ImportReport


@dataclass(frozen=True, slots=True, kw_only=True)
class WaitingFiles:
    """Keeps them, gives them to whichever server goes on, and drops them."""

    ledger: Ledger
    sealing: Sealing
    #: This process, among those that work on files.
    holder: str = field(default_factory=lambda: secrets.token_hex(16))

    @property
    def are_shared(self) -> bool:
        """Whether other servers may be asked about what this one was sent."""
        return self.ledger.name == "postgresql"

    async def keep(
        self,
        tenant: str,
        file: BinaryIO,
        request: ImportFileRequest,
        sender: str,
        report: ImportReport,
        until: int,
        now: int,
    ) -> None:
        """Keep a file, and hold it. The first row comes last: without it there is no file."""
        await self._tidy(tenant, now)
        file.seek(0)
        name, pieces = report.import_id, 0
        while piece := file.read(_PIECE):
            pieces += 1
            sealed = await self.sealing.seal(piece, tenant, f"{name}/{pieces}")
            row = WaitingFile(id=name, number=pieces, sealed=sealed, pieces=0, until=until)
            await self.ledger.update(tenant, WAITING_FILES, row)
        row = WaitingFile(
            id=name,
            number=0,
            sealed=b"",
            pieces=pieces,
            until=until,
            holder=self.holder,
            held_until=now + _LEASE_MS,
        )
        await self._put(tenant, row, request, sender, report)

    async def tried(self, tenant: str, report: ImportReport) -> None:
        """The trial is over: anybody may carry it out now."""
        known = await self.find(tenant, report.import_id)
        if known is not None:
            row = replace(known.row, holder=None, held_until=None)
            await self._put(tenant, row, known.request, known.sender, report)

    async def find(self, tenant: str, import_id: str) -> Waiting | None:
        row = await self.ledger.get(WAITING_FILES, tenant, import_id, 0)
        if row is None:
            return None
        body = json.loads(self.sealing.unseal(row.sealed, tenant, f"{import_id}/0"))
        return Waiting(
            row=row,
            request=ImportFileRequest.model_validate(body["request"], strict=False),
            sender=body["sender"],
            sha256=str(body["report"]["sha256"]),
            report=ImportReport.model_validate(body["report"], strict=False),
        )

    async def hold(self, tenant: str, import_id: str, now: int) -> bool:
        """Whether this process may work on it from now on; False while another does, or where it is gone."""
        return await self.ledger.claim(
            WAITING_FILES, tenant, (import_id, 0), self.holder, now, now + _LEASE_MS
        )

    def is_elsewhere(self, known: Waiting, now: int) -> bool:
        """Whether another process is working on it."""
        row = known.row
        return row.holder not in (None, self.holder) and (row.held_until or 0) > now

    async def opened(self, tenant: str, known: Waiting) -> BinaryIO:
        """The file, in one of this process's own that goes when it is closed."""
        file = tempfile.TemporaryFile(prefix="quipu-import-")  # noqa: SIM115  it outlives this call
        for number in range(1, known.row.pieces + 1):
            row = await self.ledger.get(WAITING_FILES, tenant, known.row.id, number)
            if row is not None:
                file.write(self.sealing.unseal(row.sealed, tenant, f"{row.id}/{number}"))
        file.flush()
        return cast("BinaryIO", file)

    async def drop(self, tenant: str, import_id: str) -> None:
        """It is carried out, or not wanted any more."""
        row = await self.ledger.get(WAITING_FILES, tenant, import_id, 0)
        if row is not None:
            await self.ledger.update(tenant, WAITING_FILES, drop=_keys(row))

    async def _put(
        self, tenant: str, row: WaitingFile, request: ImportFileRequest, sender: str, report: ImportReport
    ) -> None:
        body: dict[str, Any] = {
            "request": request.model_dump(mode="json", exclude_unset=True),
            "sender": sender,
            "report": report.model_dump(mode="json"),
        }
        sealed = await self.sealing.seal(json.dumps(body).encode(), tenant, f"{row.id}/0")
        await self.ledger.update(tenant, WAITING_FILES, replace(row, sealed=sealed))

    async def _tidy(self, tenant: str, now: int) -> None:
        rows: Sequence[WaitingFile] = await self.ledger.page(
            WAITING_FILES, tenant, {"number": 0}, limit=1_000
        )
        idle = sorted((row for row in rows if (row.held_until or 0) <= now), key=lambda row: row.until)
        many = max(0, len(rows) - _MOST + 1)
        for place, row in enumerate(idle):
            if row.until <= now or place < many:
                await self.ledger.update(tenant, WAITING_FILES, drop=_keys(row))


def _keys(row: WaitingFile) -> list[Key]:
    return [(row.id, number) for number in range(row.pieces + 1)]
