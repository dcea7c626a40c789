"""What every case of the suite has at hand."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from quipu.ports.ledger import Ledger
from quipu.testing.builders import SPACE, FixedClock, Scribe


class LedgerCase:
    """A ledger of the subclass, fresh for each case, and a hand that writes into it."""

    @pytest.fixture
    def clock(self) -> FixedClock:
        """The clock the ledger is to be made with."""
        return FixedClock()

    @pytest.fixture
    def ledger(self, clock: FixedClock) -> Any:
        """An empty ledger on this clock, closed afterwards: an async fixture of the subclass."""
        raise NotImplementedError("give the suite a ledger")

    async def raw(self, ledger: Ledger, statement: str, **values: object) -> Sequence[Sequence[Any]]:
        """Run one SQL statement with `:named` values behind the port's back; raises what the database raises."""
        raise NotImplementedError("let the suite look at the rows")

    @pytest.fixture
    async def scribe(self, ledger: Ledger, clock: FixedClock) -> Scribe:
        """An opened tenant in the space `SPACE`."""
        scribe = await Scribe.at(ledger, clock)
        await ledger.adopt_space(scribe.tenant, SPACE)
        return scribe
