"""What was decided about one grant, for the owner who looks at it: newest first, a page at a time (4.8)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from quipu.model.disclosure import KeptReceipt
from quipu.model.principal import Principal
from quipu.ports.parts import Parts
from quipu.rules import grants_decisions as decisions
from quipu.service.lending import Lending

_PAGE = 50
#: Behind every place in a chain.
_AFTER_ALL = (1 << 63) - 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Decision:
    """One of them, read out of its receipt."""

    at: int
    action: str
    outcome: str
    #: The rules that decided, as sentences.
    why: str
    #: On which terms something was shown.
    conditions: tuple[str, ...]

    @property
    def is_refusal(self) -> bool:
        return self.outcome == decisions.BLOCK


class GrantDecisions:
    """Reads them."""

    def __init__(self, parts: Parts, grants: Lending) -> None:
        self._parts, self._grants = parts, grants

    async def page(
        self, principal: Principal, grant_id: str, before: int | None = None, limit: int = _PAGE
    ) -> tuple[Sequence[Decision], int | None]:
        """Those before a place in the owner's chain, and the place from which older ones go on, if there are any."""
        await self._grants.get(principal, grant_id)
        found = await self._parts.ledger.lending.receipts_about(
            principal.tenant, grant_id, _AFTER_ALL if before is None else before, limit + 1
        )
        page = found[:limit]
        made = [
            decision
            for one in page
            if (one.grant_id == grant_id or decisions.ends(one.body, grant_id))
            and (decision := _read(one)) is not None
        ]
        return made, page[-1].seq if len(found) > limit else None


def _read(receipt: KeptReceipt) -> Decision | None:
    record = decisions.record(receipt.body)
    if record is None:
        return None
    return Decision(
        at=receipt.at,
        action=decisions.action(receipt.body),
        outcome=record["outcome"],
        why=decisions.why(record["applied_rules"]),
        conditions=tuple(record.get("conditions", ())),
    )
