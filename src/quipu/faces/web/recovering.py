"""Recovery: what a cause has done, shown first, then undone."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

from starlette.responses import Response

from quipu.errors import NotFoundError, QuipuError
from quipu.faces.web.visit import Visit
from quipu.model.principal import Permission
from quipu.model.recovery import Action, RecoverRequest, RecoverResponse

_FIELDS = ("agent", "source", "run", "import", "proposal", "by", "since", "until", "trusted")
_MOST = 500


async def page(visit: Visit) -> Response:
    """The form; with fields in the address, also what would be done."""
    visit.need(Permission.REVIEW)
    asked = {name: visit.asked(name) or "" for name in (*_FIELDS, "detectors", "action")}
    if not any(asked[name] for name in (*_FIELDS[1:], "detectors")):
        return visit.page("recover.html", asked=asked, answer=None, error=None, counts=())
    try:
        answer = await visit.service.recovery.recover(visit.principal, _request(asked, is_dry=True))
    except NotFoundError:
        raise
    except QuipuError as error:
        return visit.page("recover.html", 400, asked=asked, answer=None, error=error, counts=())
    return _shown(visit, asked, answer)


async def apply(visit: Visit) -> Response:
    """Do it."""
    given = await visit.form()
    visit.need(Permission.ADMIN)
    asked = {name: given.get(name, "").strip() for name in (*_FIELDS, "detectors", "action")}
    answer = await visit.service.recovery.recover(visit.principal, _request(asked, is_dry=False))
    return _shown(visit, asked, answer)


def _shown(visit: Visit, asked: Mapping[str, str], answer: RecoverResponse) -> Response:
    counts = Counter(one.step.value for one in answer.findings)
    return visit.page("recover.html", asked=asked, answer=answer, error=None, counts=sorted(counts.items()))


def _request(asked: Mapping[str, str], *, is_dry: bool) -> RecoverRequest:
    """What the fields say; commas part several."""
    return RecoverRequest(
        agent_id=asked["agent"],
        sources=_several(asked["source"]),
        run_id=asked["run"] or None,
        import_id=asked["import"] or None,
        proposal_id=asked["proposal"] or None,
        principal=asked["by"] or None,
        since=asked["since"] or None,
        until=asked["until"] or None,
        trusted=_several(asked["trusted"]),
        detectors=asked["detectors"] == "1",
        action=Action.QUARANTINE if asked["action"] == "quarantine" else Action.UNDO,
        dry_run=is_dry,
        limit=_MOST,
    )


def _several(text: str) -> tuple[str, ...]:
    return tuple(part.strip() for part in text.split(",") if part.strip())
