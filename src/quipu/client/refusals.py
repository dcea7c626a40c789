"""What the server refuses, as the error that the same call would raise in this process."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, cast

from quipu import errors
from quipu.errors import BackendUnavailableError, DeadlineError, Fault, InternalError, QuipuError

_CLASSES: Mapping[str, type[QuipuError]] = {
    kind.code: kind
    for kind in vars(errors).values()
    if isinstance(kind, type) and issubclass(kind, QuipuError)
} | {InternalError.code: InternalError}
#: What an error may bring along (memorywire contract 3.4).
_BESIDE = ("approval_url", "proposal_id", "merged_into", "available_triggers")
_LONGEST = 2_000


def refusal(status: int, body: object, retry_after: str | None = None) -> QuipuError:
    """The error of an answer that is none: a problem of ours, or whatever stands between us and the server says."""
    wait = int(retry_after) if retry_after and retry_after.isascii() and retry_after.isdigit() else None
    if isinstance(body, dict) and isinstance(cast("dict[str, Any]", body).get("code"), str):
        return from_problem(cast("dict[str, Any]", body), wait)
    if status == 504:
        return DeadlineError("The server did not answer in time.", reason="unreachable", retry_after=wait)
    if status in (502, 503):
        return BackendUnavailableError("The server does not answer.", reason="unreachable", retry_after=wait)
    return InternalError(
        f"The server answered with status {status} and no explanation.",
        reason="bad_answer",
        hint="Is this the address of a Quipu server?",
    )


def from_problem(problem: Mapping[str, Any], retry_after: int | None = None) -> QuipuError:
    """A problem of the wire (RFC 9457) as an error of the tree."""
    kind = _CLASSES.get(str(problem["code"]), InternalError)
    request_id = problem.get("request_id")
    error = kind(
        _text(problem.get("detail")) or _text(problem.get("title")),
        reason=_text(problem.get("reason")),
        faults=_faults(problem.get("errors")),
        hint=f"The server's log knows more under {request_id}."
        if kind is InternalError and isinstance(request_id, str)
        else None,
        retry_after=retry_after,
    )
    for name in _BESIDE:
        if problem.get(name) is not None:
            setattr(error, name, problem[name])
    return error


def _text(value: object) -> str | None:
    return value[:_LONGEST] if isinstance(value, str) else None


def _faults(given: object) -> list[Fault]:
    faults: list[Fault] = []
    for item in cast("Sequence[object]", given) if isinstance(given, list) else ():
        told = cast("dict[str, Any]", item) if isinstance(item, dict) else {}
        accepted = tuple(str(value) for value in told.get("accepted") or ())
        faults.append(Fault(str(told.get("pointer", "")), str(told.get("reason", "")), accepted))
    return faults
