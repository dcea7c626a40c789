"""The suite every ledger passes.

class TestMyLedger(LedgerContract):
    @pytest.fixture
    async def ledger(self, clock):
        ledger = MyLedger(clock=clock, mint_id=CountedIds(), canonical=canonical)
        yield ledger
        await ledger.close()

    async def raw(self, ledger, statement, **values):
        return await ledger.run(statement)
"""

from __future__ import annotations

from quipu.testing.ledger.erasure import ErasureContract
from quipu.testing.ledger.finding import FindingContract
from quipu.testing.ledger.governance import GovernanceContract
from quipu.testing.ledger.grants import GrantsContract
from quipu.testing.ledger.journal import JournalContract
from quipu.testing.ledger.mirrors import MirrorsContract
from quipu.testing.ledger.neighbourhood import NeighbourhoodContract
from quipu.testing.ledger.once import OnceContract
from quipu.testing.ledger.records import RecordsContract
from quipu.testing.ledger.registry import RegistryContract
from quipu.testing.ledger.renewing import RenewingContract
from quipu.testing.ledger.runs import RunsContract
from quipu.testing.ledger.stores import StoresContract
from quipu.testing.ledger.upkeep import UpkeepContract
from quipu.testing.ledger.walking import WalkingContract
from quipu.testing.ledger.wording import WordingContract


class LedgerContract(
    RecordsContract,
    WalkingContract,
    ErasureContract,
    OnceContract,
    StoresContract,
    JournalContract,
    RegistryContract,
    GovernanceContract,
    FindingContract,
    WordingContract,
    NeighbourhoodContract,
    UpkeepContract,
    RenewingContract,
    MirrorsContract,
    RunsContract,
    GrantsContract,
):
    """All of it, split as the port is: by noun."""
