"""This host as others know it, and what all of sharing is made of."""

from collections.abc import Awaitable, Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar
from urllib.parse import urlsplit

from quipu.errors import ConflictError, UnsupportedError
from quipu.jose import b64
from quipu.ledger.commit import Keep
from quipu.ledger.ledger import Ledger
from quipu.ledger.reader import Kept, Reader
from quipu.ledger.table import Table
from quipu.memory.pipeline import Guard, Redactor
from quipu.model.principal import Principal
from quipu.operation import Clock
from quipu.outbound import LOOPBACK
from quipu.sharing import receipts
from quipu.sharing.identity import Documents, Keyring
from quipu.sharing.model import NO_TENANT, RECEIPTS, Receipt, ReceiptType

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

T = TypeVar("T", bound="DataclassInstance")
OwnerT = TypeVar("OwnerT", bound="DataclassInstance")
R = TypeVar("R")
_MOST_ATTEMPTS, _PAGE = 16, 500


@dataclass(frozen=True, slots=True, kw_only=True)
class Host:
    """Keys, documents of others, ledger, clock, randomness."""

    ledger: Ledger
    keyring: Keyring
    documents: Documents
    redactor: Redactor
    clock: Clock
    new_id: Callable[[str], str]
    random: Callable[[int], bytes]

    @property
    def did(self) -> str:
        return self.keyring.did(None)

    @property
    def url(self) -> str:
        """Where others reach this host; UnsupportedError where they cannot."""
        if not self.keyring.is_public:
            raise UnsupportedError(
                "This memory has no address that others could reach, so nothing can be shared from it.",
                reason="no_public_url",
                hint="Set QUIPU_PUBLIC_URL to the address of the server, such as https://memory.example, and start it.",
            )
        where = urlsplit(self.keyring.public_url)
        if where.scheme != "https" and where.hostname not in LOOPBACK:
            raise UnsupportedError(
                "Memory is shared over TLS alone, and this server's address is without it.",
                reason="no_tls",
                hint="Set QUIPU_PUBLIC_URL to an address that begins with https://.",
            )
        return self.keyring.public_url

    def ulid(self) -> str:
        """A fresh id without a prefix, as OAP names requests, answers and receipts."""
        return self.new_id("oap").partition("_")[2]

    def salt(self) -> str:
        return b64(self.random(16))

    async def guarded(self, tenant: str, write: Callable[[Guard], Awaitable[R]]) -> R:
        """A write that is checked against secrets and rules, and made anew where they have changed before it is committed."""
        for _ in range(_MOST_ATTEMPTS):
            try:
                return await write(await self.redactor.guard(tenant, None))
            except ConflictError as conflict:
                if conflict.reason != "secrets_changed":
                    raise
        raise secrets_changed()

    def owner(self, principal: Principal) -> str:
        """The DID of the owner that a principal speaks for."""
        return self.keyring.did(principal.tenant)

    def receipt(
        self,
        reader: Reader,
        type: ReceiptType,
        *,
        at: int,
        agent: str,
        grant_id: str | None = None,
        after: Receipt | None = None,
        **members: Any,
    ) -> Receipt:
        """The next receipt of the reader's tenant, made while its head is locked. `after`: one that was made just before."""
        if after is None:
            last = reader.rows(RECEIPTS, limit=1, newest_first=True)
            after = last[0].value if last else None
        return receipts.receipt(
            after,
            id=self.ulid(),
            type=type,
            at=at,
            principal=self.keyring.did(reader.tenant),
            agent=agent,
            by=self.keyring.signatory(None),
            grant_id=grant_id,
            **members,
        )

    async def index(self, table: Table[T], owners: Table[OwnerT], owner: Callable[[str, T], OwnerT]) -> None:
        """See to it that the owners of all rows can be found by these alone: a ledger that was copied does not know them."""
        async for tenant in self.ledger.journaled_tenants():
            rows = await self.ledger.read(tenant, lambda reader: list(every(reader, table)))
            found = {owners.key_of(one): one for one in (owner(tenant, row.value) for row in rows)}
            await self.ledger.update(NO_TENANT, owners, *found.values())

    def decision(self, outcome: str, *rules: str, **told: Any) -> dict[str, Any]:
        """What was decided, as an entry of a receipt."""
        return {"id": f"pol_{self.ulid()}", "outcome": outcome, "rules": list(rules), **told}


def check_guard(reader: Reader, guard: Guard) -> None:
    """Refuse to commit what was checked before secrets or rules changed."""
    if reader.head().guarded > guard.checked_at:
        raise secrets_changed()


def secrets_changed() -> ConflictError:
    return ConflictError("Secrets or rules have changed meanwhile.", reason="secrets_changed")


def every(reader: Reader, table: Table[T], equal: Mapping[str, Any] | None = None) -> Iterator[Kept[T]]:
    """All rows that are like this, read page by page."""
    after = None
    while rows := reader.rows(table, equal, after=after, limit=_PAGE):
        yield from rows
        after = table.key_of(rows[-1].value)


def kept(receipt: Receipt) -> Keep:
    """The change that appends a receipt: nobody else's may stand there."""
    return Keep(RECEIPTS, receipt, 0)
