"""What the services are made of, handed in by bootstrap."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

from quipu.model.effects import Effect
from quipu.model.limits import Limits
from quipu.model.runs import HostOptions
from quipu.model.settling import Settling
from quipu.ports.backend import Mirror, Routing
from quipu.ports.observing import Observer, Unobserved
from quipu.rules.blending import Weights
from quipu.rules.redaction import Redaction

if TYPE_CHECKING:
    from quipu.ports.courier import Courier
    from quipu.ports.embedder import Embedder
    from quipu.ports.envelope import Envelope
    from quipu.ports.extractor import Extractor
    from quipu.ports.identities import Identities
    from quipu.ports.keys import LendingParts
    from quipu.ports.ledger import Ledger
    from quipu.ports.rules_file import RulesFile
    from quipu.ports.sealer import Sealer
    from quipu.ports.signer import Signer
    from quipu.ports.surroundings import Canonical, Clock, MintId, MintSalt

#: message, key id, signature, public keys by id → is it right?
VerifySignature: TypeAlias = Callable[[bytes, str, str, Mapping[str, str]], bool]


@dataclass(frozen=True, slots=True, kw_only=True)
class Parts:
    """One of each."""

    ledger: Ledger
    #: None: keyword search only.
    embedder: Embedder | None
    clock: Clock
    mint_id: MintId
    mint_salt: MintSalt
    canonical: Canonical
    signer: Signer
    verify: VerifySignature
    sealer: Sealer
    #: What seals exported files; None: nothing does.
    envelope: Envelope | None = None
    #: Where people sign in who have no token of ours.
    identities: Identities | None = None
    #: Who is told what memory does while it does it.
    observer: Observer = Unobserved()  # noqa: RUF009  has no state, so one for all is safe
    limits: Limits = Limits()  # noqa: RUF009  frozen, so one for all is safe
    #: How short-term memory settles, and a language model that proposes facts of it; None: none does.
    settling: Settling = Settling()  # noqa: RUF009  frozen, so one for all is safe
    extractor: Extractor | None = None
    weights: Weights = Weights()  # noqa: RUF009  frozen, so one for all is safe
    #: How secrets nobody registered are found, and what becomes of a write that holds one.
    redaction: Redaction = Redaction()  # noqa: RUF009  frozen, so one for all is safe
    #: Where copies are kept beside the ledger, and how they take part.
    mirrors: tuple[Mirror, ...] = ()
    routing: Routing = Routing()  # noqa: RUF009  frozen, so one for all is safe
    demote_factor: float = 0.25
    confidence_weight: float = 0.2
    #: Requests per minute and hits per hour of a credential that has no limit of its own; None: no limit.
    rate: int | None = None
    recall_budget: int | None = None
    #: Rules of the server's file, which come before every tenant's own, and what becomes of what no rule is about.
    rules_file: RulesFile | None = None
    governance_default: Effect = Effect.ALLOW
    #: Who carries notices to other machines; None: nobody does.
    courier: Courier | None = None
    #: Where people reach the server, for addresses that are told elsewhere.
    public_url: str = ""
    #: Whether what a reviewer rejects is kept for a look later, instead of being erased.
    keeps_rejected: bool = False
    #: A held write nobody decides on lapses after this long.
    proposal_life_ms: int = 14 * 24 * 3600 * 1000
    #: So long after it was written the operator keeps nothing; None: as long as nobody lets it go.
    max_retain_ms: int | None = None
    #: What the OpenWOP host is set to.
    host: HostOptions = HostOptions()  # noqa: RUF009  frozen, so one for all is safe
    #: Opens what lending is made of, the first time it is asked; None: nothing is lent or borrowed.
    lender: Callable[[], LendingParts] | None = None

    def latest_end(self, now: int) -> int | None:
        """When the last of what is written now is gone."""
        return None if self.max_retain_ms is None else now + self.max_retain_ms

    @property
    def lending(self) -> LendingParts | None:
        """Keys, tokens and other hosts, for lending memory."""
        return None if self.lender is None else self.lender()
