"""A router that is killed between its peers' write and its note: `python -m tests.router.killed FOLDER`."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from collections.abc import Mapping

from quipu import Memory, MemoryType, RememberRequest, Router
from quipu.service.peer_ids import LedgerIds
from quipu.testing.embedders import WordEmbedder


async def _killed(self: LedgerIds, ours: str, theirs: Mapping[str, str], agent_id: str) -> None:
    os.kill(os.getpid(), signal.SIGKILL)


async def main(folder: str) -> None:
    LedgerIds.note = _killed  # type: ignore[method-assign]  the process ends with it
    peers = {
        name: Memory("ana", stores=f"sqlite://{folder}/{name}.db", embedder=WordEmbedder()) for name in "ab"
    }
    async with Router(peers, ids=f"sqlite://{folder}/router.db") as router:
        await router.remember(
            RememberRequest(agent_id="ana", user_id="mara", type=MemoryType.SEMANTIC, content="tea at noon")
        )


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1]))
