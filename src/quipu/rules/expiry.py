"""When a memory has had its time: expiry policies, and what `retain` makes of `expires_at`."""

from __future__ import annotations

from quipu.errors import InvalidError
from quipu.model.operations import ExpirePolicy
from quipu.model.record import Mark, PrivacyIntent, Record
from quipu.rules.durations import DAY_MS, SESSION_MS, Span, duration
from quipu.rules.values import INT64

POLICY_KEYS = ("older_than_days", "type", "confidence_below", "no_recall_in_days")


def checked_policy(policy: ExpirePolicy | None, pointer: str = "/policy") -> None:
    """Raise unless at least one key is set and every key that is set makes sense."""
    if policy is None or all(getattr(policy, key) is None for key in POLICY_KEYS):
        raise InvalidError.at(
            pointer, "empty_policy", "A policy must say what expires.", accepted=POLICY_KEYS
        )
    for key in ("older_than_days", "no_recall_in_days"):
        _checked_days(getattr(policy, key), f"{pointer}/{key}")
    below = policy.confidence_below
    if below is not None and (not _is_number(below) or not 0 <= below <= 1):
        raise InvalidError.at(
            f"{pointer}/confidence_below",
            "bad_value",
            "A confidence lies between 0 and 1.",
            accepted=("0..1",),
        )


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _checked_days(days: object, pointer: str) -> None:
    if days is None:
        return
    if isinstance(days, bool) or not isinstance(days, int) or not 1 <= days < INT64:
        raise InvalidError.at(
            pointer, "bad_value", "A number of days is whole and at least 1.", accepted=("integer >= 1",)
        )


def created_to(policy: ExpirePolicy, now: int) -> int | None:
    """What is younger than this the policy does not match; None where it does not ask. Nothing is used before it is created."""
    days = [days for days in (policy.older_than_days, policy.no_recall_in_days) if days is not None]
    # What is older than any ledger can tell there is not.
    return max(now - max(days) * DAY_MS, -INT64) if days else None


def matches_policy(policy: ExpirePolicy, record: Record, mark: Mark | None, now: int) -> bool:
    """Whether every key of the policy matches; an empty policy matches nothing."""
    tests: list[bool] = []
    if policy.older_than_days is not None:
        tests.append(record.created_at <= now - policy.older_than_days * DAY_MS)
    if policy.type is not None:
        tests.append(record.type == policy.type)
    if policy.confidence_below is not None:
        tests.append(record.confidence < policy.confidence_below)
    if policy.no_recall_in_days is not None:
        tests.append(_last_used_at(record, mark) < now - policy.no_recall_in_days * DAY_MS)
    return bool(tests) and all(tests)


def _last_used_at(record: Record, mark: Mark | None) -> int:
    recalled_at = mark.last_recalled_at if mark is not None else None
    return record.created_at if recalled_at is None else max(record.created_at, recalled_at)


def effective_expiry(
    created_at: int,
    expires_at: int | None,
    privacy: PrivacyIntent | None,
    *,
    session_written_at: int | None = None,
) -> int | None:
    """The earlier of the time asked for and the end of `retain`.

    `session_written_at` is when the record is written once more; for its first version its creation counts.
    """
    if privacy is None or privacy.retain is None:
        return expires_at
    match duration(privacy.retain):
        case Span.SESSION:
            end = max(created_at, session_written_at or created_at) + SESSION_MS
        case Span.FOREVER:
            return expires_at
        case length_ms:
            end = created_at + length_ms
    # What came with a time of its own may begin so late that its end is beyond what a ledger can keep.
    return earlier(expires_at, min(end, INT64 - 1))


def earlier(end: int | None, other: int | None) -> int | None:
    """The one that comes first; None never comes."""
    return other if end is None else end if other is None else min(end, other)
