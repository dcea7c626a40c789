"""Memories that are written together: how all of them become one transaction."""

from __future__ import annotations

from collections.abc import Generator, Sequence
from contextlib import contextmanager
from dataclasses import replace

from quipu.errors import InternalError, QuipuError
from quipu.model.change import Committed
from quipu.model.operations import BatchRequest, Line, RememberRequest
from quipu.model.outcomes import RememberResponse
from quipu.model.principal import Principal
from quipu.model.record import State
from quipu.service.committing import Plan
from quipu.service.secrets import CheckedRuns
from quipu.service.writing import Writing


class Together:
    """Over the write half of memory."""

    def __init__(self, writing: Writing) -> None:
        self._writing = writing

    async def plan(
        self, principal: Principal, batch: BatchRequest, checked: CheckedRuns
    ) -> Plan[list[RememberResponse]]:
        """How a batch is kept, as things stand. An error names its item."""
        new: list[int] = []
        changes: dict[int, Plan[RememberResponse]] = {}
        for place, request in enumerate(batch.items):
            with of_item(place):
                await self._writing.check_target(principal, request)
                if request.id is None:
                    new.append(place)
                else:
                    changes[place] = await self._writing.change(principal, request, checked)
        lines = [_line(batch, place) for place in new]
        creations = await self._writing.creations(principal, lines, batch.import_id)
        commits = [*creations.commits, *(plan.commit for plan in changes.values() if plan.commit)]

        def answered(done: Sequence[Committed]) -> list[RememberResponse]:
            kept = len(creations.commits)
            told = dict(zip(new, creations.answers(done[:kept]), strict=True))
            told |= {
                place: plan.answer(committed)
                for (place, plan), committed in zip(changes.items(), done[kept:], strict=True)
            }
            return [told[place] for place in range(len(batch.items))]

        if not commits:
            raise InternalError("A batch was planned without anything in it.")
        return Plan(commits[-1], lambda _: [], tuple(commits[:-1]), answered)


def _line(batch: BatchRequest, place: int) -> Line:
    """What an import brought keeps its times."""
    line = Line(batch.items[place], batch.record_ids[place])
    for record_id, created_at, updated_at, state in batch.times:
        if record_id == line.record_id:
            return replace(line, created_at=created_at, updated_at=updated_at, state=State(state))
    return line


def batch_of(requests: Sequence[RememberRequest], ids: Sequence[str]) -> BatchRequest:
    """Requests as one."""
    return BatchRequest(agent_id=requests[0].agent_id, items=tuple(requests), record_ids=tuple(ids))


@contextmanager
def of_item(place: int) -> Generator[None]:
    """An error in here is about one item of the batch."""
    try:
        yield
    except QuipuError as error:
        raise error.within(f"/items/{place}") from error
