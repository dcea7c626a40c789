"""A reviewer's decision: yes in one of its ways, or no, on one or on many; and taking one back."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from starlette.responses import Response

from quipu.errors import (
    ConflictError,
    ForbiddenError,
    InvalidError,
    NotFoundError,
    QuipuError,
    SecretLeakageError,
)
from quipu.faces.http import problems
from quipu.faces.web import review, ticking, wording
from quipu.faces.web.visit import Visit
from quipu.model.change import Proposal
from quipu.model.governance import Edit
from quipu.model.operations import MergeStrategy
from quipu.model.principal import Permission
from quipu.service.undoing import UNDO_MS


async def decide(visit: Visit) -> Response:
    """Yes, in one of its ways, or no; with yes it is carried out at once. Refused, nothing of what was typed is lost."""
    given = await visit.form()
    visit.need(Permission.REVIEW)
    name = visit.request.path_params["id"]
    choice = given.get("decision", "")
    try:
        said = _said(choice, given)
        await visit.service.decide(
            visit.principal,
            name,
            approved=choice != "reject",
            reason=given.get("reason", "").strip() or None,
            undoable=True,
            **said,
        )
    except ForbiddenError:
        raise
    except QuipuError as error:
        # One that is not there, or not theirs, has no page to say it on: this raises.
        found = await visit.service.governance.proposal(visit.principal, name)
        if _is_said_again(visit, found, choice):
            return await _done(visit, found, given)
        if problems.on_the_wire(error) is not error:
            raise
        # What may be a secret is not repeated.
        typed = None if isinstance(error, SecretLeakageError) else given
        return await review.shown(visit, given, error=error, typed=typed)
    decided = await visit.service.governance.proposal(visit.principal, name)
    return await _done(visit, decided, given)


def _is_said_again(visit: Visit, found: Proposal, choice: str) -> bool:
    """The same decision sent twice is one, as by a double click."""
    wanted = "rejected" if choice == "reject" else "approved"
    return found.reviewer == visit.principal.name and found.status == wanted


async def _done(visit: Visit, decided: Proposal, given: Mapping[str, str]) -> Response:
    """On to the next one, for who works through them."""
    if await visit.service.undoing.can_undo(visit.principal, decided.id):
        visit.session.undo = (visit.site.clock() + UNDO_MS, decided.id)
    if given.get("queue") == "1":
        return visit.go("/review/next", _told(decided), left=decided.id, **review.filters(given))
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
        review.proposal_path(done.proposal_id),
        "Taken back: what it did is undone, and it waits again."
        if done.was_approved
        else "Taken back: it waits again.",
        queue="1",
        **review.filters(given),
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
            raise _no_decision()


def _no_decision() -> InvalidError:
    return InvalidError.at("/decision", "bad_value", "There is no such decision.")


def _told(decided: Proposal) -> str:
    if decided.status == "pending":
        return f"Noted. {len(decided.given)} of {decided.approvals} have agreed; it waits for the others."
    if decided.status == "approved":
        return "Approved, and carried out."
    return "Rejected. Nothing was written."


async def _is_done(visit: Visit, name: str, choice: str) -> bool:
    return _is_said_again(visit, await visit.service.governance.proposal(visit.principal, name), choice)


async def decide_many(visit: Visit) -> Response:
    """The same for all that were ticked, each for itself; then back to where the list was, as it was filtered."""
    given = await visit.form()
    visit.need(Permission.REVIEW)
    names = [name.removeprefix("pick-") for name in given if name.startswith("pick-")]
    here = {**review.filters(given), "cursor": given.get("cursor")}
    if not names:
        return visit.go("/review", "Nothing was ticked.", **here)
    choice = given.get("decision")
    if choice not in ("approve", "reject"):
        raise _no_decision()
    approved = choice == "approve"
    reason = given.get("reason", "").strip() or None
    failed = waiting = changed = unseen = 0
    for name in names:
        try:
            etag = None
            if approved:
                found = await visit.service.governance.proposal(visit.principal, name)
                etag = ticking.shown(found, given[f"pick-{name}"])
            if etag == ticking.UNSEEN:
                unseen += 1
                continue
            await visit.service.decide(
                visit.principal, name, approved=approved, reason=reason, etag=etag, undoable=True
            )
            waiting += (await visit.service.governance.proposal(visit.principal, name)).status == "pending"
        except QuipuError as error:
            if error.reason == "stale_proposal":
                changed += 1
            elif error.reason != "already_decided" or not await _is_done(visit, name, choice):
                failed += 1
    word = "Approved" if approved else "Rejected"
    said = f"{word} {len(names) - failed - changed - unseen} of {wording.counted(len(names), 'write')}."
    if waiting:
        said += f" {waiting} of them {'waits' if waiting == 1 else 'wait'} for others to agree."
    if changed:
        said += f" {changed} would now do something else than when the list was shown: look again."
    if unseen:
        said += f" {unseen} can only be approved on a page of {'its' if unseen == 1 else 'their'} own, which shows all of it."
    if failed:
        said += " The others could not be: look at them one by one."
    return visit.go("/review", said, **here)
