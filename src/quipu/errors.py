"""Every error: one tree, stable codes. The docstring is the default message.

QuipuError                     code                  whose fault
├── InvalidError               validation_error      caller: names the field and what would be accepted
│   └── SecretLeakageError     secret_leakage        caller: redaction policy is `reject`, or a secret in a name
├── UnauthenticatedError       unauthenticated       caller
├── ForbiddenError             forbidden             caller; the same answer whether or not the thing exists
├── NotFoundError              not_found             caller; also for what the caller may not see
├── ConflictError              conflict              caller
├── ApprovalRejectedError      approval_rejected     a person said no
├── QuotaExceededError         quota_exceeded        caller
├── RateLimitedError           rate_limited          caller, may be repeated
├── UnsupportedError           unsupported           a promise is missing; raised before acting
├── TamperedError              tampered              a chain, digest or signature is wrong
├── UnverifiableError          unverifiable          it could not be checked: key or file missing
├── DeadlineError              timeout               ours, may be repeated
├── BackendUnavailableError    backend_unavailable   theirs, may be repeated, cause kept
└── InternalError              internal_error        ours

A held write is no error: see `Held` in memory/pipeline.py. No message holds memory text, a query or a secret.
"""

import logging
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

_PLAIN_NAME = re.compile(r"[A-Za-z_]{1,32}")


def may_repeat(name: str) -> bool:
    """Whether an error may repeat an unknown name: one that is no plain word may be a value in the wrong place."""
    return _PLAIN_NAME.fullmatch(name) is not None


@dataclass(frozen=True, slots=True)
class Fault:
    """One thing that is wrong with a request."""

    #: Where, as a JSON pointer into the request.
    pointer: str
    #: Why, in a stable word such as `unknown_field`.
    reason: str
    #: What would be accepted, for a person.
    accepted: str


class QuipuError(Exception):
    """Something went wrong."""

    code: ClassVar[str] = "internal_error"
    is_retryable: ClassVar[bool] = False

    def __init__(
        self,
        message: str | None = None,
        *,
        reason: str | None = None,
        hint: str | None = None,
        faults: Sequence[Fault] = (),
        retry_after_s: float | None = None,
    ) -> None:
        """`reason` is a stable word below the code; `hint` says what to do or type next."""
        super().__init__(message or (type(self).__doc__ or "").partition("\n")[0])
        self.reason = reason or (faults[0].reason if faults else None)
        self.hint = hint
        self.faults = tuple(faults)
        self.retry_after_s = retry_after_s

    @property
    def message(self) -> str:
        return str(self.args[0])


class InvalidError(QuipuError, ValueError):
    """The request is not valid."""

    code = "validation_error"


class SecretLeakageError(InvalidError):
    """The request holds a secret, which is never kept."""

    code = "secret_leakage"


class UnauthenticatedError(QuipuError):
    """A valid token is needed."""

    code = "unauthenticated"


class ForbiddenError(QuipuError):
    """This credential may not do that."""

    code = "forbidden"


class NotFoundError(QuipuError):
    """There is no such thing."""

    code = "not_found"


class ConflictError(QuipuError):
    """It was changed by somebody else. Read it again and repeat."""

    code = "conflict"


class ApprovalRejectedError(QuipuError):
    """A person decided against it."""

    code = "approval_rejected"


class QuotaExceededError(QuipuError):
    """The quota of this credential is used up."""

    code = "quota_exceeded"


class RateLimitedError(QuipuError):
    """Too many requests. Wait a moment and repeat."""

    code = "rate_limited"
    is_retryable = True


class UnsupportedError(QuipuError):
    """This is not supported here."""

    code = "unsupported"


class TamperedError(QuipuError):
    """It is not what was written."""

    code = "tampered"


class UnverifiableError(QuipuError):
    """It could not be checked."""

    code = "unverifiable"


class DeadlineError(QuipuError):
    """It was not done in time."""

    code = "timeout"
    is_retryable = True


class BackendUnavailableError(QuipuError):
    """A backend does not answer."""

    code = "backend_unavailable"
    is_retryable = True


class InternalError(QuipuError):
    """Something went wrong on our side; it has been logged."""


#: Code → class. `SecretLeakageError` and `InvalidError` have codes of their own.
ERRORS: dict[str, type[QuipuError]] = {
    error.code: error
    for error in (
        InvalidError,
        SecretLeakageError,
        UnauthenticatedError,
        ForbiddenError,
        NotFoundError,
        ConflictError,
        ApprovalRejectedError,
        QuotaExceededError,
        RateLimitedError,
        UnsupportedError,
        TamperedError,
        UnverifiableError,
        DeadlineError,
        BackendUnavailableError,
        InternalError,
    )
}


def presentable(error: Exception) -> QuipuError:
    """Our errors as they are; any other is logged by kind and place, and the caller gets one that says nothing.

    The text of an unforeseen error may hold memory text, so neither the log nor the caller gets it.
    """
    if isinstance(error, QuipuError):
        return error
    trace = error.__traceback__
    while trace is not None and trace.tb_next is not None:
        trace = trace.tb_next
    place = f"{trace.tb_frame.f_code.co_filename}:{trace.tb_lineno}" if trace is not None else "?"
    logging.getLogger("quipu").error("unforeseen %s at %s", type(error).__name__, place)
    return InternalError()
