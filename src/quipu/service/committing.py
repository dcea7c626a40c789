"""Carrying out a plan: one commit, repeated on fresh ground when somebody else was faster."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any, Generic, Protocol, TypeVar, cast

from quipu.errors import ConflictError
from quipu.model.change import Commit, Committed
from quipu.ports.ledger import Ledger

R = TypeVar("R")
#: Each time one of those who contend for a record wins, so this is how many may.
_ATTEMPTS = 256


@dataclass(frozen=True, slots=True)
class Plan(Generic[R]):
    """What to write (None: nothing) and what to answer once it is durable."""

    commit: Commit | None
    answer: Callable[[Committed | None], R]
    #: What comes before it in the same transaction, planned anew with it.
    ahead: tuple[Commit, ...] = ()
    #: What to answer where it is told of each of them, not of the last alone.
    answer_each: Callable[[Sequence[Committed]], R] | None = None


class Along(Protocol):
    """Something that is told of a change, and stands or falls with it."""

    async def planned(self, plan: Plan[R]) -> Plan[R]: ...


async def carried_out(
    ledger: Ledger,
    plan: Callable[[], Awaitable[Plan[R]]],
    *,
    before: Sequence[Commit] = (),
    is_fixed: bool = False,
    guard: int | None = None,
    rule: str | None = None,
    along: Along | None = None,
) -> R:
    """Plan and commit. When a record has changed in between, plan again; `is_fixed` says the caller expects one state.

    `before` are commits that stand or fall with it; `guard` is the list of secrets that its texts were checked against;
    `rule` is the one that let it through, which its entry names; `along` adds what is told of it.
    """
    attempts = 0
    while True:
        attempts += 1
        planned = await plan() if along is None else await along.planned(await plan())
        if planned.commit is None:
            if before:
                await ledger.commit(*before, guard=guard)
            return planned.answer(None)
        try:
            effects: Sequence[Commit] = (*planned.ahead, planned.commit)
            if before or rule is not None:
                effects = [by(_caused(commit, before), rule) for commit in effects]
            done = await ledger.commit(*before, *effects, guard=guard)
        except ConflictError as conflict:
            if conflict.reason != "version_mismatch" or is_fixed or attempts >= _ATTEMPTS:
                raise
        else:
            if planned.answer_each is None:
                return planned.answer(done[-1])
            return planned.answer_each(done[len(before) :])


def _caused(commit: Commit, before: Sequence[Commit]) -> Commit:
    """An effect names the proposal that let it through."""
    if not before:
        return commit
    causes = [earlier.draft.detail["proposal"] for earlier in before if "proposal" in earlier.draft.detail]
    if not causes:
        return commit
    draft = replace(commit.draft, detail={**commit.draft.detail, "proposal": causes[0]})
    return replace(commit, draft=draft)


def by(commit: Commit, rule: str | None) -> Commit:
    """An effect names the rule that let it through."""
    if rule is None:
        return commit
    return replace(commit, draft=replace(commit.draft, detail={**commit.draft.detail, "rule": rule}))


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
