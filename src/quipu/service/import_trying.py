"""What would become of lines that are brought in one by one; nothing is written."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from quipu.errors import QuipuError
from quipu.formats.seen import Seen
from quipu.model.governance import Effect, Verdict
from quipu.model.operations import Line, RememberRequest
from quipu.model.outcomes import ImportedLine, RememberResponse
from quipu.model.principal import Principal
from quipu.ports.parts import Parts
from quipu.service import answers
from quipu.service.access import Access
from quipu.service.gate import Gate
from quipu.service.secrets import Checked, Secrets
from quipu.service.writing import Writing


class Trying:
    """Judges lines as an import would."""

    def __init__(self, parts: Parts, access: Access, writing: Writing, gate: Gate, secrets: Secrets) -> None:
        self._parts, self._access, self._writing = parts, access, writing
        self._gate, self._secrets = gate, secrets

    async def lines(
        self, principal: Principal, lines: Sequence[tuple[int, Line]], seen: Seen
    ) -> dict[int, ImportedLine]:
        """What would become of lines. Nothing is written, so what earlier ones would have taken is known here alone."""
        asked = {number: line.record_id for number, line in lines if line.record_id is not None}
        # Before anything is waited for: the chunks of a file are looked at side by side.
        twice = {number for number, name in asked.items() if not seen.add(name)}
        there = frozenset(
            await self._parts.ledger.read(principal.tenant, list(asked.values())) if asked else ()
        )
        outcomes: dict[int, ImportedLine] = {}
        for number, line in lines:
            told = await self._tried(principal, number, line)
            is_other = told.error is None and told.id is None
            if is_other and (number in twice or asked.get(number) in there):
                told = replace(told, other_id=line.record_id)
            outcomes[number] = told
        return outcomes

    async def _tried(self, principal: Principal, number: int, line: Line) -> ImportedLine:
        """What would become of a line; one that was stored under its key before says as what."""

        async def work(checked: Checked) -> tuple[Verdict, str | None]:
            kept = checked.kept(line.request)
            is_changed = kept is not line.request
            verdict = await self._gate.judged(
                principal,
                kept,
                checked.position,
                has_secret=is_changed,
                is_imported=True,
                is_trial=True,
            )
            if verdict.effect is Effect.HOLD:
                await self._writing.check_target(principal, kept)
            else:
                await self._access.store(principal.tenant, kept.store)
            return verdict, await self._known(principal, kept)

        try:
            verdict, known = await self._secrets.checking(principal.tenant, work, line.request.run_id)
        except QuipuError as error:
            return ImportedLine(line=number, error=error)
        return ImportedLine(line=number, id=known, is_held=verdict.effect is Effect.HOLD)

    async def _known(self, principal: Principal, request: RememberRequest) -> str | None:
        """What was stored under the request's key; ConflictError where that was something else."""
        once = answers.once(principal, request, self._parts.canonical)
        if once is None:
            return None
        first = await self._parts.ledger.answered(principal.tenant, once, self._parts.clock())
        return None if first is None else answers.again(RememberResponse, first).id
