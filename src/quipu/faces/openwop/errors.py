"""Errors in OpenWOP's envelope: exactly `error`, `message`, and maybe `details`."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from starlette.requests import Request
from starlette.responses import Response

from quipu.errors import QuipuError
from quipu.faces.http import problems
from quipu.faces.http.exchange import exchange_of

#: Where the reason says which of the contract's codes it is, and its status.
_BY_REASON: Mapping[str, tuple[str, int]] = {
    "idempotency_key_mismatch": ("idempotency_key_mismatch", 409),
    "run_over": ("validation_error", 400),
    "run_active": ("run_already_active", 409),
    "stream_mode": ("unsupported_stream_mode", 400),
    "from_seq": ("invalid_from_seq", 422),
    "retention_expired": ("replay_memory_snapshot_unavailable", 422),
    "event_log_unavailable": ("replay_memory_snapshot_unavailable", 422),
    "token_budget_exceeded": ("token_budget_exceeded", 422),
    "credential_unavailable": ("credential_unavailable", 422),
    "expired_token": ("key_expired", 401),
    "revoked_token": ("key_revoked", 401),
    "too_large": ("validation_error", 400),
    "media_type": ("validation_error", 400),
}
#: Codes that the contract knows by the same name, and those it calls something else.
_CODES: Mapping[str, str] = {
    "validation_error": "validation_error",
    "secret_leakage": "secret_leakage",
    "unauthenticated": "unauthenticated",
    "forbidden": "forbidden",
    "approval_rejected": "forbidden",
    "not_found": "not_found",
    "conflict": "validation_error",
    "rate_limited": "rate_limited",
    "quota_exceeded": "rate_limited",
    "unsupported": "capability_not_provided",
    "internal_error": "internal_error",
    "backend_unavailable": "internal_error",
    "timeout": "internal_error",
}
#: A missing permission in the contract's words.
_SCOPES: Mapping[str, str] = {"GET": "runs:read", "HEAD": "runs:read", "POST": "runs:create"}


def envelope(error: QuipuError, request: Request) -> tuple[dict[str, Any], int]:
    """The body and the status of an error."""
    known = problems.on_the_wire(error)
    status = problems.status_of(known)
    code = _CODES.get(known.code, "internal_error")
    code, status = _BY_REASON.get(known.reason or "", (code, status))
    body: dict[str, Any] = {"error": code, "message": known.message}
    if details := _details(known, code, request):
        body["details"] = details
    return body, status


def _details(error: QuipuError, code: str, request: Request) -> dict[str, Any]:
    if code == "internal_error":
        return {"correlationId": exchange_of(request.scope).request_id}
    if error.reason == "missing_scope":
        return {"scopeRequired": _scope(request)}
    if code == "unsupported_stream_mode":
        return {"supported": [name for fault in error.faults for name in fault.accepted]}
    if code == "replay_memory_snapshot_unavailable":
        asked: Any = getattr(request.state, "fork", {})
        return {**asked, "reason": error.reason}
    if error.reason == "run_over":
        return {"status": error.faults[0].accepted[0]} if error.faults else {}
    if code in ("unauthenticated", "not_found", "forbidden"):
        return {}  # nothing that would tell whether something exists
    if error.faults:
        return {
            "faults": [
                {"pointer": fault.pointer, "reason": fault.reason, "accepted": list(fault.accepted)}
                for fault in error.faults
            ]
        }
    return {} if error.reason is None else {"reason": error.reason}


def _scope(request: Request) -> str:
    return (
        "runs:cancel" if request.url.path.endswith("/cancel") else _SCOPES.get(request.method, "runs:create")
    )


async def shown(request: Request, error: QuipuError) -> Response:
    """An error as this face tells it."""
    body, status = envelope(error, request)
    return Response(
        json.dumps(body, separators=(",", ":")),
        status_code=status,
        headers=problems.headers(error),
        media_type="application/json",
    )
