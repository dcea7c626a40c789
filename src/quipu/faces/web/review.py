"""Writes that wait for a person: what they would do, and the decision."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any
from urllib.parse import quote

from starlette.responses import Response

from quipu.errors import ConflictError, InvalidError, NotFoundError, QuipuError
from quipu.faces.web import wording
from quipu.faces.web.visit import Visit, address
from quipu.model.change import Proposal
from quipu.model.governance import Edit
from quipu.model.operations import MergeStrategy, ProposalsRequest
from quipu.model.principal import Permission
from quipu.service.undoing import UNDO_MS

#: Fields of a request that say nothing to the reviewer, or are said elsewhere on the page.
_UNSAID = frozenset(
    {"content", "agent_id", "approval_required", "finds_similar", "embedding", "idempotency_key", "reasoning"}
)
_STATUSES = ("pending", "approved", "rejected")
_FILTERS = ("agent", "operation", "writer", "rule")
_OPERATIONS = ("remember", "forget", "merge", "expire", "restore", "batch", "recall")
#: So many are on a page; a form that decides on many takes 50 fields.
_MOST_PENDING, _MOST_DECIDED = 40, 200


async def page(visit: Visit) -> Response:
    """All that wait, or were decided, as far as they pass the filters."""
    visit.need(Permission.REVIEW)
    status = visit.asked("status") or "pending"
    status = status if status in _STATUSES else "pending"
    asked = {name: visit.asked(name) for name in _FILTERS}
    most = _MOST_PENDING if status == "pending" else _MOST_DECIDED
    found = await visit.service.governance.page(
        visit.principal,
        ProposalsRequest(
            status=status,
            agent_id=asked["agent"],
            operation=asked["operation"],
            writer=asked["writer"],
            rule=asked["rule"],
            limit=most,
            cursor=visit.asked("cursor"),
            is_newest_first=True,
        ),
    )
    rows = [(proposal, summary(proposal), _is_own(visit, proposal)) for proposal in found.proposals]
    more = address("/review", status=status, **asked, cursor=found.next_cursor)
    return visit.page(
        "review.html",
        rows=rows,
        status=status,
        statuses=_STATUSES,
        asked=asked,
        operations=_OPERATIONS,
        more=more if found.next_cursor else None,
    )


async def following(visit: Visit) -> Response:
    """On to the next that waits and can be decided by who asks, oldest first."""
    visit.need(Permission.REVIEW)
    left = visit.asked("left") or ""
    found = await visit.service.governance.page(visit.principal, ProposalsRequest(limit=_MOST_DECIDED))
    waiting = [one.id for one in found.proposals if not _is_own(visit, one)]
    later = waiting[waiting.index(left) + 1 :] if left in waiting else waiting
    if not later:
        return visit.go("/review", visit.session.notice or "Nothing else waits for you.")
    notice, visit.session.notice = visit.session.notice, None
    return visit.go(f"/review/{quote(later[0], safe='')}", notice, queue="1")


def summary(proposal: Proposal) -> str:
    """What it would do, in a few words."""
    request: Any = proposal.request
    match proposal.operation:
        case "remember":
            return wording.brief(request.get("content") or "", 160)
        case "merge":
            count = len(request.get("duplicates") or ())
            return f"{wording.counted(count, 'record')} into {request.get('canonical')}"
        case "forget":
            ids = request.get("ids") or ()
            many = (
                wording.counted(len(ids), "record")
                if ids
                else f"what matches {wording.as_json(request.get('filter'))}"
            )
            return f"{'erase' if request.get('hard_delete') else 'forget'} {many}"
        case "restore":
            return f"bring back {request.get('id')}"
        case "batch":
            items: list[Any] = request.get("items") or []
            first = wording.brief(items[0].get("content") or "", 100) if items else ""
            return f"{wording.counted(len(items), 'memory', 'memories')} together: {first}"
        case "recall":
            return f"recall {wording.brief(request.get('query') or '', 160)}"
        case _:
            return f"{request.get('action')} what {wording.as_json(request.get('policy'))} matches"


def _is_own(visit: Visit, proposal: Proposal) -> bool:
    return proposal.writer == visit.principal.name and not visit.principal.is_local


async def detail(visit: Visit) -> Response:
    """One of them: what a yes would change now, what is like it, why it waits."""
    visit.need(Permission.REVIEW)
    seen = await visit.service.reviewing.review(visit.principal, visit.request.path_params["id"])
    proposal = seen.proposal
    preview = await visit.service.previewing.shown(visit.principal, seen, visit.asked("ask"))
    body: dict[str, Any] = dict(proposal.request)
    now = visit.site.clock()
    has_lapsed = proposal.lapses_at is not None and proposal.lapses_at <= now
    content = wording.text_of(body.get("content") or "") if proposal.operation == "remember" else None
    named = {
        name: value for name, value in body.items() if name not in _UNSAID and value not in (None, [], {}, "")
    }
    return visit.page(
        "proposal.html",
        proposal=proposal,
        seen=seen,
        summary=summary(proposal),
        content=content,
        reasoning=body.get("reasoning"),
        fields=[
            (name, value if isinstance(value, str) else wording.as_json(value))
            for name, value in named.items()
        ],
        is_own=_is_own(visit, proposal),
        has_lapsed=has_lapsed,
        can_decide=proposal.status == "pending" and not has_lapsed,
        can_edit=proposal.operation == "remember" and proposal.approvals == 1,
        is_new=body.get("id") is None,
        preview=preview,
        asked=visit.asked("ask") or "",
        in_queue=visit.asked("queue") == "1",
        can_undo=await visit.service.undoing.can_undo(visit.principal, proposal.id),
    )


async def decide(visit: Visit) -> Response:
    """Yes, in one of its ways, or no; with yes it is carried out at once."""
    given = await visit.form()
    visit.need(Permission.REVIEW)
    name = visit.request.path_params["id"]
    choice = given.get("decision", "")
    said = _said(choice, given)
    await visit.service.decide(
        visit.principal,
        name,
        approved=choice != "reject",
        reason=given.get("reason", "").strip() or None,
        undoable=True,
        **said,
    )
    decided = await visit.service.governance.proposal(visit.principal, name)
    if decided.status != "pending":
        visit.session.undo = (visit.site.clock() + UNDO_MS, name)
    if given.get("queue") == "1":
        visit.session.notice = _told(decided)
        return visit.go("/review/next", left=name)
    return visit.go("/review", _told(decided))


async def undo(visit: Visit) -> Response:
    """Take a decision back, as long as that can be done; whichever process it was made at."""
    given = await visit.form()
    visit.need(Permission.REVIEW)
    name = given.get("proposal", "")
    if visit.undoable == name:
        visit.session.undo = None
    try:
        done = await visit.service.undoing.undo(visit.principal, name)
    except (ConflictError, NotFoundError):
        return visit.go("/review", "It is too late to take this back.")
    if done.proposal_id is None:
        return visit.go("/review", "Not all of it could be taken back: look at it in the journal.")
    return visit.go(
        f"/review/{quote(done.proposal_id, safe='')}",
        "Taken back: what it did is undone, and it waits again."
        if done.was_approved
        else "Taken back: it waits again.",
        queue="1",
    )


def _said(choice: str, given: Mapping[str, str]) -> dict[str, Any]:
    """What is decided beyond a yes or no."""
    etag = given.get("etag") or None
    record = given.get("record", "")
    match choice:
        case "reject":
            return {}
        case "approve":
            return {"etag": etag}
        case "edit":
            return {"etag": etag, "edit": Edit(content=given.get("content", "").replace("\r\n", "\n"))}
        case "merge":
            return {"etag": etag, "merge_into": record, "strategy": MergeStrategy.MERGE_CONTENT}
        case "supersede":
            return {"etag": etag, "supersedes": [record]}
        case _:
            raise InvalidError.at("/decision", "bad_value", "There is no such decision.")


def _told(decided: Proposal) -> str:
    if decided.status == "pending":
        return f"Noted. {len(decided.given)} of {decided.approvals} have agreed; it waits for the others."
    if decided.status == "approved":
        return "Approved, and carried out."
    return "Rejected. Nothing was written."


async def decide_many(visit: Visit) -> Response:
    """The same for all that were ticked, each for itself."""
    given = await visit.form()
    visit.need(Permission.REVIEW)
    names = [name.removeprefix("pick-") for name in given if name.startswith("pick-")]
    if not names:
        return visit.go("/review", "Nothing was ticked.")
    approved = given.get("decision") == "approve"
    reason = given.get("reason", "").strip() or None
    failed = 0
    for name in names:
        try:
            await visit.service.decide(visit.principal, name, approved=approved, reason=reason)
        except QuipuError:
            failed += 1
    word = "Approved" if approved else "Rejected"
    said = f"{word} {len(names) - failed} of {wording.counted(len(names), 'write')}."
    if failed:
        said += " The others could not be: look at them one by one."
    return visit.go("/review", said)
