"""Files of memories to a server and from it."""

from __future__ import annotations

import json
import tempfile
from collections.abc import AsyncGenerator, AsyncIterable, Callable
from contextlib import aclosing
from typing import BinaryIO, cast
from urllib.parse import quote

from quipu.client.address import segment
from quipu.client.answers import part, understood
from quipu.client.bodies import sent
from quipu.client.failures import misunderstood
from quipu.client.patience import Repeat
from quipu.client.transport import Call, Transport
from quipu.faces.rest.paths import PREFIX
from quipu.model.moving import (
    ExportedFile,
    ExportReport,
    FileExport,
    FileImport,
    ImportDecided,
    ImportReport,
    ImportState,
    RolledBack,
)
from quipu.model.principal import Principal

#: A server may have much to read or to write before it says something.
_WORKING_S = 600.0
_REPORT = "quipu-export-report"


class RemoteImporting:
    """Sends a file, and has it carried out."""

    def __init__(self, transport: Transport) -> None:
        self._transport = transport

    async def tried(
        self,
        principal: Principal,
        pieces: AsyncIterable[bytes],
        request: FileImport,
        progress: Callable[[int], None] | None = None,
    ) -> ImportReport:
        query = {
            "agent_id": request.agent_id,
            "format": None if request.format is None else request.format.value,
            "store": request.store,
            "file_name": request.file_name,
            "foreign_owner": "true" if request.foreign_owner else None,
        }
        keys = "".join(f"&key={quote(key)}" for key in request.keys.values())
        call = Call(
            method="POST",
            path=f"{PREFIX}/imports?{_query(query)}{keys}",
            headers={"Content-Type": "application/octet-stream", "Accept-Encoding": "identity"},
            repeat=Repeat.UNSENT,
            read_s=_WORKING_S,
        )
        return await self._report(call, progress, _sent(pieces))

    async def committed(
        self, principal: Principal, import_id: str, progress: Callable[[int], None] | None = None
    ) -> ImportReport:
        call = Call(
            method="POST",
            path=f"{PREFIX}/imports/{segment(import_id)}/commit",
            headers={"Accept-Encoding": "identity"},
            repeat=Repeat.UNSENT,
            read_s=_WORKING_S,
        )
        return await self._report(call, progress, None)

    async def _report(
        self, call: Call, progress: Callable[[int], None] | None, content: AsyncGenerator[bytes] | None
    ) -> ImportReport:
        async with aclosing(self._transport.lines(call, content)) as lines:
            async for line in lines:
                if "result" in line:
                    return understood(ImportReport, line["result"])
                if progress is not None and isinstance(line.get("progress"), int):
                    progress(line["progress"])
        raise misunderstood()


class RemoteImports:
    """What became of imports there."""

    def __init__(self, transport: Transport) -> None:
        self._transport = transport

    async def list(self, principal: Principal) -> tuple[ImportState, ...]:
        body = await self._transport.call(Call(method="GET", path=f"{PREFIX}/imports"))
        return part(tuple[ImportState, ...], body, "imports")

    async def decide(
        self, principal: Principal, import_id: str, *, approved: bool, reason: str | None = None
    ) -> ImportDecided:
        body = {"approved": approved} | ({} if reason is None else {"reason": reason})
        return understood(ImportDecided, await self._asked(import_id, "decision", body))

    async def roll_back(
        self, principal: Principal, import_id: str, *, force: bool = False, dry_run: bool = False
    ) -> RolledBack:
        body = {"force": force, "dry_run": dry_run}
        return understood(RolledBack, await self._asked(import_id, "rollback", body))

    async def _asked(self, import_id: str, what: str, body: object) -> object:
        path = f"{PREFIX}/imports/{segment(import_id)}/{what}"
        return await self._transport.call(Call(method="POST", path=path, body=body, repeat=Repeat.UNSENT))


class RemoteExporting:
    """Has a file made, and fetches it."""

    def __init__(self, transport: Transport) -> None:
        self._transport = transport

    async def made(self, principal: Principal, request: FileExport) -> ExportedFile:
        call = Call(
            method="POST",
            path=f"{PREFIX}/exports",
            body=sent(request),
            headers={"Accept-Encoding": "identity"},
            read_s=_WORKING_S,
        )
        file = tempfile.TemporaryFile(prefix="quipu-export-")  # noqa: SIM115  handed on
        try:
            async with self._transport.stream(call) as response:
                report = _understood_report(response.headers.get(_REPORT))
                async for piece in response.aiter_bytes():
                    file.write(piece)
            file.seek(0)
        except BaseException:
            file.close()
            raise
        return ExportedFile(cast("BinaryIO", file), report)


def _understood_report(text: str | None) -> ExportReport:
    try:
        return understood(ExportReport, json.loads(text or ""))
    except ValueError:
        raise misunderstood() from None


def _query(given: dict[str, str | None]) -> str:
    return "&".join(
        f"{name}={quote(value, errors='replace')}" for name, value in given.items() if value is not None
    )


async def _sent(pieces: AsyncIterable[bytes]) -> AsyncGenerator[bytes]:
    async for piece in pieces:
        yield piece
