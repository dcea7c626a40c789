"""The page of consolidation: what a pass over short-term memory would do now, and what passes have done."""

from typing import Any

from quipu.audit.operations import JOURNAL
from quipu.consolidation.model import ConsolidateResponse, Outcome
from quipu.consolidation.operations import CONSOLIDATE
from quipu.errors import QuipuError
from quipu.memory.operations import GET, LIST_AGENTS
from quipu.model.principal import Permission
from quipu.operation import Context, dispatch
from quipu.page import Done, Fields, Page, may_use

#: So many decisions are shown with their texts, and so many passes.
_SHOWN, _TEXTS, _PASSES = 50, 3, 20
_WORDS: dict[Outcome, str] = {
    "promoted": "becomes long-term memory",
    "known": "is forgotten: long-term memory says it",
    "evicted": "is forgotten: old, and of little weight",
    "held": "waits for approval",
    "kept": "stays",
    "failed": "stays: something is in the way",
}


async def _load(ctx: Context, query: Fields) -> dict[str, Any]:
    agents = [one.agent_id for one in (await dispatch(ctx, LIST_AGENTS, {})).agents]
    agent = query.text("agent") or (agents[0] if agents else ctx.principal.default_agent)
    may_all = ctx.principal.may(Permission.ADMIN) and ctx.principal.is_whole
    request = _request(agent, query) if agent or query.is_ticked("all") else None
    found: ConsolidateResponse | None = None
    fault: QuipuError | None = None
    if request is not None:
        try:
            found = await dispatch(ctx, CONSOLIDATE, {**request, "dry_run": True})
        except QuipuError as error:
            is_refused = error.code == "forbidden" and may_use(ctx.principal, CONSOLIDATE)
            if error.code != "validation_error" and not is_refused:
                raise
            fault = error
    decisions = () if found is None else found.decisions
    return {
        "agents": agents,
        "agent": agent,
        "is_all": query.is_ticked("all"),
        "may_all": may_all,
        "found": found,
        "fault": fault,
        "decisions": decisions[:_SHOWN],
        "left_out": max(0, len(decisions) - _SHOWN),
        "texts": await _texts(ctx, [name for one in decisions[:_SHOWN] for name in one.ids[:_TEXTS]]),
        "words": _WORDS,
        "passes": await _passes(ctx),
    }


def _request(agent: str | None, given: Fields) -> dict[str, Any]:
    return {"all_agents": True} if given.is_ticked("all") else {"agent_id": agent}


async def _texts(ctx: Context, ids: list[str]) -> dict[str, Any]:
    """The memories that are named; one that went meanwhile is left out."""
    found: dict[str, Any] = {}
    for name in dict.fromkeys(ids):
        try:
            found[name] = await dispatch(ctx, GET, {"id": name})
        except QuipuError:
            continue
    return found


async def _passes(ctx: Context) -> tuple[Any, ...] | None:
    """The last passes; None where the visitor does not read the journal."""
    if not may_use(ctx.principal, JOURNAL):
        return None
    request = {"op": "consolidate", "newest_first": True, "limit": _PASSES}
    return (await dispatch(ctx, JOURNAL, request)).entries


async def _pass(ctx: Context, form: Fields) -> Done:
    done: ConsolidateResponse = await dispatch(ctx, CONSOLIDATE, _request(form.text("agent"), form))
    return Done(once={"done": done})


PAGES = (
    Page(
        path="/consolidation",
        group="memory",
        title="Consolidation",
        template="consolidation.html",
        load=_load,
        actions={"consolidate": _pass},
        needs=CONSOLIDATE,
    ),
)
