"""Who asks to be lent something: exactly what they would see, and the owner's yes or no."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from starlette.responses import Response

from quipu.errors import InvalidError, QuipuError
from quipu.faces.web import forms
from quipu.faces.web.visit import Visit
from quipu.model.grants import AccessRequest, TaskState
from quipu.model.principal import Permission

_FIELDS = ("level", "days", "most")
_NAMED = {
    "trust_level": "level",
    "max_items": "most",
    "expires_at": "days",
    **{name: name for name in _FIELDS},
}
#: So many items of a draft are shown; one more is asked for, to know that there are more.
PREVIEWED = 100


async def detail(visit: Visit) -> Response:
    """One request; with fields in the address, what its asker would see if they were granted."""
    visit.need(Permission.ADMIN)
    one = await _found(visit)
    asked = {name: visit.asked(name) or value for name, value in _wanted(one).items()}
    return await _shown(visit, one, asked)


async def answer(visit: Visit) -> Response:
    """Lend it, or do not."""
    given = await visit.form()
    visit.need(Permission.ADMIN)
    one, requests = await _found(visit), visit.service.sharing.requests
    if given.get("answer") == "refuse":
        await requests.refuse(visit.principal, one.id)
        return visit.go("/grants", "Refused. They learn of it when they ask.")
    asked = {name: given.get(name, "").strip() for name in _FIELDS}
    try:
        if given.get("answer") != "approve":
            raise InvalidError.at("/answer", "bad_value", "Lend it, or refuse.")
        length = days(asked["days"])
        kept = await requests.approve(visit.principal, one.id, _changes(asked), length)
    except QuipuError as error:
        one = await _found(visit)
        if one.grant is not None:  # the same form sent twice, or somebody else was first
            return visit.go(f"/grants/{one.grant.id}", "This was lent before. Nothing was lent anew.")
        return await _shown(visit, one, asked, error)
    return visit.go(f"/grants/{kept.id}", "Lent. It can be taken back at any time.")


async def _found(visit: Visit) -> AccessRequest:
    return await visit.service.sharing.requests.get(visit.principal, visit.request.path_params["id"])


async def _shown(
    visit: Visit, one: AccessRequest, asked: Mapping[str, str], error: QuipuError | None = None
) -> Response:
    preview: list[dict[str, Any]] | None = None
    if one.state is TaskState.AWAITING_INPUT:
        try:
            draft, _ = {**one.draft, **_changes(asked)}, days(asked["days"])
            preview = await visit.service.sharing.disclosing.preview(visit.principal, draft, PREVIEWED + 1)
        except QuipuError as unfit:
            error, preview = error or unfit, []
    scopes = one.draft.get("scopes")
    named = [str(name) for name in scopes] if isinstance(scopes, list | tuple) else []
    more = ", ".join(name for name in named if name != "memory.query")
    return visit.page(
        "request.html",
        200 if error is None else 400,
        one=one,
        asked=asked,
        preview=preview,
        error=error,
        wrong=None if error is None else forms.wrong_field(error, _NAMED),
        wanted=json.dumps(one.draft["filter"], ensure_ascii=False, default=dict),
        more=more or "nothing else",
    )


def _wanted(one: AccessRequest) -> dict[str, str]:
    """What was asked for, where it says so; the safe values of a grant otherwise."""
    level, most = one.draft.get("trust_level", 1), one.draft.get("max_items", 500)
    return {"level": str(level), "days": "30", "most": str(most)}


def _changes(asked: Mapping[str, str]) -> dict[str, Any]:
    return {"trust_level": number(asked["level"], "/level"), "max_items": number(asked["most"], "/most")}


def days(text: str) -> int:
    """For how long something is lent."""
    given = number(text, "/days")
    if given < 1:
        raise InvalidError.at("/days", "bad_value", "It is lent for a day at least.")
    return given


def number(text: str, pointer: str) -> int:
    """A whole number that somebody has typed."""
    if not text.isascii() or not text.isdigit() or len(text) > 9:
        raise InvalidError.at(pointer, "bad_value", "This is a whole number.")
    return int(text)
