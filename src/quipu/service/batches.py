"""Many remember requests at once: each for itself, or all of them or none."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence

from quipu.errors import InvalidError, QuipuError
from quipu.model.governance import Effect, Verdict
from quipu.model.operations import Line, RememberRequest
from quipu.model.outcomes import RememberResponse
from quipu.model.principal import Principal
from quipu.ports.parts import Parts
from quipu.rules.redaction import Batch
from quipu.service import answers
from quipu.service.committing import carried_out
from quipu.service.gate import Gate
from quipu.service.governance import Governance
from quipu.service.lines import Lines
from quipu.service.secrets import CheckedRuns, Secrets
from quipu.service.together import Together, batch_of, of_item
from quipu.service.writing import Writing

#: One remember request, with everything that may become of it.
Alone = Callable[[Principal, RememberRequest], Awaitable[RememberResponse]]


class Batches:
    """Over the write half of memory."""

    def __init__(
        self,
        parts: Parts,
        writing: Writing,
        lines: Lines,
        secrets: Secrets,
        gate: Gate,
        governance: Governance,
        together: Together,
        alone: Alone,
    ) -> None:
        self._parts, self._writing, self._lines, self._secrets = parts, writing, lines, secrets
        self._alone = alone
        self._gate, self._governance, self._together = gate, governance, together

    async def each(
        self, principal: Principal, requests: Sequence[RememberRequest]
    ) -> list[RememberResponse | QuipuError]:
        """Each answered for itself. New memories share transactions, changes go one by one."""
        told: list[RememberResponse | QuipuError | None] = [None] * len(requests)
        new: list[tuple[int, RememberRequest]] = []
        for place, request in enumerate(requests):
            try:
                accepted = self._writing.accepted(principal, request)
                if accepted.id is None:
                    new.append((place, accepted))
                else:
                    told[place] = await self._alone(principal, accepted)
            except QuipuError as error:
                told[place] = error
        faults = await self._writing.linked(principal, [request for _, request in new])
        plain: list[tuple[int, Line]] = []
        for (place, request), fault in zip(new, faults, strict=True):
            if fault is None:
                plain.append((place, Line(request)))
            else:
                told[place] = fault
        stored = await self._lines.many_stored(principal, [line for _, line in plain])
        for (place, _), answer in zip(plain, stored, strict=True):
            told[place] = answer
        return [answer for answer in told if answer is not None]

    async def whole(
        self, principal: Principal, requests: Sequence[RememberRequest]
    ) -> list[RememberResponse]:
        """All in one transaction, or none. The first error is raised, and names its item."""
        accepted: list[RememberRequest] = []
        for place, request in enumerate(requests):
            with of_item(place):
                accepted.append(self._writing.accepted(principal, request))
                if request.id is not None and request.id in {other.id for other in accepted[:-1]}:
                    raise InvalidError.at("/id", "bad_value", "An atomic batch changes a record once.")

        async def work(checked: CheckedRuns) -> list[RememberResponse]:
            kept: list[RememberRequest] = []
            held: list[Verdict] = []
            batch: Batch = {}
            for place, request in enumerate(accepted):
                with of_item(place):
                    kept.append(checked.kept(request, batch))
            told = await self._told_before(principal, kept)
            for place, request in enumerate(accepted):
                if place in told:
                    continue
                with of_item(place):
                    verdict = await self._gate.judged(
                        principal,
                        kept[place],
                        checked.position,
                        has_secret=kept[place] is not request,
                        count=len(accepted),
                    )
                    if verdict.effect is Effect.HOLD:
                        held.append(verdict)
            if held:
                return await self._waiting(principal, kept, told, held, checked.position)
            return await self._written(principal, kept, told, checked)

        return await self._secrets.checking_all(principal.tenant, accepted, work)

    async def _waiting(
        self,
        principal: Principal,
        requests: Sequence[RememberRequest],
        told: dict[int, RememberResponse],
        held: Sequence[Verdict],
        guard: int,
    ) -> list[RememberResponse]:
        """One that waits holds all of them: they are one proposal, and one decision lets all through or none."""
        fresh = [place for place in range(len(requests)) if place not in told]
        for place in fresh:
            with of_item(place):
                await self._writing.check_target(principal, requests[place])
        batch = batch_of([requests[place] for place in fresh], self._ids(requests, fresh))
        waiting = await self._governance.hold_together(principal, batch, held, guard=guard)
        told |= dict(zip(fresh, waiting, strict=True))
        return [told[place] for place in range(len(requests))]

    def _ids(self, requests: Sequence[RememberRequest], places: Sequence[int]) -> list[str]:
        return [requests[place].id or self._parts.mint_id("mem") for place in places]

    async def _written(
        self,
        principal: Principal,
        requests: Sequence[RememberRequest],
        told: dict[int, RememberResponse],
        checked: CheckedRuns,
    ) -> list[RememberResponse]:
        fresh = [place for place in range(len(requests)) if place not in told]
        if fresh:
            batch = batch_of([requests[place] for place in fresh], self._ids(requests, fresh))
            done = await carried_out(
                self._parts.ledger,
                lambda: self._together.plan(principal, batch, checked),
                is_fixed=any(request.if_version is not None for request in batch.items)
                or all(request.id is None for request in batch.items),
                guard=checked.position,
            )
            told |= dict(zip(fresh, done, strict=True))
        return [told[place] for place in range(len(requests))]

    async def _told_before(
        self, principal: Principal, requests: Sequence[RememberRequest]
    ) -> dict[int, RememberResponse]:
        """Answers to items that came with the same key before."""
        told: dict[int, RememberResponse] = {}
        for place, request in enumerate(requests):
            known = answers.once(principal, request, self._parts.canonical)
            if known is not None:
                with of_item(place):
                    first = await self._parts.ledger.answered(principal.tenant, known, self._parts.clock())
                if first is not None:
                    told[place] = answers.again(RememberResponse, first)
        return told
