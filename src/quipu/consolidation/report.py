"""What a pass of consolidation has done so far."""

from collections import Counter
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field

from quipu.consolidation.model import ConsolidateResponse, Decision, Outcome, SimilarPair
from quipu.consolidation.rules import Planned
from quipu.consolidation.windows import Asked
from quipu.errors import ApprovalRejectedError, ConflictError, QuipuError
from quipu.model.record import Record

_MOST = 1_000
#: A source was changed, or somebody else was faster: it stays as it is now.
CHANGED = "changed_meanwhile"


@dataclass(slots=True)
class Report:
    """Counts, and what is said of a pass."""

    pass_id: str
    #: Where the journal stood when it began.
    begun_at: int
    dry_run: bool
    asked: Asked
    counts: Counter[str] = field(default_factory=Counter[str])
    decisions: list[Decision] = field(default_factory=list[Decision])
    similar: list[SimilarPair] = field(default_factory=list[SimilarPair])
    #: What was promoted, and the memory that it became.
    promoted: list[tuple[Record, str]] = field(default_factory=list[tuple[Record, str]])
    #: Whether it asked anybody or changed anything.
    has_acted: bool = False
    proposed: int = 0
    unread: int = 0

    def add(
        self, planned: Planned, outcome: Outcome, into: str | None = None, reason: str | None = None
    ) -> None:
        """What became of the memories of one decision. Those that simply stay are only counted."""
        self.counts[outcome] += len(planned.items)
        if (outcome == "kept" and reason is None) or len(self.decisions) >= _MOST:
            return
        first = planned.records[0]
        self.decisions.append(
            Decision(
                ids=planned.ids,
                agent_id=first.agent_id,
                user_id=first.user_id,
                outcome=outcome,
                score=round(planned.score, 4),
                into=into,
                reason=reason,
            )
        )

    def stays(self, planned: Planned, *, is_refused: bool) -> None:
        """They stay in the window; that a person wants it so is said."""
        self.add(planned, "kept", reason=ApprovalRejectedError.code if is_refused else None)

    @contextmanager
    def failing(self, plans: Sequence[Planned]) -> Generator[None]:
        """What goes wrong in here leaves these memories where they are, and the others go on."""
        try:
            yield
        except ConflictError as error:
            for planned in plans:
                if error.reason == CHANGED:
                    self.add(planned, "kept")
                else:
                    self.add(planned, "failed", reason=error.reason or error.code)
        except QuipuError as error:
            for planned in plans:
                self.add(planned, "failed", reason=error.reason or error.code)

    def answer(self, windows: int) -> ConsolidateResponse:
        """The pass, once it is over."""
        return ConsolidateResponse(
            pass_id=self.pass_id,
            dry_run=self.dry_run,
            windows=windows,
            counts=dict(sorted(self.counts.items())),
            decisions=tuple(self.decisions),
            similar=tuple(self.similar[:_MOST]),
            proposed=self.proposed,
            unread=self.unread,
        )
