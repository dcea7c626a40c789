"""A router that is killed between its peers' write and its note: `python -m tests.router.killed FOLDER`."""

import asyncio
import os
import signal
import sys
from collections.abc import Sequence

from quipu import Router
from quipu.router.ids import LedgerIds, PeerId
from tests.router.conftest import opened


async def _killed(self: LedgerIds, rows: Sequence[PeerId]) -> None:
    os.kill(os.getpid(), signal.SIGKILL)


async def main(folder: str) -> None:
    LedgerIds.note = _killed  # type: ignore[method-assign]  the process ends with it
    peers = {name: opened(f"{folder}/{name}.db") for name in "ab"}
    async with Router(peers, agent_id="ana", ids=f"sqlite://{folder}/router.db") as router:
        await router.remember(user_id="mara", content="tea at noon")


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1]))
