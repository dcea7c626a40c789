"""What decisions teach: rules that are suggested, with what speaks for them."""

from __future__ import annotations

from starlette.responses import Response

from quipu.errors import InvalidError
from quipu.faces.web.visit import Visit
from quipu.model.principal import Permission
from quipu.rules.policy_parsing import rule_body


async def page(visit: Visit) -> Response:
    """All of them."""
    visit.need(Permission.REVIEW)
    found = await visit.service.learning.suggested(visit.principal)
    return visit.page("patterns.html", suggestions=[(one, rule_body(one.rule)) for one in found])


async def settle(visit: Visit) -> Response:
    """Accept one, or do not see it again."""
    given = await visit.form()
    visit.need(Permission.ADMIN)
    name = given.get("suggestion", "")
    match given.get("do"):
        case "accept":
            await visit.service.learning.accept(visit.principal, name)
            return visit.go("/rules", "Accepted. It decides from now on, for 90 days.")
        case "dismiss":
            await visit.service.learning.dismiss(visit.principal, name)
            return visit.go("/patterns", "Dismissed. It will not be suggested again.")
        case _:
            raise InvalidError.at("/do", "bad_value", "There is no such decision.")
