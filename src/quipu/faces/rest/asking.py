"""What callers may send: the bodies of this API, and words of a query string."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TypeVar

from starlette.requests import Request

from quipu.errors import InvalidError
from quipu.faces.http.bodies import json_object
from quipu.faces.http.json_text import loads, parameter
from quipu.faces.rest.forms import formed
from quipu.model.access import Role
from quipu.model.governance import Edit
from quipu.model.operations import ListRequest, MergeStrategy
from quipu.model.principal import Permission

T = TypeVar("T")

_TRUE, _FALSE = ("true", "1"), ("false", "0")
#: No number of a query string is written with more; what is longer would have to be cut to be looked at.
_DIGITS = 18
_WHOLE = re.compile(rf"-?[0-9]{{1,{_DIGITS}}}")
_MOST = 10**_DIGITS - 1


@dataclass(frozen=True, slots=True, kw_only=True)
class DecisionBody:
    """Approve or reject a held write."""

    approved: bool
    reason: str | None = None
    #: The diff that was seen.
    etag: str | None = None
    edit: Edit | None = None
    #: A live record that the new text is merged into.
    merge_into: str | None = None
    strategy: MergeStrategy = MergeStrategy.KEEP_CANONICAL
    #: Records that are forgotten together with the yes.
    supersedes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class VacuumBody:
    """Give space back; with `keep_history_days` also empty versions that ended before then."""

    keep_history_days: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class TokenBody:
    """A new token: what its roles may do, and the permissions named beside them."""

    name: str
    roles: tuple[Role, ...] = ()
    permissions: tuple[Permission, ...] = ()
    agents: tuple[str, ...] = ("*",)
    user_id: str | None = None
    #: Milliseconds since the Unix epoch.
    expires_at: int | None = None
    #: Requests per minute.
    rate: int | None = None
    #: Memories that recalls may return per hour.
    recall_budget: int | None = None
    #: Of a reviewer: patterns of the stores it decides on.
    review_stores: tuple[str, ...] = ("*",)
    #: Of a reviewer: the operations it decides on.
    review_operations: tuple[str, ...] = ("*",)
    #: Another tenant, for those who run the server.
    tenant: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class RotateBody:
    """A new text for a token; the old one ends after the grace."""

    grace_ms: int = 0
    tenant: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class TenantBody:
    """A new tenant."""

    tenant: str


@dataclass(frozen=True, slots=True, kw_only=True)
class SecretBody:
    """A value that must never be remembered. It is not shown again."""

    label: str
    value: str
    run_id: str | None = None


async def asked(request: Request, kind: type[T], *, may_be_empty: bool = False) -> T:
    """The body as a value."""
    return formed(kind, await json_object(request, may_be_empty=may_be_empty))


def listing(request: Request) -> ListRequest:
    """A list request from a query string; `type` and `state` may be repeated, `filter` is JSON."""
    query = request.query_params
    body: dict[str, object] = {name: query[name] for name in _TEXTS if name in query}
    for name, field in (("type", "types"), ("state", "states")):
        if given := query.getlist(name):
            body[field] = given
    if "filter" in query:
        body["filter"] = parameter("filter", query["filter"])
    if "limit" in query:
        body["limit"] = number(request, "limit", 50)
    return formed(ListRequest, body)


_TEXTS = ("agent_id", "user_id", "session_id", "store", "as_of", "cursor")


def number(request: Request, name: str, default: int, *, least: int = 0, most: int = _MOST) -> int:
    """A whole number of the query string."""
    given = request.query_params.get(name)
    if given is None:
        return default
    if not _WHOLE.fullmatch(given) or not least <= int(given) <= most:
        reach = (f" from {least}" if least > -_MOST else "") + (f" to {most}" if most < _MOST else "")
        expected = f"integer{reach}"
        raise InvalidError.at(f"/{name}", "bad_value", f"{name} is not accepted.", accepted=[expected])
    return int(given)


def moment(request: Request, name: str) -> int | None:
    """Milliseconds since 1970 in the query string; what was before then is below 0."""
    return number(request, name, 0, least=-_MOST) if name in request.query_params else None


def flag(request: Request, name: str) -> bool:
    """A yes or no of the query string."""
    given = request.query_params.get(name, "false").lower()
    if given not in (*_TRUE, *_FALSE):
        raise InvalidError.at(
            f"/{name}", "bad_value", f"{name} is true or false.", accepted=["true", "false"]
        )
    return given in _TRUE


def needed(request: Request, name: str) -> str:
    """A word of the query string that must be there."""
    given = request.query_params.get(name)
    if given is None:
        raise InvalidError.at(
            f"/{name}", "missing_field", f"Required parameter missing: {name}.", accepted=[name]
        )
    return given


def line(text: bytes, kind: type[T]) -> T:
    """One line of an NDJSON body as a value."""
    return formed(kind, loads(text))
