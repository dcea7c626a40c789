"""Reading what was sent: bodies and queries of this contract."""

from __future__ import annotations

import re
from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Any, cast

from starlette.requests import Request

from quipu.errors import ForbiddenError, InvalidError
from quipu.faces.http.authentication import principal_of
from quipu.faces.http.bodies import json_object
from quipu.model.runs import ForkMode, RunError, Variable
from quipu.rules import runs_options
from quipu.service.runs import OpenRequest
from quipu.service.runs_forking import ForkRequest

_LONGEST_NAME = 128
#: What Python reads as a number beyond this, such as 1_0, is none to anybody else.
_WHOLE = re.compile(r"-?[0-9]{1,17}")
_MOST_TAGS = 100
#: What an AgentRef holds, and how long each may be.
_AGENT: Mapping[str, tuple[int, int]] = {
    "agentId": (3, 256),
    "name": (0, 256),
    "modelClass": (0, 256),
    "memoryRef": (1, 256),
    "version": (0, 64),
    "channel": (1, 64),
    "sourceManifestId": (0, 256),
}
_MODELS = (
    "reasoning", "tool-using", "chat", "code", "vision", "multimodal", "embedding", "classification", "retrieval",
)  # fmt: skip


async def body_of(request: Request) -> dict[str, Any]:
    """The object that was sent; an empty body is an empty object. The tenant, if it is named, is the caller's own."""
    body = await json_object(request, may_be_empty=True)
    tenant = body.get("tenantId")
    if tenant is not None and tenant != principal_of(request).tenant:
        raise ForbiddenError("This credential is another tenant's.", reason="tenant")
    return body


def key_of(request: Request) -> str | None:
    return request.headers.get("idempotency-key")


@contextmanager
def inside(name: str) -> Generator[None]:
    """What is wrong within is told as a part of this member of the body."""
    try:
        yield
    except InvalidError as error:
        faults = [replace(fault, pointer=f"/{name}{fault.pointer}") for fault in error.faults]
        raise InvalidError(error.message, reason=error.reason, faults=faults) from error


def objects(body: Mapping[str, Any], *names: str) -> None:
    """Each of these is an object, if it is there."""
    for name in names:
        if body.get(name) is not None and not isinstance(body[name], dict):
            raise InvalidError.at(f"/{name}", "wrong_type", f"{name} is an object.", accepted=["object"])


def open_request(body: Mapping[str, Any], *, is_external: bool = False) -> OpenRequest:
    """What a run is opened with. Fields that nobody knows are a vendor's own and passed over."""
    name = text(body, "workflowId", most=256)
    objects(body, "inputs", "configurable", "metadata", "agent")
    for field in ("tenantId", "scopeId", "callbackUrl"):
        if body.get(field) is not None and not isinstance(body[field], str):
            raise InvalidError.at(f"/{field}", "wrong_type", f"{field} is a text.", accepted=["string"])
    tags = runs_options.tags(body.get("tags"))
    if len(tags) > _MOST_TAGS:
        raise InvalidError.at(
            "/tags", "too_large", "There are too many tags.", accepted=[f"at most {_MOST_TAGS}"]
        )
    return OpenRequest(
        workflow_id=name,
        inputs=body.get("inputs") or {},
        configurable=body.get("configurable") or {},
        metadata=body.get("metadata") or {},
        tags=tags,
        agent=_agent_ref(body.get("agent")),
        is_external=is_external,
    )


def _agent_ref(given: Mapping[str, Any] | None) -> Mapping[str, Any] | None:
    """An AgentRef as it is shown again later: closed, and with a version or a channel but not both."""
    if given is None:
        return None
    for name, value in given.items():
        least, most = _AGENT.get(name, (0, -1))
        if not isinstance(value, str) or not least <= len(value) <= most:
            accepted = f"{least} to {most} characters" if name in _AGENT else ", ".join(_AGENT)
            raise InvalidError.at("/agent", "bad_value", "This is no agent.", accepted=[accepted])
    if "agentId" not in given or {"version", "channel"} <= given.keys():
        raise InvalidError.at(
            "/agent", "bad_value", "An agent has an agentId, and a version or a channel but not both."
        )
    if given.get("modelClass", _MODELS[0]) not in _MODELS:
        raise InvalidError.at("/agent/modelClass", "bad_value", "There is no such class.", accepted=_MODELS)
    return given


def fork_request(run_id: str, body: Mapping[str, Any]) -> ForkRequest:
    """A fork as it was asked for; only a branch has an overlay, and it must say where it begins."""
    mode = body.get("mode")
    if mode not in ("replay", "branch"):
        raise InvalidError.at("/mode", "bad_value", "There is no such mode.", accepted=["replay", "branch"])
    from_seq = body.get("fromSeq")
    if from_seq is None and mode == "branch":
        raise InvalidError.at("/fromSeq", "missing_field", "A branch needs fromSeq.")
    if from_seq is not None and (isinstance(from_seq, bool) or not isinstance(from_seq, int) or from_seq < 0):
        raise InvalidError.at(
            "/fromSeq", "bad_value", "fromSeq is a number of the log.", accepted=["integer >= 0"]
        )
    objects(body, "runOptionsOverlay")
    overlay: Mapping[str, Any] = body.get("runOptionsOverlay") or {}
    if overlay and mode == "replay":
        raise InvalidError.at("/runOptionsOverlay", "bad_value", "A replay changes nothing.")
    objects(overlay, "inputs", "configurable")
    return ForkRequest(
        run_id=run_id,
        mode=ForkMode(mode),
        from_seq=from_seq or 0,
        inputs=overlay.get("inputs"),
        configurable=overlay.get("configurable"),
    )


def text(body: Mapping[str, Any], name: str, *, most: int = _LONGEST_NAME) -> str:
    """A text that must be there."""
    value = body.get(name)
    if not isinstance(value, str) or not 0 < len(value) <= most or not value.isprintable():
        raise InvalidError.at(
            f"/{name}", "bad_value", f"{name} is a text.", accepted=[f"1 to {most} characters"]
        )
    return value


def run_error(body: Mapping[str, Any]) -> RunError:
    """Why something failed, in an orchestrator's words."""
    objects(body, "error")
    given: Mapping[str, Any] = body.get("error") or {}
    with inside("error"):
        return RunError(text(given, "code"), text(given, "message", most=1024))


def variables(body: Mapping[str, Any]) -> Sequence[Variable]:
    """Results of a run."""
    objects(body, "variables")
    given = cast("Mapping[str, Any]", body.get("variables") or {})
    with inside("variables"):
        return [Variable(text({"name": name}, "name"), value) for name, value in given.items()]


def number(request: Request, name: str, *, default: int, least: int, most: int | None = None) -> int:
    """A whole number of the query."""
    given = request.query_params.get(name)
    if given is None:
        return default
    value = int(given) if _WHOLE.fullmatch(given) else least - 1
    if value < least or (most is not None and value > most):
        accepted = f"integer >= {least}" if most is None else f"{least} to {most}"
        raise InvalidError.at(f"/{name}", "bad_value", f"{name} is a whole number.", accepted=[accepted])
    return value
