"""The headers that every request and answer of this face may carry (contract 5.1, D23)."""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable

from starlette.requests import Request
from starlette.responses import Response

from quipu.errors import ForbiddenError, InvalidError, NotFoundError, UnauthenticatedError
from quipu.model.grants import Lent
from quipu.rules.texts import is_keepable
from quipu.service.sharing import Sharing

VERSION = "1.0"
#: What web pages of other origins may send, and what they may read.
SENT = frozenset(
    {"DPoP", "OAP-Version", "OAP-Request-Id", "OAP-Signature", "OAP-Idempotency-Key", "OAP-Trace"}
)
SHOWN = frozenset({"OAP-Version", "OAP-Request-Id", "OAP-Trace", "OAP-Idempotency-Replayed"})
_ULID = re.compile(r"[0-9A-HJKMNP-TV-Z]{26}")
_MINOR = re.compile(r"1(\.[0-9]{1,4})?")
_TRACE = re.compile(r"[0-9a-f]{2}-[0-9a-f]{32}-[0-9a-f]{16}-[0-9a-f]{2}")
Handler = Callable[[Request], Awaitable[Response]]


def given_id(request: Request) -> str | None:
    """The id that the caller gave the request, if it is one."""
    given = request.headers.get("oap-request-id", "")
    return given if _ULID.fullmatch(given) else None


def request_id(request: Request, sharing: Sharing) -> str:
    """The id that the caller gave, or a fresh one; the same wherever one request is told of."""
    known: str | None = getattr(request.state, "oap_request_id", None)
    if known is None:
        known = request.state.oap_request_id = given_id(request) or sharing.mint()
    return known


def told(request: Request, sharing: Sharing) -> dict[str, str]:
    """What every answer says of itself. A trace that is none is not repeated."""
    headers = {"OAP-Version": VERSION, "OAP-Request-Id": request_id(request, sharing)}
    trace = request.headers.get("oap-trace", "")
    return {**headers, "OAP-Trace": trace} if _TRACE.fullmatch(trace) else headers


def speaking(handler: Handler, sharing: Sharing, action: str | None = None) -> Handler:
    """The handler of a route, between the headers that come in and those that go out; `action` is what it does, in OAP's words."""

    async def answered(request: Request) -> Response:
        version = request.headers.get("oap-version", VERSION)
        if not _MINOR.fullmatch(version):
            raise InvalidError.at(
                "/OAP-Version", "bad_value", "This version is not spoken here.", accepted=[VERSION]
            )
        # What no ledger can hold is the name of nothing, whichever ledger it is.
        if not all(
            is_keepable(text) for text in (*request.path_params.values(), *request.query_params.values())
        ):
            raise NotFoundError("There is nothing at this address.", reason="route")
        try:
            response = await handler(request)
        except (ForbiddenError, UnauthenticatedError) as error:
            who: Lent | None = getattr(request.state, "oap_lent", None)
            if who is not None:
                named: str | None = getattr(request.state, "oap_action", action)
                await sharing.doors.refusals.note(who.tenant, who.grant, error.reason or "refused", named)
            raise
        response.headers.update(told(request, sharing))
        return response

    return answered
