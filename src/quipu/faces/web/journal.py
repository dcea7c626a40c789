"""The journal: every knot on the cord, its check, and its proof to take away."""

from __future__ import annotations

import io
import zipfile
from collections.abc import AsyncIterator, Iterator, Sequence
from typing import TYPE_CHECKING, BinaryIO, cast

from starlette.responses import Response, StreamingResponse

from quipu.faces.web import agents, cord, proofs, sheets, wording
from quipu.faces.web.asking import midnight
from quipu.faces.web.proofs import Proof
from quipu.faces.web.visit import Visit, address
from quipu.model.journal import Entry, Op
from quipu.model.principal import Permission
from quipu.model.trail import TrailRequest

if TYPE_CHECKING:
    from typing_extensions import Buffer

_PAGE = 40
#: So many of the memories that an entry mentions are named; the proof names all.
_MENTIONS = 100
_FIELDS = ("op", "kind", "agent", "actor", "record", "about")
#: So much of the archive is gathered before it is sent on.
_CHUNK = 1 << 16


async def page(visit: Visit) -> Response:
    """A stretch of the cord, newest first."""
    visit.need(Permission.REVIEW)
    until = visit.asked("until")
    ended_at = None if until is None else midnight(until, "/until") + wording.DAY
    wanted = cord.Wanted(**{name: visit.asked(name) or "" for name in _FIELDS}, ended_at=ended_at)
    await visit.service.flush()  # what was just read is seen here, too
    before = await _before(visit, ended_at)
    stretch = await cord.stretch(visit, wanted, before, _PAGE)
    conditions = {name: visit.asked(name) for name in (*_FIELDS, "until")}
    points = await visit.service.audit.checkpoints(visit.principal)
    head = await visit.service.audit.head(visit.principal)
    return visit.page(
        "journal.html",
        stretch=stretch,
        days=_days(stretch.entries),
        wanted=wanted,
        until=until or "",
        is_filtered=any(conditions.values()),
        at_most=_MENTIONS,
        older=None
        if stretch.before is None
        else address("/journal", **conditions, before=str(stretch.before)),
        kinds=(*cord.KINDS, "house"),
        kind_of=cord.kind_of,
        verbs=cord.VERBS,
        ops=list(Op),
        agents=agents.counted(visit.principal, (), stretch.entries),
        sealed={point.seq: point for point in points},
        points=len(points),
        last_point=points[-1] if points else None,
        head=head,
        proof=visit.session.proof,
    )


async def _before(visit: Visit, ended_at: int | None) -> int | None:
    """Below which position to begin: the one that is named, or the first after the end of a day; None at the very end."""
    text = visit.asked("before") or ""
    if text.isascii() and text.isdigit() and len(text) < 18:
        return int(text)
    if ended_at is None:
        return None
    found = await visit.service.trail.page(
        visit.principal, TrailRequest(since=str(max(0, ended_at)), limit=1)
    )
    if found.entries:
        return found.entries[0].seq
    return None if found.next_cursor is None else found.next_cursor + 1


def _days(entries: Sequence[Entry]) -> Iterator[tuple[int, list[Entry]]]:
    """Entries in a row that are of the same day."""
    day: list[Entry] = []
    for entry in entries:
        if day and entry.at // 86_400_000 != day[0].at // 86_400_000:
            yield day[0].at, day
            day = []
        day.append(entry)
    if day:
        yield day[0].at, day


# -- the check -------------------------------------------------------------------------------------------------


async def verify(visit: Visit) -> Response:
    """Begin a check, unless one is running; most are done before the answer."""
    await visit.form()
    visit.need(Permission.READ)
    proof = visit.session.proof
    if proof is None or not proof.is_running:
        await visit.service.flush()
        proof = Proof(lambda told: visit.service.audit.verify(visit.principal, told), visit.site.clock)
        visit.session.proof = proof
    await proof.wait(proofs.PATIENCE_S)
    return visit.go("/journal/proof")


async def proof(visit: Visit) -> Response:
    """What the check found, or how far it is. That it came to no result is told once; then another one can be asked for."""
    visit.need(Permission.READ)
    proof = visit.session.proof
    if proof is not None and proof.has_failed:
        visit.session.proof = None
    found = None if proof is None or proof.is_running else proof.found()
    keys = await visit.service.audit.keys(visit.principal)
    return visit.page("proof.html", proof=proof, found=found, keys=dict(keys), archive=_archive_name(visit))


# -- to take away ----------------------------------------------------------------------------------------------


async def download(visit: Visit) -> Response:
    """Journal, signatures, keys and records as one archive that can be checked without this server."""
    await visit.form()
    visit.need(Permission.ADMIN)
    await visit.service.flush()
    headers = {"Content-Disposition": f'attachment; filename="{_archive_name(visit)}"'}
    return sheets.guarded(StreamingResponse(_archive(visit), media_type="application/zip", headers=headers))


def _archive_name(visit: Visit) -> str:
    return f"quipu-proof-{visit.principal.tenant}.zip"


class _Pipe(io.RawIOBase):
    """What an archive is written into, piece by piece; it cannot go back."""

    def __init__(self) -> None:
        super().__init__()
        self._pieces: list[bytes] = []
        self.waiting = 0

    def writable(self) -> bool:
        return True

    def write(self, data: Buffer, /) -> int:
        piece = bytes(data)
        self._pieces.append(piece)
        self.waiting += len(piece)
        return len(piece)

    def taken(self) -> bytes:
        pieces, self._pieces, self.waiting = self._pieces, [], 0
        return b"".join(pieces)


async def _archive(visit: Visit) -> AsyncIterator[bytes]:
    pipe = _Pipe()
    with zipfile.ZipFile(cast("BinaryIO", pipe), "w", zipfile.ZIP_DEFLATED) as archive:
        name, file = "", None
        async for part, line in visit.service.audit.exported(visit.principal):
            if part != name:
                if file is not None:
                    file.close()
                name, file = part, archive.open(part, "w", force_zip64=True)
            if file is not None:
                file.write(line.encode("utf-8") + b"\n")
            if pipe.waiting >= _CHUNK:
                yield pipe.taken()
        if file is not None:
            file.close()
    yield pipe.taken()
