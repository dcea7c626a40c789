"""Files of memories in: sent, looked at, carried out, decided on, undone."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass
from urllib.parse import quote

from starlette.datastructures import UploadFile
from starlette.responses import Response

from quipu.errors import ForbiddenError, InvalidError, NotFoundError, QuipuError
from quipu.faces.http import problems
from quipu.faces.web import forms
from quipu.faces.web.visit import Visit
from quipu.faces.web.wording import counted
from quipu.model.moving import FileImport, Format, ImportReport
from quipu.model.principal import Permission

_PIECE = 256 << 10


@dataclass(frozen=True, slots=True)
class _Sent:
    """A form with a file, or with text in its place."""

    fields: dict[str, str]
    file: UploadFile | None

    async def pieces(self) -> AsyncIterator[bytes]:
        if self.file is None or not self.file.filename:
            yield self.fields.get("text", "").encode("utf-8", "replace")
            return
        while piece := await self.file.read(_PIECE):
            yield piece


async def page(visit: Visit) -> Response:
    """What came in lately, what waits of it, and a form for more."""
    visit.need(Permission.WRITE)
    return await _shown(visit)


async def _shown(
    visit: Visit, typed: Mapping[str, str] | None = None, error: QuipuError | None = None
) -> Response:
    found = await visit.service.imports.list(visit.principal) if visit.may(Permission.REVIEW) else ()
    return visit.page(
        "imports.html",
        200 if error is None else problems.status_of(error),
        imports=found,
        formats=list(Format),
        typed={"agent": "default", **(typed or {})},
        error=error,
    )


async def look(visit: Visit) -> Response:
    """Try what was sent. The report stands on the page, with the button that carries it out; or why it cannot be read."""
    visit.need(Permission.WRITE)
    forms.check_sender(visit.request)
    async with visit.request.form(max_files=1, max_fields=20) as form:
        fields = {name: value for name, value in form.multi_items() if not isinstance(value, UploadFile)}
        visit.request.state.typed = forms.kept(fields)
        forms.check_secret(fields.get(forms.FIELD), visit.session.csrf)
        given = form.get("file")
        sent = _Sent(fields, given if isinstance(given, UploadFile) else None)
        try:
            wanted = _wanted(sent)
            report = await visit.service.importing.tried(visit.principal, sent.pieces(), wanted)
        except (ForbiddenError, InvalidError, NotFoundError) as error:
            return await _shown(visit, fields, error)
    return visit.page("import.html", report=report, agent=wanted.agent_id)


def _wanted(sent: _Sent) -> FileImport:
    fields = sent.fields
    is_text = sent.file is None or not sent.file.filename
    chosen = "text" if is_text else fields.get("format", "")
    if is_text and not fields.get("text", "").strip():
        raise InvalidError.at("/file", "missing_field", "Choose a file, or paste some text.")
    if chosen and chosen not in tuple(Format):
        raise InvalidError.at("/format", "unknown_format", "Files of this format are not read here.")
    return FileImport(
        agent_id=fields.get("agent", "").strip(),
        format=Format(chosen) if chosen else None,
        store=fields.get("store", "").strip() or None,
        file_name=None if is_text or sent.file is None else (sent.file.filename or "")[:256],
        foreign_owner=fields.get("foreign_owner") == "yes",
    )


async def progress(visit: Visit) -> Response:
    """How far one is that is being brought in, and how it ended."""
    visit.need(Permission.WRITE)
    carried = visit.service.importing.carrying.standing(visit.principal, visit.request.path_params["id"])
    said = "" if carried.report is None else _said(carried.report)
    return visit.page("import_progress.html", carried=carried, said=said)


def _said(report: ImportReport) -> str:
    said = f"{counted(report.accepted, 'memory', 'memories')} came in."
    if report.removed:
        said += f" {report.removed} forgotten, as they were where they came from."
    if report.removals_waiting:
        said += f" {report.removals_waiting} to be forgotten wait for a decision."
    if report.quarantined:
        said += f" {counted(report.quarantined, 'memory', 'memories')} wait for a decision."
    return said


def _is_over(visit: Visit, name: str) -> bool:
    """Whether it has been carried out just now, as by the first half of a double click."""
    try:
        return visit.service.importing.carrying.standing(visit.principal, name).report is not None
    except NotFoundError:
        return False


async def act(visit: Visit) -> Response:
    """Carry out what was tried; let in or drop what waits; undo."""
    given = await visit.form()
    name = visit.request.path_params["id"]
    match given.get("action", ""):
        case "commit":
            visit.need(Permission.WRITE)
            try:
                carried = await visit.service.importing.carried_out(visit.principal, name)
            except NotFoundError:
                if not _is_over(visit, name):
                    raise
                return visit.go("/imports", "This was carried out before. Nothing came in anew.")
            if carried.error is not None:
                raise carried.error
            if carried.report is None:
                return visit.go(f"/imports/{quote(name, safe='')}")
            said = _said(carried.report)
        case "approve" | "reject" as choice:
            visit.need(Permission.REVIEW)
            is_yes = choice == "approve"
            decided = await visit.service.imports.decide(visit.principal, name, approved=is_yes)
            said = f"{'Let in' if is_yes else 'Dropped'}: {decided.decided}."
            if decided.failed:
                said += f" {decided.failed} could not be, and go on waiting."
        case "undo":
            visit.need(Permission.ADMIN)
            undone = await visit.service.imports.roll_back(visit.principal, name)
            said = f"Undone: {undone.forgotten} forgotten, {undone.withdrawn} dropped from the queue."
            if undone.restored:
                said += f" {undone.restored} are as they were before."
            if undone.kept:
                said += f" {len(undone.kept)} were changed since, and are kept."
        case _:
            raise InvalidError.at("/action", "bad_value", "There is no such action.")
    return visit.go("/imports", said)
