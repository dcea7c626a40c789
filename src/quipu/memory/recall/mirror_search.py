"""What a recall asks of mirrors, and what they answer: places in a ranking, never a text of ours."""

from collections.abc import Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field
from typing import Protocol

from quipu.model.search import Candidate, Search


@dataclass(frozen=True, slots=True, kw_only=True)
class ForeignHit:
    """What a mirror found and no record of the ledger stands behind."""

    #: `<mirror>:<native id>`.
    id: str
    mirror: str
    text: str
    #: What the mirror says of it, as a similarity from 0 to 1.
    score: float


@dataclass(frozen=True, slots=True, kw_only=True)
class MirrorAnswers:
    """What mirrors said by their deadline."""

    #: Mirror → ids of records and of foreign hits, best first.
    rankings: Mapping[str, Sequence[str]] = field(default_factory=dict[str, Sequence[str]])
    #: By id; only what may be shown.
    foreign: Mapping[str, ForeignHit] = field(default_factory=dict[str, ForeignHit])
    #: Mirror → why it did not answer.
    failed: Mapping[str, str] = field(default_factory=dict[str, str])

    def record_ids(self) -> frozenset[str]:
        return frozenset(id for ranking in self.rankings.values() for id in ranking if id not in self.foreign)


class MirrorQuestion(Protocol):
    """A search that mirrors are at."""

    async def answers(self, seconds: float) -> MirrorAnswers:
        """In so many seconds at most. Who fails or is late is named, and the others count."""
        ...


class MirrorSearch(Protocol):
    """The mirrors of an installation, as a recall sees them."""

    @property
    def weights(self) -> Mapping[str, float]:
        """By the name of each mirror that is asked."""
        ...

    @property
    def deadline_ms(self) -> int:
        """How long all of them may take together."""
        ...

    @property
    def counts_votes(self) -> bool:
        """Whether their votes count as much as the ledger's; else they only break ties."""
        ...

    @property
    def ledger_ranks(self) -> bool:
        """Off, the ledger's own ranking is left out, which shows what mirrors find by themselves."""
        ...

    def asked(self, search: Search, wanted: int) -> AbstractAsyncContextManager[MirrorQuestion]:
        """Ask all of them at once, until the block ends. `wanted`: how many places of each count."""
        ...

    async def candidates(self, foreign: Sequence[ForeignHit], search: Search) -> Sequence[Candidate]:
        """What can be said of foreign hits, so that they are judged like everything else."""
        ...
