"""What a pass of consolidation has done so far."""

from __future__ import annotations

from collections import Counter
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field

from quipu.errors import ApprovalRejectedError, QuipuError
from quipu.model.consolidation import Consolidation, NearlySame, Settled, Settlement
from quipu.rules.settling import Decision, Refusals

_TOLD = 1_000


@dataclass(slots=True)
class Tally:
    """Counts, and what is told of a pass."""

    pass_id: str
    #: Memories that a person has been asked about.
    waiting: frozenset[str] = frozenset()
    #: And those that one said no to.
    refusals: Refusals = field(default_factory=Refusals)
    counts: Counter[str] = field(default_factory=Counter[str])
    settled: list[Settled] = field(default_factory=list[Settled])
    similar: list[NearlySame] = field(default_factory=list[NearlySame])
    proposed: int = 0
    unread: int = 0

    def add(
        self, decision: Decision, outcome: Settlement, into: str | None = None, reason: str | None = None
    ) -> None:
        """What became of the memories of one decision. Those that simply stay are only counted."""
        self.counts[outcome.value] += len(decision.items)
        if (outcome is Settlement.KEPT and reason is None) or len(self.settled) >= _TOLD:
            return
        first = decision.records[0]
        self.settled.append(
            Settled(
                ids=decision.ids,
                agent_id=first.agent_id,
                user_id=first.user_id,
                outcome=outcome,
                score=round(decision.score, 4),
                into=into,
                reason=reason,
            )
        )

    def stays(self, decision: Decision) -> None:
        """They stay in the window; that a person wants it so is told."""
        self.add(
            decision, Settlement.KEPT, reason=ApprovalRejectedError.code if decision.is_refused else None
        )

    @contextmanager
    def failing(self, decisions: Sequence[Decision]) -> Generator[None]:
        """What goes wrong in here leaves these memories where they are."""
        try:
            yield
        except QuipuError as error:
            for decision in decisions:
                self.add(decision, Settlement.FAILED, reason=error.reason or error.code)

    def told(self, windows: int, *, dry_run: bool) -> Consolidation:
        """The pass, once it is over."""
        return Consolidation(
            pass_id=self.pass_id,
            dry_run=dry_run,
            windows=windows,
            counts=dict(sorted(self.counts.items())),
            proposed=self.proposed,
            unread=self.unread,
            settled=tuple(self.settled),
            similar=tuple(self.similar[:_TOLD]),
        )
