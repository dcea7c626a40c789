"""Whether anything was erased while a file was made or sent: what was erased leaves in no file that is not out yet."""

from quipu.errors import ConflictError
from quipu.ledger.ledger import JournalQuery, Ledger
from quipu.model.journal import Head

_PAGE = 1_000


class ErasureWatch:
    """Follows a tenant's journal, whichever process writes it."""

    def __init__(self, ledger: Ledger, tenant: str, head: Head) -> None:
        self._ledger, self._tenant = ledger, tenant
        #: Where the journal ended when this began.
        self.head, self._seq = head, head.seq
        self._has_erased = False

    @classmethod
    async def begun(cls, ledger: Ledger, tenant: str) -> "ErasureWatch":
        """From now on."""
        return cls(ledger, tenant, await ledger.head(tenant))

    async def has_erased(self) -> bool:
        """Whether anything was erased since this began, or old versions were emptied."""
        if not self._has_erased and (await self._ledger.head(self._tenant)).seq > self._seq:
            while entries := await self._ledger.entries(
                self._tenant, JournalQuery(after=self._seq, limit=_PAGE)
            ):
                self._seq = entries[-1].seq
                if any(entry.op == "prune" or entry.detail.get("erased") for entry in entries):
                    self._has_erased = True
                    break
        return self._has_erased

    async def check(self) -> None:
        """ConflictError once something was erased."""
        if await self.has_erased():
            raise erased_meanwhile()


def erased_meanwhile() -> ConflictError:
    return ConflictError(
        "Something was erased while the file was made or sent.",
        reason="erased_meanwhile",
        hint="Ask for the file again: it comes without what was erased.",
    )
