"""Scratchpad and conversation: notes that a run reads back and that nobody sees after it.

1. They are kept in the ledger, so that every server over it sees them, and are gone with the commit that ends the run.
2. They do not outlive a crash either. An engine holds its runs; a run that is driven from outside is held by the server
   that noted something in it, for as long as that server is alive. What is held by nobody alive is gone.
3. A server that stops in order lets go of its runs, and the next one finds their notes.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence

from quipu.errors import InvalidError, NotFoundError, QuipuError, QuotaExceededError
from quipu.model.runs import Driver, Note, Run, RunStep
from quipu.ports.parts import Parts
from quipu.rules import redaction, runs_states
from quipu.rules.texts import is_keepable
from quipu.service.runs_stepping import Stepping
from quipu.service.secrets import Checked, Secrets

BACKENDS = ("scratchpad", "conversation")
_MOST = 1_000
_log = logging.getLogger("quipu.runs")


class Scratch:
    """Notes of every run at work. `keeper` is the name of this process."""

    def __init__(self, parts: Parts, secrets: Secrets, stepping: Stepping, keeper: str) -> None:
        self._parts, self._secrets, self._stepping = parts, secrets, stepping
        self._keeper = keeper
        #: What this process holds: tenant and run.
        self._held: set[tuple[str, str]] = set()

    async def add(self, run: Run, backend: str, text: object, *, actor: str = "quipu") -> None:
        """Note something; without the secrets of the tenant and of the run."""
        self._check(run, backend)
        if not isinstance(text, str) or not is_keepable(text) or self._is_long(text):
            raise InvalidError.at("/content", "bad_value", "A note is a text that is not too long.")
        if await self._parts.ledger.run_note_count(run.tenant, run.id, backend) >= _MOST:
            raise QuotaExceededError("The run has too many notes.", reason="run_notes")
        keeper = self._keeper if run.driver is Driver.EXTERNAL else None

        async def work(checked: Checked) -> None:
            clean, _ = redaction.guarded_text(text, checked.redaction, "/content")
            change = RunStep(
                run_id=run.id, note=Note(backend, clean), keeper=keeper, lease_until=self._lease()
            )
            await self._stepping.step(run.tenant, actor, change, guard=checked.position)

        await self._secrets.checking(run.tenant, work, run.id)
        if keeper is not None:
            self._held.add((run.tenant, run.id))

    async def read(self, run: Run, backend: str) -> Sequence[str]:
        """What the run has noted, in order."""
        self._check(run, backend)
        current = await self._stepping.run(run.tenant, run.id)
        if not runs_states.keeps_notes(current, self._keeper, self._parts.clock()):
            return ()
        return await self._parts.ledger.run_notes(run.tenant, run.id, backend)

    async def clear(self, run: Run, backend: str, *, actor: str = "quipu") -> None:
        """A goal is reached: its notes go."""
        self._check(run, backend)
        await self._stepping.step(run.tenant, actor, RunStep(run_id=run.id, clears=backend))

    # -- who is alive -------------------------------------------------------------------------------------------

    async def tend(self) -> None:
        """Go on holding runs, take those that were let go of, and drop the notes of servers that are not there now."""
        # What is noted meanwhile may be among these: then it is let go of, and taken again the next time.
        over = set(self._held)
        for tenant in await self._parts.ledger.tenants():
            for run in await self._parts.ledger.noting_runs(tenant.id):
                over.discard((run.tenant, run.id))
                try:
                    await self._tended(run)
                except QuipuError as error:  # it has ended meanwhile, or another server was faster
                    _log.debug("Notes of run %s were left alone: %s", run.id, error.code)
        await self._let_go(over)  # they have ended, or nothing is noted in them any more

    async def _tended(self, run: Run) -> None:
        if run.worker in (None, self._keeper):
            self._held.add((run.tenant, run.id))
            await self._parts.ledger.hold_run(run.tenant, run.id, self._keeper, self._lease())
        elif not runs_states.keeps_notes(run, self._keeper, self._parts.clock()):
            taken = RunStep(run_id=run.id, keeper=self._keeper, lease_until=self._lease())
            await self._stepping.step(run.tenant, "quipu", taken)

    async def close(self) -> None:
        """Let go: the next server finds what is noted."""
        await self._let_go(set(self._held))

    async def _let_go(self, held: set[tuple[str, str]]) -> None:
        for tenant, run_id in held:
            try:
                await self._parts.ledger.hold_run(tenant, run_id, self._keeper, None)
            except QuipuError as error:
                _log.debug("Notes of run %s were not let go of: %s", run_id, error.code)
        self._held -= held

    def _lease(self) -> int:
        return self._parts.clock() + self._parts.host.lease_ms

    def _is_long(self, text: str) -> bool:
        return len(text.encode("utf-8")) > self._parts.host.entry_bytes

    def _check(self, run: Run, backend: str) -> None:
        if backend not in BACKENDS or backend not in self._parts.host.backends:
            raise NotFoundError("There is no such backend.", reason="backend")
        if run.status.is_over:
            raise runs_states.run_over(run.status)
