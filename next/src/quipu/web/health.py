"""The page that says how the server is, how much it holds, and who is looking."""

from typing import Any

from quipu.access.operations import WHOAMI
from quipu.http.health import CAPABILITIES_OF, HEALTH
from quipu.model.principal import Permission
from quipu.operation import Context, dispatch
from quipu.page import Fields, Page, may_use
from quipu.upkeep.operations import STATISTICS


async def _load(ctx: Context, query: Fields) -> dict[str, Any]:
    can_read = may_use(ctx.principal, HEALTH)
    return {
        "health": await dispatch(ctx, HEALTH, {}) if can_read else None,
        "limits": (await dispatch(ctx, CAPABILITIES_OF, {})).limits if can_read else {},
        "statistics": await dispatch(ctx, STATISTICS, {}) if may_use(ctx.principal, STATISTICS) else None,
        "me": await dispatch(ctx, WHOAMI, {}),
        "permissions": tuple(Permission),
    }


HEALTH_PAGE = Page(path="/health", group="system", title="Health", template="health.html", load=_load)
