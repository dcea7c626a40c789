"""An agent's memory: the object most programs use.

async with Memory(agent_id="assistant") as memory:
    await memory.remember("Mara is vegetarian", user_id="mara")
    for hit in await memory.recall("what does Mara eat?"):
        print(hit.content, hit.relevance)
"""

from quipu.memory.operations import Operations
from quipu.memory.reads import Reads
from quipu.memory.upkeep import Upkeep


class Memory(Operations, Reads, Upkeep):
    """The memory of one agent: a `MemoryStore` over a ledger."""


__all__ = ["Memory"]
