"""An agent's memory: the object most programs use.

async with Memory(agent_id="assistant") as memory:
    await memory.remember("Mara is vegetarian", user_id="mara")
    for hit in await memory.recall("what does Mara eat?"):
        print(hit.content, hit.relevance)

The same object speaks to a server:

async with connect("https://memory.example.org", token=..., agent_id="assistant") as memory:
    ...
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from quipu import config as settings
from quipu.memory import arguments
from quipu.memory.access import Access
from quipu.memory.following import Following
from quipu.memory.governing import Governing
from quipu.memory.mirroring import Mirroring
from quipu.memory.moving import Moving
from quipu.memory.operations import Operations
from quipu.memory.reads import Reads
from quipu.memory.remote import connection
from quipu.memory.settling import Settling
from quipu.memory.upkeep import Upkeep
from quipu.model.operations import Fusion

if TYPE_CHECKING:
    from quipu.bootstrap.telemetry import Telemetry
    from quipu.config import Config


class Memory(Operations, Reads, Settling, Following, Governing, Moving, Mirroring, Upkeep, Access):
    """The memory of one agent: a `MemoryStore` over a ledger, here or on a server."""


def connect(
    server: str | None = None,
    *,
    token: str | None = None,
    agent_id: str | None = None,
    fusion: Fusion | str = Fusion.RRF,
    timeout: float | None = None,
    retries: int | None = None,
    insecure: bool | None = None,
    config: Config | None = None,
    telemetry: Telemetry | None = None,
) -> Memory:
    """The memory on a server, with the same calls, answers and errors as one in this process.

    What is not given comes from the settings: QUIPU_SERVER, QUIPU_TOKEN, QUIPU_AGENT. `timeout` is how many seconds
    one call may take with all its repetitions. A call is repeated only where that is harmless: every write carries an
    idempotency key. Without TLS only this machine is spoken to, unless `insecure` says otherwise.
    """
    arguments.instance(config, settings.Config, "/config")
    given = config or settings.load()
    way = connection(
        given,
        server=server,
        token=token,
        timeout=timeout,
        retries=retries,
        insecure=insecure,
        telemetry=telemetry,
    )
    return Memory(agent_id, fusion=fusion, config=given, connection=way)


__all__ = ["Memory", "connect"]
