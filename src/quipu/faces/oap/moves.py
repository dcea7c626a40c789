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
from quipu.faces.http.links import linked
from quipu.faces.oap.answering import enveloped
from quipu.faces.oap.asking import body, brings_own, lent, lent_with, principal
from quipu.faces.oap.once import answered, caller
from quipu.faces.oap.requests import Requests
from quipu.model.moving import ExportedFile, FileImport, Format, ImportReport
from quipu.model.principal import Principal
from quipu.rules.grants_exports import parsed_export
from quipu.rules.import_reports import told_import, told_undoing
from quipu.service.import_tasks import Outcome
from quipu.service.lending_moves import Moves
from quipu.service.lending_tasks import Who
from quipu.service.sharing import Sharing

_PIECE = 256 << 10
_FIELDS = frozenset({"agent_id", "foreign_owner", "format", "store"})


class Moving:
    """One handler for each route."""

    def __init__(self, sharing: Sharing, moves: Moves, requests: Requests) -> None:
        self._sharing, self._moves, self._requests = sharing, moves, requests

    async def export(self, request: Request) -> Response:
        """All that the owner asks for, or what a grant shows: the file itself, or the task that makes it."""
        who: Who | None = principal(request)
        if who is not None:
            asked = parsed_export(await body(request, may_be_empty=True))
        else:
            who, given = await lent_with(request, self._sharing, may_be_empty=True, is_read_later=True)
            asked = parsed_export(given)
        is_later = _is_later(request)
        made = await self._moves.tasks.export(who, asked, self._root(request), is_later=is_later)
        if isinstance(made, dict):
            return enveloped(request, self._sharing, made, 202)
        return self._sent(made)

    async def task(self, request: Request) -> Response:
        """How the making of a file stands. Who has neither a login nor a grant asks about a request for access."""
        if principal(request) is None and not brings_own(request):
            return await self._requests.task(request)
        who, root = await self._who(request), self._root(request)
        told = await self._moves.tasks.told(who, request.path_params["id"], root)
        return enveloped(request, self._sharing, told)

    async def fetched(self, request: Request) -> Response:
        """The file that a task has made, once."""
        who, names = await self._who(request), request.path_params
        return self._sent(await self._moves.tasks.fetched(who, names["id"], names["secret"]))

    async def _who(self, request: Request) -> Who:
        return principal(request) or await lent(request, self._sharing)

    def _root(self, request: Request) -> str:
        return self._sharing.public_url or f"{request.url.scheme}://{request.url.netloc}"

    def _sent(self, made: ExportedFile) -> Response:
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
        """A form with a file, the file as the body, or where it is. What would come in is told; nothing is written.

        Where that takes long, the answer is a task.
        """
        owner, how = _owner(request), _how(request, self._root(request))
        link = await linked(request, _FIELDS)
        if link is not None:
            members = {name: text(value) for name, value in link.items() if name != "url"}
            wanted = _wanted({**request.query_params, **members}, None)
            return self._trial(request, await self._moves.fetched(owner, link["url"], wanted, **how))
        if request.headers.get("content-type", "").startswith("multipart/form-data"):
            async with request.form(max_files=1, max_fields=len(_FIELDS)) as form:
                given = {name: value for name, value in form.items() if isinstance(value, str)}
                file = form.get("file")
                if not isinstance(file, UploadFile):
                    raise InvalidError.at("/file", "missing_field", "Send a file.")
                wanted = _wanted(given, (file.filename or "")[:256] or None)
                report = await self._moves.tried(owner, _pieces(file), wanted, **how)
        else:
            wanted = _wanted(dict(request.query_params), None)
            async with aclosing(request.stream()) as pieces:
                try:
                    report = await self._moves.tried(owner, pieces, wanted, **how)
                except QuipuError:
                    # A sender that is cut off in the middle would never see the answer.
                    async for _ in pieces:
                        pass
                    raise
        return self._trial(request, report)

    def _trial(self, request: Request, made: Outcome | dict[str, Any]) -> Response:
        return enveloped(request, self._sharing, *_reported(made))

    async def commit(self, request: Request) -> Response:
        """Carry out what was tried; what a rule holds waits for a person. Where it takes long, the answer is a task."""
        owner, how = _owner(request), _how(request, self._root(request))

        async def done() -> tuple[dict[str, Any], int]:
            return _reported(await self._moves.committed(owner, request.path_params["id"], **how))

        return await answered(
            request, self._sharing, caller(owner), "memory_import", {}, done, unkept=("sample",)
        )

    async def roll_back(self, request: Request) -> Response:
        """Undo an import; with `force` also what was changed since. Where it takes long, the answer is a task."""
        owner, given = _owner(request), await body(request, may_be_empty=True)
        how = _how(request, self._root(request))
        force = given.get("force", False)
        if not isinstance(force, bool) or given.keys() - {"force"}:
            raise InvalidError.at("/force", "bad_value", "This is yes or no.", accepted=["true", "false"])

        async def done() -> tuple[dict[str, Any], int]:
            return _reported(
                await self._moves.rolled_back(owner, request.path_params["id"], force=force, **how)
            )

        return await answered(request, self._sharing, caller(owner), "memory_import_undo", given, done)


def _reported(made: Outcome | dict[str, Any]) -> tuple[dict[str, Any], int]:
    """What is told at once, or the task that will tell it, with the status of either."""
    if isinstance(made, dict):
        return made, 202
    return told_import(made) if isinstance(made, ImportReport) else told_undoing(made), 200


def _is_later(request: Request) -> bool:
    """Whether the caller would rather come back for it (RFC 7240)."""
    wishes = ",".join(request.headers.getlist("prefer")).split(",")
    return any(wish.partition(";")[0].strip().lower() == "respond-async" for wish in wishes)


def _how(request: Request, root: str) -> dict[str, Any]:
    return {"root": root, "is_later": _is_later(request)}


def _owner(request: Request) -> Principal:
    owner = principal(request)
    if owner is None:
        raise UnauthenticatedError(reason="no_credential")
    return owner


def text(value: object) -> str:
    """A member of a body as a form would say it."""
    return str(value).lower() if isinstance(value, bool) else str(value)


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
