"""Errors as OpenWOP has them: exactly `error`, `message` and perhaps `details`."""

import json
from collections.abc import Mapping
from typing import Any

from starlette.responses import Response as HttpResponse
from starlette.types import Scope

from quipu.errors import InternalError, QuipuError
from quipu.http.exchange import exchange_of
from quipu.http.problems import problem_response, status_of
from quipu.model.principal import Permission
from quipu.runs.rules import RunOverError
from quipu.runs.streams import MODES
from quipu.runs.wire import in_wire_words

#: Our codes as OpenWOP has them; what is missing is `internal_error`.
CODES: Mapping[str, str] = {
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
}
#: Where the reason says which code it is.
_BY_REASON: Mapping[str, tuple[str, int]] = {
    "idempotency_key_mismatch": ("idempotency_key_mismatch", 409),
    "run_already_active": ("run_already_active", 409),
    "unsupported_stream_mode": ("unsupported_stream_mode", 400),
    "invalid_from_seq": ("invalid_from_seq", 422),
    "retention_expired": ("replay_memory_snapshot_unavailable", 422),
    "event_log_unavailable": ("replay_memory_snapshot_unavailable", 422),
    "credential_unavailable": ("credential_unavailable", 422),
    "expired_token": ("key_expired", 401),
    "revoked_token": ("key_revoked", 401),
    "too_large": ("validation_error", 400),
    "bad_content_type": ("validation_error", 400),
    "callback_url": ("capability_not_provided", 400),
}
_SCOPES = {Permission.READ: "runs:read", Permission.WRITE: "runs:create", Permission.DELETE: "runs:create"}
_PLACES = ("/v1/runs/", "/v1/workflows/", "/v1/x-host-quipu-", "/.well-known/openwop")


def openwop_refusal(scope: Scope, error: QuipuError) -> HttpResponse | None:
    """The answer to whoever asked at one of OpenWOP's addresses; None for all others."""
    path: str = scope["path"]
    if path != "/v1/runs" and not path.startswith(_PLACES):
        return None
    problem = problem_response(error, exchange_of(scope).request_id)
    names = ("retry-after", "allow", "www-authenticate")
    headers = {name: problem.headers[name] for name in names if name in problem.headers}
    code = CODES.get(error.code, InternalError.code)
    code, status = _BY_REASON.get(error.reason or "", (code, status_of(error)))
    is_ours = code == InternalError.code
    body: dict[str, Any] = {"error": code, "message": InternalError().message if is_ours else error.message}
    if details := _details(scope, error, code):
        body["details"] = details
    return HttpResponse(
        json.dumps(body, separators=(",", ":")).encode("ascii"),
        status,
        headers,
        media_type="application/json",
    )


def _details(scope: Scope, error: QuipuError, code: str) -> dict[str, Any]:
    if code == InternalError.code:
        return {"correlationId": exchange_of(scope).request_id}
    if code == "unsupported_stream_mode":
        return {"supported": list(MODES)}
    if code == "replay_memory_snapshot_unavailable":
        return {**scope["state"].get("fork", {}), "reason": error.reason}
    if isinstance(error, RunOverError):
        return {"status": error.status}
    if error.reason == "permission":
        return {"scopeRequired": _SCOPES.get(scope["state"].get("openwop_needs"), "runs:read")}
    if error.faults and code in ("validation_error", "secret_leakage", "invalid_from_seq"):
        return {
            "faults": [
                {"pointer": fault.pointer, "reason": fault.reason, "accepted": fault.accepted}
                for fault in in_wire_words(error.faults)
            ]
        }
    return {}
