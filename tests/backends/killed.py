"""A program that is killed between effect and outcome: `python -m tests.backends.killed FOLDER MOMENT`.

MOMENT is `put` or `delete`: right after that call has had its effect on the mirror, before anybody is told.
"""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sys
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path

from quipu.ports.backend import Container, Copy, Place
from quipu.testing.backend.shelf import ShelfBackend
from tests.backends.rig import mirror, rig


class FileShelf(ShelfBackend):
    """A shelf in a file, as durable as what a vendor keeps. May end the whole process at a moment."""

    def __init__(self, path: Path, moment: str = "") -> None:
        super().__init__()
        self._path, self._moment = path, moment
        if path.exists():
            for row in json.loads(path.read_text("utf-8")):
                copy = Copy(**{**row, "container": Container(**row["container"]), "tags": ()})
                self.kept[copy.native_id or ""] = copy
                next(self._counted)

    def _save(self, call: str) -> None:
        self._path.write_text(json.dumps([asdict(copy) for copy in self.kept.values()]), "utf-8")
        if call == self._moment:
            os.kill(os.getpid(), signal.SIGKILL)

    async def put(self, copies: Sequence[Copy]) -> Sequence[str]:
        native = await super().put(copies)
        self._save("put")
        return native

    async def delete(self, places: Sequence[Place]) -> int:
        count = await super().delete(places)
        self._save("delete")
        return count


async def main(folder: Path, moment: str) -> None:
    shelf = FileShelf(folder / "shelf.json", moment)
    async with rig(mirror("shelf", shelf), path=folder / "memory.db", is_started=False) as rigged:
        await rigged.drained()
        if moment == "put":
            await rigged.memory.remember("tea at noon")
        else:
            (hit,) = await rigged.memory.recall("tea at noon", min_relevance=0)
            await rigged.memory.forget(ids=[hit.id])
        await rigged.drained()


if __name__ == "__main__":
    asyncio.run(main(Path(sys.argv[1]), sys.argv[2]))
