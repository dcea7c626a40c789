"""Whether anything was erased while a file was made or sent: what was erased leaves in no file that is not out yet."""

from __future__ import annotations

from quipu.errors import ConflictError
from quipu.model.journal import Op
from quipu.ports.parts import Parts

_ERASING = frozenset({Op.ERASE, Op.DELETE_STORE})
_PAGE = 1_000


class Watch:
    """Follows an owner's journal, whichever process writes it."""

    def __init__(self, parts: Parts, tenant: str, seq: int) -> None:
        self._parts, self._tenant, self._seq = parts, tenant, seq
        self._has_erased = False

    @classmethod
    async def begun(cls, parts: Parts, tenant: str) -> Watch:
        """From now on."""
        return cls(parts, tenant, (await parts.ledger.head(tenant)).seq)

    async def erased(self) -> bool:
        """Whether anything was, since this began."""
        end = (await self._parts.ledger.head(self._tenant)).seq
        while self._seq < end and not self._has_erased:
            entries = await self._parts.ledger.entries(self._tenant, self._seq, _PAGE)
            if not entries:
                break
            self._has_erased = any(entry.op in _ERASING for entry in entries)
            self._seq = entries[-1].seq
        return self._has_erased

    async def still(self) -> None:
        """Raises ConflictError once something was."""
        if await self.erased():
            raise ConflictError(
                "Something was erased while the file was made or sent.",
                reason="erased_meanwhile",
                hint="Ask for the file again; it comes without what was erased.",
            )
