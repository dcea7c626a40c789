"""The capability put together: every operation of governance and the function that does it."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from quipu.access.service import AccessService
from quipu.governance import operations as ops
from quipu.governance.decision_wait import DecisionWait
from quipu.governance.gate import Gate
from quipu.governance.proposals import Proposals
from quipu.governance.review import HeldWrites, Reviews
from quipu.governance.reviewer_scope import ReviewerScope
from quipu.governance.rule_list import Rules
from quipu.governance.rule_test import RuleTest
from quipu.governance.similar_memories import SimilarMemories
from quipu.ledger.ledger import Ledger
from quipu.memory.embedding import Embedding
from quipu.memory.pipeline import Pipeline, Redactor, Write
from quipu.memory.scope import Scopes
from quipu.memory.service import MemoryService
from quipu.operation import AnyBinding, Binding, Clock
from quipu.search.engine import SearchEngine


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


def gate(
    *,
    ledger: Ledger,
    redactor: Redactor,
    rules: Rules,
    scopes: Scopes,
    embedding: Embedding,
    engine: SearchEngine,
    clock: Clock,
    new_id: Callable[[str], str],
    random: Callable[[int], bytes],
    is_marked: Callable[[str], bool],
    public_url: str | None = None,
    keeps_rejected: bool = False,
) -> Gate:
    """What the pipeline asks: needed before memory, which is built over it."""
    proposals = Proposals(
        ledger=ledger,
        scope=ReviewerScope(ledger=ledger, scopes=scopes),
        new_id=new_id,
        random=random,
        public_url=None if public_url is None else public_url.rstrip("/"),
        keeps_rejected=keeps_rejected,
    )
    return Gate(
        ledger=ledger,
        redactor=redactor,
        rules=rules,
        proposals=proposals,
        similar=SimilarMemories(ledger=ledger, embedding=embedding, engine=engine, clock=clock),
        scopes=scopes,
        is_marked=is_marked,
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
