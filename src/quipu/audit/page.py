"""The pages of the journal: its entries, its verification, and undoing what a cause did."""

import asyncio
import hashlib
import logging
import zipfile
from collections import Counter
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from quipu.audit import operations as ops
from quipu.audit.model import (
    EntryView,
    ExportLine,
    JournalResponse,
    UndoAction,
    UndoFinding,
    UndoResponse,
    VerifyResponse,
)
from quipu.errors import ConflictError, InternalError, QuipuError
from quipu.model.principal import Permission
from quipu.operation import Context, FilePart, dispatch, dispatch_stream
from quipu.page import Done, Fields, Page, may_use

_log = logging.getLogger("quipu.audit")
_DAY_MS = 86_400_000
_PAGE, _DAYS = 50, 14
#: So many entries at most are counted for the numbers of the last days.
_MOST_COUNTED, _MOST_AT_ONCE = 3_000, 1_000


# -- entries ------------------------------------------------------------------------------------------------------

_FILTERS = {
    "op": "op",
    "agent": "agent_id",
    "user": "user_id",
    "actor": "actor",
    "run": "run",
    "record": "record",
}


async def _journal(ctx: Context, query: Fields) -> dict[str, Any]:
    narrowed: dict[str, Any] = {to: query[name] for name, to in _FILTERS.items() if query.text(name)}
    ends = {"until": until} if (until := query.day("until", is_end=True)) is not None else {}
    request = {**narrowed, **ends, "limit": _PAGE, "newest_first": True, **query.given("cursor")}
    found: JournalResponse = await dispatch(ctx, ops.JOURNAL, request)
    is_first = not query.text("cursor") and not ends
    return {
        "days": _by_day(found.entries),
        "next_cursor": found.next_cursor,
        "head": found.head,
        "signed": found.signed,
        "activity": await activity(ctx, narrowed) if is_first and found.entries else None,
        "query": query,
        "is_filtered": bool(narrowed or ends),
        "kept": {name: query.text(name) for name in (*_FILTERS, "until")},
        "can_download": may_use(ctx.principal, ops.EXPORT_JOURNAL),
        "can_verify": may_use(ctx.principal, ops.VERIFY),
    }


