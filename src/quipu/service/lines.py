"""Many new memories at once, each of which may be refused or have to wait: checked, judged and committed together."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import replace
from functools import partial

from quipu.errors import BackendUnavailableError, QuipuError
from quipu.model.change import Commit
from quipu.model.governance import Effect, Verdict
from quipu.model.operations import Line, RememberRequest
from quipu.model.outcomes import RememberResponse
from quipu.model.principal import Principal
from quipu.ports.ledger import Ledger
from quipu.rules.redaction import Batch
from quipu.service import answers
from quipu.service.gate import Gate
from quipu.service.governance import Governance
from quipu.service.secrets import CheckedRuns, Secrets
from quipu.service.writing import Writing

_BATCH = 500
#: Waits until whatever comes first is kept.
Turn = Callable[[], Awaitable[None]]


class Lines:
    """Over the write half of memory."""

    def __init__(
        self, ledger: Ledger, writing: Writing, secrets: Secrets, gate: Gate, governance: Governance
    ) -> None:
        self._ledger, self._writing, self._secrets = ledger, writing, secrets
        self._gate, self._governance = gate, governance

    async def many_stored(
        self,
        principal: Principal,
        lines: Sequence[Line],
        *,
        import_id: str | None = None,
        turn: Turn | None = None,
    ) -> list[RememberResponse | QuipuError]:
        """Check accepted new memories for secrets and commit them together, in parts, each of which stands alone.

        `turn` is waited for before anything is committed: what is embedded meanwhile may have to stand behind others.
        """
        done: list[RememberResponse | QuipuError] = []
        for start in range(0, len(lines), _BATCH):
            part = lines[start : start + _BATCH]
            try:
                done.extend(await self._batch(principal, part, import_id, turn))
            except QuipuError as error:
                # A disk that is full or a lock that is held is no single line's fault.
                if len(part) == 1 or isinstance(error, BackendUnavailableError):
                    done.extend([error] * len(part))
                else:  # one of them is at fault: let the others stand
                    for line in part:
                        done.extend(await self.many_stored(principal, [line], import_id=import_id, turn=turn))
        return done

    async def _batch(
        self, principal: Principal, lines: Sequence[Line], import_id: str | None, turn: Turn | None
    ) -> Sequence[RememberResponse | QuipuError]:
        async def work(checked: CheckedRuns) -> Sequence[RememberResponse | QuipuError]:
            batch: Batch = {}
            kept = [_with_request(line, checked.kept(line.request, batch)) for line in lines]
            told, held, by = await self.judged(principal, lines, kept, checked.position, import_id)
            free = [place for place in range(len(kept)) if place not in told and place not in held]
            planned = await self._writing.creations(
                principal, [kept[place] for place in free], import_id, [by.get(place) for place in free]
            )
            staged = [self._staging(principal, kept[place].request, held[place]) for place in held]
            commits = [*planned.commits, *(commit for commit, _ in staged)]
            if turn is not None:
                await turn()
            done = await self._ledger.commit(*commits, guard=checked.position) if commits else ()
            count = len(planned.commits)
            told |= dict(zip(free, planned.answers(done[:count]), strict=True))
            for place, (_, answer), committed in zip(held, staged, done[count:], strict=True):
                told[place] = answers.settled(answer, committed)
            return [told[place] for place in range(len(kept))]

        return await self._secrets.checking_all(principal.tenant, (line.request for line in lines), work)

    async def judged(
        self,
        principal: Principal,
        given: Sequence[Line],
        kept: Sequence[Line],
        position: int,
        import_id: str | None,
        *,
        is_trial: bool = False,
    ) -> tuple[dict[int, RememberResponse | QuipuError], dict[int, Verdict], dict[int, str]]:
        """By place: those that are refused, those that wait for a person, and the rules that let the rest through."""
        refused: dict[int, RememberResponse | QuipuError] = {}
        held: dict[int, Verdict] = {}
        by: dict[int, str] = {}
        plain: dict[str, Verdict | None] = {}
        for place, line in enumerate(kept):
            try:
                agent_id = line.request.agent_id
                if agent_id not in plain:
                    plain[agent_id] = await self._gate.judged_alike(
                        principal, agent_id, position, is_imported=import_id is not None, count=len(given)
                    )
                verdict = None if line.request.approval_required else plain[agent_id]
                verdict = verdict or await self._gate.judged(
                    principal,
                    line.request,
                    position,
                    has_secret=line.request is not given[place].request,
                    is_imported=import_id is not None,
                    count=len(given),
                    is_trial=is_trial,
                )
                if verdict.effect is Effect.HOLD:
                    await self._writing.check_target(principal, line.request)
                    held[place] = verdict
                elif verdict.by_rule is not None:
                    by[place] = verdict.by_rule
            except QuipuError as error:
                if error.reason == "secrets_changed":
                    raise
                refused[place] = error
        return refused, held, by

    def _staging(
        self, principal: Principal, request: RememberRequest, verdict: Verdict
    ) -> tuple[Commit, RememberResponse]:
        told = partial(answers.pending_remember, request)
        return self._governance.staging(principal, request, verdict, told)


def _with_request(line: Line, request: RememberRequest) -> Line:
    return line if request is line.request else replace(line, request=request)
