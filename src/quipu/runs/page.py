"""The pages of runs: all of them, and one with its log, what it saw, its notes and its forks, and two side by side."""

from collections.abc import Sequence
from typing import Any, get_args
from urllib.parse import quote

from quipu.errors import QuipuError
from quipu.operation import Context, dispatch
from quipu.page import Done, Fields, Page, may_use
from quipu.runs import messages as m
from quipu.runs import operations as ops
from quipu.runs.model import TRANSITIONS

_RUNS, _EVENTS, _SEEN, _FORKS, _OTHERS, _DIFFERENCES = 50, 200, 12, 50, 20, 100
_FILTERS = {"agent": "agent_id", "workflow": "workflow_id", "status": "status"}


async def _list(ctx: Context, query: Fields) -> dict[str, Any]:
    narrowed = {to: query[name] for name, to in _FILTERS.items() if query.text(name)}
    found: m.ListRunsResponse = await dispatch(
        ctx, ops.LIST_RUNS, {**narrowed, **query.given("cursor"), "limit": _RUNS}
    )
    return {
        "runs": found.runs,
        "next_cursor": found.next_cursor,
        "query": query,
        "is_filtered": bool(narrowed),
        "kept": {name: query.text(name) for name in _FILTERS},
        "statuses": tuple(TRANSITIONS),
    }


async def _one(ctx: Context, query: Fields) -> dict[str, Any]:
    run: m.RunView = await dispatch(ctx, ops.GET_RUN, {"run_id": query["id"]})
    after = query.number("after")
    request = {"run_id": run.id, "limit": _EVENTS, "after": -1 if after is None else after}
    log: m.ListRunEventsResponse = await dispatch(ctx, ops.LIST_RUN_EVENTS, request)
    forks: m.ListRunsResponse = await dispatch(ctx, ops.LIST_RUNS, {"source_run_id": run.id, "limit": _FORKS})
    is_over = not TRANSITIONS[run.status]
    last = log.events[-1].sequence if log.events else run.last_sequence
    return {
        "run": run,
        "events": log.events,
        "is_later": after is not None,
        "next_after": last if last < run.last_sequence else None,
        "forks": forks.runs,
        "has_more_forks": forks.next_cursor is not None,
        "others": await _others(ctx, run, forks.runs),
        "notes": {} if is_over else await _notes(ctx, run.id),
        "is_over": is_over,
        "can_cancel": not is_over and may_use(ctx.principal, ops.CANCEL_RUN),
        "can_fork": not run.history_expired and may_use(ctx.principal, ops.FORK_RUN),
        **await _seen(ctx, run),
    }


async def _others(ctx: Context, run: m.RunView, forks: Sequence[m.RunView] = ()) -> list[str]:
    """Runs that it is likely to be compared with: where it comes from, its forks, and others of its workflow."""
    recent = await dispatch(ctx, ops.LIST_RUNS, {"workflow_id": run.workflow_id, "limit": _OTHERS})
    ids = [run.source_run_id, *(one.id for one in (*forks[:_OTHERS], *recent.runs))]
    return [one for one in dict.fromkeys(ids) if one not in (None, run.id)]


async def _compare(ctx: Context, query: Fields) -> dict[str, Any]:
    other = query.text("with")
    if other is None:
        run: m.RunView = await dispatch(ctx, ops.GET_RUN, {"run_id": query["id"]})
        return {"run": run, "other": None, "others": await _others(ctx, run)}
    found: m.RunComparison = await dispatch(
        ctx, ops.COMPARE_RUNS, {"run_id": query["id"], "other_id": other, "limit": _DIFFERENCES}
    )
    by_kind: dict[str, list[m.Difference]] = {kind: [] for kind in get_args(m.DifferenceKind)}
    for one in found.differences:
        by_kind[one.kind].append(one)
    return {
        "run": found.run,
        "other": found.other,
        "others": await _others(ctx, found.run),
        "parts_at": found.parts_at,
        "by_kind": by_kind,
        "is_cut": found.is_cut,
        "not_compared": found.not_compared,
    }


async def _seen(ctx: Context, run: m.RunView) -> dict[str, Any]:
    """Memory of its agent as it was when the run began, or why that cannot be shown."""
    request = {"memory_ref": run.agent_id, "run_id": run.id, "options": {"limit": _SEEN}}
    try:
        found: m.ListEntriesResponse = await dispatch(ctx, ops.LIST_ENTRIES, request)
    except QuipuError as error:
        return {"seen": (), "sees_more": False, "unseen": error.message}
    return {"seen": found.entries, "sees_more": found.next_cursor is not None, "unseen": None}


async def _notes(ctx: Context, run_id: str) -> dict[str, Any]:
    """What it notes for itself, for those who may write to it."""
    if not may_use(ctx.principal, ops.RUN_NOTES):
        return {}
    found = {
        backend: (await dispatch(ctx, ops.RUN_NOTES, {"run_id": run_id, "backend": backend})).notes
        for backend in ("scratchpad", "conversation")
    }
    return {backend: notes for backend, notes in found.items() if notes}


async def _cancel(ctx: Context, form: Fields) -> Done:
    await dispatch(ctx, ops.CANCEL_RUN, {"run_id": form["id"], "idempotency_key": _key(form, "cancel")})
    return Done(said="Cancelled.")


async def _replay(ctx: Context, form: Fields) -> Done:
    return await _forked(
        ctx, form, "Replayed: its log is here again, and nothing was written.", mode="replay"
    )


async def _branch(ctx: Context, form: Fields) -> Done:
    said = "A new run, which sees what the old one saw. Whoever carries out the workflow goes on with it."
    return await _forked(ctx, form, said, mode="branch", from_seq=form.number("from_seq"))


async def _forked(ctx: Context, form: Fields, said: str, **how: Any) -> Done:
    key = _key(form, *map(str, how.values()))
    request = {"run_id": form["id"], "idempotency_key": key, **how}
    made: m.ForkRunResponse = await dispatch(ctx, ops.FORK_RUN, request)
    return Done(said=said, path=f"/runs/{quote(made.run.id, safe='')}")


def _key(form: Fields, *what: str) -> str | None:
    """A form that is sent twice does what it says once."""
    once = form.text("once")
    return None if once is None else "-".join(["page", *what, once])[:128]


PAGES = (
    Page(
        path="/runs",
        group="activity",
        title="Runs",
        template="runs.html",
        load=_list,
        needs=ops.LIST_RUNS,
    ),
    Page(
        path="/runs/{id}",
        group="activity",
        title="Run",
        template="run.html",
        load=_one,
        actions={"cancel": _cancel, "replay": _replay, "branch": _branch},
        needs=ops.GET_RUN,
        parent="/runs",
    ),
    Page(
        path="/runs/{id}/compare",
        group="activity",
        title="Compare runs",
        template="run_compare.html",
        load=_compare,
        needs=ops.COMPARE_RUNS,
        parent="/runs",
    ),
)
