"""Whole memories on the wire: a file out, a file tried, carried out, undone (contract 10.2, 10.3)."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from contextlib import aclosing
from typing import Any

from starlette.datastructures import UploadFile
from starlette.requests import Request
from starlette.responses import Response

from quipu.errors import InvalidError, QuipuError, UnauthenticatedError
from quipu.faces.http.files import sent
from quipu.faces.oap.answering import enveloped
from quipu.faces.oap.asking import body, lent_with, principal
from quipu.model.moving import FileImport, Format, ImportReport
from quipu.model.principal import Principal
from quipu.rules.grants_exports import parsed_export
from quipu.service.lending_moves import Moves
from quipu.service.sharing import Sharing

_PIECE = 256 << 10
_FOLLOWED = ("conflict", "updated", "removed", "removals_waiting", "kept")
_FIELDS = frozenset({"agent_id", "foreign_owner", "format", "store"})


class Moving:
    """One handler for each route."""

    def __init__(self, sharing: Sharing, moves: Moves) -> None:
        self._sharing, self._moves = sharing, moves

    async def export(self, request: Request) -> Response:
        """The file itself: all that the owner asks for, or what a grant shows."""
        owner = principal(request)
        if owner is not None:
            asked = parsed_export(await body(request, may_be_empty=True))
            made = await self._moves.exported(owner, asked)
        else:
            who, given = await lent_with(request, self._sharing, may_be_empty=True, is_read_later=True)
            made = await self._moves.lent(who, parsed_export(given))
        report = made.report
        dropped = [{"field": one.field, "count": one.count} for one in report.loss.dropped]
        mapped = [{"from": one.origin, "to": one.to, "count": one.count} for one in report.loss.mapped]
        told = {
            "export_id": report.export_id,
            "items": report.items,
            "loss": {"dropped": dropped, "mapped": mapped},
        }
        return sent(made, {"OAP-Version": "1.0", "OAP-Export-Report": json.dumps(told)})

    async def tried(self, request: Request) -> Response:
        """A form with a file, or the file as the body. What would come in is told; nothing is written."""
        owner = _owner(request)
        if request.headers.get("content-type", "").startswith("multipart/form-data"):
            async with request.form(max_files=1, max_fields=len(_FIELDS)) as form:
                given = {name: value for name, value in form.items() if isinstance(value, str)}
                file = form.get("file")
                if not isinstance(file, UploadFile):
                    raise InvalidError.at("/file", "missing_field", "Send a file.")
                wanted = _wanted(given, (file.filename or "")[:256] or None)
                report = await self._moves.tried(owner, _pieces(file), wanted)
        else:
            wanted = _wanted(dict(request.query_params), None)
            async with aclosing(request.stream()) as pieces:
                try:
                    report = await self._moves.tried(owner, pieces, wanted)
                except QuipuError:
                    async for (
                        _
                    ) in pieces:  # a sender that is cut off in the middle would never see the answer
                        pass
                    raise
        return enveloped(request, self._sharing, _told(report))

    async def commit(self, request: Request) -> Response:
        """Carry out what was tried; what a rule holds waits for a person."""
        report = await self._moves.committed(_owner(request), request.path_params["id"])
        return enveloped(request, self._sharing, _told(report))

    async def roll_back(self, request: Request) -> Response:
        """Undo an import; with `force` also what was changed since."""
        owner, given = _owner(request), await body(request, may_be_empty=True)
        force = given.get("force", False)
        if not isinstance(force, bool) or given.keys() - {"force"}:
            raise InvalidError.at("/force", "bad_value", "This is yes or no.", accepted=["true", "false"])
        undone = await self._moves.rolled_back(owner, request.path_params["id"], force=force)
        told = {"import_id": undone.import_id, "forgotten": undone.forgotten, "withdrawn": undone.withdrawn}
        more = {"restored": undone.restored, "kept": list(undone.kept)}
        return enveloped(request, self._sharing, {**told, **more})


def _owner(request: Request) -> Principal:
    owner = principal(request)
    if owner is None:
        raise UnauthenticatedError(reason="no_credential")
    return owner


async def _pieces(file: UploadFile) -> AsyncIterator[bytes]:
    while piece := await file.read(_PIECE):
        yield piece


def _wanted(given: dict[str, str], name: str | None) -> FileImport:
    if unknown := sorted(given.keys() - _FIELDS):
        raise InvalidError.at(
            f"/{unknown[0][:64]}", "unknown_member", "An import has no such member.", accepted=sorted(_FIELDS)
        )
    if not given.get("agent_id"):
        raise InvalidError.at("/agent_id", "required", "Say whose memories they become.")
    format = given.get("format")
    if format is not None and format not in tuple(Format):
        raise InvalidError.at("/format", "unknown_format", "Files of this format are not read here.")
    return FileImport(
        agent_id=given["agent_id"],
        format=None if format is None else Format(format),
        store=given.get("store"),
        file_name=name,
        foreign_owner=given.get("foreign_owner") == "true",
    )


def _told(report: ImportReport) -> dict[str, Any]:
    names = ("import_id", "sha256", "signature", "dry_run", "read", "accepted", "quarantined", "duplicate")
    return {
        **{name: getattr(report, name) for name in (*names, *_FOLLOWED, "instruction_like")},
        "format": report.format.value,
        "rejected": [{"line": one.line, "reason": one.reason} for one in report.rejected],
        "sample": list(report.sample),
    }
