"""What the services are made of, handed in by bootstrap."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TypeAlias

from quipu.model.limits import Limits
from quipu.ports.embedder import Embedder
from quipu.ports.ledger import Ledger
from quipu.ports.signer import Signer
from quipu.ports.surroundings import Canonical, Clock, MintId, MintSalt
from quipu.rules.blending import Weights
from quipu.rules.redaction import Redactor

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
    limits: Limits = Limits()  # noqa: RUF009  frozen, so one for all is safe
    weights: Weights = Weights()  # noqa: RUF009  frozen, so one for all is safe
    redactors: tuple[Redactor, ...] = ()
    demote_factor: float = 0.25
    confidence_weight: float = 0.2
    #: A held write nobody decides on lapses after this long.
    proposal_life_ms: int = 14 * 24 * 3600 * 1000
