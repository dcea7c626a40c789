"""Reading a request: who shows which token, and what the body says."""

from __future__ import annotations

import base64
import binascii
import json
import re
from typing import Any, cast

from starlette.requests import Request

from quipu.errors import InvalidError, UnauthenticatedError
from quipu.faces.http import bodies
from quipu.faces.http.json_text import loads, refuse_deep
from quipu.faces.oap.answering import MEDIA_TYPE
from quipu.faces.oap.headers import given_id
from quipu.model.grants import Lent
from quipu.model.principal import Principal
from quipu.rules.grants_invocations import Invocation
from quipu.rules.grants_tokens import GRANT_TYPE
from quipu.service.lending_callers import Shown
from quipu.service.sharing import Sharing

_LONGEST = 32 << 10
#: The largest whole number that all readers of JSON hold exactly, and how long longer ones are at least.
_LARGEST, _LONG = 2**53 - 1, re.compile(rb"[0-9]{16}")


def brings_own(request: Request) -> bool:
    """Whether the credential is a grant's token, which is no credential of this server's."""
    scheme, token = _authorization(request)
    if scheme == "dpop":
        return True
    return scheme == "bearer" and _type(token) == GRANT_TYPE


def token_type(request: Request) -> str | None:
    """The type that the shown token claims to have."""
    return _type(_authorization(request)[1])


def shown(request: Request, sharing: Sharing, assertion: str | None = None) -> Shown:
    """What is shown at the door."""
    scheme, token = _authorization(request)
    proofs = request.headers.getlist("dpop")
    if len(proofs) > 1 or len(request.headers.getlist("authorization")) > 1 or len(token) > _LONGEST:
        raise UnauthenticatedError(reason="bad_token")
    root = sharing.public_url or f"{request.url.scheme}://{request.url.netloc}"
    return Shown(
        scheme=scheme,
        token=token,
        proof=proofs[0] if proofs else None,
        method=request.method,
        url=f"{root}{request.url.path}",
        request_id=given_id(request),
        assertion=assertion,
    )


async def lent(request: Request, sharing: Sharing, *, is_read_later: bool = False) -> Lent:
    """The grant of whoever asks; `is_read_later` where the service reads the grant row once more as it decides."""
    if not brings_own(request):
        raise UnauthenticatedError(reason="no_credential")
    who = await sharing.doors.lent(shown(request, sharing), is_read_later=is_read_later)
    _check_named(request, who)
    request.state.oap_lent = who  # whoever is refused something from here on is on record
    return who


def _check_named(request: Request, who: Lent) -> None:
    """An envelope speaks of the grant that its token is for, and of no other."""
    asked: Invocation | None = getattr(request.state, "oap_named", None)
    if asked is None:
        return
    scope_id = who.grant.scope_id if asked.scope_id is None else asked.scope_id
    if (asked.principal, asked.agent, scope_id) != (who.grant.granter, who.grant.grantee, who.grant.scope_id):
        raise UnauthenticatedError(reason="bad_token")


async def lent_with(
    request: Request, sharing: Sharing, *, may_be_empty: bool = False, is_read_later: bool = False
) -> tuple[Lent, dict[str, Any]]:
    """The same, with the body that came along; a signature over it is looked at, where there is one (D23)."""
    who = await lent(request, sharing, is_read_later=is_read_later)
    given = await body(request, may_be_empty=may_be_empty)
    return await sharing.doors.signed(who, given, request.headers.get("oap-signature")), given


def principal(request: Request) -> Principal | None:
    """The owner, where one is logged in."""
    return getattr(request.state, "principal", None)


async def body(request: Request, *, may_be_empty: bool = False) -> dict[str, Any]:
    """The object that was sent."""
    data = await request.body()
    if not data and may_be_empty:
        return {}
    bodies.media_type(request, MEDIA_TYPE, bodies.JSON)
    refuse_deep(data)
    value: object = loads(data)
    if not isinstance(value, dict):
        raise InvalidError.at("", "bad_json", "The body must be a JSON object.", accepted=["object"])
    members = cast("dict[str, Any]", value)
    if _LONG.search(data):
        _check_numbers(members, "")
    return members


def _check_numbers(value: object, pointer: str) -> None:
    """What is hashed and signed is canonical JSON, which has no larger whole numbers (contract 6.2)."""
    if isinstance(value, int) and abs(value) > _LARGEST:
        raise InvalidError.at(
            pointer, "bad_value", "A whole number beyond 2^53 is told as text.", accepted=["text"]
        )
    if isinstance(value, dict):
        for name, part in cast("dict[str, object]", value).items():
            _check_numbers(part, f"{pointer}/{name[:64].replace('~', '~0').replace('/', '~1')}")
    elif isinstance(value, list):
        for place, part in enumerate(cast("list[object]", value)):
            _check_numbers(part, f"{pointer}/{place}")


def _authorization(request: Request) -> tuple[str, str]:
    scheme, _, token = request.headers.get("authorization", "").partition(" ")
    return scheme.lower(), token.strip()


def _type(token: str) -> str | None:
    """The type that a token claims to have, before anything of it is believed."""
    first = token.partition(".")[0] if len(token) <= _LONGEST else ""
    try:
        header: object = json.loads(base64.urlsafe_b64decode(first + "=" * (-len(first) % 4)))
    except (ValueError, binascii.Error, RecursionError):
        return None
    return cast("dict[str, Any]", header).get("typ") if isinstance(header, dict) else None
