"""Which of our files an operation passes, over HTTP and in process: traced, not read off the imports."""

import asyncio
import sys
import tempfile
import threading
from collections.abc import Awaitable, Callable
from pathlib import Path
from types import FrameType
from typing import Any

import httpx

import quipu
from quipu.bootstrap import Container, http_app, open_container
from quipu.config import Settings
from quipu.memory.operations import RECALL, REMEMBER
from quipu.model.principal import local
from quipu.operation import dispatch

SOURCE = Path(quipu.__file__).parent
FIELDS: dict[str, dict[str, Any]] = {
    "remember": {"content": "Ana lives in Lisbon"},
    "recall": {"query": "where does Ana live?"},
}
PATHS = {"remember": "/v1/memories", "recall": "/v1/memories/recall"}


class Trace:
    """Notes files while it is on. Threads are traced if they were started after it was made."""

    def __init__(self) -> None:
        self.is_on = False
        self.found: dict[str, None] = {}
        threading.setprofile(self._note)
        sys.setprofile(self._note)

    def _note(self, frame: FrameType, event: str, _: Any) -> None:
        if self.is_on and event == "call" and frame.f_code.co_name != "<module>":
            path = frame.f_code.co_filename
            if path.startswith(str(SOURCE)):
                self.found.setdefault(str(Path(path).relative_to(SOURCE)))

    async def of(self, work: Callable[[], Awaitable[Any]]) -> list[str]:
        """The files in the order in which they are first entered."""
        self.found.clear()
        self.is_on = True
        try:
            await work()
        finally:
            self.is_on = False
        return list(self.found)

    def end(self) -> None:
        sys.setprofile(None)
        threading.setprofile(None)


async def walk(trace: Trace, container: Container, name: str, *, is_http: bool) -> list[str]:
    """One operation, after another of its kind has warmed everything up."""
    operation = {"remember": REMEMBER, "recall": RECALL}[name]
    ctx = lambda: container.context(local(agent_id="agent"))  # noqa: E731
    await dispatch(ctx(), REMEMBER, FIELDS["remember"])
    await dispatch(ctx(), RECALL, FIELDS["recall"])
    await container.memory.read_log.flush()
    if not is_http:
        return await trace.of(lambda: dispatch(ctx(), operation, FIELDS[name]))
    transport = httpx.ASGITransport(http_app(container, is_open=True))
    async with httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1") as http:
        await http.post(PATHS[name], json=FIELDS[name])
        return await trace.of(lambda: http.post(PATHS[name], json=FIELDS[name]))


async def all_walks() -> dict[str, list[str]]:
    """remember and recall, over HTTP and in process."""
    walks: dict[str, list[str]] = {}
    trace = Trace()
    try:
        with tempfile.TemporaryDirectory() as folder:
            container = await open_container(Settings(), stores=[f"{folder}/memory.db"])
            try:
                for name in ("remember", "recall"):
                    for is_http in (True, False):
                        title = f"{name} {'over HTTP' if is_http else 'in process'}"
                        walks[title] = await walk(trace, container, name, is_http=is_http)
            finally:
                await container.close()
    finally:
        trace.end()
    return walks


if __name__ == "__main__":
    for title, files in asyncio.run(all_walks()).items():
        print(f"### Walk: {title}\n")
        print("\n".join(f"{number}. `{file}`" for number, file in enumerate(files, 1)) + "\n")
