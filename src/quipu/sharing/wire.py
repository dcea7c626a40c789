"""How OAP is spoken over HTTP: its headers, its envelopes, its error codes, and who shows which credential.

Whatever goes wrong is answered here, in an envelope that this host signs, or as a problem where that is asked for.
"""

import json
import re
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any, TypeAlias, cast

from starlette.requests import Request as HttpRequest
from starlette.responses import Response as HttpResponse
from starlette.routing import Route

from quipu import jose
from quipu.errors import Fault, InternalError, NotFoundError, QuipuError, UnauthenticatedError
from quipu.http.authentication import Authentication, no_credential
from quipu.http.exchange import exchange_of, note
from quipu.http.limits import allowance_of, lift_limits
from quipu.http.problems import REASON_STATUS, problem_response
from quipu.http.read import JSON, json_object, media_type, uploaded
from quipu.http.streams import download
from quipu.model.principal import DEFAULT_TENANT, Principal
from quipu.operation import Context, FilePart, invalid
from quipu.search.text import is_storable
from quipu.sharing import receipts
from quipu.sharing.grants.tokens import GRANT_TYPE, Admission, GrantContext, Shown
from quipu.sharing.host import Host
from quipu.sharing.times import rfc3339

MEDIA_TYPE = "application/oap+json"
Handler: TypeAlias = Callable[[HttpRequest], Awaitable[HttpResponse]]

#: Our codes as OAP has them, and their status; what is missing is an internal error.
CODES: Mapping[str, tuple[int, str]] = {
    "validation_error": (400, "invalid_input"),
    "secret_leakage": (400, "invalid_input"),
    "unauthenticated": (401, "auth_required"),
    "forbidden": (403, "policy_block"),
    "approval_rejected": (403, "policy_block"),
    "not_found": (404, "not_found"),
    "unsupported": (404, "not_found"),
    "conflict": (409, "conflict"),
    "tampered": (422, "output_unverifiable"),
    "unverifiable": (422, "output_unverifiable"),
    "rate_limited": (429, "rate_limited"),
    "quota_exceeded": (429, "budget_exhausted"),
    "backend_unavailable": (503, "maintenance"),
    "timeout": (504, "timeout"),
    "internal_error": (500, "internal_error"),
}
#: Our reasons, where OAP's contract has another word.
_REASONS = {"missing_field": "required", "unknown_field": "unknown_member"}
_ULID = re.compile(r"[0-9A-HJKMNP-TV-Z]{26}")
_MINOR = re.compile(r"1(\.[0-9]{1,4})?")
_TRACE = re.compile(r"[0-9a-f]{2}-[0-9a-f]{32}-[0-9a-f]{16}-[0-9a-f]{2}")
#: The largest whole number that all readers of JSON hold exactly.
_LARGEST = 2**53 - 1
_LONGEST_TOKEN = 32 << 10


class OapRoute(Route):
    """An address of OAP's, and what the OpenAPI document says of it."""

    method: str
    said: str
    #: Whether anybody may ask.
    is_public: bool


