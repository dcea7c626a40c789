"""Bringing in a whole file of memories: always tried first, then carried out, held where a rule says so.

The same file gives the same import id and the same record ids every time, so an import that was cut off is gone on with
by doing it again: what is in already is told as a duplicate.
"""

from __future__ import annotations

import asyncio
import hashlib
import tempfile
from collections import OrderedDict
from collections.abc import AsyncIterable
from contextlib import aclosing
from dataclasses import dataclass, replace
from typing import BinaryIO, cast

from quipu.errors import InvalidError, NotFoundError, TamperedError
from quipu.formats import reading, values
from quipu.formats.archives import Source
from quipu.formats.reading import Opened
from quipu.formats.signing import FOREIGN, Checking
from quipu.model.change import Commit
from quipu.model.journal import Draft, Op
from quipu.model.moving import FileImport, ImportReport
from quipu.model.operations import CreateStoreRequest
from quipu.model.principal import Permission, Principal
from quipu.model.record import Tier
from quipu.model.store import StoreScope
from quipu.model.value import Json
from quipu.ports.parts import Parts
from quipu.service.access import Access
from quipu.service.governance import Governance
from quipu.service.import_carrying import Carried, Carrying
from quipu.service.import_fetching import fetched_pieces, file_name
from quipu.service.import_owners import owner_mark
from quipu.service.import_tombstones import Burying
from quipu.service.import_writing import Bringing, Progress
from quipu.service.lines import Lines
from quipu.service.secrets import Secrets
from quipu.service.stores import Stores
from quipu.service.writing import Writing

#: What the file was read with; it is told with every import, because vendors change their files without notice.
VERSION = 1
#: A file that was tried waits so long to be carried out, and so many of a host wait at a time.
_PATIENCE_MS, _MOST_WAITING = 3_600_000, 32
MOST_BYTES = 8 << 30
#: Who carries one out waits so long for its end, before looking on.
_SOON_S = 1.5


@dataclass(slots=True)
class _Waiting:
    """A file that was tried and may be carried out."""

    file: BinaryIO
    sha256: str
    request: FileImport
    until: int
    #: Items that were found in it.
    items: int
    #: Files of one import are carried out one after the other.
    turn: asyncio.Lock
    #: Being carried out: whoever does that closes it then.
    is_read: bool = False

    def let_go(self) -> None:
        if not self.is_read:
            self.file.close()


@dataclass(frozen=True, slots=True)
class Received:
    """A file that was taken in."""

    file: BinaryIO
    sha256: str


