"""What the services are made of, handed in by bootstrap."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TypeAlias

from quipu.model.governance import Effect, Rule
from quipu.model.limits import Limits
from quipu.ports.embedder import Embedder
from quipu.ports.identities import Identities
from quipu.ports.ledger import Ledger
from quipu.ports.sealer import Sealer
from quipu.ports.signer import Signer
from quipu.ports.surroundings import Canonical, Clock, MintId, MintSalt
from quipu.rules.blending import Weights
from quipu.rules.redaction import Redaction

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
    #: Where people sign in who have no token of ours.
    identities: Identities | None = None
    limits: Limits = Limits()  # noqa: RUF009  frozen, so one for all is safe
    weights: Weights = Weights()  # noqa: RUF009  frozen, so one for all is safe
    #: How secrets nobody registered are found, and what becomes of a write that holds one.
    redaction: Redaction = Redaction()  # noqa: RUF009  frozen, so one for all is safe
    demote_factor: float = 0.25
    confidence_weight: float = 0.2
    #: Requests per minute and hits per hour of a credential that has no limit of its own; None: no limit.
    rate: int | None = None
    recall_budget: int | None = None
    #: Rules of the server's file, which come before every tenant's own, and what becomes of what no rule is about.
    rules: tuple[Rule, ...] = ()
    governance_default: Effect = Effect.ALLOW
    #: A held write nobody decides on lapses after this long.
    proposal_life_ms: int = 14 * 24 * 3600 * 1000
