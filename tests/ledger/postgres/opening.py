"""PostgreSQL ledgers as tests open them."""

from typing import Any

from quipu.ledger.postgres.database import Place
from quipu.ledger.postgres.ledger import PostgresLedger
from quipu.ledger.sqlite.portable import archive
from quipu.ports.surroundings import Clock
from quipu.testing.builders import CountedIds, FixedClock, canonical


def opened(
    url: str, clock: Clock | None = None, mark: str = "0", place: Place | None = None, **more: Any
) -> PostgresLedger:
    return PostgresLedger(
        place or Place(url),
        clock=clock or FixedClock(),
        mint_id=CountedIds(mark),
        canonical=canonical,
        archive=archive,
        **more,
    )
