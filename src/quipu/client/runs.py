"""Runs on a server, by its OpenWOP face."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, cast

from quipu.client.address import segment
from quipu.client.failures import misunderstood
from quipu.client.patience import Repeat
from quipu.client.refusals import from_problem
from quipu.client.transport import Call, Transport
from quipu.errors import QuipuError
from quipu.model.runs import EventType, RunEvent
from quipu.rules.runs_wire import moment

_OUTSIDE, _ADAPTER = "/v1/x-host-quipu-runs", "/v1/x-host-quipu-memory"
_REFUSALS = frozenset({400, 401, 403, 404, 405, 409, 422, 429, 500, 501})
#: Codes of the contract, by code and reason of the same errors in this process; others have the same name.
_CODES: Mapping[str, tuple[str, str | None]] = {
    "key_expired": ("unauthenticated", "expired_token"),
    "key_revoked": ("unauthenticated", "revoked_token"),
    "run_already_active": ("conflict", "run_active"),
    "idempotency_key_mismatch": ("conflict", "idempotency_key_mismatch"),
    "replay_memory_snapshot_unavailable": ("conflict", None),
    "invalid_from_seq": ("validation_error", "from_seq"),
    "unsupported_stream_mode": ("validation_error", "stream_mode"),
    "token_budget_exceeded": ("validation_error", "token_budget_exceeded"),
    "credential_unavailable": ("validation_error", "credential_unavailable"),
    "capability_not_provided": ("unsupported", None),
    "capability_required": ("unsupported", None),
}


class RemoteRuns:
    """Each call is one request, or one and a look at the run."""

    def __init__(self, transport: Transport) -> None:
        self._transport = transport

    async def open(self, workflow: str) -> Any:
        told = await self._post(_OUTSIDE, {"workflowId": workflow})
        return await self.show(told["runId"])

    async def put(self, run_id: str, ref: str, content: str, node: str | None) -> str:
        body = {"runId": run_id, "memoryRef": ref, "entry": {"content": content}, "nodeId": node}
        return str((await self._post(f"{_ADAPTER}/put", body))["entry"]["id"])

    async def see(self, run_id: str, ref: str) -> Sequence[Any]:
        return (await self._post(f"{_ADAPTER}/list", {"runId": run_id, "memoryRef": ref}))["entries"]

    async def complete(self, run_id: str) -> Any:
        await self._post(f"{_OUTSIDE}/{_part(run_id)}/complete", {})
        return await self.show(run_id)

    async def fail(self, run_id: str, message: str) -> Any:
        body = {"error": {"code": "failed", "message": message}}
        await self._post(f"{_OUTSIDE}/{_part(run_id)}/fail", body)
        return await self.show(run_id)

    async def cancel(self, run_id: str) -> Any:
        await self._post(f"/v1/runs/{_part(run_id)}/cancel", {})
        return await self.show(run_id)

    async def list(self, workflow: str | None, limit: int) -> Sequence[Any]:
        query = {"workflowId": workflow, "limit": str(limit)}
        return (await self._get(_OUTSIDE, query))["runs"]

    async def show(self, run_id: str) -> Any:
        return await self._get(f"/v1/runs/{_part(run_id)}")

    async def events(self, run_id: str) -> Sequence[RunEvent]:
        return [_event(one) for one in (await self._get(f"/v1/runs/{_part(run_id)}/events"))["events"]]

    async def fork(self, run_id: str, mode: str, from_seq: int) -> Any:
        told = await self._post(f"/v1/runs/{_part(run_id)}:fork", {"mode": mode, "fromSeq": from_seq})
        return await self.show(told["runId"])

    async def expire(self, run_id: str) -> Any:
        await self._post(f"{_OUTSIDE}/{_part(run_id)}/expire", {})
        return await self.show(run_id)

    async def compact(self, ref: str) -> Any:
        return (await self._post(f"{_ADAPTER}/compact", {"memoryRef": ref}))["compacted"]

    async def _get(self, path: str, query: Mapping[str, str | None] | None = None) -> Any:
        return await self._asked(Call(method="GET", path=path, query=query or {}, answers=_REFUSALS))

    async def _post(self, path: str, body: object) -> Any:
        # What was sent may have been done: only what never arrived is sent again.
        return await self._asked(
            Call(method="POST", path=path, body=body, answers=_REFUSALS, repeat=Repeat.UNSENT)
        )

    async def _asked(self, call: Call) -> Any:
        answered = await self._transport.call(call)
        if not isinstance(answered, dict):
            raise misunderstood()
        body = cast("dict[str, Any]", answered)
        # A run that failed has an `error` too, but it is an object.
        if isinstance(body.get("error"), str):
            raise _refused(body)
        return body


def _part(run_id: str) -> str:
    return segment(run_id)


def _refused(body: Mapping[str, Any]) -> QuipuError:
    """An error of the envelope, as the one that this process would raise."""
    name = str(body["error"])
    code, reason = _CODES.get(name, (name, None))
    details: Any = body.get("details") or {}
    faults: Any = details.get("faults") or []
    if name == "validation_error" and "status" in details:
        # The contract has no code of its own for a run that is over: it tells how the run ended.
        code, reason = "conflict", "run_over"
        faults = [{"pointer": "/runId", "reason": reason, "accepted": [details["status"]]}]
    elif "scopeRequired" in details:
        reason = "missing_scope"
    reason = reason or details.get("reason") or (faults[0].get("reason") if faults else None)
    return from_problem({"code": code, "detail": body["message"], "reason": reason, "errors": faults})


def _event(body: Any) -> RunEvent:
    return RunEvent(
        run_id=body["runId"],
        sequence=body["sequence"],
        type=EventType(body["type"]),
        payload=body["payload"],
        node_id=body.get("nodeId"),
        at=moment(body["timestamp"], "/timestamp"),
        causation_id=body.get("causationId"),
        position=0,
    )
