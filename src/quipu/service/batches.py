"""Many remember requests at once: each for itself, or all of them or none."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Generator, Sequence
from contextlib import contextmanager

from quipu.errors import ConflictError, InvalidError, QuipuError, UnsupportedError
from quipu.model.governance import Effect
from quipu.model.operations import Line, RememberRequest
from quipu.model.outcomes import RememberResponse
from quipu.model.principal import Principal
from quipu.ports.parts import Parts
from quipu.service import answers
from quipu.service.committing import Plan
from quipu.service.gate import Gate
from quipu.service.secrets import Checked, Secrets
from quipu.service.writing import Writing

#: One remember request, with everything that may become of it.
Alone = Callable[[Principal, RememberRequest], Awaitable[RememberResponse]]
_ATTEMPTS = 64


class Batches:
    """Over the write half of memory."""

    def __init__(self, parts: Parts, writing: Writing, secrets: Secrets, gate: Gate, alone: Alone) -> None:
        self._parts, self._writing, self._secrets, self._alone = parts, writing, secrets, alone
        self._gate = gate

    async def each(
        self, principal: Principal, requests: Sequence[RememberRequest]
    ) -> list[RememberResponse | QuipuError]:
        """Each answered for itself. Plain new memories share transactions; the rest go one by one."""
        told: list[RememberResponse | QuipuError | None] = [None] * len(requests)
        plain: list[tuple[int, Line]] = []
        for place, request in enumerate(requests):
            try:
                accepted = self._writing.accepted(principal, request)
                if accepted.id is None and not accepted.approval_required and not accepted.links:
                    plain.append((place, Line(accepted)))
                else:
                    told[place] = await self._alone(principal, accepted)
            except QuipuError as error:
                told[place] = error
        stored = await self._writing.many_stored(principal, [line for _, line in plain])
        for (place, _), answer in zip(plain, stored, strict=True):
            told[place] = answer
        return [answer for answer in told if answer is not None]

    async def whole(
        self, principal: Principal, requests: Sequence[RememberRequest]
    ) -> list[RememberResponse]:
        """All in one transaction, or none. The first error is raised, and names its item."""
        accepted: list[RememberRequest] = []
        for place, request in enumerate(requests):
            with _item(place):
                accepted.append(self._writing.accepted(principal, request))
                if request.id is not None and request.id in {other.id for other in accepted[:-1]}:
                    raise InvalidError.at("/id", "bad_value", "An atomic batch changes a record once.")

        async def work(checked: Checked) -> list[RememberResponse]:
            kept: list[RememberRequest] = []
            for place, request in enumerate(accepted):
                with _item(place):
                    kept.append(checked.kept(request))
                    verdict = await self._gate.judged(
                        principal, kept[-1], checked.position, has_secret=kept[-1] is not request
                    )
                    if verdict.effect is Effect.HOLD:
                        message = "An atomic batch cannot wait for a person."
                        raise UnsupportedError(message, reason="atomic_approval")
            return await self._written(principal, kept, checked.position)

        return await self._secrets.checking(principal.tenant, work)

    async def _written(
        self, principal: Principal, requests: Sequence[RememberRequest], guard: int
    ) -> list[RememberResponse]:
        told = await self._told_before(principal, requests)
        fresh = [place for place in range(len(requests)) if place not in told]
        is_fixed = any(requests[place].if_version is not None for place in fresh)
        for attempt in range(_ATTEMPTS):
            new, changes = await self._planned(principal, requests, fresh)
            creations = await self._writing.creations(principal, [Line(requests[place]) for place in new])
            commits = [*creations.commits, *(plan.commit for plan in changes.values() if plan.commit)]
            try:
                done = await self._parts.ledger.commit(*commits, guard=guard)
            except ConflictError as conflict:
                is_last = is_fixed or attempt + 1 == _ATTEMPTS or not changes
                if conflict.reason != "version_mismatch" or is_last:
                    raise
                continue
            kept = len(creations.commits)
            told |= dict(zip(new, creations.answers(done[:kept]), strict=True))
            told |= {
                place: plan.answer(committed)
                for (place, plan), committed in zip(changes.items(), done[kept:], strict=True)
            }
            break
        return [told[place] for place in range(len(requests))]

    async def _told_before(
        self, principal: Principal, requests: Sequence[RememberRequest]
    ) -> dict[int, RememberResponse]:
        """Answers to items that came with the same key before."""
        told: dict[int, RememberResponse] = {}
        for place, request in enumerate(requests):
            known = answers.once(principal, request, self._parts.canonical)
            if known is not None:
                with _item(place):
                    first = await self._parts.ledger.answered(principal.tenant, known, self._parts.clock())
                if first is not None:
                    told[place] = answers.again(RememberResponse, first)
        return told

    async def _planned(
        self, principal: Principal, requests: Sequence[RememberRequest], places: Sequence[int]
    ) -> tuple[list[int], dict[int, Plan[RememberResponse]]]:
        """Which are new, and how the others change what is there."""
        new: list[int] = []
        changes: dict[int, Plan[RememberResponse]] = {}
        for place in places:
            with _item(place):
                await self._writing.check_target(principal, requests[place])
                if requests[place].id is None:
                    new.append(place)
                else:
                    changes[place] = await self._writing.change(principal, requests[place])
        return new, changes


@contextmanager
def _item(place: int) -> Generator[None]:
    """An error in here is about one item of the batch."""
    try:
        yield
    except QuipuError as error:
        raise error.within(f"/items/{place}") from error
