"""What a ledger keeps about lending: grants, logs, receipts, erasures, and what others have lent."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from quipu.model.disclosure import (
        CascadeStep,
        Erasure,
        HeldItem,
        KeptReceipt,
        LogKind,
        LogLine,
        Question,
        Standing,
        Writes,
    )
    from quipu.model.grants import KeptGrant, TaskStep


class Lending(Protocol):
    """One chain of receipts for each tenant; whatever adds to it is decided while nobody else does."""

    async def decide(self, tenant: str, question: Question, decide: Callable[[Standing], Writes]) -> Writes:
        """Ask, decide and write in one transaction. What `decide` raises leaves nothing behind.

        It may be called again, on fresh ground; it must not wait for anything.
        """
        ...

    async def grant(self, tenant: str, grant_id: str) -> KeptGrant | None: ...

    async def grants(self, tenant: str) -> Sequence[KeptGrant]:
        """All of them, newest first."""
        ...

    async def lent_to(self, tenant: str, record_ids: Sequence[str]) -> Sequence[tuple[str, str]]:
        """Grant and record, for each record that a grant has shown."""
        ...

    async def lent_items(self, tenant: str, grant_id: str) -> Sequence[tuple[str, int]]:
        """What a grant has shown: record, and when first."""
        ...

    async def log(self, tenant: str, record_id: str, log: LogKind) -> Sequence[LogLine]: ...

    async def tails(self, tenant: str, record_ids: Sequence[str]) -> dict[str, LogLine]:
        """The last line of each record's state log."""
        ...

    async def receipts(self, tenant: str, after: int = 0, limit: int = 1000) -> Sequence[KeptReceipt]: ...

    async def receipts_about(
        self, tenant: str, grant_id: str, before: int, limit: int
    ) -> Sequence[KeptReceipt]:
        """Those of one grant, and of whatever ends all of them, newest first, from before a place in the chain."""
        ...

    async def receipts_to(self, tenant: str, agent: str, after: str, limit: int) -> Sequence[KeptReceipt]:
        """Those of one agent, oldest first, behind the one of its own with this id; all of them where it is empty."""
        ...

    async def erasures(self, tenant: str) -> Sequence[Erasure]: ...

    async def cascade(self, tenant: str) -> Sequence[CascadeStep]: ...

    async def move_step(self, tenant: str, step: CascadeStep) -> None: ...

    async def hold(self, held: Sequence[HeldItem]) -> None: ...

    async def held(self, tenant: str) -> Sequence[HeldItem]: ...

    async def drop_held(self, tenant: str, source: str, grant_id: str, item_ids: Sequence[str]) -> int:
        """Returns how many there were."""
        ...

    async def drop_expired(self, tenant: str, now: int) -> None: ...

    async def drop_requests(self, tenant: str, before: int) -> int:
        """Requests for access that were refused or have lapsed by then; how many."""
        ...

    async def task_steps(self, tenant: str, task_id: str) -> Sequence[TaskStep]:
        """How a task stood, first to last; nothing where there is none."""
        ...

    async def add_task_step(self, step: TaskStep) -> bool:
        """Say how it stands now; False when somebody else has said something under this number."""
        ...

    async def drop_tasks(self, tenant: str, before: int) -> int:
        """Tasks of which nothing was said after that moment; how many lines."""
        ...
