"""A recall that has only so many tokens."""

from __future__ import annotations

from pathlib import Path

from quipu import Memory

MACHINE = {
    "name": "tea kettle",
    "states": ["cold", "hot"],
    "initial": "cold",
    "transitions": [{"trigger": "boil", "source": "cold", "dest": "hot"}],
}


async def test_the_first_of_what_fits_is_the_first(tmp_path: Path) -> None:
    """A procedure that is too long is left out, and leaves no gap."""
    async with Memory("ana", tmp_path / "memory.db", embedder="none") as memory:
        await memory.remember(
            MACHINE, type="procedural", metadata={"entity_name": "tea kettle boil hot cold"}
        )
        await memory.remember("the tea kettle is in the kitchen")
        every = await memory.recall("tea kettle boil hot cold", min_relevance="off")
        assert [hit.type for hit in every] == ["procedural", "semantic"]
        some = await memory.recall("tea kettle boil hot cold", min_relevance="off", max_tokens=9)
        assert [(hit.type, hit.rank) for hit in some] == [("semantic", 1)]
