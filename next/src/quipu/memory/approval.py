"""An installation without governance: every write goes through, and one that asks for approval is refused."""

from typing import Any

from quipu.errors import UnsupportedError
from quipu.ledger.commit import Commit
from quipu.memory.model import RecallRequest
from quipu.memory.pipeline import Held, Plan, Verdict
from quipu.operation import Context, Request


class NoApprovals:
    """Never holds a write and never lets one through that was to be held."""

    async def judge(self, ctx: Context, operation: str, request: Request, plan: Any) -> Verdict:
        if getattr(request, "approval_required", False):
            raise _unsupported()
        return Verdict()

    async def hold(
        self, ctx: Context, operation: str, request: Request, plan: Plan[Any], verdict: Verdict
    ) -> tuple[Commit, Held]:
        raise _unsupported()

    async def denied(self, ctx: Context, operation: str, request: Request, verdict: Verdict) -> None:
        return

    async def check_recall(self, ctx: Context, request: RecallRequest) -> Held | None:
        if request.approval_required:
            raise _unsupported()
        return None


def _unsupported() -> UnsupportedError:
    return UnsupportedError("Nobody is there to approve it.", reason="approval")
