"""A server as a person starts it, for the pages that speak to one."""

import json
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def served(folder: Path, *options: str) -> Iterator[tuple[str, str]]:
    """Its address and its administrator's token, if it has one, until the end of the block."""
    line = [str(Path(sys.executable).with_name("quipu")), "serve", "--json", "--port", "0"]
    process = subprocess.Popen(
        [*line, "--store-url", f"sqlite:///{folder / 'served.db'}", *options],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        cwd=folder,
    )
    try:
        assert process.stdout is not None
        said = json.loads(process.stdout.readline())
        yield said["address"], said.get("token", "")
    finally:
        process.send_signal(signal.SIGTERM)
        process.wait(30)
        assert process.stdout is not None
        process.stdout.close()
