"""The capability put together: every operation of governance and the function that does it."""

from dataclasses import dataclass
from typing import Any

from quipu.access.service import AccessService
from quipu.governance import operations as ops
from quipu.governance.decision_wait import DecisionWait
from quipu.governance.gate import Gate
from quipu.governance.proposals import Proposals
from quipu.governance.review import HeldWrites, Reviews
from quipu.governance.rule_list import Rules
from quipu.governance.rule_test import RuleTest
from quipu.memory.pipeline import Pipeline, Write
from quipu.memory.service import MemoryService
from quipu.operation import AnyBinding, Binding


@dataclass(frozen=True, slots=True, kw_only=True)
class GovernanceService:
    """What becomes of writes, and who decides."""

    gate: Gate
    rules: Rules
    rule_test: RuleTest
    proposals: Proposals
    reviews: Reviews
    waits: DecisionWait

    @property
    def bindings(self) -> tuple[AnyBinding, ...]:
        return (
            Binding(ops.LIST_REVIEWS, self.proposals.listed),
            Binding(ops.REVIEW, self.reviews.review),
            Binding(ops.DECIDE, self.reviews.decide),
            Binding(ops.PREVIEW_WRITE, self.reviews.preview),
            Binding(ops.WITHDRAW_PROPOSAL, self.proposals.withdraw),
            Binding(ops.GET_RULES, self.rules.get),
            Binding(ops.SET_RULES, self.rules.set),
            Binding(ops.TEST_RULES, self.rule_test.test),
        )


def governance_service(
    *,
    gate: Gate,
    pipeline: Pipeline,
    memory: MemoryService,
    access: AccessService,
    others: tuple[Write[Any, Any], ...] = (),
) -> GovernanceService:
    """Everything of governance, over its gate and over what the gate lets through.

    others: Writes beside those of memory that may have to wait.
    """
    proposals, ledger = gate.proposals, gate.ledger
    held = HeldWrites(pipeline=pipeline, memory=memory, scope=proposals.scope, others=others)
    reviews = Reviews(
        ledger=ledger,
        pipeline=pipeline,
        held=held,
        access=access,
        gate=gate,
        proposals=proposals,
        scope=proposals.scope,
        similar=gate.similar,
    )
    return GovernanceService(
        gate=gate,
        rules=gate.rules,
        rule_test=RuleTest(ledger=ledger, gate=gate, proposals=proposals, held=held, scope=proposals.scope),
        proposals=proposals,
        reviews=reviews,
        waits=DecisionWait(ledger=ledger, signal=memory.feed.signal),
    )