class Importing:
    """Tries and carries out; what was tried waits in a file of its own."""

    def __init__(
        self,
        parts: Parts,
        access: Access,
        secrets: Secrets,
        writing: Writing,
        lines: Lines,
        governance: Governance,
        stores: Stores,
        burying: Burying,
    ) -> None:
        self._parts, self._access = parts, access
        self._stores = stores
        self._bringing = Bringing(parts, secrets, writing, lines, governance, burying)
        self._waiting: OrderedDict[tuple[str, str], _Waiting] = OrderedDict()
        self.carrying = Carrying(self.committed)

    # -- trying and carrying out --------------------------------------------------------------------------------

    async def tried(
        self,
        principal: Principal,
        pieces: AsyncIterable[bytes],
        request: FileImport,
        progress: Progress | None = None,
    ) -> ImportReport:
        """What would come in. Nothing is written; the file waits for an hour to be carried out."""
        received = await self.received(principal, pieces, request)
        return await self.gone_through(principal, received, request, progress)

    async def received(
        self, principal: Principal, pieces: AsyncIterable[bytes], request: FileImport
    ) -> Received:
        """The file, taken in and not yet looked at. Whoever takes it hands it on to be gone through, or closes it."""
        self._access.authorise(principal, Permission.WRITE, request.agent_id)
        return Received(*await _kept(pieces))

    async def gone_through(
        self, principal: Principal, received: Received, request: FileImport, progress: Progress | None = None
    ) -> ImportReport:
        """What would come in of a file that was taken in."""
        file, sha256 = received.file, received.sha256
        try:
            opened = await self._opened(file, request)
            name = _import_id(opened, sha256, request)
            blank = replace(_blank(opened, name, sha256, request), dry_run=True)
            report = await self._bringing.gone_through(principal, opened, request, blank, progress)
        except BaseException:
            file.close()
            raise
        self._keep(principal.tenant, name, file, sha256, request, report.read)
        return report

    async def fetched(
        self, principal: Principal, url: str, request: FileImport, progress: Progress | None = None
    ) -> ImportReport:
        """The same of a file that another host hands out. It is fetched through the guard, and tried like one sent."""
        self._access.authorise(principal, Permission.WRITE, request.agent_id)
        named = request if request.file_name else replace(request, file_name=file_name(url))
        async with aclosing(fetched_pieces(self._parts, url)) as pieces:
            return await self.tried(principal, pieces, named, progress)

    async def committed(
        self, principal: Principal, import_id: str, progress: Progress | None = None
    ) -> ImportReport:
        """Carry out what was tried. What a rule holds waits for a person; the rest is in."""
        waiting, key = self._tried(principal, import_id), (principal.tenant, import_id)
        async with waiting.turn:
            if waiting.file.closed:  # somebody else has carried it out, or sent it again
                waiting = self._tried(principal, import_id)
            waiting.is_read = True
            try:
                report = await self._brought_in(principal, import_id, waiting, progress)
                if self._waiting.get(key) is waiting:
                    del self._waiting[key]
            finally:
                waiting.is_read = False
                if self._waiting.get(key) is not waiting:
                    waiting.let_go()
        return report

    async def _brought_in(
        self, principal: Principal, import_id: str, waiting: _Waiting, progress: Progress | None
    ) -> ImportReport:
        opened = await self._opened(waiting.file, waiting.request)
        await self._open_stores(principal, opened, waiting.request)
        blank = _blank(opened, import_id, waiting.sha256, waiting.request)
        report = await self._bringing.gone_through(principal, opened, waiting.request, blank, progress)
        await self._receipt(principal, report)
        return report

    async def carried_out(self, principal: Principal, import_id: str, patience_s: float = _SOON_S) -> Carried:
        """The same behind the caller's back, where it takes longer than a moment; `carrying` tells how far it is."""
        waiting = self._tried(principal, import_id)
        return await self.carrying.begun(principal, import_id, waiting.items, patience_s)

    async def close(self) -> None:
        """Let go of what waits, and stop what goes on."""
        await self.carrying.close()
        while self._waiting:
            self._waiting.popitem()[1].let_go()

    def _tried(self, principal: Principal, import_id: str) -> _Waiting:
        waiting = self._waiting.get((principal.tenant, import_id))
        if waiting is None or waiting.until <= self._parts.clock():
            raise NotFoundError(
                "No such import waits here.",
                reason="import",
                hint="Send the file again; nothing comes twice.",
            )
        self._access.authorise(principal, Permission.WRITE, waiting.request.agent_id)
        return waiting

    def _keep(
        self, tenant: str, name: str, file: BinaryIO, sha256: str, request: FileImport, items: int
    ) -> None:
        now = self._parts.clock()
        former = self._waiting.get((tenant, name))
        gone = [key for key, one in self._waiting.items() if one.until <= now or one is former]
        for key in gone:
            self._waiting.pop(key).let_go()
        while len(self._waiting) >= _MOST_WAITING:
            self._waiting.popitem(last=False)[1].let_go()
        turn = asyncio.Lock() if former is None else former.turn
        self._waiting[tenant, name] = _Waiting(file, sha256, request, now + _PATIENCE_MS, items, turn)

    async def _opened(self, file: BinaryIO, request: FileImport) -> Opened:
        """The file, checked as a whole: limits, signature, digests. A signature that is wrong ends it here."""
        known = {**self._parts.signer.known_keys, **request.keys}
        checking = Checking(canonical=self._parts.canonical, verify=self._parts.verify, keys=known)

        def work() -> Opened:
            return reading.opened(Source(file, request.file_name), checking, request.format)

        try:
            opened = await asyncio.to_thread(work)
        except TamperedError as error:
            # Nothing of ours was altered: what was sent is not good.
            raise InvalidError(error.message, reason=error.reason) from error
        if opened.signature == FOREIGN and not request.foreign_owner:
            raise InvalidError(
                "The file is signed by somebody whose key is not known here.",
                reason="unknown_key",
                hint="Give their public key, or say that it may be a foreign owner's.",
            )
        return opened

    # -- around it ----------------------------------------------------------------------------------------------

    async def _open_stores(self, principal: Principal, opened: Opened, request: FileImport) -> None:
        if request.store is not None:
            return
        there = {store.name for store in await self._parts.ledger.stores(principal.tenant)}
        for store in opened.stores:
            name, scope, tier = values.a_text(store.get("name")), store.get("scope"), store.get("tier")
            if name is None or name in there:
                continue
            wanted = CreateStoreRequest(
                name=name,
                scope=StoreScope(scope) if scope in tuple(StoreScope) else StoreScope.AGENT,
                tier=Tier(tier) if tier in tuple(Tier) else Tier.LONG_TERM,
                namespace=values.a_text(store.get("namespace")),
                description=values.a_text(store.get("description")),
            )
            await self._stores.create(principal, wanted)

    async def _receipt(self, principal: Principal, report: ImportReport) -> None:
        """What was brought in, by whom and from which file; counts and hashes only."""
        detail: dict[str, Json] = {
            "import_id": report.import_id,
            "format": report.format.value,
            "sha256": report.sha256,
            "importer": VERSION,
            "signature": report.signature,
        }
        counted = ("read", "accepted", "quarantined", "duplicate", "conflict", "refused")
        told = ("updated", "removed", "removals_waiting")
        detail |= {name: getattr(report, name) for name in counted}
        detail |= {name: count for name in told if (count := getattr(report, name))}
        if report.owner is not None:
            detail["owner"] = owner_mark(report.owner)
        if report.export_id is not None:
            detail["export_id"] = report.export_id[:64]
        draft = Draft(op=Op.IMPORT, actor=principal.name, at=self._parts.clock(), detail=detail)
        await self._parts.ledger.commit(Commit(tenant=principal.tenant, draft=draft))


async def _kept(pieces: AsyncIterable[bytes]) -> tuple[BinaryIO, str]:
    """What is sent, in a file of its own that goes when it is closed."""
    file = tempfile.TemporaryFile(prefix="quipu-import-")  # noqa: SIM115  it outlives this call
    digest, size = hashlib.sha256(), 0
    try:
        async for piece in pieces:
            size = _within(size + len(piece))
            digest.update(piece)
            file.write(piece)
        file.flush()
    except BaseException:
        file.close()
        raise
    return cast("BinaryIO", file), digest.hexdigest()


def _within(size: int) -> int:
    if size > MOST_BYTES:
        raise InvalidError("The file is too large.", reason="too_large")
    return size


def _blank(opened: Opened, import_id: str, sha256: str, request: FileImport) -> ImportReport:
    """The report before anything is counted."""
    return ImportReport(
        import_id=import_id,
        format=opened.format,
        sha256=sha256,
        file_name=request.file_name,
        importer_version=VERSION,
        signature=opened.signature,
        owner=opened.owner,
        export_id=opened.export_id,
    )


def _import_id(opened: Opened, sha256: str, request: FileImport) -> str:
    return values.derived("imp", sha256, opened.format.value, request.agent_id, request.store or "")
