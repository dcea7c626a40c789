"""The page that says how the server is, what it does by itself, how much it holds, and who is looking."""

from collections.abc import Mapping
from typing import Any

from quipu.access.operations import WHOAMI
from quipu.http.health import CAPABILITIES_OF, HEALTH, LIST_JOBS
from quipu.model.principal import Permission
from quipu.operation import Context, dispatch
from quipu.page import Fields, Page, Part, may_use
from quipu.upkeep.operations import STATISTICS

#: What each job does, for who looks after the server.
_JOBS: Mapping[str, str] = {
    "sweep": "Removes what has expired",
    "consolidation": "Goes through short-term memory",
    "checkpoint": "Signs the journal",
    "runs": "Looks after runs",
    "webhooks": "Delivers webhooks",
    "views": "Journals what pages have shown",
    "mcp": "Keeps MCP ready",
}


async def _load(ctx: Context, query: Fields) -> dict[str, Any]:
    can_read = may_use(ctx.principal, CAPABILITIES_OF)
    return {
        "health": await dispatch(ctx, HEALTH, {}) if can_read else None,
        "limits": (await dispatch(ctx, CAPABILITIES_OF, {})).limits if can_read else {},
        "statistics": await dispatch(ctx, STATISTICS, {}) if may_use(ctx.principal, STATISTICS) else None,
        "me": await dispatch(ctx, WHOAMI, {}),
        "permissions": tuple(Permission),
        "jobs": (await dispatch(ctx, LIST_JOBS, {})).jobs if may_use(ctx.principal, LIST_JOBS) else None,
        "job_words": _JOBS,
    }


def health_page(mirrors: Part) -> Page:
    """`mirrors` are listed, and brought up to date, on the page of the server."""

    async def load(ctx: Context, query: Fields) -> dict[str, Any]:
        return {**await _load(ctx, query), **await mirrors.load(ctx, query)}

    return Page(
        path="/health",
        group="system",
        title="Health",
        template="health.html",
        load=load,
        actions=dict(mirrors.actions),
    )
