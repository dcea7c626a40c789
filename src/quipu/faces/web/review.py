"""Writes that wait for a person: all of them, the next of them, and what one of them would do."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any
from urllib.parse import quote

from starlette.responses import Response

from quipu.errors import ConflictError, NotFoundError, QuipuError
from quipu.faces.http import problems
from quipu.faces.web import summaries, ticking, wording
from quipu.faces.web.visit import Visit, address
from quipu.model.change import Proposal
from quipu.model.governance import Review
from quipu.model.operations import ProposalsRequest
from quipu.model.principal import Permission

#: Fields of a request that say nothing to the reviewer, or are said elsewhere on the page.
_UNSAID = frozenset(
    {"content", "agent_id", "approval_required", "finds_similar", "embedding", "idempotency_key", "reasoning"}
)
#: Fields of a batch that are said item by item.
_OF_ITEMS = frozenset({"items", "record_ids", "times"})
#: Characters of a text, and of any other value, that are shown at once; all of it is one click away.
SHOWN, CUT = 20_000, 200
#: Where there is more text than this, the decision is out of sight.
_LONG = 2_000
_STATUSES = ("pending", "approved", "rejected")
FILTERS = ("agent", "operation", "writer", "rule", "import")
#: As the service calls those that have another name there.
_CALLED = {"agent": "agent_id", "import": "import_id"}
_OPERATIONS = ("remember", "forget", "merge", "expire", "restore", "batch", "recall")
#: So many are on a page; a form that decides on many takes 50 fields.
_MOST_PENDING, _MOST_DECIDED = 40, 200


async def page(visit: Visit) -> Response:
    """All that wait, or were decided, as far as they pass the filters."""
    visit.need(Permission.REVIEW)
    status = visit.asked("status") or "pending"
    status = status if status in _STATUSES else "pending"
    asked = filters(visit.request.query_params)
    most = _MOST_PENDING if status == "pending" else _MOST_DECIDED
    cursor = visit.asked("cursor")
    wanted = ProposalsRequest(
        status=status, limit=most, cursor=cursor, is_newest_first=True, **_passing(asked)
    )
    found = await visit.service.governance.page(visit.principal, wanted)
    if cursor is not None and not found.proposals:
        # The rest was decided meanwhile. What stands before it may still wait.
        return visit.go("/review", status=None if status == "pending" else status, **asked)
    decidable = [one for one in found.proposals if status == "pending" and not _is_own(visit, one)]
    ticks = await ticking.ticks(visit, decidable)
    rows = [
        (one, summaries.summary(one), summaries.beside(one.request), ticks.get(one.id))
        for one in found.proposals
    ]
    more = address("/review", status=status, **asked, cursor=found.next_cursor)
    return visit.page(
        "review.html",
        rows=rows,
        status=status,
        tabs=[(one, address("/review", status=one, **asked)) for one in _STATUSES],
        filters=asked,
        cursor=cursor,
        work_href=address("/review/next", **asked),
        operations=_OPERATIONS,
        more=more if found.next_cursor else None,
    )


def filters(given: Mapping[str, str]) -> dict[str, str]:
    """The filters that are set, in an address or in a form; who works through a filtered list stays within them."""
    return {name: text for name in FILTERS if (text := given.get(name, "").strip())}


def _passing(asked: Mapping[str, str]) -> dict[str, Any]:
    """The same as the service calls them."""
    return {_CALLED.get(name, name): text for name, text in asked.items()}


async def following(visit: Visit) -> Response:
    """On to the next that waits and can be decided by who asks, oldest first; what was left for later comes last."""
    visit.need(Permission.REVIEW)
    left, asked = visit.asked("left"), filters(visit.request.query_params)
    place, cursor, skipped = await _place(visit, left), None, None
    while True:
        found = await visit.service.governance.page(
            visit.principal, ProposalsRequest(limit=_MOST_DECIDED, cursor=cursor, **_passing(asked))
        )
        for one in found.proposals:
            if one.id == left or _is_own(visit, one) or _has_lapsed(visit, one):
                continue
            if place is None or (one.created_at, one.id) > place:
                return _opened(visit, one.id, asked)
            skipped = skipped or one.id
        if (cursor := found.next_cursor) is None:
            break
    if skipped is not None:
        return _opened(visit, skipped, asked)
    nothing = (
        "Nothing else that passes the filters waits for you." if asked else "Nothing else waits for you."
    )
    return visit.go("/review", visit.session.notice or nothing, **asked)


async def _place(visit: Visit, proposal_id: str | None) -> tuple[int, str] | None:
    """Where a proposal stands in the queue, also when it was decided; None where there is none."""
    if proposal_id is None:
        return None
    try:
        one = await visit.service.governance.proposal(visit.principal, proposal_id)
    except NotFoundError:
        return None
    return one.created_at, one.id


def _opened(visit: Visit, proposal_id: str, asked: Mapping[str, str]) -> Response:
    notice, visit.session.notice = visit.session.notice, None
    return visit.go(proposal_path(proposal_id), notice, queue="1", **asked)


def proposal_path(proposal_id: str) -> str:
    """The page of a proposal."""
    return f"/review/{quote(proposal_id, safe='')}"


def _is_own(visit: Visit, proposal: Proposal) -> bool:
    return proposal.writer == visit.principal.name and not visit.principal.is_local


def _has_lapsed(visit: Visit, proposal: Proposal) -> bool:
    return proposal.lapses_at is not None and proposal.lapses_at <= visit.site.clock()


async def detail(visit: Visit) -> Response:
    """One of them: what a yes would change now, what is like it, why it waits."""
    visit.need(Permission.REVIEW)
    return await shown(visit, visit.request.query_params)


async def shown(
    visit: Visit,
    given: Mapping[str, str],
    *,
    error: QuipuError | None = None,
    typed: Mapping[str, str] | None = None,
) -> Response:
    """The page of a proposal; after a decision that was refused, with why, and with what the reviewer had typed.

    `given` says whether they work through a queue, and through which.
    """
    in_queue = given.get("queue") == "1"
    asked = filters(given) if in_queue else {}
    proposal = await visit.service.governance.proposal(visit.principal, visit.request.path_params["id"])
    can_decide = proposal.status == "pending" and not _has_lapsed(visit, proposal)
    altered = await _altered(visit, proposal) if can_decide else None
    # What was altered may not even be readable, and what it would do does not matter.
    seen = Review(proposal=proposal)
    if altered is None:
        seen = await visit.service.reviewing.review(visit.principal, proposal.id)
    preview = await visit.service.previewing.shown(visit.principal, seen, visit.asked("ask"))
    body: dict[str, Any] = dict(proposal.request)
    is_own = _is_own(visit, proposal)
    is_whole = visit.asked("whole") == "1"
    content = wording.text_of(body.get("content") or "") if proposal.operation == "remember" else None
    items = _items(body) if proposal.operation == "batch" else []
    fields = _named(body, _UNSAID | _OF_ITEMS if items else _UNSAID)
    return visit.page(
        "proposal.html",
        200 if error is None else problems.status_of(error),
        proposal=proposal,
        seen=seen,
        summary=summaries.summary(proposal),
        content=content,
        items=items,
        reasoning=body.get("reasoning"),
        fields=fields,
        is_own=is_own,
        has_lapsed=proposal.status == "pending" and not can_decide,
        can_decide=can_decide,
        can_approve=can_decide and not is_own and altered is None,
        can_edit=proposal.operation == "remember" and proposal.approvals == 1,
        is_new=body.get("id") is None,
        altered=altered,
        error=error,
        typed=typed or {},
        preview=preview,
        asked=visit.asked("ask") or "",
        in_queue=in_queue,
        filters=asked,
        list_href=address("/review", **asked),
        next_href=address("/review/next", left=proposal.id, **asked),
        is_whole=is_whole,
        is_long=sum(map(len, (content or "", *(text for text, _ in items)))) > _LONG,
        at_once={"text": SHOWN, "field": CUT},
        is_cut=not is_whole and _is_cut(seen, content, items, fields),
        whole_href=address(proposal_path(proposal.id), whole="1", queue="1" if in_queue else None, **asked),
        can_undo=await visit.service.undoing.can_undo(visit.principal, proposal.id),
    )


async def _altered(visit: Visit, proposal: Proposal) -> ConflictError | None:
    """Why nobody can say yes to it, where it is not what was held. Asked for the one that is looked at, not in lists."""
    try:
        await visit.service.governance.to_decide(
            visit.principal, proposal.id, approved=True, is_in_place=True
        )
    except ConflictError as conflict:
        return conflict if conflict.reason == "altered_proposal" else None
    return None


def _named(body: Mapping[str, Any], unsaid: frozenset[str]) -> list[tuple[str, str]]:
    """Fields of a request that say something, as text."""
    return [
        (name, value if isinstance(value, str) else wording.as_json(value))
        for name, value in body.items()
        if name not in unsaid and value not in (None, [], {}, "")
    ]


def _items(body: Mapping[str, Any]) -> list[tuple[str, list[tuple[str, str]]]]:
    """The memories of a batch: the text of each, and what else is said of it."""
    items: list[Mapping[str, Any]] = body.get("items") or []
    return [(wording.text_of(item.get("content") or ""), _named(item, _UNSAID)) for item in items]


def _is_cut(
    seen: Review,
    content: str | None,
    items: Sequence[tuple[str, Sequence[tuple[str, str]]]],
    fields: Sequence[tuple[str, str]],
) -> bool:
    """Whether the page shows less than a yes would do."""
    texts = [value for _, value in fields]
    for text, more in items:
        texts += [text, *(value for _, value in more)]
    if seen.diff is not None:
        texts += [str(one["content"]) for one in (*seen.diff.removed, *seen.diff.stays)]
        for one in seen.diff.modified:
            texts += [
                wording.as_json(value)
                for name, value in (*one.before.items(), *one.after.items())
                if name != "content"
            ]
    return len(content or "") > SHOWN or any(len(text) > CUT for text in texts)
