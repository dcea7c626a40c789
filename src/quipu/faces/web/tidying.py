"""Work that reviewers are offered: memories that may go, or belong together."""

from __future__ import annotations

from urllib.parse import quote

from starlette.responses import Response

from quipu.faces.web.visit import Visit, address
from quipu.model.principal import Permission
from quipu.rules.tidying import said


async def page(visit: Visit) -> Response:
    """All candidates, and what is remembered at all."""
    visit.need(Permission.REVIEW)
    agent, cursor = visit.asked("agent"), visit.asked("cursor")
    found = await visit.service.tidying.candidates(visit.principal, agent, cursor)
    older = address("/candidates", agent=agent, cursor=found.next_cursor) if found.next_cursor else None
    rows = [(one, said(one)) for one in found.candidates]
    return visit.page(
        "candidates.html", found=found, rows=rows, agent=agent, is_first=cursor is None, older=older
    )


async def propose(visit: Visit) -> Response:
    """One of them becomes an ordinary proposal, which is decided on as any other."""
    given = await visit.form()
    visit.need(Permission.REVIEW)
    ids = [name for name in (given.get("kept"), given.get("gone")) if name]
    proposal = await visit.service.tidying.propose(visit.principal, ids)
    return visit.go(f"/review/{quote(proposal, safe='')}", "It waits for a decision now.")
