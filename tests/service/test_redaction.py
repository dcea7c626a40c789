"""Whatever the redactors find stays out of everything that is kept."""

from __future__ import annotations

from dataclasses import replace

from quipu.model.operations import ForgetRequest
from quipu.model.principal import local
from quipu.testing.builders import FixedClock
from tests.rules.test_redaction import FULL, SECRET, masking
from tests.service.ledgers import watched_service


async def test_no_operation_lets_a_secret_through() -> None:
    """Not the texts of a memory, nor the reasons beside it, nor what waits for approval."""
    me, clock = local(), FixedClock()
    async with watched_service(clock, (masking,)) as (service, ledger):
        one = await service.remember(me, replace(FULL, links=None))
        await service.remember(me, replace(FULL, links=None, approval_required=True))
        await service.forget(me, ForgetRequest(agent_id="ana", ids=(one.id,), reason=SECRET))
        await service.restore(me, "ana", one.id, SECRET)
        held = await service.forget(
            me, ForgetRequest(agent_id="ana", ids=(one.id,), approval_required=True, reasoning=SECRET)
        )
        await service.decide(me, str(held.extensions["proposal_id"]), approved=False, reason=SECRET)
        told = repr(ledger.commits) + repr(await service.governance.proposals(me))
        assert "[password]" in told
        assert SECRET not in told
