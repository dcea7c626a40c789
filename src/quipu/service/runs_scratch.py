"""Scratchpad and conversation: notes that a run reads back and that nobody sees after it.

They are kept in the ledger, so that every server over it sees them, and are gone with the commit that ends the run.
"""

from __future__ import annotations

from collections.abc import Sequence

from quipu.errors import InvalidError, NotFoundError, QuotaExceededError
from quipu.model.runs import Note, Run, RunStep
from quipu.ports.parts import Parts
from quipu.rules import redaction, runs_states
from quipu.rules.texts import is_keepable
from quipu.service.runs_stepping import Stepping
from quipu.service.secrets import Checked, Secrets

BACKENDS = ("scratchpad", "conversation")
_MOST = 1_000


class Scratch:
    """Notes of every run at work."""

    def __init__(self, parts: Parts, secrets: Secrets, stepping: Stepping) -> None:
        self._parts, self._secrets, self._stepping = parts, secrets, stepping

    async def add(self, run: Run, backend: str, text: object, *, actor: str = "quipu") -> None:
        """Note something; without the secrets of the tenant and of the run."""
        self._check(run, backend)
        if not isinstance(text, str) or not is_keepable(text) or self._is_long(text):
            raise InvalidError.at("/content", "bad_value", "A note is a text that is not too long.")
        if await self._parts.ledger.run_note_count(run.tenant, run.id, backend) >= _MOST:
            raise QuotaExceededError("The run has too many notes.", reason="run_notes")

        async def work(checked: Checked) -> None:
            clean, _ = redaction.guarded_text(text, checked.redaction, "/content")
            change = RunStep(run_id=run.id, note=Note(backend, clean))
            await self._stepping.step(run.tenant, actor, change, guard=checked.position)

        await self._secrets.checking(run.tenant, work, run.id)

    async def read(self, run: Run, backend: str) -> Sequence[str]:
        """What the run has noted, in order."""
        self._check(run, backend)
        return await self._parts.ledger.run_notes(run.tenant, run.id, backend)

    async def clear(self, run: Run, backend: str, *, actor: str = "quipu") -> None:
        """A goal is reached: its notes go."""
        self._check(run, backend)
        await self._stepping.step(run.tenant, actor, RunStep(run_id=run.id, clears=backend))

    def _is_long(self, text: str) -> bool:
        return len(text.encode("utf-8")) > self._parts.host.entry_bytes

    def _check(self, run: Run, backend: str) -> None:
        if backend not in BACKENDS or backend not in self._parts.host.backends:
            raise NotFoundError("There is no such backend.", reason="backend")
        if run.status.is_over:
            raise runs_states.run_over(run.status)
