"""Recovery: what a cause has done, shown first, then undone."""

from __future__ import annotations

import hashlib
import json
import re
from collections import Counter
from collections.abc import Mapping

from starlette.responses import Response

from quipu.errors import ConflictError, InvalidError, NotFoundError, QuipuError
from quipu.faces.http import problems
from quipu.faces.web import forms, wording
from quipu.faces.web.asking import midnight
from quipu.faces.web.visit import Visit
from quipu.model.principal import Permission
from quipu.model.recovery import Action, RecoverRequest, RecoverResponse
from quipu.rules import moments

_FIELDS = ("agent", "source", "run", "import", "proposal", "by", "since", "until", "trusted")
#: They are called in errors as on the page.
_NAMED = {name: name for name in _FIELDS}
_MOST = 500
#: What stands for one here.
_MOMENTS = ("a day such as 2026-03-01", "a moment with its zone such as 2026-03-01T09:00Z")
_DAY = re.compile("[0-9]{4}-[0-9]{2}-[0-9]{2}", re.ASCII)


async def page(visit: Visit) -> Response:
    """The form; with fields in the address, also what would be done."""
    visit.need(Permission.REVIEW)
    asked = {name: visit.asked(name) or "" for name in (*_FIELDS, "detectors", "action")}
    try:
        if not any(asked[name] for name in (*_FIELDS[1:], "detectors")):
            # Who sent the form wants to see something; who has only just come does not.
            return _refused(visit, asked, _no_cause() if asked["action"] else None)
        answer = await visit.service.recovery.recover(visit.principal, _request(asked, is_dry=True))
    except NotFoundError:
        raise
    except QuipuError as error:
        return _refused(visit, asked, error)
    return _shown(visit, asked, answer)


def _refused(visit: Visit, asked: Mapping[str, str], error: QuipuError | None) -> Response:
    """The form alone, with what is wrong about it."""
    wrong = None if error is None else forms.wrong_field(error, _NAMED)
    status = 200 if error is None else 400
    return visit.page("recover.html", status, asked=asked, answer=None, error=error, wrong=wrong, counts=())


def _no_cause() -> InvalidError:
    return InvalidError(
        "Name a cause, too.",
        reason="usage",
        hint="A source, a run, an import, a proposal, who wrote it or since when; or let detectors look for it.",
    )


async def apply(visit: Visit) -> Response:
    """Do it."""
    given = await visit.form()
    visit.need(Permission.ADMIN)
    asked = {name: given.get(name, "").strip() for name in (*_FIELDS, "detectors", "action")}
    # Agents go on writing: what was not shown is not done.
    found = await visit.service.recovery.recover(visit.principal, _request(asked, is_dry=True))
    if given.get("seen") != _seen(found):
        changed = ConflictError(
            "What would be done has changed since it was shown. Nothing was done.",
            reason="stale_proposal",
            hint="This is what would be done now.",
        )
        return _shown(visit, asked, found, changed)
    answer = await visit.service.recovery.recover(visit.principal, _request(asked, is_dry=False))
    return _shown(visit, asked, answer)


def _shown(
    visit: Visit, asked: Mapping[str, str], answer: RecoverResponse, error: QuipuError | None = None
) -> Response:
    counts = Counter(one.step.value for one in answer.findings)
    return visit.page(
        "recover.html",
        200 if error is None else problems.status_of(error),
        asked=asked,
        answer=answer,
        error=error,
        wrong=None,
        counts=sorted(counts.items()),
        seen=_seen(answer),
    )


def _seen(answer: RecoverResponse) -> str:
    """A name for exactly these steps, on exactly these versions."""
    steps = [[one.id, one.version, one.step.value, one.back_to] for one in answer.findings]
    return hashlib.sha256(json.dumps([steps, answer.is_cut]).encode()).hexdigest()[:32]


def _request(asked: Mapping[str, str], *, is_dry: bool) -> RecoverRequest:
    """What the fields say; commas part several."""
    return RecoverRequest(
        agent_id=asked["agent"],
        sources=_several(asked["source"]),
        run_id=asked["run"] or None,
        import_id=asked["import"] or None,
        proposal_id=asked["proposal"] or None,
        principal=asked["by"] or None,
        since=_moment(asked["since"], "/since"),
        until=_moment(asked["until"], "/until", wording.DAY - 1),
        trusted=_several(asked["trusted"]),
        detectors=asked["detectors"] == "1",
        action=Action.QUARANTINE if asked["action"] == "quarantine" else Action.UNDO,
        dry_run=is_dry,
        limit=_MOST,
    )


def _moment(text: str, pointer: str, later: int = 0) -> str | None:
    """A moment as it was typed. A day is one, too: when it begins, and so much later."""
    if _DAY.fullmatch(text):
        return str(midnight(text, pointer) + later)
    try:
        return str(moments.moment(text, pointer)) if text else None
    except InvalidError:
        raise InvalidError.at(pointer, "bad_value", "This is no moment.", accepted=_MOMENTS) from None


def _several(text: str) -> tuple[str, ...]:
    return tuple(part.strip() for part in text.split(",") if part.strip())
