"""The journal for those who look back: as JSON, as lines, or as a table for a spreadsheet."""

from __future__ import annotations

import csv
import io
from collections.abc import Sequence
from enum import StrEnum

from starlette.requests import Request
from starlette.responses import Response

from quipu.faces.http.authentication import principal_of
from quipu.faces.http.bodies import NDJSON
from quipu.faces.http.headers import header_text
from quipu.faces.memorywire import answering, asking
from quipu.faces.memorywire.answering import dumped
from quipu.faces.memorywire.wire_past import entry_body, head_body
from quipu.model.journal import Entry, Op
from quipu.model.outcomes import TrailPage
from quipu.model.trail import TrailRequest
from quipu.model.value import Json
from quipu.service.memory import MemoryService

_PAGE = 100
_COLUMNS = ("seq", "at", "actor", "op", "store", "agent", "run", "node", "records", "detail", "prev", "hash")
#: What makes a spreadsheet calculate instead of show.
_FORMULA = ("=", "+", "-", "@", "\t", "\r", "\n")


class Format(StrEnum):
    """How the page is written."""

    JSON = "json"
    NDJSON = "ndjson"
    CSV = "csv"


class Audits:
    """Handlers over a service."""

    def __init__(self, service: MemoryService) -> None:
        self._service = service

    async def page(self, request: Request) -> Response:
        """A page of the journal, in the form that was asked for."""
        names = ("operation", "agent_id", "user_id", "since", "until", "format", "limit", "cursor")
        asking.known(request, *names)
        limit = asking.number(request, "limit")
        wanted = TrailRequest(
            operation=asking.member(request, "operation", Op),
            agent_id=asking.word(request, "agent_id"),
            user_id=asking.word(request, "user_id"),
            since=asking.word(request, "since"),
            until=asking.word(request, "until"),
            limit=_PAGE if limit is None else limit,
            cursor=asking.number(request, "cursor"),
        )
        page = await self._service.trail.page(principal_of(request), wanted)
        form = asking.member(request, "format", Format) or Format.JSON
        return _written(request, page, form)


def _written(request: Request, page: TrailPage, form: Format) -> Response:
    head = head_body(page.head)
    cursor = None if page.next_cursor is None else str(page.next_cursor)
    headers = {"Quipu-Seq": str(page.head.seq)}
    if cursor is not None:
        following = request.url.include_query_params(cursor=cursor)
        headers["Link"] = f'<{header_text(following.path)}?{header_text(following.query)}>; rel="next"'
    match form:
        case Format.JSON:
            entries = [entry_body(entry) for entry in page.entries]
            return answering.answered({"entries": entries, "next_cursor": cursor, "head": head}, 200, headers)
        case Format.NDJSON:
            lines = [*(entry_body(entry) for entry in page.entries), {"head": head, "next_cursor": cursor}]
            return Response(b"".join(dumped(line) + b"\n" for line in lines), 200, headers, NDJSON)
        case Format.CSV:
            headers["Quipu-Audit-Head"] = "; ".join(
                f"{name}={header_text(str(value))}" for name, value in head.items()
            )
            return Response(_table(page.entries), 200, headers, "text/csv")


def _table(entries: Sequence[Entry]) -> str:
    text = io.StringIO()
    writer = csv.writer(text, quoting=csv.QUOTE_ALL)
    writer.writerow(_COLUMNS)
    for entry in entries:
        body = entry_body(entry)
        writer.writerow([safe_cell(_cell(body[name])) for name in _COLUMNS])
    return text.getvalue()


def _cell(value: Json) -> str:
    if value is None or isinstance(value, str):
        return value or ""
    return dumped(value).decode()


def safe_cell(text: str) -> str:
    """A cell that no spreadsheet takes for a formula."""
    return f"'{text}" if text.lstrip(" ").startswith(_FORMULA) else text
