"""Many memories to a server and from it."""

from __future__ import annotations

from array import array
from collections.abc import AsyncGenerator, AsyncIterable, Callable
from contextlib import aclosing
from dataclasses import dataclass, field, replace

from quipu.client.answers import understood
from quipu.client.bodies import sent
from quipu.client.failures import misunderstood
from quipu.client.patience import Repeat
from quipu.client.transport import Call, Transport
from quipu.errors import QuipuError
from quipu.faces.rest.forms import dumped
from quipu.faces.rest.paths import PREFIX
from quipu.model.operations import Line, ListRequest
from quipu.model.outcomes import ImportSummary
from quipu.model.principal import Principal
from quipu.model.record import Record
from quipu.rules.import_reports import told_line

#: What is sent in one go; the server writes it in chunks of its own.
_LINES = 1_000
_BYTES = 8 << 20
_TOLD = 1_000
#: After the last line a server may still have much to write.
_WRITING_S = 600.0


@dataclass(slots=True)
class _Sending:
    """What became of the lines on this side."""

    read: int = 0
    #: The line number here of each line that was sent.
    sent: array[int] = field(default_factory=lambda: array("q"))
    failed: list[tuple[int, str]] = field(default_factory=list[tuple[int, str]])


class RemoteExchange:
    """Import and export as streams."""

    def __init__(self, transport: Transport) -> None:
        self._transport = transport

    async def import_lines(
        self,
        principal: Principal,
        lines: AsyncIterable[Line | QuipuError],
        *,
        dry_run: bool = False,
        stop_on_error: bool = False,
        progress: Callable[[int], None] | None = None,
    ) -> ImportSummary:
        """In parts, each sent when the one before is durable: what progress has told is kept.

        A part is not repeated: what had arrived would be written twice.
        """
        sending = _Sending()
        summary = ImportSummary(import_id="", read=0, stored=0, held=0, failed=0)
        async with aclosing(_parts(lines, sending, stop_on_error)) as parts:
            async for part in parts:
                answer = await self._sent(part, summary.import_id, dry_run, stop_on_error)
                summary = _joined(summary, answer)
                if progress is not None:
                    progress(sending.read)
                if stop_on_error and answer.failed:
                    break
        return _with_ours(summary, sending)

    async def _sent(self, part: bytes, import_id: str, dry_run: bool, stop_on_error: bool) -> ImportSummary:
        query = {"dry_run": _word(dry_run), "stop_on_error": _word(stop_on_error)}
        call = Call(
            method="POST",
            path=f"{PREFIX}/import",
            query=query | ({"import_id": import_id} if import_id else {}),
            headers={"Content-Type": "application/x-ndjson", "Accept-Encoding": "identity"},
            repeat=Repeat.UNSENT,
            read_s=_WRITING_S,
        )
        async for line in self._transport.lines(call, _upload(part)):
            if "result" in line:
                return understood(ImportSummary, line["result"])
        raise misunderstood()

    async def export(self, principal: Principal, request: ListRequest) -> AsyncGenerator[Record]:
        """All records a list request means."""
        call = Call(method="POST", path=f"{PREFIX}/export", body=sent(request))
        async with aclosing(self._transport.lines(call)) as lines:
            async for line in lines:
                yield understood(Record, line)


async def _parts(
    lines: AsyncIterable[Line | QuipuError], sending: _Sending, stop_on_error: bool
) -> AsyncGenerator[bytes]:
    """Good lines as NDJSON, so many at a time; bad ones stay here and are counted. There is one part at least."""
    waiting = bytearray()
    count, is_first = 0, True
    async for line in lines:
        sending.read += 1
        if isinstance(line, QuipuError):
            sending.failed.append((sending.read, told_line(line)))
            if stop_on_error:
                break
            continue
        sending.sent.append(sending.read)
        waiting += dumped(sent(line))
        count += 1
        if count >= _LINES or len(waiting) >= _BYTES:
            yield bytes(waiting)
            waiting.clear()
            count, is_first = 0, False
    if waiting or is_first:
        yield bytes(waiting)


async def _upload(part: bytes) -> AsyncGenerator[bytes]:
    yield part


def _joined(before: ImportSummary, part: ImportSummary) -> ImportSummary:
    """Two parts of one import; the second one's lines follow the first one's."""
    later = tuple((before.read + number, said) for number, said in part.errors)
    return ImportSummary(
        import_id=before.import_id or part.import_id,
        read=before.read + part.read,
        stored=before.stored + part.stored,
        held=before.held + part.held,
        failed=before.failed + part.failed,
        errors=(before.errors + later)[:_TOLD],
    )


def _with_ours(summary: ImportSummary, sending: _Sending) -> ImportSummary:
    """The server's summary, with its line numbers as they are here and what failed before it was sent."""
    theirs = [(sending.sent[number - 1], said) for number, said in summary.errors]
    errors = sorted([*theirs, *sending.failed])
    is_all = len(sending.sent) == summary.read
    return replace(
        summary,
        read=sending.read if is_all else sending.sent[max(summary.read, 1) - 1],
        failed=summary.failed + len(sending.failed),
        errors=tuple(errors[:_TOLD]),
    )


def _word(value: bool) -> str:
    return "true" if value else "false"
