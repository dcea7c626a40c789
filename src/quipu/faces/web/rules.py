"""The rules: those in force, your own to be edited, tried out on what was written before they are kept."""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from typing import Any

from starlette.responses import Response

from quipu.errors import ConflictError, InvalidError, QuipuError
from quipu.faces.http.json_text import loads
from quipu.faces.web.visit import Visit
from quipu.model.governance import Effect, Replayed
from quipu.model.principal import Permission
from quipu.rules.policy_parsing import OPERATIONS, rule_body

_LAST, _SHOWN = 500, 50


async def page(visit: Visit) -> Response:
    """What decides now."""
    visit.need(Permission.REVIEW)
    own = await _own(visit)
    return await _shown(visit, own, _name(own))


async def _own(visit: Visit) -> str:
    own = await visit.service.policies.own(visit.principal)
    return json.dumps([rule_body(rule) for rule in own], indent=2, ensure_ascii=False)


def _name(own: str) -> str:
    """Which rules a draft was begun with."""
    return hashlib.sha256(own.encode()).hexdigest()[:32]


async def change(visit: Visit) -> Response:
    """Try a draft, or keep it. One that is not understood changes nothing, and says where it is wrong.

    Nor does one that was begun before somebody else changed the rules: it would undo what they did, and not say so.
    """
    given = await visit.form()
    visit.need(Permission.REVIEW)
    text = given.get("rules", "").replace("\r\n", "\n")
    begun = given.get("begun", "")
    try:
        document = {"rules": loads(text.encode("utf-8"))}
        if given.get("do") == "keep":
            now = _name(await _own(visit))
            if begun not in ("", now):
                return await _shown(visit, text, now, error=_changed(), status=409)
            await visit.service.policies.set(visit.principal, document)
            return visit.go("/rules", "Kept. They decide from now on.")
        tried = await visit.service.policies.tried(visit.principal, document, _LAST)
    except QuipuError as error:
        return await _shown(visit, text, begun, error=error, status=400)
    return await _shown(visit, text, begun, tried=tried)


def _changed() -> ConflictError:
    return ConflictError(
        "The rules were changed by somebody else since you began. Nothing was kept.",
        reason="version_mismatch",
        hint="Above stands what is in force now. Take over what should stay, then keep yours.",
    )


async def _shown(
    visit: Visit,
    draft: str,
    begun: str,
    *,
    tried: tuple[Replayed, ...] | None = None,
    error: QuipuError | None = None,
    status: int = 200,
) -> Response:
    rules = await visit.service.policies.list(visit.principal)
    more: dict[str, Any] = {"counts": (), "caught": (), "tried": 0}
    if tried is not None:
        counts = Counter(one.verdict.effect for one in tried)
        more["counts"] = [(effect.value, counts[effect]) for effect in Effect]
        more["caught"] = [one for one in tried if one.verdict.effect is not Effect.ALLOW][:_SHOWN]
        more["tried"] = len(tried)
    return visit.page(
        "rules.html",
        status,
        rules=[(rule, rule_body(rule)) for rule in rules],
        default=visit.service.policies.default.value,
        draft=draft,
        begun=begun,
        error=error,
        place=error.faults[0].pointer if isinstance(error, InvalidError) and error.faults else None,
        operations=OPERATIONS,
        **more,
    )
