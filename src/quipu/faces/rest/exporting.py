"""Files of memories out."""

from __future__ import annotations

import json

from starlette.requests import Request
from starlette.responses import Response

from quipu.faces.http.authentication import principal_of
from quipu.faces.http.files import sent
from quipu.faces.rest.asking import asked
from quipu.faces.rest.forms import plain
from quipu.model.moving import FileExport
from quipu.service.memory import MemoryService

#: What is in the file, as JSON: counts, and what the format had no room for.
REPORT = "Quipu-Export-Report"


class Exporting:
    """One handler."""

    def __init__(self, service: MemoryService) -> None:
        self._service = service

    async def export(self, request: Request) -> Response:
        """The file is whole before its first byte is sent."""
        body = await asked(request, FileExport, may_be_empty=True)
        made = await self._service.exporting.made(principal_of(request), body)
        return sent(made, {REPORT: json.dumps(plain(made.report), separators=(",", ":"))})