@dataclass(frozen=True, slots=True)
class Wire:
    """Reads requests and writes answers."""

    host: Host
    admission: Admission
    authentication: Authentication

    def route(
        self, method: str, path: str, handler: Handler, said: str, *, is_public: bool = False
    ) -> OapRoute:
        """A handler behind an address, between the headers that come in and those that go out."""

        async def answered(http: HttpRequest) -> HttpResponse:
            try:
                _check_readable(http)
                answer = await handler(http)
            except Exception as error:  # noqa: BLE001  errors are told in OAP's words too, and the known ones alone
                answer = self.refused(http, note(exchange_of(http.scope), error))
            answer.headers.update(self._told(http))
            return answer

        route = OapRoute(path, answered, methods=[method])
        route.method, route.said, route.is_public = method, said, is_public
        return route

    # -- reading --------------------------------------------------------------------------------------------------

    def is_grantee(self, http: HttpRequest) -> bool:
        """Whether the credential is a grant's token, which is no credential of this server's."""
        scheme, token = _authorization(http)
        return scheme == "dpop" or (scheme == "bearer" and _type(token) == GRANT_TYPE)

    async def owner(self, http: HttpRequest) -> Context:
        """The context of whoever is signed in here; `dispatch` decides what they may."""
        if self.is_grantee(http):
            raise no_credential()
        return await self.authentication(http)

    async def grantee(self, http: HttpRequest, *, is_used_later: bool = False) -> GrantContext:
        """The context of a call under a grant. `is_used_later`: what is called uses up the proof."""
        use = await self.admission.admit(self.shown(http), is_used_later=is_used_later)
        who = Principal(tenant=use.tenant, name=use.grant.grantee, permissions=frozenset(), agents=())
        ctx = self.authentication.context(who)
        return GrantContext(ctx.principal, ctx.clock, ctx.services, use=use)

    def anonymous(self, name: str) -> Context:
        """The context of somebody who has shown nothing yet."""
        who = Principal(tenant=DEFAULT_TENANT, name=name[:200], permissions=frozenset(), agents=())
        return self.authentication.context(who)

    def shown(self, http: HttpRequest) -> Shown:
        """What is shown of a grant."""
        scheme, token = _authorization(http)
        proofs = http.headers.getlist("dpop")
        if len(proofs) > 1 or len(http.headers.getlist("authorization")) > 1 or len(token) > _LONGEST_TOKEN:
            raise UnauthenticatedError(reason="bad_token")
        return Shown(
            scheme=scheme,
            token=token,
            proof=proofs[0] if proofs else None,
            method=http.method,
            url=f"{self.host.url}{_path(http)}",
        )

    async def body(self, http: HttpRequest, *, may_be_empty: bool = False) -> dict[str, Any]:
        """The object that was sent."""
        data = await http.body()
        if not data and may_be_empty:
            return {}
        if media_type(http) not in (MEDIA_TYPE, JSON):
            raise invalid([Fault("", "bad_content_type", f"{MEDIA_TYPE} or {JSON}")])
        found = json_object(data)
        _check_numbers(found, "")
        return found

    def with_file(self, http: HttpRequest, ctx: Context) -> Context:
        """The context with the body as it comes, however large it is."""
        lift_limits(http.scope)
        return replace(ctx, upload=uploaded(http))

    # -- answering ------------------------------------------------------------------------------------------------

    def enveloped(self, http: HttpRequest, output: Any, status: int = 200, **members: Any) -> HttpResponse:
        """An answer in a signed envelope."""
        said = "accepted" if status == 202 else "ok"
        return _sent(self._envelope(http, said, output=output, **members), status)

    def bare(self, body: Any, status: int = 200, headers: Mapping[str, str] | None = None) -> HttpResponse:
        """A document that is sent as it is."""
        return _sent(body, status, media_type=JSON, headers=headers)

    async def file(self, http: HttpRequest, parts: AsyncIterator[FilePart]) -> HttpResponse:
        """A file, as it is. It is made whole before its first byte is sent, however long that takes."""
        allowance = allowance_of(http.scope)
        if allowance is not None:
            allowance.stall(None)
        return await download(parts)

    def refused(self, http: HttpRequest, error: QuipuError) -> HttpResponse:
        """An error in an envelope; as a problem where that was asked for."""
        problem = problem_response(error, exchange_of(http.scope).request_id)
        headers = {
            name: problem.headers[name] for name in ("Retry-After", "Allow") if name in problem.headers
        }
        if error.code == "unauthenticated":
            is_given = error.reason not in (None, "no_credential")
            headers["WWW-Authenticate"] = 'DPoP error="invalid_token"' if is_given else "DPoP"
            problem.headers.update(headers)
        if "application/problem+json" in http.headers.get("accept", ""):
            return problem
        status, code = CODES.get(error.code, CODES[InternalError.code])
        status = REASON_STATUS.get((error.code, error.reason or ""), status)
        is_ours = code == "internal_error"
        details: dict[str, Any] = {}
        if error.reason is not None and not is_ours:
            details["reason"] = _REASONS.get(error.reason, error.reason)
        if error.faults:
            details["pointer"] = error.faults[0].pointer
        message = InternalError().message if is_ours else error.message
        said = {"code": code, "message": message, "details": details}
        return _sent(self._envelope(http, "error", error=said), status, headers=headers)

    def _envelope(self, http: HttpRequest, status: str, **members: Any) -> dict[str, Any]:
        body = {
            "oap_version": receipts.VERSION,
            "request_id": self._request_id(http),
            "response_id": self.host.ulid(),
            "timestamp": rfc3339(self.host.clock(), fraction=True),
            "status": status,
            **members,
        }
        return receipts.signed(body, self.host.keyring.signatory(None))

    def _request_id(self, http: HttpRequest) -> str:
        """The id that the caller gave, or a fresh one; the same wherever one request is told of."""
        known: str | None = getattr(http.state, "oap_request_id", None)
        if known is None:
            given = http.headers.get("oap-request-id", "")
            known = http.state.oap_request_id = given if _ULID.fullmatch(given) else self.host.ulid()
        return known

    def _told(self, http: HttpRequest) -> dict[str, str]:
        """What every answer says of itself. A trace that is none is not repeated."""
        headers = {"OAP-Version": receipts.VERSION, "OAP-Request-Id": self._request_id(http)}
        trace = http.headers.get("oap-trace", "")
        return {**headers, "OAP-Trace": trace} if _TRACE.fullmatch(trace) else headers


def _check_readable(http: HttpRequest) -> None:
    if not _MINOR.fullmatch(http.headers.get("oap-version", receipts.VERSION)):
        raise invalid([Fault("/OAP-Version", "bad_value", receipts.VERSION)])
    # What no ledger can hold is the name of nothing.
    if not all(is_storable(text) for text in (*http.path_params.values(), *http.query_params.values())):
        raise NotFoundError("There is nothing at this address.", reason="address")


