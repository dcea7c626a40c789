"""Old pages of what was erased: they lie in the log until it is cut.

1. Whoever erases cuts the log, and waits a while for readers that hold on to old pages.
2. Where they hold on for longer, or nobody waits for the answer any more, it is owed: the next write cuts it.
3. Who owes it may be gone by then, so a process that finds that others have erased owes it as well.
"""

from __future__ import annotations

from collections.abc import Sequence

import apsw

from quipu.ledger.sqlite import statements
from quipu.ledger.sqlite.upkeep import Keeper
from quipu.model.change import Commit


class Erasures:
    """What one process knows of erasures in a file. Told by whoever has the writer's connection."""

    def __init__(self, keeper: Keeper) -> None:
        self._keeper = keeper
        #: Something that was erased may still be in the log.
        self.are_owed = False
        #: Up to where a tenant's erasures are known, and the tenants of which nothing new can be there.
        self._seen: dict[str, int] = {}
        self._known: set[str] = set()

    def forget(self) -> None:
        """Others may have written."""
        self._known.clear()

    def look(self, connection: apsw.Connection, commits: Sequence[Commit]) -> None:
        """Whether others have erased something of these tenants since the last look."""
        for commit in commits:
            tenant = commit.tenant
            if tenant in self._known:
                continue
            after, head = self._seen.get(tenant, 0), statements.first(connection, "head", tenant=tenant)
            if statements.first(connection, "emptied_since", tenant=tenant, after=after):
                self.are_owed = True
            self._seen[tenant] = head[0] if head else 0
            self._known.add(tenant)

    def cut(self, connection: apsw.Connection, patience_ms: int) -> None:
        """Cut the log, or owe it still."""
        self.are_owed = not self._keeper.flush_erased(connection, patience_ms)
