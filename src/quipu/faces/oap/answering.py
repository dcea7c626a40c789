"""Answers in OAP's manner: signed envelopes, its error codes, its headers (contract 5.1, 5.2, D24)."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from starlette.requests import Request
from starlette.responses import Response

from quipu.errors import InternalError, QuipuError
from quipu.faces.http import problems
from quipu.faces.http.answers import problem_response
from quipu.faces.http.exchange import exchange_of
from quipu.faces.oap.headers import request_id, told
from quipu.service.sharing import Sharing

MEDIA_TYPE = "application/oap+json"
_CODES: Mapping[str, tuple[int, str]] = {
    "validation_error": (400, "invalid_input"),
    "secret_leakage": (400, "invalid_input"),
    "unauthenticated": (401, "auth_required"),
    "forbidden": (403, "policy_block"),
    "approval_rejected": (403, "policy_block"),
    "not_found": (404, "not_found"),
    "conflict": (409, "conflict"),
    "tampered": (422, "output_unverifiable"),
    "unverifiable": (422, "output_unverifiable"),
    "rate_limited": (429, "rate_limited"),
    "quota_exceeded": (429, "budget_exhausted"),
    "unsupported": (404, "not_found"),
    "backend_unavailable": (503, "maintenance"),
    "timeout": (504, "timeout"),
}


def bare(body: Any, status: int = 200) -> Response:
    """A document that is sent as it is (F1)."""
    return Response(
        json.dumps(body, separators=(",", ":"), ensure_ascii=False),
        status,
        media_type="application/json",
    )


def enveloped(request: Request, sharing: Sharing, output: Any, status: int = 200, **members: Any) -> Response:
    """An answer in its envelope."""
    name = request_id(request, sharing)
    body = sharing.enveloped(name, "accepted" if status == 202 else "ok", output=output, **members)
    return _sent(body, status, told(request, sharing))


def _sent(body: Mapping[str, Any], status: int, headers: Mapping[str, str]) -> Response:
    return Response(
        json.dumps(body, separators=(",", ":"), ensure_ascii=False),
        status,
        media_type=MEDIA_TYPE,
        headers=dict(headers),
    )


async def error(request: Request, failure: QuipuError, sharing: Sharing) -> Response:
    """An error in its envelope; as a problem where that was asked for."""
    if "application/problem+json" in request.headers.get("accept", ""):
        return problem_response(failure, exchange_of(request.scope).request_id)
    known = failure if failure.code in _CODES else InternalError()
    status, code = _CODES.get(known.code, (500, "internal_error"))
    status = problems.STATUS_BY_REASON.get((known.code, known.reason or ""), status)
    said: dict[str, Any] = {"code": code, "message": known.message, "details": {}}
    if known.reason is not None and code != "internal_error":
        said["details"]["reason"] = known.reason
    if known.faults:
        said["details"]["pointer"] = known.faults[0].pointer
    headers = problems.headers(known)
    if "WWW-Authenticate" in headers:
        is_given = known.reason not in (None, "no_credential")
        headers["WWW-Authenticate"] = 'DPoP error="invalid_token"' if is_given else "DPoP"
    name = request_id(request, sharing)
    return _sent(sharing.enveloped(name, "error", error=said), status, {**told(request, sharing), **headers})
