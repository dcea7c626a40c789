"""What goes wrong on the way to a server, as the error that the same call would raise in this process.

Addresses, headers and foreign text stay out of the messages.
"""

import ssl
from collections.abc import Mapping
from typing import Any, cast

import httpx

from quipu.errors import (
    ERRORS,
    BackendUnavailableError,
    DeadlineError,
    Fault,
    InternalError,
    InvalidError,
    QuipuError,
)

#: Nothing of the request has left this machine.
UNSENT = (httpx.ConnectError, httpx.ConnectTimeout, httpx.PoolTimeout)
_LONGEST = 2000


class Failure(Exception):
    """An error, and what it means for a repetition."""

    def __init__(self, error: QuipuError, *, may_pass: bool, is_undone: bool) -> None:
        super().__init__()
        self.error = error
        #: Whether it may go well when it is tried again.
        self.may_pass = may_pass
        #: Whether the server surely did nothing.
        self.is_undone = is_undone


def of_network(error: httpx.HTTPError) -> Failure:
    """The network failed."""
    if _is_untrusted(error):
        untrusted = InvalidError(
            "The server's certificate is not trusted.",
            reason="insecure",
            hint="Set SSL_CERT_FILE to the certificate of your own authority, if it is one.",
        )
        return Failure(untrusted, may_pass=False, is_undone=True)
    if isinstance(error, UNSENT):
        unsent = BackendUnavailableError(
            "The server cannot be reached.",
            reason="unreachable",
            hint="Check the address, and that `quipu serve` runs there.",
        )
        return Failure(unsent, may_pass=True, is_undone=True)
    lost: QuipuError
    if isinstance(error, httpx.TimeoutException):
        lost = DeadlineError("The server did not answer in time.", reason="unreachable")
    else:
        lost = BackendUnavailableError("The connection to the server broke.", reason="unreachable")
    return Failure(lost, may_pass=True, is_undone=False)


def _is_untrusted(error: BaseException | None) -> bool:
    while error is not None:
        if isinstance(error, ssl.SSLCertVerificationError) or "CERTIFICATE_VERIFY_FAILED" in str(error):
            return True
        error = error.__cause__ or error.__context__
    return False


def of_response(response: httpx.Response) -> Failure:
    """The server refused; the body has been read."""
    body: object = None
    if media_type(response) in ("application/json", "application/problem+json"):
        try:
            body = response.json()
        except (ValueError, RecursionError):
            body = None
    wait = response.headers.get("retry-after", "")
    return refusal(response.status_code, body, int(wait) if wait.isascii() and wait.isdigit() else None)


def refusal(status: int, body: object, retry_after_s: float | None = None) -> Failure:
    """A problem of ours (RFC 9457), or whatever something between us and the server says."""
    if isinstance(body, dict) and isinstance(cast("dict[str, Any]", body).get("code"), str):
        problem = cast("dict[str, Any]", body)
        error = of_problem(problem, retry_after_s)
        # The server knows better than the class: a full disk does not pass by itself.
        may_pass = error.is_retryable and problem.get("retryable") is not False
        return Failure(error, may_pass=may_pass, is_undone=error.code == "rate_limited")
    silent: QuipuError
    if status == 504:
        silent = DeadlineError(
            "The server did not answer in time.", reason="unreachable", retry_after_s=retry_after_s
        )
    elif status in (502, 503):
        silent = BackendUnavailableError(
            "The server does not answer.", reason="unreachable", retry_after_s=retry_after_s
        )
    else:
        return Failure(
            InternalError(
                f"The server answered with status {status} and no explanation.",
                reason="bad_answer",
                hint="Is this the address of a Quipu server?",
            ),
            may_pass=False,
            is_undone=False,
        )
    return Failure(silent, may_pass=True, is_undone=False)


def of_problem(problem: Mapping[str, Any], retry_after_s: float | None = None) -> QuipuError:
    """A problem as an error of the tree, so that callers catch the same classes here and there."""
    kind = ERRORS.get(str(problem.get("code")), InternalError)
    hint = _text(problem.get("hint"))
    request_id = _text(problem.get("request_id"))
    if kind is InternalError and request_id:
        hint = f"The server's log says more under {request_id}."
    return kind(
        _text(problem.get("detail")) or _text(problem.get("title")),
        reason=_text(problem.get("reason")),
        hint=hint,
        faults=_faults(problem.get("errors")),
        retry_after_s=retry_after_s,
    )


def _text(value: object) -> str | None:
    return value[:_LONGEST] if isinstance(value, str) else None


def _faults(given: object) -> list[Fault]:
    found: list[Fault] = []
    for item in cast("list[object]", given) if isinstance(given, list) else ():
        fault = cast("dict[str, Any]", item) if isinstance(item, dict) else {}
        words = [_text(fault.get(name)) or "" for name in ("pointer", "reason", "accepted")]
        found.append(Fault(*words))
    return found


def media_type(response: httpx.Response) -> str:
    return response.headers.get("content-type", "").partition(";")[0].strip().lower()


def misunderstood() -> InternalError:
    """An answer that makes no sense."""
    return InternalError(
        "The server's answer cannot be understood.",
        reason="bad_answer",
        hint="Is this the address of a Quipu server?",
    )


def closed() -> BackendUnavailableError:
    """A call that was still under way, or came, when the memory was closed."""
    return BackendUnavailableError("This memory is closed.", reason="closed", hint="Open another one.")
