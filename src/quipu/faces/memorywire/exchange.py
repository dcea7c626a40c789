"""Many memories in and out, as lines of JSON that come and go as they are worked on."""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator, Sequence
from contextlib import aclosing
from dataclasses import replace
from typing import Any, cast

from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response

from quipu.errors import InvalidError, QuipuError
from quipu.faces.http.answers import as_ours
from quipu.faces.http.authentication import principal_of
from quipu.faces.http.bodies import LINE_BYTES, NDJSON, media_type
from quipu.faces.http.exchange import exchange_of
from quipu.faces.http.json_text import loads, refuse_deep
from quipu.faces.http.problems import problem
from quipu.faces.memorywire import asking, wire
from quipu.faces.memorywire.answering import dumped
from quipu.faces.memorywire.streaming import Spooled, Told
from quipu.model.operations import Line, ListRequest
from quipu.model.outcomes import ImportedLine, ImportSummary
from quipu.model.record import Record, State
from quipu.model.store import MAIN
from quipu.service.memory import MemoryService

_SHOWN = (State.LIVE, State.ARCHIVED)


class Exchange:
    """Handlers over a service."""

    def __init__(self, service: MemoryService) -> None:
        self._service = service

    async def bring_in(self, request: Request) -> Response:
        """Each line is answered when the transaction that it belongs to is durable."""
        principal = principal_of(request)
        asking.known(request, "dry_run", "on_error", "store")
        media_type(request, NDJSON)
        dry_run, store = asking.flag(request, "dry_run"), asking.word(request, "store")
        on_error = asking.word(request, "on_error") or "continue"
        if on_error not in ("continue", "stop"):
            message = "There is no such way to go on."
            raise InvalidError.at("/on_error", "bad_value", message, accepted=["continue", "stop"])
        body = _Body(request)
        arriving = self._service.exchange.imported(
            principal, _parsed(body, store), dry_run=dry_run, stop_on_error=on_error == "stop"
        )
        return Spooled(_told(request, body, arriving, dry_run=dry_run), NDJSON)

    async def take_out(self, request: Request) -> Response:
        """Records as lines, as they are found."""
        principal = principal_of(request)
        asking.known(request, "agent_id", "user_id", "filter", "state", "as_of", "store", "types")
        wanted = ListRequest(
            agent_id=asking.word(request, "agent_id"),
            user_id=asking.word(request, "user_id"),
            store=asking.word(request, "store"),
            types=asking.types(request),
            states=asking.members(request, "state", State) or _SHOWN,
            filter=asking.filter_of(request),
            as_of=asking.word(request, "as_of"),
        )
        records = self._service.exchange.export_stretches(principal, wanted)
        first = await anext(records, ())  # what is wrong with the request is told before the answer begins
        names = {store.id: store.name for store in await self._service.stores.list(principal)}
        return Told(_lines(first, records, names, is_past=wanted.as_of is not None), NDJSON)


# -- in ---------------------------------------------------------------------------------------------------------


class _Body:
    """The lines of a body, read as they are asked for and never held whole."""

    def __init__(self, request: Request) -> None:
        self._stream = aiter(request.stream())
        #: Lines seen so far, empty ones included.
        self.count = 0

    async def lines(self) -> AsyncIterator[bytes | None]:
        """None stands for a line that is too long. Empty lines are left out, but they count."""
        waiting, is_too_long = bytearray(), False
        async for piece in self._stream:
            begin = len(waiting)
            waiting += piece
            start = 0
            while (end := waiting.find(b"\n", max(begin, start))) >= 0:
                self.count += 1
                line = bytes(waiting[start:end])
                start = end + 1
                if is_too_long or line.strip():
                    yield None if is_too_long or len(line) > LINE_BYTES else line
                is_too_long = False
            del waiting[:start]
            if len(waiting) > LINE_BYTES:
                is_too_long = True
                waiting.clear()
        if is_too_long or waiting.strip():
            self.count += 1
            yield None if is_too_long or len(waiting) > LINE_BYTES else bytes(waiting)

    async def read_out(self) -> None:
        """A sender that is cut off in the middle would never see the answer."""
        async for _ in self._stream:
            pass


async def _parsed(body: _Body, store: str | None) -> AsyncIterator[tuple[int, Line | QuipuError]]:
    async for line in body.lines():
        try:
            yield body.count, _line(line, store)
        except QuipuError as error:
            yield body.count, error


def _line(text: bytes | None, store: str | None) -> Line:
    if text is None:
        message = "The line is too long."
        raise InvalidError.at("", "too_large", message, accepted=[f"at most {LINE_BYTES} bytes"])
    text = text.removeprefix(b"\xef\xbb\xbf")
    refuse_deep(text)
    data: Any = loads(text)
    if store is not None and isinstance(data, dict):
        data = {"store": store, **cast("dict[str, Any]", data)}
    parsed = wire.import_line(data)
    return Line(
        parsed.request,
        parsed.id,
        parsed.created_at,
        parsed.updated_at,
        State.LIVE if parsed.state is None else parsed.state,
    )


async def _told(
    request: Request,
    body: _Body,
    arriving: AsyncGenerator[tuple[ImportedLine, ...] | ImportSummary],
    *,
    dry_run: bool,
) -> AsyncGenerator[bytes]:
    """What became of each line, and the summary. A body that breaks off is told too: what was written stays."""
    summary: ImportSummary | None = None
    request_id = str(getattr(request.state, "request_id", ""))
    yield b""  # the answer begins at once
    try:
        async with aclosing(arriving):
            async for outcome in arriving:
                if isinstance(outcome, ImportSummary):
                    summary = outcome
                else:
                    yield b"".join(dumped(_outcome(line, request_id)) + b"\n" for line in outcome)
        await body.read_out()
    except ClientDisconnect:
        raise
    except Exception as error:  # noqa: BLE001  the answer has begun: its last lines tell what went wrong
        told = problem(as_ours(error, exchange_of(request.scope)), request_id)
        yield dumped({"line": body.count + 1, "error": told}) + b"\n"
    if summary is not None:
        counts: dict[str, Any] = {
            name: getattr(summary, name) for name in ("read", "stored", "held", "failed", "import_id")
        }
        yield dumped({"summary": counts | ({"dry_run": True} if dry_run else {})}) + b"\n"


def _outcome(line: ImportedLine, request_id: str) -> dict[str, Any]:
    if line.error is not None:
        return {"line": line.line, "error": problem(line.error, request_id)}
    told: dict[str, Any] = {"line": line.line, "id": line.id}
    if line.other_id is not None:
        told["other_id"] = line.other_id
    return told | ({"pending_approval": True} if line.is_held else {})


# -- out --------------------------------------------------------------------------------------------------------


async def _lines(
    first: Sequence[Record], rest: AsyncGenerator[Sequence[Record]], names: dict[str, str], *, is_past: bool
) -> AsyncGenerator[bytes]:
    """A stretch goes out as soon as it is there: nothing waits here that may be erased meanwhile."""

    def told(records: Sequence[Record]) -> bytes:
        return b"".join(_exported(record, names, is_past=is_past) for record in records)

    async with aclosing(rest):
        yield told(first)
        async for records in rest:
            yield told(records)


def _exported(record: Record, names: dict[str, str], *, is_past: bool) -> bytes:
    """One record as one line, which an import takes back."""
    is_forgotten = not is_past and record.standing is State.FORGOTTEN
    shown = replace(record, state=State.FORGOTTEN) if is_forgotten else record
    return dumped(wire.record_body(shown, names.get(record.store_id, MAIN))) + b"\n"
