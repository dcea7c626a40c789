"""import, of a file that another host hands out: fetched through the guard into a file of this machine first."""

from __future__ import annotations

import re
import tempfile
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from quipu.cli.progress import Bar
    from quipu.cli.session import Session

_STRANGE = re.compile(r"[^A-Za-z0-9._-]")


@contextmanager
def at_hand(run: Session, file: str) -> Generator[Path]:
    """The file that was named. What stands at an address is fetched first, because it is looked at more than once."""
    if not file.lower().startswith(("https://", "http://")):
        yield Path(file)
        return
    import asyncio

    with tempfile.TemporaryDirectory(prefix="quipu-import-") as folder:
        from quipu.service.import_fetching import file_name

        # Its ending helps to tell what it is; the rest of the name is the other host's, and believed in nothing.
        path = Path(folder) / (_STRANGE.sub("_", file_name(file) or "").lstrip(".") or "file")
        with run.bar("Fetching", "bytes") as bar:
            asyncio.run(_fetched(run, file, path, bar))
        yield path


async def _fetched(run: Session, url: str, path: Path, bar: Bar) -> None:
    from contextlib import aclosing

    from quipu.bootstrap.lending import open_peers
    from quipu.service.import_fetching import MOST_BYTES, SECONDS

    peers = open_peers(run.config())
    try:
        with path.open("wb") as target:
            async with aclosing(peers.pieces(url, MOST_BYTES, SECONDS)) as pieces:
                async for piece in pieces:
                    target.write(piece)
                    bar(target.tell())
    finally:
        await peers.close()
