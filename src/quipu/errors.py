"""Every error Quipu raises: one tree, stable codes.

QuipuError                     code                  whose fault
├── InvalidError               validation_error      caller: names the field and what would be accepted
│   └── SecretLeakageError     secret_leakage        caller: redaction policy is `reject`
├── UnauthenticatedError       unauthenticated       caller
├── ForbiddenError             forbidden             caller; same answer whether or not the thing exists
├── NotFoundError              not_found             caller
├── ConflictError              conflict              caller
├── ApprovalRejectedError      approval_rejected     a person said no
├── QuotaExceededError         quota_exceeded        caller
├── RateLimitedError           rate_limited          caller, retryable
├── UnsupportedError           unsupported           a promise is missing; raised before acting
├── TamperedError              tampered              a chain, digest or signature is wrong
├── UnverifiableError          unverifiable          it could not be checked: key or file missing
├── DeadlineError              timeout               ours, retryable
├── BackendUnavailableError    backend_unavailable   theirs, cause kept; retryable unless a person must mend it
└── InternalError              internal_error        ours

`code` is public and never changes; `reason` is finer, also stable, and listed in the error reference.
A message never holds memory text, a query, a secret or another tenant's data.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import ClassVar, Self

#: Reasons that no repetition mends: a person must change something first.
LASTING = frozenset(
    {
        "bad_key",
        "corrupt",
        "embedding_mismatch",
        "forbidden_address",
        "forked",
        "half_migrated",
        "insecure_address",
        "missing_extra",
        "missing_key",
        "moved",
        "newer_schema",
        "no_pgvector",
        "not_a_database",
        "not_utf8",
        "old_pgvector",
        "old_server",
        "weights_mismatch",
    }
)


@dataclass(frozen=True, slots=True)
class Fault:
    """One thing that is wrong with a request: where, why, and what would be accepted."""

    pointer: str
    reason: str
    accepted: tuple[str, ...] = ()


class QuipuError(Exception):
    """Something went wrong in Quipu."""

    code: ClassVar[str] = "internal_error"
    #: Whether the same call may succeed later, with nothing changed by anybody.
    retryable: bool = False

    def __init__(
        self,
        message: str | None = None,
        *,
        reason: str | None = None,
        hint: str | None = None,
        faults: Sequence[Fault] = (),
        retry_after: int | None = None,
    ) -> None:
        self.message: str = message or (self.__doc__ or "").strip()
        self.reason: str | None = reason
        if reason in LASTING:
            self.retryable = False
        #: What a person can do about it; shown by the command line, the page and a traceback, apart from `str()`.
        self.hint: str | None = hint
        self.faults: tuple[Fault, ...] = tuple(faults)
        #: Seconds after which it may be tried again, where that is known.
        self.retry_after: int | None = retry_after
        super().__init__(self.message)
        accepted = next((fault.accepted for fault in self.faults if fault.accepted), ())
        if hint or accepted:
            self.add_note(hint or f"Accepted: {', '.join(accepted)}.")

    def within(self, pointer: str) -> Self:
        """The same error about a part of something larger: its faults point into that, or at least there."""
        faults = [replace(fault, pointer=pointer + fault.pointer) for fault in self.faults]
        faults = faults or [Fault(pointer, self.reason or self.code)]
        return type(self)(
            self.message, reason=self.reason, hint=self.hint, faults=faults, retry_after=self.retry_after
        )


class InvalidError(QuipuError, ValueError):
    """The request is not valid."""

    code = "validation_error"

    @classmethod
    def at(
        cls, pointer: str, reason: str, message: str, *, accepted: Sequence[str] = (), hint: str | None = None
    ) -> InvalidError:
        """One fault at one field, told by its JSON Pointer."""
        return cls(message, reason=reason, hint=hint, faults=[Fault(pointer, reason, tuple(accepted))])


class SecretLeakageError(InvalidError):
    """The text holds a secret, and the redaction policy refuses such writes."""

    code = "secret_leakage"


class UnauthenticatedError(QuipuError):
    """No valid credential was given."""

    code = "unauthenticated"


class ForbiddenError(QuipuError):
    """This principal may not do that."""

    code = "forbidden"
    #: The recall that a person has to approve first, and where that is done.
    proposal_id: str | None = None
    approval_url: str | None = None


class NotFoundError(QuipuError):
    """There is no such thing in reach."""

    code = "not_found"
    #: The record that took over, where the one that was asked for was merged away.
    merged_into: str | None = None


class ConflictError(QuipuError):
    """The state has moved on, or the request contradicts it."""

    code = "conflict"
    #: What a procedure can be asked for, where it was asked for something else.
    available_triggers: Sequence[str] | None = None


class ApprovalRejectedError(QuipuError):
    """A reviewer rejected this write."""

    code = "approval_rejected"
    #: The proposal that was decided.
    proposal_id: str | None = None


class QuotaExceededError(QuipuError):
    """A budget is spent."""

    code = "quota_exceeded"


class RateLimitedError(QuipuError):
    """Too many requests; try again later."""

    code = "rate_limited"
    retryable = True


class UnsupportedError(QuipuError):
    """This store does not promise what the operation needs."""

    code = "unsupported"


class TamperedError(QuipuError):
    """A chain, digest or signature does not match what it covers."""

    code = "tampered"


class UnverifiableError(QuipuError):
    """It could not be checked: a key or a file is missing."""

    code = "unverifiable"


class DeadlineError(QuipuError):
    """The work was not done in time."""

    code = "timeout"
    retryable = True


class BackendUnavailableError(QuipuError):
    """A ledger, backend or embedder does not answer."""

    code = "backend_unavailable"
    retryable = True


class InternalError(QuipuError):
    """Quipu itself failed."""

    code = "internal_error"
