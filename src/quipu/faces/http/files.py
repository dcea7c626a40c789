"""A file that was made for one answer: sent a piece at a time, and gone afterwards."""

from __future__ import annotations

import asyncio
import base64
from collections.abc import AsyncGenerator, Mapping

from starlette.responses import Response, StreamingResponse

from quipu.model.moving import ExportedFile

_PIECE = 256 << 10


def sent(made: ExportedFile, headers: Mapping[str, str]) -> Response:
    """The file as a download, with its length and its digest."""
    report = made.report
    digest = base64.b64encode(bytes.fromhex(report.sha256)).decode("ascii")
    told = {
        "Content-Length": str(report.size),
        "Content-Disposition": f'attachment; filename="{report.file_name}"',
        "Content-Digest": f"sha-256=:{digest}:",
        "Cache-Control": "no-store",
        **headers,
    }
    return StreamingResponse(_pieces(made), media_type=report.media_type, headers=told)


async def _pieces(made: ExportedFile) -> AsyncGenerator[bytes]:
    try:
        while piece := await asyncio.to_thread(made.file.read, _PIECE):
            await made.check()
            yield piece
    finally:
        made.close()
