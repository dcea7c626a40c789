"""A proposal that was held and decided: its text is kept for a while, so that the decision can be taken back."""

from __future__ import annotations

from quipu.model.change import Settle, Stage
from quipu.model.journal import Op
from quipu.testing.builders import TENANT, Scribe


async def approved(scribe: Scribe, text: str) -> None:
    """Somebody said yes to it."""
    stage = Stage(
        proposal_id="prop_1",
        operation="remember",
        agent_id="ana",
        request={"content": text},
        held_by=(),
        lapses_at=None,
        salt=b"s" * 16,
    )
    await scribe.commit(stage, op=Op.HOLD)
    settle = Settle(proposal_id="prop_1", approved=True, reviewer="bo", reason=None, undoable=True)
    await scribe.commit(settle, op=Op.DECIDE)


async def let_go(scribe: Scribe, *, is_one: bool) -> None:
    """It can no longer be taken back; alone, or with all whose time is over."""
    if is_one:
        assert await scribe.ledger.let_go_of(TENANT, "prop_1")
    else:
        assert await scribe.ledger.let_go(TENANT, scribe.clock() + 1, keeps_rejected=False) == 1