def _path(http: HttpRequest) -> str:
    """As it was sent: an id may have a slash in it."""
    raw: bytes | None = http.scope.get("raw_path")
    return http.url.path if raw is None else raw.decode("latin-1").partition("?")[0]


def _authorization(http: HttpRequest) -> tuple[str, str]:
    scheme, _, token = http.headers.get("authorization", "").partition(" ")
    return scheme.lower(), token.strip()


def _type(token: str) -> object:
    """The type that a token claims to have, before anything of it is believed."""
    try:
        return jose.opened(token).header.get("typ")
    except UnauthenticatedError:
        return None


def _check_numbers(value: object, pointer: str) -> None:
    """What is hashed and signed is canonical JSON, which has no larger whole numbers."""
    if isinstance(value, int) and abs(value) > _LARGEST:
        raise invalid([Fault(pointer, "bad_value", "whole numbers up to 2^53 - 1; a larger one as text")])
    if isinstance(value, dict):
        for name, part in cast("dict[str, object]", value).items():
            _check_numbers(part, f"{pointer}/{name[:64].replace('~', '~0').replace('/', '~1')}")
    elif isinstance(value, list):
        for place, part in enumerate(cast("list[object]", value)):
            _check_numbers(part, f"{pointer}/{place}")


def _sent(
    body: Any, status: int, *, media_type: str = MEDIA_TYPE, headers: Mapping[str, str] | None = None
) -> HttpResponse:
    data = json.dumps(body, separators=(",", ":"), ensure_ascii=False).encode()
    return HttpResponse(data, status, dict(headers or {}), media_type=media_type)


# -- the OpenAPI document -----------------------------------------------------------------------------------------

#: What answers with a file, and what takes one.
_FILE, _UPLOAD = "/oap/memory/export", "/oap/memory/import"
_ID, _TEXT = {"type": "string", "minLength": 1}, {"type": "string"}
_TOLD = {"OAP-Version": "The version that is spoken.", "OAP-Request-Id": "The id of the request."}
_ENVELOPE: dict[str, Any] = {
    "type": "object",
    "required": ["oap_version", "request_id", "response_id", "timestamp", "status", "signature"],
    "properties": {
        "oap_version": _TEXT,
        "request_id": _ID,
        "response_id": _ID,
        "timestamp": {"type": "string", "format": "date-time"},
        "status": {"enum": ["ok", "accepted", "error"]},
        "signature": {},
    },
}
_ERROR: dict[str, Any] = {
    **_ENVELOPE,
    "required": [*_ENVELOPE["required"], "error"],
    "properties": {
        **_ENVELOPE["properties"],
        "status": {"const": "error"},
        "error": {
            "type": "object",
            "required": ["code", "message", "details"],
            "properties": {"code": _ID, "message": _TEXT, "details": {"type": "object"}},
        },
    },
}


def described(routes: Iterable[OapRoute]) -> dict[str, Any]:
    """Paths in OpenAPI's form."""
    paths: dict[str, dict[str, Any]] = {}
    for route in routes:
        path = route.path.replace(":path}", "}")
        paths.setdefault(path, {})[route.method.lower()] = _described(route, path)
    return paths


def _described(route: OapRoute, path: str) -> dict[str, Any]:
    method, is_public = route.method, route.is_public
    is_bare = (is_public and path != "/oap/invoke") or path.endswith("/token")
    words = "".join(letter if letter.isalnum() else "_" for letter in path).strip("_")
    names = [part.partition("}")[0] for part in path.split("{")[1:]]
    places = [(name, "path") for name in names] + [("grant_id", "query")] * path.endswith("revocation")
    headers = {name: {"description": text, "required": True, "schema": _ID} for name, text in _TOLD.items()}
    answer = {JSON: {"schema": {"type": "object"}}} if is_bare else {MEDIA_TYPE: {"schema": _ENVELOPE}}
    if path == _FILE or path.endswith(".bin"):
        answer = {"*/*": {"schema": _TEXT}}
    item: dict[str, Any] = {
        "operationId": f"oap_{method.lower()}_{words}",
        "tags": ["oap"],
        "summary": route.said,
        "parameters": [
            {"name": name, "in": place, "required": True, "schema": _ID} for name, place in places
        ],
        "responses": {
            "2XX": {"description": "Done.", "headers": headers, "content": answer},
            "default": {
                "description": "Refused.",
                "headers": headers,
                "content": {MEDIA_TYPE: {"schema": _ERROR}},
            },
        },
    }
    if method == "POST":
        sent = {"*/*": {"schema": _TEXT}} if path == _UPLOAD else {JSON: {"schema": {"type": "object"}}}
        item["requestBody"] = {"content": sent}
    return item | {"security": []} if is_public else item
