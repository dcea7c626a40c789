"""The journal and its proof; the ledger as a whole."""

from __future__ import annotations

import tempfile
from collections.abc import AsyncGenerator
from pathlib import Path

from starlette.background import BackgroundTask
from starlette.requests import Request
from starlette.responses import FileResponse, Response

from quipu.faces.http.authentication import principal_of
from quipu.faces.rest.answering import Tell, answered, nothing, streamed, worked
from quipu.faces.rest.asking import VacuumBody, asked, number
from quipu.model.outcomes import Verification
from quipu.model.principal import Principal
from quipu.service.memory import MemoryService

_PAGE = 1_000
_BINARY = "application/octet-stream"


class Upkeep:
    """One handler for each route."""

    def __init__(self, service: MemoryService) -> None:
        self._service = service

    async def me(self, request: Request) -> Response:
        return answered(await self._service.whoami(principal_of(request)))

    async def flush(self, request: Request) -> Response:
        principal_of(request)
        await self._service.flush()
        return nothing()

    async def journal(self, request: Request) -> Response:
        after = number(request, "after", 0)
        limit = number(request, "limit", 100, least=1, most=_PAGE)
        return answered({"entries": await self._service.audit.entries(principal_of(request), after, limit)})

    async def head(self, request: Request) -> Response:
        return answered(await self._service.audit.head(principal_of(request)))

    async def export(self, request: Request) -> Response:
        return await streamed(request, self._files(principal_of(request)))

    async def _files(self, principal: Principal) -> AsyncGenerator[dict[str, str]]:
        async for file, line in self._service.audit.exported(principal):
            yield {"file": file, "line": line}

    async def verify(self, request: Request) -> Response:
        principal = principal_of(request)

        async def work(tell: Tell) -> Verification:
            return await self._service.audit.verify(
                principal, lambda done, of: tell({"done": done, "of": of})
            )

        return await worked(request, work)

    async def checkpoints(self, request: Request) -> Response:
        return answered({"checkpoints": await self._service.audit.checkpoints(principal_of(request))})

    async def sign(self, request: Request) -> Response:
        return answered(await self._service.audit.checkpoint(principal_of(request)), 201)

    async def keys(self, request: Request) -> Response:
        return answered(await self._service.audit.keys(principal_of(request)))

    async def sweep(self, request: Request) -> Response:
        return answered({"closed": await self._service.sweep(principal_of(request))})

    async def statistics(self, request: Request) -> Response:
        return answered(await self._service.upkeep.statistics(principal_of(request)))

    async def vacuum(self, request: Request) -> Response:
        principal = principal_of(request)
        body = await asked(request, VacuumBody, may_be_empty=True)

        async def work(_tell: Tell) -> dict[str, int]:
            return {"emptied": await self._service.upkeep.vacuum(principal, body.keep_history_days)}

        return await worked(request, work)

    async def reembed(self, request: Request) -> Response:
        return await streamed(request, self._embedded(principal_of(request)))

    async def _embedded(self, principal: Principal) -> AsyncGenerator[dict[str, object]]:
        done = 0
        async for count in self._service.reembed(principal):
            done += count
            yield {"progress": {"done": done}}
        yield {"result": {"embedded": done}}

    async def backup(self, request: Request) -> Response:
        """The copy is made whole before the first byte of it is sent, and taken away after the last."""
        principal = principal_of(request)
        folder = tempfile.TemporaryDirectory(prefix="quipu-backup-")
        file = Path(folder.name) / "quipu-backup.db"
        try:
            await self._service.upkeep.backup(principal, file)
        except BaseException:
            folder.cleanup()
            raise
        return FileResponse(
            file, media_type=_BINARY, filename=file.name, background=BackgroundTask(folder.cleanup)
        )