def _by_day(entries: Sequence[EntryView]) -> list[tuple[int, list[EntryView]]]:
    found: dict[int, list[EntryView]] = {}
    for entry in entries:
        found.setdefault(entry.at // _DAY_MS * _DAY_MS, []).append(entry)
    return list(found.items())


@dataclass(frozen=True, slots=True)
class Activity:
    """How often each operation happened on each of the last days, the oldest first."""

    days: Sequence[tuple[int, Mapping[str, int]]]
    counts: Mapping[str, int]
    #: There was more than was counted.
    is_cut: bool


async def activity(ctx: Context, narrowed: Mapping[str, Any]) -> Activity:
    """The last days, of those entries that a request for the journal would show."""
    today = ctx.clock() // _DAY_MS * _DAY_MS
    days = {today - back * _DAY_MS: Counter[str]() for back in range(_DAYS)[::-1]}
    cursor: str | None = None
    counted = 0
    while counted < _MOST_COUNTED:
        request = {
            **narrowed,
            "since": min(days),
            "newest_first": True,
            "limit": _MOST_AT_ONCE,
            "cursor": cursor,
        }
        found: JournalResponse = await dispatch(ctx, ops.JOURNAL, request)
        for entry in found.entries:
            if (day := days.get(entry.at // _DAY_MS * _DAY_MS)) is not None:
                day[entry.op] += 1
        counted += len(found.entries)
        cursor = found.next_cursor
        if cursor is None:
            break
    total: Counter[str] = sum(days.values(), Counter[str]())
    return Activity(list(days.items()), total, is_cut=cursor is not None)


class _Archive:
    """What a zip file writes into: it is handed on piece by piece."""

    def __init__(self) -> None:
        self._pieces: list[bytes] = []

    def write(self, piece: bytes) -> int:
        self._pieces.append(bytes(piece))
        return len(piece)

    def flush(self) -> None:
        return

    def taken(self) -> bytes:
        """What was written since."""
        taken = b"".join(self._pieces)
        self._pieces.clear()
        return taken


async def _download(ctx: Context, form: Fields) -> Done:
    lines = dispatch_stream(ctx, ops.EXPORT_JOURNAL, {"with_records": form.is_ticked("with_records")})
    return Done(file=_archived(lines, f"quipu-journal-{ctx.tenant}.zip"))


async def _archived(lines: AsyncIterator[ExportLine], name: str) -> AsyncIterator[FilePart]:
    """The files of an export as one. The lines of a file follow one another."""
    sink = _Archive()
    archive = zipfile.ZipFile(sink, "w", zipfile.ZIP_DEFLATED)  # type: ignore[arg-type]  it only writes
    begun, opened = None, None
    is_first = True
    async for line in lines:
        if line.file != begun:
            if opened is not None:
                opened.close()
            begun, opened = line.file, archive.open(line.file, "w", force_zip64=True)
        assert opened is not None
        opened.write(line.line.encode("utf-8", "surrogatepass") + b"\n")
        if piece := sink.taken():
            yield _part(piece, name if is_first else None)
            is_first = False
    if opened is not None:
        opened.close()
    archive.close()
    yield _part(sink.taken(), name if is_first else None)


def _part(data: bytes, name: str | None) -> FilePart:
    return FilePart(data=data, file_name=name, media_type=None if name is None else "application/zip")


# -- verification -------------------------------------------------------------------------------------------------


@dataclass(slots=True)
class Check:
    """One verification of a tenant's journal, begun by a person."""

    begun_at: int
    begun_by: str
    ended_at: int | None = None
    report: VerifyResponse | None = None
    error: QuipuError | None = None

    @property
    def is_running(self) -> bool:
        return self.ended_at is None


class Checks:
    """The last verification of each tenant on this server. It goes on while nobody looks."""

    def __init__(self, clock: Callable[[], int]) -> None:
        self._clock = clock
        self._last: dict[str, Check] = {}
        self._tasks: set[asyncio.Task[None]] = set()

    def last(self, tenant: str) -> Check | None:
        return self._last.get(tenant)

    def start(self, ctx: Context) -> Check:
        """Begin one, unless one is running."""
        running = self._last.get(ctx.tenant)
        if running is not None and running.is_running:
            return running
        check = self._last[ctx.tenant] = Check(self._clock(), ctx.principal.name)
        task = asyncio.create_task(self._run(ctx, check))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return check

    async def _run(self, ctx: Context, check: Check) -> None:
        try:
            check.report = await dispatch(ctx, ops.VERIFY, {})
        except QuipuError as error:
            check.error = error
        except Exception:  # noqa: BLE001  nobody waits for it: what went wrong is said on the page
            _log.exception("A verification failed.")
            check.error = InternalError()
        finally:
            check.ended_at = self._clock()

    async def close(self) -> None:
        """A check that is not done is given up."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)


def _verify(checks: Checks) -> Page:
    async def load(ctx: Context, query: Fields) -> dict[str, Any]:
        points = await dispatch(ctx, ops.LIST_CHECKPOINTS, {})
        head = await dispatch(ctx, ops.JOURNAL_HEAD, {})
        check = checks.last(ctx.tenant)  # last of all: a check may end while something is waited for
        report = None if check is None or check.report is None else check.report
        return {
            "check": check,
            "report": report,
            "of_tenant": None if report is None else report.tenants[0],
            "faults": () if report is None else (*report.faults, *report.tenants[0].faults),
            "unchecked": () if report is None else (*report.unverifiable, *report.tenants[0].unverifiable),
            "points": points.checkpoints[::-1],
            "keys": points.keys,
            "head": head,
            "can_sign": may_use(ctx.principal, ops.SIGN_CHECKPOINT),
            "can_anchor": may_use(ctx.principal, ops.ANCHOR),
            "can_download": may_use(ctx.principal, ops.EXPORT_JOURNAL),
            "can_read_journal": may_use(ctx.principal, ops.JOURNAL),
        }

    async def begin(ctx: Context, form: Fields) -> Done:
        checks.start(ctx)
        return Done(said="A check is running.", path="/journal/verify")

    return Page(
        path="/journal/verify",
        group="activity",
        title="Verify",
        template="verify.html",
        load=load,
        actions={"verify": begin, "sign": _sign, "anchor": _anchor, "download": _download},
        needs=ops.JOURNAL_HEAD,
    )


async def _sign(ctx: Context, form: Fields) -> Done:
    signed = await dispatch(ctx, ops.SIGN_CHECKPOINT, {})
    return Done(said=f"Signed up to entry {signed.seq:,}.")


async def _anchor(ctx: Context, form: Fields) -> Done:
    published = (await dispatch(ctx, ops.ANCHOR, {})).anchors
    places = ", ".join(one.target for one in published)
    return Done(
        said=f"Published up to entry {published[0].seq:,} at {places}." if published else "Published."
    )


# -- undo ---------------------------------------------------------------------------------------------------------

_CAUSES = {
    "source": "source",
    "principal": "principal",
    "run": "run_id",
    "import": "import_id",
    "pass": "pass_id",
    "proposal": "proposal_id",
}
_ACTIONS: Mapping[UndoAction, str] = {
    "undo": "undo it",
    "quarantine": "take it out of sight until it is reviewed",
}


def _undo_request(form: Fields) -> dict[str, Any] | None:
    """What is asked for; None where nothing is."""
    request: dict[str, Any] = {to: form[name] for name, to in _CAUSES.items() if form.text(name)}
    for name in ("since", "until"):
        if (moment := form.moment(name)) is not None:
            request[name] = moment
    if form.words("trusted"):
        request["trusted"] = form.words("trusted")
    if form.is_ticked("detectors"):
        request["detectors"] = True
    if not request:
        return None
    if form.text("agent"):
        request["agent_id"] = form["agent"]
    return request | {"action": form.text("do") or "undo"}


async def _undo(ctx: Context, query: Fields) -> dict[str, Any]:
    request = _undo_request(query)
    found: UndoResponse | None = None
    fault: QuipuError | None = None
    if request is not None:
        try:
            found = await dispatch(ctx, ops.UNDO, request)
        except QuipuError as error:
            if error.code != "validation_error":
                raise
            fault = error
    return {
        "found": found,
        "fault": fault,
        "steps": {} if found is None else Counter(one.step for one in found.findings),
        "seen": None if found is None else _fingerprint(found.findings),
        "query": query,
        "kept": {
            name: query.text(name)
            for name in (*_CAUSES, "agent", "since", "until", "trusted", "detectors", "do")
        },
        "actions": _ACTIONS,
        "can_undo": ctx.principal.may(Permission.ADMIN),
    }


def _fingerprint(findings: Sequence[UndoFinding]) -> str:
    """Of what was shown: what is done is that and nothing else."""
    said = "\n".join(f"{one.id} {one.version} {one.step} {one.back_to}" for one in findings)
    return hashlib.sha256(said.encode()).hexdigest()


async def _undone(ctx: Context, form: Fields) -> Done:
    request = _undo_request(form) or {}
    trial: UndoResponse = await dispatch(ctx, ops.UNDO, request)
    if _fingerprint(trial.findings) != form.text("seen"):
        raise ConflictError(
            "Something has changed since you looked.", reason="stale_trial", hint="Look at the trial again."
        )
    done = await dispatch(ctx, ops.UNDO, {**request, "dry_run": False, "reason": form.text("reason")})
    return Done(once={"done": done, "outcomes": Counter(one.outcome for one in done.findings)})


# -- the pages ----------------------------------------------------------------------------------------------------


def pages(checks: Checks) -> tuple[Page, ...]:
    """`checks` are the verifications of this server."""
    journal = Page(
        path="/journal",
        group="activity",
        title="Journal",
        template="journal.html",
        load=_journal,
        actions={"download": _download},
        needs=ops.JOURNAL,
    )
    undo = Page(
        path="/undo",
        group="activity",
        title="Undo",
        template="undo.html",
        load=_undo,
        actions={"undo": _undone},
        needs=ops.JOURNAL,  # whoever may read the journal may see what would be undone
    )
    return journal, _verify(checks), undo
