"""The pages of runs: all of them, and one with its log, what it saw, its notes and its forks."""

from itertools import zip_longest
from typing import Any
from urllib.parse import quote

from quipu.errors import QuipuError
from quipu.operation import Context, dispatch
from quipu.page import Done, Fields, Page, may_use
from quipu.runs import messages as m
from quipu.runs import operations as ops
from quipu.runs.model import TRANSITIONS

_RUNS, _EVENTS, _SEEN, _FORKS = 50, 200, 12, 50
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
        "notes": {} if is_over else await _notes(ctx, run.id),
        "is_over": is_over,
        "can_cancel": not is_over and may_use(ctx.principal, ops.CANCEL_RUN),
        "can_fork": not run.history_expired and may_use(ctx.principal, ops.FORK_RUN),
        **await _seen(ctx, run),
        **await _compared(ctx, run, query.text("with")),
    }


async def _compared(ctx: Context, run: m.RunView, with_id: str | None) -> dict[str, Any]:
    """This run and another one side by side: the events of each, and the variables that differ."""
    if with_id is None:
        return {"other": None, "not_compared": None}
    try:
        other: m.RunView = await dispatch(ctx, ops.GET_RUN, {"run_id": with_id})
        logs = [
            (await dispatch(ctx, ops.LIST_RUN_EVENTS, {"run_id": one, "limit": _EVENTS, "after": -1})).events
            for one in (run.id, other.id)
        ]
    except QuipuError as error:
        return {"other": None, "not_compared": error.message}
    pairs = [(here, there, _said(here) != _said(there)) for here, there in zip_longest(*logs)]
    names = dict.fromkeys([*run.variables, *other.variables])
    values = [(name, run.variables.get(name), other.variables.get(name)) for name in names]
    return {
        "other": other,
        "not_compared": None,
        "pairs": pairs,
        "differing": sum(differs for *_, differs in pairs),
        "changed": [one for one in values if one[1] != one[2]],
    }


def _said(event: Any) -> Any:
    """What happened, without the ids of runs and memories, which differ in any case."""
    if event is None:
        return None
    payload = {name: value for name, value in event.payload.items() if not name.endswith("Id")}
    return event.type, event.node_id, payload


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
)
