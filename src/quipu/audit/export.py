"""The journal as lines of files that are verified without the ledger: entries, signed positions, keys, versions with salts.

All of it is as of the position that is signed first; others may go on writing meanwhile. What they erase can neither be
proven nor should it stand there: then the export ends with an error, and is to be begun again.
"""

import json
from collections.abc import AsyncIterator, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from quipu.audit.checkpoints import Checkpoints, statement
from quipu.audit.model import CHECKPOINTS, JOURNAL, KEYS, RECORDS, ExportLine
from quipu.errors import ConflictError, TamperedError
from quipu.ledger.digests import entry_body, record_body
from quipu.ledger.ledger import JournalQuery, Ledger
from quipu.ledger.records import StoredVersion
from quipu.model.journal import Entry

_PAGE = 500


@dataclass(frozen=True, slots=True, kw_only=True)
class Exporter:
    """Exports the journal of one tenant at a time."""

    ledger: Ledger
    checkpoints: Checkpoints

    async def lines(self, tenant: str, actor: str, *, with_records: bool) -> AsyncIterator[ExportLine]:
        end = (await self.checkpoints.sign(tenant, actor)).seq
        async for entry in self._entries(tenant, 0):
            if entry.seq > end:
                break
            yield _line(JOURNAL, {**entry_body(tenant, entry), "hash": entry.hash.hex()})
        after = 0
        while points := await self.ledger.checkpoints(tenant, after, _PAGE):
            for point in points:
                if point.seq <= end:
                    yield _line(CHECKPOINTS, statement(tenant, point))
            after = points[-1].seq
        yield _line(KEYS, dict(self.checkpoints.signer.known_keys))
        if with_records:
            async for stored in self._versions(tenant):
                for line in _version_lines(stored, end):
                    yield line
            await self._check_nothing_erased(tenant, end)

    async def _entries(self, tenant: str, after: int) -> AsyncIterator[Entry]:
        while entries := await self.ledger.entries(tenant, JournalQuery(after=after, limit=_PAGE)):
            for entry in entries:
                yield entry
            after = entries[-1].seq

    async def _versions(self, tenant: str) -> AsyncIterator[StoredVersion]:
        after = ("", 0)
        while True:
            start = after
            page = await self.ledger.read(
                tenant, lambda reader, start=start: reader.stored_versions(start, _PAGE)
            )
            for stored in page:
                yield stored
            if len(page) < _PAGE:
                return
            after = (page[-1].id, page[-1].version)

    async def _check_nothing_erased(self, tenant: str, end: int) -> None:
        async for entry in self._entries(tenant, end):
            if entry.op == "prune" or entry.detail.get("erased"):
                raise _erased_meanwhile()


def _version_lines(stored: StoredVersion, end: int) -> Iterator[ExportLine]:
    record = stored.record
    if record is None:
        raise TamperedError(
            f"Memory {stored.id} version {stored.version} cannot be read.",
            reason="unreadable_record",
            hint="`quipu verify` names everything that was altered.",
        )
    if record.born > end:
        return
    if stored.emptied is not None and stored.emptied > end:
        raise _erased_meanwhile()
    # Whatever ended the version behind the end had not happened yet.
    goes_on = record.died is not None and record.died > end
    yield _line(
        RECORDS,
        {
            "id": record.id,
            "version": record.version,
            "born": record.born,
            "died": None if goes_on else record.died,
            "ending": None if goes_on else record.ending,
            "merged_into": None if goes_on else record.merged_into,
            "emptied": stored.emptied,
            "digest": record.digest,
            "salt": record.salt.hex(),
            "body": None if record.is_emptied else record_body(record),
        },
    )


def _line(file: str, body: Mapping[str, Any]) -> ExportLine:
    return ExportLine(file=file, line=json.dumps(body, ensure_ascii=False, separators=(",", ":")))


def _erased_meanwhile() -> ConflictError:
    return ConflictError(
        "Something was erased while the journal was exported.",
        reason="erased_meanwhile",
        hint="Throw away what was exported so far, and export again.",
    )
