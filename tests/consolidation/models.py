"""A real endpoint on loopback that speaks as language models do."""

import json
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any

from quipu.config import Settings
from tests.consolidation.room import Room, room_at, with_window
from tests.embed.server import Reply, Server, serving

KEY = "sk-test-0123456789"


def chat(content: str) -> Reply:
    """An answer as endpoints give them."""
    body = {"choices": [{"index": 0, "message": {"role": "assistant", "content": content}}]}
    return 200, {"Content-Type": "application/json"}, json.dumps(body).encode()


def facts(*said: Any) -> Reply:
    return chat(json.dumps({"facts": list(said)}))


def shown(server: Server) -> list[str]:
    """The texts that the model was shown."""
    return [
        one["text"] for body in server.bodies for one in json.loads(body["messages"][1]["content"])["texts"]
    ]


@contextmanager
def model(answers: Callable[[], Reply]) -> Iterator[Server]:
    with serving() as server:
        server.replies = [lambda _: answers()]
        yield server


@asynccontextmanager
async def reading_room(server: Server, folder: Path) -> AsyncIterator[Room]:
    """A room whose promotions are read by that model."""
    settings = Settings.model_validate(
        {"extractor_url": f"{server.url}/v1", "extractor_model": "tiny", "extractor_key": KEY}
    )
    async with room_at(f"sqlite:///{folder / 'memory.db'}", settings) as room:
        yield await with_window(room)
