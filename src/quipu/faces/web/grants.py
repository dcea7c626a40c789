"""Lending: what was lent to whom, exactly what they would see and have seen, taking it back, and erasing for good."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any
from urllib.parse import quote

from starlette.responses import Response

from quipu.errors import ConflictError, InvalidError, QuipuError
from quipu.faces.web import forms
from quipu.faces.web.grants_requests import PREVIEWED, days, number
from quipu.faces.web.visit import Visit, address
from quipu.faces.web.wording import counted
from quipu.model.grants import TaskState
from quipu.model.principal import Permission
from quipu.service.lending_decisions import Decision

_FIELDS = (
    "grantee",
    "purpose",
    "labels",
    "kinds",
    "subjects",
    "scope",
    "level",
    "days",
    "most",
    "everything",
)
#: A place in a chain, as an address may name it.
_PLACE = re.compile("[0-9]{1,18}", re.ASCII)
#: What is asked for under a grant, as a person says it: when it came to pass, and when it was refused.
_ACTIONS = {
    "memory_grant_create": ("Lent", "Wanted to lend"),
    "memory_grant_revoke": ("Taken back or given up", "Wanted to take back or give up"),
    "memory_query": ("Asked", "Wanted to ask"),
    "memory_vector_read": ("Fetched a vector", "Wanted a vector"),
    "memory_export": ("Took a copy", "Wanted a copy"),
}
#: It is written as a block, which is what it does to all grants; the owner who does it is refused nothing.
_KILL_SWITCH = "kill_switch"
_OUTCOMES = {"allow": "Allowed", "allow_with_conditions": "Allowed, on terms", "block": "Refused"}
#: The fields of the form, by what the members of a grant are called.
_MEMBERS = {
    "grantee": "grantee",
    "purpose": "purpose",
    "labels_any": "labels",
    "kinds": "kinds",
    "subject_entity_ids": "subjects",
    "granter": "scope",
    "scope_id": "scope",
    "filter": "everything",
    "trust_level": "level",
    "max_items": "most",
    "expires_at": "days",
    **{name: name for name in ("level", "days", "most")},
}
_BLANK = {"scope": "personal", "level": "1", "days": "30", "most": "500"}


async def page(visit: Visit) -> Response:
    """All grants, and the form for another one; with fields in the address, also what its grantee would see."""
    visit.need(Permission.ADMIN)
    asked = {name: visit.asked(name) or "" for name in _FIELDS}
    if not asked["grantee"]:
        return await _shown(visit, {**asked, **_BLANK})
    try:
        draft, _ = _draft(asked), days(asked["days"])
        preview = await visit.service.sharing.disclosing.preview(visit.principal, draft, PREVIEWED + 1)
    except QuipuError as error:
        return await _shown(visit, asked, error=error, status=400)
    return await _shown(visit, asked, preview=preview)


async def issue(visit: Visit) -> Response:
    """Sign it and lend."""
    given = await visit.form()
    visit.need(Permission.ADMIN)
    asked = {name: given.get(name, "").strip() for name in _FIELDS}
    # The page that showed what would be lent has named the grant, so that the same form sent twice is one grant.
    name = given.get("grant", "")
    try:
        draft, length = _draft(asked), days(asked["days"])
        draft |= {"grant_id": name} if name else {}
        kept = await visit.service.sharing.grants.issue_for(visit.principal, draft, length)
    except ConflictError as conflict:
        if conflict.reason != "grant_taken" or not await _is_sent_again(visit, name, asked):
            return await _shown(visit, asked, error=conflict, status=400)
        return visit.go(f"/grants/{name}", "This was lent before. Nothing was lent anew.")
    except QuipuError as error:
        return await _shown(visit, asked, error=error, status=400)
    return visit.go(f"/grants/{kept.id}", "Lent. It can be taken back at any time.")


async def _is_sent_again(visit: Visit, name: str, asked: Mapping[str, str]) -> bool:
    """Whether a grant is what this form has made before."""
    found = [one for one in await visit.service.sharing.grants.list(visit.principal) if one.id == name]
    return any((one.grantee, one.body["purpose"]) == (asked["grantee"], asked["purpose"]) for one in found)


async def detail(visit: Visit) -> Response:
    """One grant, and what it has shown."""
    visit.need(Permission.ADMIN)
    grant_id, sharing = visit.request.path_params["id"], visit.service.sharing
    kept = await sharing.grants.get(visit.principal, grant_id)
    shown = await sharing.grants.shown(visit.principal, grant_id)
    before = visit.asked("before") or ""
    decided, older = await sharing.decisions.page(
        visit.principal, grant_id, int(before) if _PLACE.fullmatch(before) else None
    )
    return visit.page(
        "grant.html",
        kept=kept,
        standing=kept.standing(visit.site.clock()).value,
        shown=shown,
        decided=[(one, *_told(one)) for one in decided],
        older=older and address(f"/grants/{quote(grant_id, safe='')}", before=str(older)),
        is_first=not before,
    )


def _told(decision: Decision) -> tuple[str | None, str, bool]:
    """What was done, or what somebody wanted to do and could not; the outcome; and whether it was refused."""
    if decision.action == _KILL_SWITCH:
        return "Everything taken back", "Done", False
    done, refused = _ACTIONS.get(decision.action, (None, None))
    outcome = _OUTCOMES.get(decision.outcome, decision.outcome)
    return (refused if decision.is_refusal else done), outcome, decision.is_refusal


async def revoke(visit: Visit) -> Response:
    """Take it back."""
    await visit.form()
    visit.need(Permission.ADMIN)
    grant_id = visit.request.path_params["id"]
    await visit.service.sharing.grants.revoke(visit.principal, grant_id)
    return visit.go(f"/grants/{grant_id}", "Taken back. The next request under it is refused.")


async def erasures(visit: Visit) -> Response:
    """What was erased for good, and whether everybody who had seen it has let go of it."""
    visit.need(Permission.ADMIN)
    return await _erasures(visit)


async def erase(visit: Visit) -> Response:
    """Erase for good, here and where it was lent."""
    given = await visit.form()
    visit.need(Permission.ADMIN)
    sharing = visit.service.sharing
    ids = given.get("ids", "").replace(",", " ").split()
    if not ids:
        error = InvalidError("Name at least one memory.", reason="usage")
        return await _erasures(visit, given, error)
    if given.get("sure") != "yes":
        error = InvalidError(
            "Nothing was erased.", reason="usage", hint="Tick that you mean it: nothing brings it back."
        )
        return await _erasures(visit, given, error)
    request = {
        "principal_did": sharing.identity(visit.principal)["owner"],
        "item_ids": ids,
        "reason": given.get("reason", "").strip() or "gdpr-art-17",
    }
    try:
        done = await sharing.erasing.erase(visit.principal, request)
    except QuipuError as error:
        return await _erasures(visit, given, error)
    count = len(done.request["ids"]) if isinstance(done.request["ids"], list) else 0
    said = f"Erased: {count}. Nothing brings it back." if count else "Nothing was erased."
    if (missing := len(set(ids)) - count) > 0:
        said += f" {missing} of {counted(len(set(ids)), 'id')} led to nothing: check them."
    return visit.go("/erasures", said)


async def _erasures(
    visit: Visit, typed: Mapping[str, str] | None = None, error: QuipuError | None = None
) -> Response:
    sharing = visit.service.sharing
    found = await sharing.erasing.list(visit.principal)
    reports = [await sharing.erasing.report(visit.principal, one.id) for one in found[:50]]
    pairs = list(zip(found[:50], reports, strict=True))
    status = 200 if error is None else 400
    return visit.page("erasures.html", status, erasures=pairs, error=error, typed=typed or {})


async def _shown(
    visit: Visit,
    asked: Mapping[str, str],
    *,
    preview: list[dict[str, Any]] | None = None,
    error: QuipuError | None = None,
    status: int = 200,
) -> Response:
    sharing, now = visit.service.sharing, visit.site.clock()
    found = await sharing.grants.list(visit.principal)
    rows = [(kept, kept.standing(now).value) for kept in found]
    owner = sharing.identity(visit.principal)["owner"]
    waiting = [
        one for one in await sharing.requests.list(visit.principal) if one.state is TaskState.AWAITING_INPUT
    ]
    told = {"grants": rows, "waiting": waiting, "owner": owner, "name": f"mgr_{sharing.mint()}"}
    wrong = None if error is None else forms.wrong_field(error, _MEMBERS)
    return visit.page("grants.html", status, asked=asked, preview=preview, error=error, wrong=wrong, **told)


def _draft(asked: Mapping[str, str]) -> dict[str, Any]:
    """What the fields say; commas part several."""
    chosen: dict[str, Any] = {
        name: several
        for name, several in (
            ("labels_any", _several(asked["labels"])),
            ("kinds", _several(asked["kinds"])),
            ("subject_entity_ids", _several(asked["subjects"])),
        )
        if several
    }
    if asked["everything"] == "1":
        chosen["all"] = True
    if not chosen:
        raise InvalidError.at(
            "/filter", "required", "Name tags, kinds or subjects, or choose all of the scope."
        )
    return {
        "grantee": asked["grantee"],
        "purpose": asked["purpose"],
        "filter": chosen,
        "scope_id": asked["scope"] or "personal",
        "trust_level": number(asked["level"], "/level"),
        "max_items": number(asked["most"], "/most"),
    }


def _several(text: str) -> list[str]:
    return [part.strip() for part in text.split(",") if part.strip()]
