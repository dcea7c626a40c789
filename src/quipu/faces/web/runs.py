"""Runs: what happened in each, what it saw of memory, forks, and two side by side."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from starlette.responses import Response

from quipu.errors import QuipuError
from quipu.faces.web import runs_pictures
from quipu.faces.web.grants_requests import number
from quipu.faces.web.visit import Visit, address
from quipu.model.principal import Permission
from quipu.model.record import Record
from quipu.model.runs import EventType, ForkMode, Run, RunEvent
from quipu.rules.runs_diffs import paired
from quipu.rules.runs_options import ListOptions
from quipu.service.runs_forking import ForkRequest

_PAGE = 40
_SEEN = 12
#: Forks are looked for among so many of the newest runs.
_FORKS = 500


@dataclass(frozen=True, slots=True)
class Seen:
    """Memory of one ref as a run saw it when it began."""

    ref: str
    entries: Sequence[Record]
    #: There is more than is shown.
    has_more: bool
    #: Why it cannot be shown.
    trouble: str | None = None


async def page(visit: Visit) -> Response:
    """Runs, the newest first."""
    visit.need(Permission.READ)
    found = await visit.service.runs.list(visit.principal, below=visit.asked("below"), limit=_PAGE + 1)
    shown = found[:_PAGE]
    older = address("/runs", below=shown[-1].id) if len(found) > _PAGE else None
    return visit.page("runs.html", runs=shown, older=older)


async def detail(visit: Visit) -> Response:
    """One run: its picture, its log, what it saw."""
    visit.need(Permission.READ)
    run = await visit.service.runs.get(visit.principal, _run_id(visit))
    events = await visit.service.runs.events(visit.principal, run.id)
    variables = (await visit.service.runs.snapshot(visit.principal, run.id))["variables"]
    return visit.page(
        "run.html",
        run=run,
        events=events,
        picture=runs_pictures.timeline(events),
        variables=variables,
        seen=[await _seen(visit, run, ref) for ref in _refs(run, events)],
        forks=[
            one
            for one in await visit.service.runs.list(visit.principal, limit=_FORKS)
            if one.source_run_id == run.id
        ],
    )


async def fork(visit: Visit) -> Response:
    """Replay a run, or branch off."""
    form = await visit.form()
    visit.need(Permission.WRITE)
    mode = ForkMode.BRANCH if form.get("mode") == "branch" else ForkMode.REPLAY
    from_seq = number(form.get("from_seq", "").strip() or "0", "/from_seq")
    request = ForkRequest(run_id=_run_id(visit), mode=mode, from_seq=from_seq)
    opened = await visit.service.runs.fork(visit.principal, request)
    said = (
        "Replayed: nothing was written."
        if mode is ForkMode.REPLAY
        else "A new run, seeing what the old one saw."
    )
    return visit.go(address(f"/runs/{opened.run.id}"), said)


async def diff(visit: Visit) -> Response:
    """Two runs side by side."""
    visit.need(Permission.READ)
    left = await visit.service.runs.get(visit.principal, _run_id(visit))
    right = await visit.service.runs.get(visit.principal, visit.asked("with") or "")
    pairs = paired(
        await visit.service.runs.events(visit.principal, left.id),
        await visit.service.runs.events(visit.principal, right.id),
    )
    return visit.page("run_diff.html", left=left, right=right, pairs=pairs)


def _run_id(visit: Visit) -> str:
    return str(visit.request.path_params["id"])


def _refs(run: Run, events: Sequence[RunEvent]) -> list[str]:
    """The memory that a run had to do with: its agent's, and what it wrote to."""
    named = [] if run.agent is None else [run.agent.get("memoryRef")]
    written = [event.payload.get("memoryRef") for event in events if event.type is EventType.MEMORY_WRITTEN]
    return list(dict.fromkeys(ref for ref in (*named, *written) if isinstance(ref, str)))


async def _seen(visit: Visit, run: Run, ref: str) -> Seen:
    try:
        found = await visit.service.runs.memory.list(visit.principal, ref, ListOptions(limit=_SEEN + 1), run)
    except QuipuError as error:
        return Seen(ref, (), False, error.message)
    return Seen(ref, found[:_SEEN], len(found) > _SEEN)
