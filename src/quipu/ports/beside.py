"""What stands beside records and journal, read whole: so that it can be held against what both of them say."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping, Sequence
from typing import Protocol

from quipu.model.beside import KeptAnswer, KeptLink, KeptReason


class Beside(Protocol):
    """Tables that follow from records and journal, or stand beside them."""

    async def misfiled(self, tenant: str, limit: int = 100) -> Sequence[tuple[str, int]]:
        """Versions whose row says otherwise than they do that they were emptied, or what they are about: id and birth."""
        ...

    def every_link(self, tenant: str) -> AsyncIterator[KeptLink]:
        """All edges, by the record they lead from."""
        ...

    async def links_from(self, tenant: str, record_id: str) -> Sequence[KeptLink]:
        """The edges that ever led from a record."""
        ...

    async def demoted(self, tenant: str) -> frozenset[str]:
        """The records that rank lower."""
        ...

    async def token_hashes(self, tenant: str) -> Mapping[str, str]:
        """The hashes of the texts of tokens, in hexadecimal, by id."""
        ...

    def every_reason(self, tenant: str) -> AsyncIterator[KeptReason]: ...

    def every_answer(self, tenant: str) -> AsyncIterator[KeptAnswer]:
        """All answers that are kept, each with the entry of its position."""
        ...
