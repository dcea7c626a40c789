"""Carrying out a plan: one commit, repeated on fresh ground when somebody else was faster."""

from __future__ import annotations

import hashlib
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Generic, TypeVar, cast

from quipu.errors import ConflictError
from quipu.model.change import Commit, Committed, Once
from quipu.model.principal import Principal
from quipu.model.value import JsonObject
from quipu.ports.ledger import Ledger
from quipu.ports.parts import Parts
from quipu.ports.surroundings import Canonical
from quipu.rules import redaction, validation
from quipu.rules.chain import exact

R = TypeVar("R")
#: Each time one of those who contend for a record wins, so this is how many may.
_ATTEMPTS = 256


@dataclass(frozen=True, slots=True)
class Plan(Generic[R]):
    """What to write (None: nothing) and what to answer once it is durable."""

    commit: Commit | None
    answer: Callable[[Committed | None], R]


async def carried_out(
    ledger: Ledger,
    plan: Callable[[], Awaitable[Plan[R]]],
    *,
    before: Sequence[Commit] = (),
    is_fixed: bool = False,
) -> R:
    """Plan and commit. When a record has changed in between, plan again; `is_fixed` says the caller expects one state.

    `before` are commits that stand or fall with it.
    """
    attempts = 0
    while True:
        attempts += 1
        planned = await plan()
        if planned.commit is None:
            if before:
                await ledger.commit(*before)
            return planned.answer(None)
        try:
            done = await ledger.commit(*before, planned.commit)
        except ConflictError as conflict:
            if conflict.reason != "version_mismatch" or is_fixed or attempts >= _ATTEMPTS:
                raise
        else:
            return planned.answer(done[-1])


def once(
    principal: Principal,
    operation: str,
    key: str | None,
    request: object,
    answer: JsonObject,
    record_ids: Sequence[str],
    canonical: Canonical,
) -> Once | None:
    """The idempotency of a request, if it asks for it."""
    if key is None:
        return None
    body = canonical(exact(plain(request)))
    return Once(
        principal=principal.name,
        operation=operation,
        key=key,
        fingerprint=hashlib.sha256(body).hexdigest(),
        answer=answer,
        record_ids=tuple(record_ids),
    )


def kept_reason(text: str | None, parts: Parts) -> str | None:
    """Somebody's words beside a change, as they are kept: without secrets, and not too long."""
    if text is None:
        return None
    return validation.cut(redaction.redacted_text(text, parts.redactors, []), parts.limits)


def plain(value: object) -> Any:
    """A request as JSON values."""
    if hasattr(value, "__dataclass_fields__"):
        return plain(asdict(cast("Any", value)))
    if isinstance(value, Mapping):
        return {str(key): plain(item) for key, item in cast("Mapping[object, object]", value).items()}
    if isinstance(value, bytes):
        return value.hex()
    if isinstance(value, str):
        return str(value)
    if isinstance(value, list | tuple):
        return [plain(item) for item in cast("Sequence[object]", value)]
    return value
